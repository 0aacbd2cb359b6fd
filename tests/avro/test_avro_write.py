"""What is written keeps every attribute, and is the same each time."""

from __future__ import annotations

import json

import pytest

from esker.avro import decode, read_header, write

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
