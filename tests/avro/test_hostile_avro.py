"""Whatever a file says, the answer is rows or a refusal naming it: no crash, no hang, no memory without end."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import random
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from avro_cases import SYNC, container, long, raw_container

from esker.avro import Limits, Projection, decode, iter_batches, read_header
from esker.errors import Corrupt, EskerError, Unsupported

ENTRY = {
    "type": "record",
    "name": "entry",
    "fields": [{"name": "key", "type": "int", "field-id": 11}, {"name": "value", "type": "bytes", "field-id": 12}],
}
SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "n", "type": "long", "field-id": 1},
        {"name": "s", "type": ["null", "string"], "field-id": 2},
        {"name": "b", "type": "boolean", "field-id": 3},
        {"name": "e", "type": {"type": "enum", "name": "e", "symbols": ["A", "B"]}, "field-id": 4},
        {"name": "m", "type": ["null", {"type": "array", "logicalType": "map", "items": ENTRY}], "field-id": 10},
        {"name": "t", "type": {"type": "map", "values": ["double", "null"]}, "field-id": 20},
        {"name": "u", "type": ["null", "int", "string"], "field-id": 30},
    ],
}
ROWS = [
    {"n": i << 33, "s": "é" * i, "b": True, "e": "B", "m": [{"key": i, "value": b"x"}], "t": {"k": 0.5}, "u": "w"}
    for i in range(3)
]
WANT = Projection.of([1, 2, 3, 4, 20], map_keys={10: [1]})


def one(type_: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": "x", "type": type_, "field-id": 1}]}


def refused(data: bytes, limits: Limits | None = None) -> str:
    """The reason both entries refuse these bytes for."""
    limits = limits or Limits()
    with pytest.raises(Corrupt) as whole:
        decode(data, file="the/file.avro", limits=limits)
    with pytest.raises(Corrupt) as streamed:
        for _ in iter_batches(io.BytesIO(data), file="the/file.avro", logical=False, limits=limits):
            pass
    assert whole.value.file == streamed.value.file == "the/file.avro"
    assert whole.value.reason == streamed.value.reason
    return str(whole.value.reason)


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_file_cut_at_any_byte_is_refused_unless_the_cut_is_a_block_border(codec: str) -> None:
    data = container(SCHEMA, ROWS, codec, sync_interval=1)
    borders = [at + 16 for at in range(len(data)) if data[at : at + 16] == SYNC]
    assert len(borders) == 4
    for size in range(len(data)):
        if size in borders:
            assert decode(data[:size], file="f", want=WANT).batch.num_rows == borders.index(size)
            continue
        with pytest.raises(Corrupt):
            decode(data[:size], file="f", want=WANT)
        with pytest.raises(Corrupt):
            list(iter_batches(io.BytesIO(data[:size]), file="f", want=WANT))


def test_flipped_bits_are_refused_or_read_and_never_worse() -> None:
    chance = random.Random(20240229)
    small = Limits(block=1 << 20, container=1 << 20, batch=1 << 20)
    for codec in ("null", "deflate"):
        data = container(SCHEMA, ROWS * 3, codec)
        start = data.index(SYNC) + 16
        for turn in range(2000):
            broken = bytearray(data)
            for _ in range(chance.randint(1, 4)):  # most hits go to the rows, where the walk is
                at = chance.randrange(len(data)) if turn % 4 == 0 else chance.randrange(start, len(data) - 16)
                broken[at] ^= 1 << chance.randrange(8)
            for want in (WANT, Projection.of([1])):
                with suppress(EskerError):
                    decode(bytes(broken), file="f", want=want, limits=small).batch.validate(full=True)


def test_rows_at_random_are_refused_or_read_and_never_worse() -> None:
    chance = random.Random(3)
    for _ in range(2000):
        data = raw_container(SCHEMA, (chance.randint(0, 5), chance.randbytes(chance.randint(0, 60))))
        with suppress(EskerError):
            decode(data, file="f", want=WANT).batch.validate(full=True)


@pytest.mark.parametrize("data", [b"", b"O", b"PAR1", b"Obj\x02" + bytes(40), b"\x1f\x8b" + bytes(100)])
def test_a_file_that_is_no_container_is_refused(data: bytes) -> None:
    assert refused(data) == "it is not an Avro container: the magic bytes are missing"


def test_a_header_without_a_schema_is_refused() -> None:
    assert refused(b"Obj\x01" + long(0) + SYNC) == "its header has no avro.schema"


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (long(1 << 60), "it ends inside its header"),
        (long(1) + long(-5), "its header has a negative size"),
        (long(1) + long(1 << 50), "its header is larger than 16777216 bytes"),
        (long(1) + long(1000) + b"short", "it ends inside its header"),
        (b"\xff" * 12, "its header is no valid number"),
        (long(1) + long(1) + b"\xff" + long(0), "its header has a key that is not UTF-8"),
        (long(-1) + long(3) + long(1) + b"\xff" + long(0), "its header has a key that is not UTF-8"),
    ],
)
def test_an_absurd_header_is_refused(header: bytes, reason: str) -> None:
    assert refused(b"Obj\x01" + header) == reason


def test_a_recursive_schema_is_refused() -> None:
    tree = {"type": "record", "name": "t", "fields": [{"name": "next", "type": ["null", "t"]}]}
    assert refused(raw_container(tree)) == "its avro.schema is recursive: 't' contains itself"
    with pytest.raises(Corrupt, match=r"the/file is corrupt: its avro.schema is recursive"):
        read_header(raw_container(tree), file="the/file")


def test_a_schema_that_is_not_one_is_refused() -> None:
    assert refused(raw_container(b"nonsense")).startswith("its avro.schema is not JSON")
    assert refused(raw_container(b'"int"')) == "the root of its avro.schema is not a record"


def test_a_codec_that_is_not_text_is_refused() -> None:
    data = raw_container(one("int"), codec="null").replace(long(4) + b"null", long(4) + b"\xff\xff\xff\xff")
    assert refused(data) == "its avro.codec is not UTF-8"


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (long(-1) + long(0) + SYNC, "block 0 has a negative row count"),
        (long(1) + long(-1) + SYNC, "block 0 has a negative size"),
        (long(1) + long(1 << 40) + SYNC, "block 0 is larger than 268435456 bytes"),
        (long(1) + long(1000) + SYNC, "it ends inside block 0"),
        (long(1) + long(1) + b"\x02" + b"x" * 16, "block 0 is not closed by the sync marker"),
        (long(1), "it ends inside block 0"),
        (b"\x80", "it ends inside block 0"),
        (b"\xff" * 11, "block 0 is no valid number"),
        (long(1) + long(1) + b"\x02" + SYNC + b"\x00", "it ends inside block 1"),
        (long(1) + long(2) + b"\x02\x02" + SYNC, "block 0 has 1 bytes left after its rows"),
        (long(0) + long(1) + b"\x02" + SYNC, "block 0 has 1 bytes left after its rows"),
        (long(2) + long(1) + b"\x02" + SYNC, "a row passes the end of its block (block 0)"),
        (long(1 << 62) + long(1) + b"\x02" + SYNC, "a row passes the end of its block (block 0)"),
    ],
)
def test_a_block_that_is_wrong_is_refused(block: bytes, reason: str) -> None:
    assert refused(raw_container(one("int")) + block) == reason


@pytest.mark.parametrize(
    ("type_", "row", "reason"),
    [
        ("int", long(1 << 31), "an int is longer than 32 bits"),
        ("int", b"\xff" * 10 + b"\x01", "a number is longer than 10 bytes"),
        ("boolean", b"\x02", "a boolean is neither 0 nor 1"),
        ("string", long(-1), "a length is negative"),
        ("string", long(1 << 62), "a row passes the end of its block"),
        ("string", long(2) + b"\xc3(", "a string is not UTF-8"),
        ("double", b"1234567", "a row passes the end of its block"),
        (["null", "int"], long(2), "a union has no such branch"),
        (["null", "int"], long(-1), "a union has no such branch"),
        (["int"], long(1), "a union has no such branch"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, long(1), "an enum has no such symbol"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, long(-1), "an enum has no such symbol"),
        ({"type": "array", "items": "int"}, long(1 << 61), "a row passes the end of its block"),
        ({"type": "array", "items": "int"}, long(-(1 << 63)), "an array's count is impossible"),
        ({"type": "array", "items": "int"}, long(-1) + long(-1), "a length is negative"),
        ({"type": "array", "items": "int"}, long(-1) + long(99), "a row passes the end of its block"),
        (
            {"type": "array", "items": "int"},
            long(-1) + long(2) + b"\x02" + long(0),
            "an array's size is not what it says",
        ),
        ({"type": "array", "items": "null"}, long(1 << 61), "too many items take no bytes"),
        ({"type": "map", "values": "null"}, long(1) + long(1) + b"\xff", "a string is not UTF-8"),
    ],
)
def test_a_value_that_is_wrong_is_refused(type_: Any, row: bytes, reason: str) -> None:
    assert refused(raw_container(one(type_), (1, row))) == f"{reason} (block 0)"


def test_rows_that_take_no_bytes_cannot_be_without_number() -> None:
    nothing = {"type": "record", "name": "r", "fields": []}
    with pytest.raises(Corrupt, match="too many items take no bytes"):
        decode(raw_container(nothing, (1 << 60, b"")), file="f")
    nested = one({"type": "array", "items": {"type": "array", "items": "null"}})
    rows = long(1000) + (long(1 << 60) + long(0)) * 1000 + long(0)
    for want in (None, Projection.of([])):
        with pytest.raises(Corrupt, match="too many items take no bytes"):
            decode(raw_container(nested, (1, rows)), file="f", want=want)


def test_a_union_walked_over_is_checked_too() -> None:
    with pytest.raises(Corrupt, match="a union has no such branch"):
        decode(raw_container(one(["null", "int", "string"]), (1, long(3))), file="f", want=Projection.of([]))
    with pytest.raises(Corrupt, match="a union has no such branch"):
        decode(raw_container(one(["null", "int", "string"]), (1, long(-1))), file="f", want=Projection.of([]))


def test_a_null_that_stands_for_very_many_bytes_is_refused() -> None:
    huge = raw_container(one(["null", {"type": "fixed", "name": "f", "size": 1 << 24}]), (20, long(0) * 20))
    assert refused(huge, Limits(buffers=1 << 20)) == "it decodes to too many bytes (block 0)"
    with pytest.raises(Corrupt, match="it decodes to far more bytes than it has"):
        decode(huge, file="f")
    sizes = [batch.num_rows for batch in iter_batches(io.BytesIO(huge), file="f", limits=Limits(batch=1 << 24))]
    assert sizes == [1] * 20


def _zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


BOMBS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("deflate", lambda data: zlib.compress(data, 9, wbits=-15)),
    ("bzip2", bz2.compress),
    ("xz", lzma.compress),
    ("zstandard", _zstd),
    ("snappy", lambda data: bytes(pa.compress(data, codec="snappy", asbytes=True)) + bytes(4)),
    ("null", bytes),
]


@pytest.mark.parametrize(("codec", "compress"), BOMBS)
def test_a_block_that_inflates_without_end_is_stopped(codec: str, compress: Callable[[bytes], bytes]) -> None:
    data = raw_container(one("bytes"), (1, compress(bytes(8 << 20))), codec=codec)
    reason = refused(data, Limits(block=1 << 20))
    assert reason in ("block 0 inflates to more than 1048576 bytes", "block 0 is larger than 1048576 bytes")


@pytest.mark.parametrize(("codec", "compress"), BOMBS[:-1])
def test_a_compressed_block_that_is_cut_or_garbage_is_refused(codec: str, compress: Callable[[bytes], bytes]) -> None:
    packed = compress(long(5) + b"12345")
    for stored in (packed[: len(packed) // 2], b"\xff\xfe garbage", b"\x03\x00\x00"):
        reason = refused(raw_container(one("bytes"), (1, stored), codec=codec))
        assert reason.startswith(
            ("block 0 does not inflate", "block 0 ends in the middle", "block 0 states a size", "a row")
        )


def test_a_snappy_block_with_a_wrong_checksum_is_refused() -> None:
    packed = bytes(pa.compress(long(1), codec="snappy", asbytes=True))
    assert (
        refused(raw_container(one("int"), (1, packed + bytes(4)), codec="snappy"))
        == "block 0 fails its snappy checksum"
    )


def test_a_snappy_block_that_states_an_impossible_size_is_refused() -> None:
    stored = b"\xff\xff\xff\x3f" + bytes(6)
    reason = refused(raw_container(one("int"), (1, stored), codec="snappy"))
    assert reason == "block 0 states a size that snappy cannot reach"


def test_many_blocks_that_each_inflate_much_are_stopped_together() -> None:
    block = (1, zlib.compress(long(1 << 20) + bytes(1 << 20), wbits=-15))
    data = raw_container(one("bytes"), *[block] * 8, codec="deflate")
    with pytest.raises(Corrupt, match="it inflates to more than 4194304 bytes"):
        decode(data, file="f", want=Projection.of([]), limits=Limits(container=4 << 20))


def test_a_source_that_ends_before_it_said_is_refused() -> None:
    class Shrinking(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(size)[:0] if self.tell() > 100 else super().read(min(size or 0, 101))

    data = container(one("long"), [{"x": n} for n in range(100)])
    with pytest.raises(Corrupt, match="it ends inside its magic"):
        list(iter_batches(Shrinking(data), file="f"))


def test_an_unsupported_codec_is_told_before_any_row() -> None:
    with pytest.raises(Unsupported, match="'brotli'"):
        decode(raw_container(one("int"), codec="brotli"), file="f")
    assert json.loads(read_header(raw_container(one("int"), codec="brotli"), file="f").metadata["avro.schema"])
