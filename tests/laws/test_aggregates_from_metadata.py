"""An aggregate that metadata answers is the one that the rows give."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import esker
from esker.model.values import to_bytes
from esker.read.exact_aggregates import Aggregate, exact_aggregates

COLUMNS = """part int, i int, l bigint, d double, f float, day date, ts timestamp, wall timestamp_ntz,
    price decimal(9,2), flag boolean, name string, data binary"""
ARROW = pa.schema(
    [
        ("part", pa.int32()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("d", pa.float64()),
        ("f", pa.float32()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("wall", pa.timestamp("us")),
        ("price", pa.decimal128(9, 2)),
        ("flag", pa.bool_()),
        ("name", pa.string()),
        ("data", pa.binary()),
    ]
)
FLOATS = st.sampled_from([None, -1.5, 0.0, -0.0, 2.25, math.nan, math.inf])
MOMENTS = st.datetimes(dt.datetime(1960, 1, 1), dt.datetime(2040, 1, 1))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "part": st.integers(0, 2),
            "i": st.none() | st.integers(-(2**31), 2**31 - 1),
            "l": st.none() | st.integers(-3, 3),
            "d": FLOATS,
            "f": FLOATS,
            "day": st.none() | st.dates(dt.date(1960, 1, 1), dt.date(2040, 1, 1)),
            "ts": st.none() | MOMENTS.map(lambda moment: moment.replace(tzinfo=dt.UTC)),
            "wall": st.none() | MOMENTS,
            "price": st.none() | st.integers(-(10**8), 10**8).map(lambda cents: Decimal(cents) / 100),
            "flag": st.none() | st.booleans(),
            "name": st.none() | st.text("ab", max_size=40),
            "data": st.none() | st.binary(max_size=40),
        }
    ),
    max_size=6,
)
WHERES = st.sampled_from(
    [None, "part = 1", "part <> 1", "part IN (0, 2)", "l > 0", "l IS NULL", "i IS NOT NULL", "d > 0", "name = 'a'"]
)
DELETES = st.sampled_from([None, None, "part = 0", "l = 1", "flag"])


@given(
    appends=st.lists(ROWS, max_size=3),
    where=WHERES,
    delete=DELETES,
    mode=st.sampled_from(["copy-on-write", "merge-on-read"]),
    version=st.sampled_from([2, 3]),
)
def test_metadata_answers_what_the_rows_answer(
    appends: list[list[dict[str, Any]]], where: str | None, delete: str | None, mode: str, version: int
) -> None:
    lake = esker.connect("memory:")
    lake.create_namespace("a")
    table = lake.create_table(
        "a.t", COLUMNS, partition_by=["part"], properties={"write.delete.mode": mode}, format_version=version
    )
    for rows in appends:
        table.append(pa.Table.from_pylist(rows, ARROW))
    if delete is not None:
        table.delete(delete)
    scan = table.scan(where)
    rows = scan.to_arrow().to_pylist()
    counted = exact_aggregates(scan, [Aggregate("count")])
    assert counted in (None, [len(rows)])
    for field in table.schema.fields:
        present = [row[field.name] for row in rows if row[field.name] is not None]
        counted = exact_aggregates(scan, [Aggregate("count", field)])
        assert counted in (None, [len(present)])
        for function, choose in (("min", min), ("max", max)):
            found = exact_aggregates(scan, [Aggregate(function, field)])  # type: ignore[arg-type]
            if found is None:
                continue
            if not present:
                assert found == [None]
                continue
            assert not any(isinstance(value, float) and math.isnan(value) for value in present)
            expected = choose(present)
            assert to_bytes(field.type, found[0]) == held(expected, field), (function, field.name)


def held(value: Any, field: Any) -> bytes:
    """The value as the bytes that statistics have for it."""
    match value:
        case dt.datetime():
            since = value.replace(tzinfo=None) - dt.datetime(1970, 1, 1)
            return to_bytes(field.type, since // dt.timedelta(microseconds=1))
        case dt.date():
            return to_bytes(field.type, (value - dt.date(1970, 1, 1)).days)
        case _:
            return to_bytes(field.type, value)


@pytest.fixture
def table() -> esker.Table:
    lake = esker.connect("memory:")
    lake.create_namespace("a")
    table = lake.create_table("a.t", "part int, id bigint, d double, name string", partition_by=["part"])
    for part in range(3):
        table.append([{"part": part, "id": n * 10 + part, "d": n + 0.5, "name": "x" * 30} for n in range(1, 4)])
    return table


def asked(table: esker.Table, where: str | None, *aggregates: tuple[str, str | None]) -> list[Any] | None:
    by_name = {field.name: field for field in table.schema.fields}
    wanted = [Aggregate(kind, by_name.get(name or "")) for kind, name in aggregates]  # type: ignore[arg-type]
    return exact_aggregates(table.scan(where), wanted)


def test_what_is_exact_is_answered(table: esker.Table) -> None:
    assert asked(table, None, ("count", None), ("count", "id"), ("min", "id"), ("max", "id"), ("max", "d")) == [
        9,
        9,
        10,
        32,
        3.5,
    ]
    assert asked(table, "part = 1", ("count", None), ("max", "id"), ("count", "name")) == [3, 31, 3]
    assert asked(table, "part = 7", ("count", None), ("max", "id")) == [0, None]
    assert asked(table, "id > 0", ("count", None)) == [9]  # every row of every file matches


@pytest.mark.parametrize(
    ("where", "aggregate"),
    [("id > 11", ("count", None)), (None, ("min", "name")), (None, ("max", "name"))],
)
def test_what_is_not_exact_is_not_answered(
    table: esker.Table, where: str | None, aggregate: tuple[str, str | None]
) -> None:
    assert asked(table, where, aggregate) is None


def test_deleted_rows_leave_only_the_count_of_vectors(table: esker.Table) -> None:
    with table.alter() as change:
        change.set_properties({"write.delete.mode": "merge-on-read"})
        change.upgrade_format(3)
    table.delete("id = 10")
    assert asked(table, None, ("count", None)) == [8]
    assert asked(table, None, ("min", "id")) is None
    assert asked(table, "part = 1", ("min", "id")) == [11]  # its file has no deletes


def test_a_column_that_came_later_has_no_statistics(table: esker.Table) -> None:
    with table.alter() as change:
        change.add_column("late", "bigint")
    assert asked(table, None, ("count", "late")) is None
    assert asked(table, None, ("max", "late")) is None
