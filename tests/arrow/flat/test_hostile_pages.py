"""Damaged Parquet files and the compiled reader: it never crashes, and what it gives are valid arrays."""

from __future__ import annotations

import io
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("esker.arrow.flat._parquet", reason="the compiled part was not built: there was no C compiler")

from esker.arrow.flat import _parquet  # they need the compiled part
from esker.arrow.flat.decode_columns import Chunk, decoded, dictionary_of, truths
from esker.arrow.flat.flat_layout import FlatColumn

TYPES = {
    "b": (pa.bool_(), 0, 0, 1),
    "i": (pa.int32(), 1, 4, 4),
    "l": (pa.int64(), 2, 8, 8),
    "t": (pa.string(), 6, 0, 0),
    "d": (pa.decimal128(9, 2), 1, 4, 16),
    "e": (pa.decimal128(30, 2), 7, 13, 16),
    "u": (pa.binary(16), 7, 16, 16),
}


def file(chance: random.Random) -> tuple[bytes, pa.Table]:
    """A small file with all kinds of pages, and its rows."""
    count = chance.choice((1, 8, 50, 300))
    few = [None if chance.random() < 0.2 else chance.randint(0, 40) for _ in range(count)]
    table = pa.table(
        {
            "b": pa.array([None if n is None else n > 20 for n in few], pa.bool_()),
            "i": pa.array(few, pa.int32()),
            "l": pa.array(few, pa.int64()),
            "t": pa.array([None if n is None else "x" * n for n in few], pa.string()),
            "d": pa.array([None if n is None else Decimal(n) for n in few], pa.decimal128(9, 2)),
            "e": pa.array([None if n is None else Decimal(-n) for n in few], pa.decimal128(30, 2)),
            "u": pa.array([None if n is None else bytes((n, *range(15))) for n in few], pa.binary(16)),
        }
    )
    out = io.BytesIO()
    pq.write_table(
        table,
        out,
        compression=chance.choice(("none", "zstd", "snappy")),
        use_dictionary=chance.random() < 0.7,
        data_page_version=chance.choice(("1.0", "2.0")),
        data_page_size=chance.choice((50, 1 << 20)),
        write_batch_size=chance.choice((5, 1000)),
        store_decimal_as_integer=True,
        store_schema=False,
    )
    return out.getvalue(), table


def footer(data: bytes) -> bytes:
    """The footer of a file."""
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


def exact(data: bytes) -> np.ndarray:
    """The data in memory that ends with its last byte, so that a sanitizer sees a read past it."""
    return np.frombuffer(bytearray(data), np.uint8).copy()


def columns(data: bytes, foot: bytes, rows: int, mask: np.ndarray | None, *, first: int = 0) -> list[pa.Array]:
    """Every column, by the compiled reader. Raises ``ValueError`` if the footer or a page makes no sense."""
    end = _parquet.schema_end(foot)
    groups = None if end is None else _parquet.row_groups(foot, end, tuple(range(7)), 7, None)
    if not groups:
        raise ValueError("a footer that makes no sense")
    found = []
    for at, (type_, physical, stored, width) in enumerate(TYPES.values()):
        column = FlatColumn(leaf=at, type=type_, physical=physical, optional=True, stored=stored, width=width)
        chunks = []
        for _, group in groups:
            start, length, values, codec, _ = group[at]
            if start < 0 or length < 0:
                raise ValueError("a chunk that is nowhere")
            chunks.append(
                (exact(data[start : start + length]), 0, min(length, max(0, len(data) - start)), values, codec)
            )
        kept = rows if mask is None else int(mask.sum())
        found.append(decoded(column, chunks, rows, mask, kept, first=first))
        if len(chunks) == 1 and not column.is_boolean:
            check_dictionary(column, chunks[0], range(first, first + rows), found[-1] if mask is None else None)
    return found


