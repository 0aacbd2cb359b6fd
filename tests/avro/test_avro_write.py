"""What is written keeps every attribute, and is the same each time."""

from __future__ import annotations

import json

import pytest

from esker.avro import decode, prepend, read_header, write
from esker.avro.container import SYNC
from esker.errors import Corrupt

SCHEMA = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        {"name": "status", "type": "int", "field-id": 0},
        {
            "name": "bounds",
            "type": [
                "null",
                {
                    "type": "array",
                    "logicalType": "map",
                    "items": {
                        "type": "record",
                        "name": "k126_v127",
                        "fields": [
                            {"name": "key", "type": "int", "field-id": 126},
                            {"name": "value", "type": "bytes", "field-id": 127},
                        ],
                    },
                },
            ],
            "default": None,
            "field-id": 125,
        },
        {"name": "offsets", "type": {"type": "array", "items": "long", "element-id": 133}, "field-id": 132},
        {"name": "props", "type": {"type": "map", "values": "string", "key-id": 7, "value-id": 8}, "field-id": 6},
        {
            "name": "ts",
            "type": ["null", {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True}],
            "default": None,
            "field-id": 1000,
        },
    ],
}
ROWS = [
    {"status": 1, "bounds": [{"key": 1, "value": b"x"}], "offsets": [4], "props": {"a": "b"}, "ts": 5},
    {"status": 2, "bounds": None, "offsets": [], "props": {}, "ts": None},
]


def test_a1_every_attribute_of_the_schema_reaches_the_header() -> None:
    data = write(SCHEMA, ROWS, metadata={"format-version": "2"})
    assert json.loads(read_header(data, file="f").metadata["avro.schema"]) == SCHEMA


def test_a2_a3_what_was_written_reads_back_with_its_maps_and_nulls() -> None:
    batch = decode(write(SCHEMA, ROWS), file="f").batch
    assert batch.to_pylist() == [
        {"status": 1, "bounds": [(1, b"x")], "offsets": [4], "props": [("a", "b")], "ts": 5},
        {"status": 2, "bounds": None, "offsets": [], "props": [], "ts": None},
    ]


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_the_same_arguments_give_the_same_bytes(codec: str) -> None:
    first = write(SCHEMA, ROWS, metadata={"content": b"data"}, codec=codec)
    assert first == write(SCHEMA, iter(ROWS), metadata={"content": "data"}, codec=codec)
    assert read_header(first, file="f").codec == codec
    assert read_header(first, file="f").metadata["content"] == b"data"
    assert read_header(write(SCHEMA, []), file="f").codec == "deflate"


# ---------------------------------------------------------------- extended containers

NUMBERS = {"type": "record", "name": "row", "fields": [{"name": "n", "type": "long"}]}


def extended(old: bytes, *numbers: int) -> tuple[bytes, int]:
    made = prepend(old, file="f", schema=NUMBERS, records=[{"n": n} for n in numbers], metadata={})
    assert made is not None
    return made.data, made.carried


def test_new_rows_come_first_and_all_old_ones_are_counted_and_kept() -> None:
    data = write(NUMBERS, [])
    for n in range(300):
        data, carried = extended(data, n)
        assert carried == n
    assert decode(data, file="f").batch.column("n").to_pylist() == list(range(299, -1, -1))
    assert data.count(read_header(data, file="f").sync) == 6  # of the header, and of five blocks


def test_blocks_of_any_size_are_carried() -> None:
    old = write(NUMBERS, [{"n": 1 << 40 | n * n} for n in range(20_000)])
    data, carried = extended(old, 5)
    assert carried == 20_000
    assert decode(data, file="f").batch.column("n").to_pylist()[:2] == [5, 1 << 40]


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (b"\x80", "it ends inside a block's count"),
        (b"\x80" * 40, "a block's count is no valid number"),
        (b"\x02", "it ends inside a block's size"),
        (b"\x02" + b"\xff" * 10 + b"\x01", "a block's size is no valid number"),
        (b"\x02\x01", "a block has a negative size"),
        (b"\x02\x08abc", "it ends inside a block"),
        (b"\x02\x06abc", "it ends inside a sync marker"),
        (b"\x02\x06abc" + b"?" * SYNC, "a block does not end at its recorded size"),
        (b"\x01\x06abc{sync}", "a block does not end at its recorded size"),
    ],
)
def test_hostile_blocks_are_not_extended(blocks: bytes, message: str) -> None:
    empty = write(NUMBERS, [])
    hostile = empty + blocks.replace(b"{sync}", read_header(empty, file="f").sync)
    with pytest.raises(Corrupt, match=message):
        extended(hostile, 1)
