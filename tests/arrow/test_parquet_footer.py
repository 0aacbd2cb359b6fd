"""Parquet statistics read by hand, beside what pyarrow reads of healthy files; and T14, the physical types."""

from __future__ import annotations

import datetime as dt
import io
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from arrow_tables import Files, column, metadata, read, schema, task

from esker.arrow import parquet_footer
from esker.arrow.arrow_types import to_arrow_schema
from esker.arrow.parquet_footer import read_statistics
from esker.model.predicates.predicate import Compare, OneOf, Op
from esker.model.types import (
    BOOLEAN,
    DATE,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    FixedType,
    Type,
)

TABLE = pa.table(
    {
        "i": pa.array([3, None, -7, 5], pa.int32()),
        "l": pa.array([1, 2, 3, 4]),
        "f": pa.array([1.5, -2.5, None, None], pa.float32()),
        "d": pa.array([0.5, 1.0, 2.0, 4.0]),
        "s": pa.array(["b", "a", "ä", None]),
        "b": pa.array([True, False, None, True]),
        "nested": pa.array([{"x": 1, "l": [1, 2]}, None, {"x": None, "l": []}, {"x": 9, "l": None}]),
        "nulls": pa.array([None] * 4, pa.int64()),
        "time": pa.array([dt.datetime(2020, 1, n) for n in range(1, 5)], pa.timestamp("us")),
        "dec": pa.array([Decimal("1.25"), Decimal("-3.00"), None, None], pa.decimal128(30, 2)),
    }
)


def written(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


@pytest.mark.parametrize("options", [{}, {"write_statistics": False}, {"version": "1.0"}, {"write_page_index": True}])
def test_statistics_are_those_that_pyarrow_reads(options: dict[str, Any]) -> None:
    data = written(TABLE, row_group_size=2, **options)
    facts = pq.ParquetFile(io.BytesIO(data)).metadata
    found = read_statistics(pa.BufferReader(data), range(facts.num_columns))
    assert found is not None
    assert [group.rows for group in found] == [2, 2]
    for group, mine in enumerate(found):
        for leaf in range(facts.num_columns):
            chunk, own = facts.row_group(group).column(leaf), mine.columns[leaf]
            theirs = chunk.statistics
            assert own.value_count == chunk.num_values
            if theirs is None:
                assert own.null_count is own.minimum is own.maximum is None
                continue
            assert own.null_count == theirs.null_count
            if theirs.has_min_max:
                assert (own.minimum, own.maximum) == (theirs.min_raw, theirs.max_raw)
            else:
                assert own.minimum is None


def test_only_the_leaves_asked_about_are_decoded() -> None:
    found = read_statistics(pa.BufferReader(written(TABLE)), [4])
    assert found is not None
    assert found[0].columns.keys() == {4}


def test_a_footer_that_makes_no_sense_is_no_statistics() -> None:
    data = written(TABLE)
    assert read_statistics(pa.BufferReader(b"PAR1PAR1"), [0]) is None
    assert read_statistics(pa.BufferReader(data[:-1]), [0]) is None
    assert read_statistics(pa.BufferReader(data[:-8] + b"\xff\xff\xff\x7fPAR1"), [0]) is None
    chance = random.Random(3)
    for _ in range(300):
        hurt = bytearray(data)
        for _ in range(3):
            hurt[-9 - chance.randrange(1200)] = chance.randrange(256)
        read_statistics(pa.BufferReader(bytes(hurt)), range(11))


@pytest.mark.skipif(parquet_footer._compiled() is None, reason="the compiled part was not built")
@pytest.mark.parametrize("options", [{}, {"write_statistics": False}, {"version": "1.0"}, {"write_page_index": True}])
def test_compiled_code_reads_the_same_statistics(options: dict[str, Any]) -> None:
    read = parquet_footer._compiled()
    assert read is not None
    chance = random.Random(5)
    data = written(TABLE, row_group_size=2, **options)
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    for leaves in ([], [4], [0, 3, 7], range(11)):
        assert read(footer, leaves) == parquet_footer._statistics(footer, leaves) is not None
    assert read(footer, [99]) is None
    both = 0
    for _ in range(2000):
        hurt = bytearray(footer)
        for _ in range(chance.randint(1, 3)):
            hurt[chance.randrange(len(hurt))] = chance.choice((0, 1, 0x1C, 0x7F, 0xFF, chance.randrange(256)))
        one, other = read(bytes(hurt), range(11)), parquet_footer._statistics(bytes(hurt), range(11))
        both += one is not None and other is not None
        assert one is None or other is None or repr(one) == repr(other)  # they may differ in what makes no sense
    assert both > 100


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (DecimalType(9, 2), [Decimal("-1.25"), Decimal("3.50")]),
        (DecimalType(18, 2), [Decimal("-1.25"), Decimal("3.50")]),
        (DecimalType(38, 2), [Decimal("-1.25"), Decimal("3.50")]),
        (DATE, [-5, 18000]),
        (TIME, [0, 86_399_999_999]),
        (TIMESTAMP, [-1, 10**15]),
        (TIMESTAMPTZ, [-1, 10**15]),
        (TIMESTAMP_NS, [-1, 10**18]),
        (STRING, ["", "ä😀"]),
        (FixedType(2), [b"\x00\xff", b"\xff\x00"]),
        (UUID, [b"\x00" * 16, b"\xff" * 16]),
        (BOOLEAN, [False, True]),
        (LONG, [-(2**63), 2**63 - 1]),
    ],
)
@pytest.mark.parametrize("as_integer", [True, False])
def test_t14_every_physical_type_is_read_and_pruned_by_right(type_: Type, values: list[Any], as_integer: bool) -> None:
    from esker.arrow.value_arrays import array_of

    of = schema(column(1, "c", type_))
    table = pa.table([array_of(type_, values)], schema=to_arrow_schema(of))
    files = Files()
    data = written(table, row_group_size=1, store_decimal_as_integer=as_integer, store_schema=False)
    data_file = files.put(data, "parquet", 2)
    everything = read(files, metadata(of), task(data_file))
    assert everything["c"].combine_chunks().equals(table["c"].combine_chunks())
    for at, value in enumerate(values):
        for where in (Compare(of.fields[0], Op.EQ, value), OneOf(of.fields[0], frozenset((value,)))):
            got = read(files, metadata(of), task(data_file, where=where))
            assert got.equals(everything.slice(at, 1))