def check_dictionary(column: FlatColumn, chunk: Chunk, rows: range, expected: pa.Array | None) -> None:
    """The values of the dictionary, and which rows have the first half of them."""
    try:
        values = dictionary_of(column, chunk)
        values.validate()
        half = len(values) // 2
        known = b"\1" * half + b"\0" * (len(values) - half)
        truth = truths(column, chunk, len(rows), known, first=rows.start)
    except ValueError:
        return
    assert set(truth.view(np.uint8).tolist()) <= {0, 1}
    if expected is not None:
        if len(set(values.to_pylist())) < len(values):
            return  # damage made two values equal
        first = {str(value) for value in values[:half]}
        assert truth.tolist() == [value.is_valid and str(value) in first for value in expected]
    if len(rows):
        with pytest.raises(ValueError, match="pyarrow"):
            truths(column, chunk, len(rows), b"\1" * (len(values) + 1), first=rows.start)


@pytest.mark.parametrize("seed", range(40))
def test_damage_is_refused_or_harmless(seed: int) -> None:
    chance = random.Random(seed)
    data, table = file(chance)
    rows = table.num_rows
    mask = np.array([chance.random() < 0.5 for _ in range(rows)]) if seed % 2 else None
    if seed % 4 == 3:
        mask = np.arange(rows) >= rows // 2  # some pages keep no row
    whole = columns(data, footer(data), rows, mask)
    expected = table if mask is None else table.filter(pa.array(mask))
    for array, name in zip(whole, TYPES, strict=True):
        array.validate(full=True)
        assert array.equals(expected[name].combine_chunks()), name
    for _ in range(30):
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(4, len(damaged) - 8)] = chance.choice(
                (0, 1, 2, 3, 7, 0x7F, 0x80, 0xFF, chance.randrange(256))
            )
        broken = bytes(damaged)
        try:
            found = columns(broken, footer(broken), rows, mask)
        except (ValueError, pa.ArrowException, OSError, OverflowError):
            continue
        for array in found:
            array.validate()  # lengths and offsets agree; UTF-8 is as unchecked as in pyarrow


def test_more_rows_than_there_are_are_refused() -> None:
    data, table = file(random.Random(4))
    with pytest.raises(ValueError, match="pyarrow"):
        columns(data, footer(data), table.num_rows + 1, None)
    with pytest.raises(ValueError, match="pyarrow"):
        columns(data, footer(data), table.num_rows, None, first=1)
    with pytest.raises(ValueError, match="pyarrow"):
        columns(data, footer(data), 0, None, first=-1)
    with pytest.raises(ValueError, match="pyarrow"):
        columns(data, footer(data), 1, None, first=2**63 - 1)


@pytest.mark.parametrize("seed", range(40))
def test_some_rows_of_a_chunk_are_those_of_all(seed: int) -> None:
    chance = random.Random(seed)
    data, table = file(chance)
    for _ in range(10):
        first = chance.randrange(table.num_rows)
        rows = chance.randint(0, table.num_rows - first)
        mask = np.array([chance.random() < 0.5 for _ in range(rows)], bool) if chance.random() < 0.5 else None
        found = columns(data, footer(data), rows, mask, first=first)
        expected = table.slice(first, rows)
        expected = expected if mask is None else expected.filter(pa.array(mask))
        for array, name in zip(found, TYPES, strict=True):
            array.validate(full=True)
            assert array.to_pylist() == expected[name].to_pylist(), name


def test_an_index_beyond_the_dictionary_is_refused() -> None:
    """A page of 8 rows whose indices have 1 bit, with a dictionary of one value."""
    header = lambda kind, size, inner: bytes([0x15, kind << 1, 0x15, size << 1, 0x15, size << 1]) + inner + b"\0"  # noqa: E731
    dictionary = header(2, 4, bytes([0x4C, 0x15, 2, 0x15, 0, 0])) + (7).to_bytes(4, "little")
    page = header(0, 3, bytes([0x2C, 0x15, 16, 0x15, 16, 0x15, 6, 0x15, 6, 0])) + bytes([1, 3, 0b0000_0000])
    bad = page[:-1] + bytes([0b0000_0100])
    column = FlatColumn(leaf=0, type=pa.int32(), physical=1, optional=False, stored=4, width=4)
    good = decoded(column, [(dictionary + page, 0, len(dictionary + page), 8, 0)], 8, None, 8)
    assert good.to_pylist() == [7] * 8
    with pytest.raises(ValueError, match="pyarrow"):
        decoded(column, [(dictionary + bad, 0, len(dictionary + bad), 8, 0)], 8, None, 8)
