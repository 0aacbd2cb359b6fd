"""Containers come back as the columns fastavro's records describe."""

from __future__ import annotations

import bz2
import io
import lzma
import uuid
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from avro_cases import SYNC, as_column, calm, container, containers, long, raw_container, read_by_fastavro
from hypothesis import given
from hypothesis import strategies as st

from esker.avro import LIMITS, Limits, Projection, arrow_schema, decode, decode_many, iter_batches, read_header
from esker.errors import Corrupt, InvalidInput, Unsupported

ROW = {"type": "record", "name": "row", "fields": [{"name": "n", "type": "long", "field-id": 1}]}


@calm
@given(containers())
def test_a_container_decodes_to_what_fastavro_reads(case: tuple[Any, list[Any], bytes]) -> None:
    _, _, data = case
    columns = decode(data, file="f")
    columns.batch.validate(full=True)
    assert columns.batch.to_pylist() == [as_column(columns.schema, row) for row in read_by_fastavro(data)]
    assert columns.batch.schema.equals(arrow_schema(columns.schema, logical=False), check_metadata=True)


@calm
@given(containers(), st.integers(1, 4))
def test_a_streamed_container_gives_the_same_rows_in_bounded_batches(case: Any, size: int) -> None:
    _, _, data = case
    batches = list(iter_batches(io.BytesIO(data), file="f", logical=False, batch_rows=size))
    assert [row for batch in batches for row in batch.to_pylist()] == decode(data, file="f").batch.to_pylist()
    assert all(0 < batch.num_rows <= size for batch in batches)


def _snappy(data: bytes) -> bytes:
    return pa.compress(data, codec="snappy", asbytes=True) + zlib.crc32(data).to_bytes(4, "big")


@pytest.mark.parametrize(
    ("codec", "compress"),
    [
        ("null", bytes),
        ("deflate", lambda data: zlib.compress(data, wbits=-15)),
        ("deflate", lambda data: zlib.compress(data)[2:-1]),  # as fastavro does: part of a checksum follows
        ("snappy", _snappy),
        ("zstandard", lambda data: pa.compress(data, codec="zstd", asbytes=True)),
        ("bzip2", bz2.compress),
        ("xz", lzma.compress),
    ],
)
def test_every_codec_inflates(codec: str, compress: Callable[[bytes], bytes]) -> None:
    blocks = [(3000, compress(b"".join(map(long, range(start, start + 3000))))) for start in (0, 3000)]
    data = raw_container(ROW, *blocks, codec=codec)
    rows = [{"n": n} for n in range(6000)]
    assert decode(data, file="f").batch.to_pylist() == rows
    assert [row for batch in iter_batches(io.BytesIO(data), file="f") for row in batch.to_pylist()] == rows


def test_an_unknown_codec_is_unsupported_by_name() -> None:
    data = container(ROW, [{"n": 1}]).replace(b"\x08null", b"\x08lzma")
    with pytest.raises(Unsupported, match="Cannot read f: its Avro codec 'lzma' is not one of null, deflate") as caught:
        decode(data, file="f")
    assert (caught.value.feature, caught.value.file) == ("avro codec lzma", "f")


def test_the_header_is_read_without_the_rows() -> None:
    data = container(ROW, [{"n": 1}])
    cut = data[: data.index(SYNC) + 16]
    for source in (cut, memoryview(cut), bytearray(cut), pa.py_buffer(cut), io.BytesIO(cut)):
        header = read_header(source, file="f")
        assert header.schema.fields[0].name == "n"
        assert (header.codec, header.sync) == ("null", SYNC)
    assert decode(cut, file="f").batch.num_rows == 0


def test_many_containers_of_one_schema_become_one_batch() -> None:
    other = {**ROW, "fields": [{"name": "m", "type": "long", "field-id": 1}]}
    given_ = [("a", container(ROW, [{"n": 1}, {"n": 2}])), ("b", container(other, [{"m": 7}]))]
    given_ += [("c", container(ROW, [])), ("d", container(ROW, [{"n": 3}], "deflate"))]
    first, second = decode_many(given_)
    assert first.batch.to_pylist() == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert [(part.index, part.file, part.rows) for part in first.parts] == [(0, "a", 2), (2, "c", 0), (3, "d", 1)]
    assert [part.header["avro.codec"] for part in first.parts] == [b"null", b"null", b"deflate"]
    assert (second.batch.to_pylist(), second.parts[0].index) == ([{"m": 7}], 1)
    assert decode_many([]) == []


def test_a_batch_of_many_containers_is_closed_when_it_grows_too_large() -> None:
    data = container(ROW, [{"n": n} for n in range(100)])
    results = decode_many([("f", data)] * 5, limits=Limits(batch=1000))
    assert [[part.index for part in columns.parts] for columns in results] == [[0, 1], [2, 3], [4]]


def test_a_batch_of_a_stream_is_closed_when_it_grows_too_large() -> None:
    schema = {"type": "record", "name": "row", "fields": [{"name": "s", "type": "string"}]}
    data = container(schema, [{"s": "x" * 400}] * 20)
    batches = list(iter_batches(io.BytesIO(data), file="f", limits=Limits(batch=1000)))
    assert [batch.num_rows for batch in batches] == [3, 3, 3, 3, 3, 3, 2]


def test_batches_of_no_rows_are_refused() -> None:
    with pytest.raises(InvalidInput, match="Cannot read batches of 0 rows"):
        list(iter_batches(io.BytesIO(container(ROW, [])), file="f", batch_rows=0))


def test_a_union_of_several_types_is_unsupported_when_kept_and_walked_over_when_not() -> None:
    fields = [
        {"name": "u", "type": ["null", "int", "string"], "field-id": 1},
        {"name": "n", "type": "int", "field-id": 2},
    ]
    schema = {"type": "record", "name": "row", "fields": fields}
    data = container(schema, [{"u": "text", "n": 1}, {"u": None, "n": 2}, {"u": 5, "n": 3}])
    assert decode(data, file="f", want=Projection.of([2])).batch.to_pylist() == [{"n": 1}, {"n": 2}, {"n": 3}]
    with pytest.raises(Unsupported, match="Cannot read the Avro field 'u': it is a union of several types") as caught:
        decode(data, file="f")
    assert (caught.value.feature, caught.value.file) == ("avro unions", "f")


def test_a_union_of_one_type_is_that_type() -> None:
    schema = {
        "type": "record",
        "name": "row",
        "fields": [{"name": "n", "type": ["int"]}, {"name": "z", "type": ["null"]}],
    }
    columns = decode(container(schema, [{"n": 4, "z": None}]), file="f")
    assert columns.batch.to_pylist() == [{"n": 4, "z": None}]
    assert not columns.batch.schema.field("n").nullable


@pytest.mark.parametrize("union", [["null", "int"], ["int", "null"]])
def test_a3_null_may_stand_first_or_last_in_an_optional(union: list[str]) -> None:
    schema = {"type": "record", "name": "row", "fields": [{"name": "n", "type": union}]}
    columns = decode(container(schema, [{"n": 4}, {"n": None}]), file="f")
    assert columns.batch.to_pylist() == [{"n": 4}, {"n": None}]
    assert columns.batch.schema.field("n").nullable


def test_fields_below_a_null_record_are_null_themselves() -> None:
    inner = {
        "type": "record",
        "name": "inner",
        "fields": [{"name": "n", "type": "long"}, {"name": "s", "type": "string"}],
    }
    schema = {"type": "record", "name": "row", "fields": [{"name": "r", "type": ["null", inner]}]}
    batch = decode(container(schema, [{"r": None}, {"r": {"n": 1, "s": "x"}}]), file="f").batch
    assert batch.column(0).field(0).to_pylist() == [None, 1]
    assert batch.column(0).field(1).to_pylist() == [None, "x"]


def test_a_record_without_fields_keeps_its_rows() -> None:
    schema = {"type": "record", "name": "row", "fields": []}
    assert decode(container(schema, [{}] * 7), file="f").batch.num_rows == 7


def test_a_number_past_64_bits_keeps_its_low_64_as_java_does() -> None:
    """Found in a real table: a writer in Python with a snapshot id of 9876543210123456789."""
    number = bytes([0xAB, 0xD4, 0xCD, 0xF9, 0x8D, 0x93, 0xE4, 0x90, 0x92, 0x02])
    longer = raw_container(ROW, (1, number))
    assert decode(longer, file="f").batch.to_pylist() == read_by_fastavro(longer)


def test_the_limits_are_as_documented() -> None:
    assert Limits(header=16 << 20, block=256 << 20, container=4 << 30, batch=128 << 20, buffers=1 << 30) == LIMITS


def test_a_bad_value_in_one_of_several_files_says_so() -> None:
    text = {"type": "string", "logicalType": "uuid"}
    schema = {"type": "record", "name": "r", "fields": [{"name": "u", "type": text}]}
    good = container(schema, [{"u": uuid.UUID(int=5)}])
    bad = good.replace(str(uuid.UUID(int=5)).encode(), b"z" * 36)
    with pytest.raises(Corrupt, match="one of several Avro files is corrupt: the text of a uuid is not valid"):
        decode_many([("a", good), ("b", bad)], logical=True)


def test_containers_that_begin_alike_are_told_apart() -> None:
    """A header is parsed again unless it has the same bytes. Sync markers are those of each container."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}
    other = {"type": "record", "name": "r", "fields": [{"name": "m", "type": "long"}]}
    first, again = container(schema, [{"n": 1}], "deflate"), container(schema, [{"n": 2}, {"n": 3}], "deflate")
    marked = again.replace(again[-16:], b"another marker!!")
    plain, third = container(schema, [{"n": 4}]), container(other, [{"m": 5}])
    found = decode_many([(str(at), data) for at, data in enumerate((first, marked, plain, first, third, marked))])
    assert [part.rows for columns in found for part in columns.parts] == [1, 2, 1, 1, 2, 1]
    assert [columns.batch.to_pylist() for columns in found] == [
        [{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}, {"n": 1}, {"n": 2}, {"n": 3}],
        [{"m": 5}],
    ]
    with pytest.raises(Corrupt, match="b is corrupt: it ends inside its header"):
        decode_many([("a", first), ("b", first[: first.index(first[-16:]) + 9])])
    with pytest.raises(Corrupt, match="b is corrupt: block 0 is not closed by the sync marker"):
        decode_many([("a", first), ("b", first[:-16] + b"another marker!!")])
