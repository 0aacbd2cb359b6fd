"""Tables that PyIceberg writes, read where they lie: the same rows as PyIceberg's own scan gives."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from held_rows import telling

import esker

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore"),  # PyIceberg's own
]

sql = pytest.importorskip("pyiceberg.catalog.sql")

from pyiceberg import types as t  # noqa: E402
from pyiceberg.partitioning import PartitionField, PartitionSpec  # noqa: E402
from pyiceberg.schema import Schema  # noqa: E402
from pyiceberg.table import Table  # noqa: E402
from pyiceberg.transforms import parse_transform  # noqa: E402

START = dt.datetime(2024, 1, 30, 22, 30)
ROWS = 40


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    made = sql.SqlCatalog("default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    made.create_namespace("ns")
    yield made
    made.engine.dispose()


def open_same(table: Table) -> esker.Table:
    return esker.open_table(table.metadata_location.removeprefix("file://"))


def rows_of(found: pa.Table) -> list[Any]:
    """Rows whatever their order, as values that compare."""
    names = sorted(found.column_names)
    return sorted(repr(telling([_plain(row[name]) for name in names])) for row in found.to_pylist())


def _plain(value: Any) -> Any:
    return value.bytes if isinstance(value, uuid.UUID) else value


def assert_same(table: Table, where: str | None = None, **choice: Any) -> int:
    """Both read the same rows; gives how many."""
    theirs = table.scan(**({} if where is None else {"row_filter": where}), **choice).to_arrow()
    scan = open_same(table).scan(where, **choice)
    ours = scan.to_arrow()
    assert ours.column_names == theirs.column_names
    assert rows_of(ours) == rows_of(theirs)
    assert scan.count() == theirs.num_rows
    return ours.num_rows


# ---------------------------------------------------------------- types

ALL_TYPES = Schema(
    t.NestedField(1, "k", t.LongType(), required=False),
    t.NestedField(2, "b", t.BooleanType()),
    t.NestedField(3, "i", t.IntegerType()),
    t.NestedField(4, "f", t.FloatType()),
    t.NestedField(5, "d", t.DoubleType()),
    t.NestedField(6, "dec", t.DecimalType(20, 4)),
    t.NestedField(7, "day", t.DateType()),
    t.NestedField(8, "clock", t.TimeType()),
    t.NestedField(9, "ts", t.TimestampType()),
    t.NestedField(10, "tz", t.TimestamptzType()),
    t.NestedField(11, "s", t.StringType()),
    t.NestedField(12, "u", t.UUIDType()),
    t.NestedField(13, "fix", t.FixedType(3)),
    t.NestedField(14, "bin", t.BinaryType()),
    t.NestedField(15, "st", t.StructType(t.NestedField(16, "x", t.LongType()), t.NestedField(17, "y", t.StringType()))),
    t.NestedField(18, "li", t.ListType(19, t.DoubleType(), element_required=False)),
    t.NestedField(20, "ma", t.MapType(21, t.StringType(), 22, t.LongType(), value_required=False)),
)


def a_row(k: int, rng: random.Random) -> dict[str, Any]:
    """A row of every type; about one value in five is null."""

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    return {
        "k": k,
        "b": maybe(k % 2 == 0),
        "i": maybe(k - ROWS // 2),
        "f": maybe(rng.choice([0.0, -0.0, 1.5, float("inf"), float("nan"), -float(k)])),
        "d": maybe(rng.choice([0.0, -0.0, 2.25, float("-inf"), float("nan"), float(k)])),
        "dec": maybe(Decimal(k - 20) / Decimal(8)),
        "day": maybe((START + dt.timedelta(days=k - 20)).date()),
        "clock": maybe(dt.time(k % 24, k % 60, 7, k)),
        "ts": maybe(START + dt.timedelta(hours=7 * k - 100)),
        "tz": maybe((START + dt.timedelta(hours=5 * k)).replace(tzinfo=dt.UTC)),
        "s": maybe(rng.choice(["", "a", "é", "😀x", f"row {k}", "z" * 30])),
        "u": maybe(uuid.UUID(int=k * 2**100).bytes),
        "fix": maybe(bytes([k % 256, 0, 255])),
        "bin": maybe(bytes(range(k % 7))),
        "st": maybe({"x": maybe(k), "y": maybe(str(k))}),
        "li": maybe([1.0, None, float(k)]),
        "ma": maybe([("a", k), ("b", None)]),
    }


def arrow_schema(schema: Schema) -> pa.Schema:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return schema_to_pyarrow(schema, include_field_ids=False)


def some_rows(schema: Schema, count: int = ROWS, first: int = 0) -> pa.Table:
    rng = random.Random(first + 1)
    wanted = arrow_schema(schema)
    rows = [a_row(k, rng) for k in range(first, first + count)]
    arrays = []
    for field in wanted:
        values = [row[field.name] for row in rows]
        if field.type == pa.uuid():
            storage = pa.array(values, pa.binary(16))
            arrays.append(pa.ExtensionArray.from_storage(pa.uuid(), storage))
        else:
            arrays.append(pa.array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=wanted)


FILTERS = (
    "k > 10 and k <= 30",
    "i = 5 or i = -5",
    "i is null",
    "i is not null and i < 0",
    "d > 1",
    "f <= 0",
    "d is nan",
    "dec >= 0.5000",
    "day >= '2024-02-01'",
    "ts < '2024-02-01T00:00:00'",
    "s = 'a'",
    "s >= 'é'",
    "s in ('', 'a', 'row 3')",
    "not (i > 3)",
    "b = true",
)
# Where PyIceberg's two-valued expressions and SQL mean different things, or it reads the text otherwise.
SPELLING = {"d is nan": "isnan(d)"}
AS_SQL: dict[str, Callable[[dict[str, Any]], bool]] = {
    "d > 1": lambda row: row["d"] is not None and not row["d"] <= 1,
    "f <= 0": lambda row: row["f"] is not None and row["f"] <= 0,
    "not (i > 3)": lambda row: row["i"] is not None and row["i"] <= 3,
}


@pytest.fixture
def every_type(catalog: Any) -> Table:
    table = catalog.create_table("ns.every_type", ALL_TYPES)
    table.append(some_rows(ALL_TYPES))
    table.append(some_rows(ALL_TYPES, first=100))
    return table


def test_every_type_reads_as_it_was_written(every_type: Table) -> None:
    assert assert_same(every_type) == 2 * ROWS
    written = pa.concat_tables([some_rows(ALL_TYPES), some_rows(ALL_TYPES, first=100)])
    assert rows_of(open_same(every_type).scan().to_arrow()) == rows_of(written)


@pytest.mark.parametrize("where", FILTERS)
def test_filters_select_the_same_rows(every_type: Table, where: str) -> None:
    """But for NaN and null: PyIceberg's expressions are not SQL there, so those rows are compared without it."""
    ours = open_same(every_type).scan(SPELLING.get(where, where)).to_arrow()
    if where in AS_SQL:
        every = open_same(every_type).scan().to_arrow()
        expected = every.filter(pa.array([AS_SQL[where](row) for row in every.to_pylist()]))
    else:
        expected = every_type.scan(row_filter=where).to_arrow()
    assert rows_of(ours) == rows_of(expected)


def test_a_projection_reads_the_same_columns(every_type: Table) -> None:
    theirs = every_type.scan(selected_fields=("s", "k", "st.x")).to_arrow()
    ours = open_same(every_type).scan(columns=["k", "s", "st.x"]).to_arrow()
    assert rows_of(ours) == rows_of(theirs)


# ---------------------------------------------------------------- partitions

TRANSFORMS = [
    *(
        (column, "identity")
        for column in ("i", "s", "day", "dec", "b", "ts", "tz", "clock", "u", "bin", "fix", "f", "d")
    ),
    *((column, "bucket[4]") for column in ("i", "k", "s", "ts", "tz", "dec", "day", "clock", "u", "bin", "fix")),
    *((column, "truncate[3]") for column in ("i", "k", "s", "bin", "dec")),
    *(("ts", unit) for unit in ("year", "month", "day", "hour")),
    *(("tz", unit) for unit in ("year", "month", "day", "hour")),
    *(("day", unit) for unit in ("year", "month", "day")),
    ("i", "void"),
    ("st.x", "identity"),
]


def by(schema: Schema, *terms: tuple[str, str]) -> PartitionSpec:
    return PartitionSpec(
        *(
            PartitionField(schema.find_field(name).field_id, 1000 + at, parse_transform(transform), f"p{at}")
            for at, (name, transform) in enumerate(terms)
        )
    )


@pytest.mark.parametrize(("column", "transform"), TRANSFORMS)
def test_a_table_partitioned_by_any_transform_reads_the_same(catalog: Any, column: str, transform: str) -> None:
    table = catalog.create_table("ns.parted", ALL_TYPES, partition_spec=by(ALL_TYPES, (column, transform)))
    try:
        table.append(some_rows(ALL_TYPES, count=20))
    except Exception as error:  # theirs to write
        pytest.skip(f"PyIceberg cannot write it: {type(error).__name__}: {error}")
    every = open_same(table).scan().to_arrow()
    assert rows_of(every) == rows_of(some_rows(ALL_TYPES, count=20))
    top, *below = column.split(".")
    held = [row[top] if not below or row[top] is None else row[top][below[0]] for row in every.to_pylist()]
    values = [value for value in held if value is not None and value == value]
    mine = open_same(table)
    chosen = mine.scan(esker.col(column) == values[0])
    assert chosen.count() == values.count(values[0])
    assert mine.scan(esker.col(column).is_null()).count() == held.count(None)
    assert mine.scan(esker.col(column) >= min(values)).count() == 20 - held.count(None)  # NaN is above all
    if transform != "void" and column not in ("b", "f", "d"):
        assert chosen.plan().funnel.files_kept < chosen.plan().funnel.files_total


# ---------------------------------------------------------------- evolution

SMALL = Schema(
    t.NestedField(1, "k", t.LongType()), t.NestedField(2, "s", t.StringType()), t.NestedField(3, "i", t.IntegerType())
)


def small(*rows: tuple[Any, ...], names: tuple[str, ...] = ("k", "s", "i"), wide: bool = False) -> pa.Table:
    number = pa.int64() if wide else pa.int32()
    types = {"k": pa.int64(), "s": pa.string(), "i": number, "name": pa.string(), "new": pa.float64()}
    return pa.table({n: pa.array([row[at] for row in rows], types[n]) for at, n in enumerate(names)})


def test_a_schema_that_changed_reads_the_same_now_and_then(catalog: Any) -> None:
    table = catalog.create_table("ns.evolved", SMALL)
    table.append(small((1, "a", 10), (2, "b", None)))
    first = table.current_snapshot().snapshot_id
    with table.update_schema() as change:
        change.rename_column("s", "name")
        change.update_column("i", field_type=t.LongType())
        change.add_column("new", t.DoubleType())
    table.append(small((3, "c", 2**40, 0.5), names=("k", "name", "i", "new"), wide=True))
    with table.update_schema() as change:
        change.delete_column("name")
        change.move_first("i")
    table.append(small((2**41, 4, 1.5), names=("i", "k", "new"), wide=True))
    assert assert_same(table) == 4
    assert assert_same(table, "i > 10") == 2
    assert assert_same(table, "new is null") == 2
    assert assert_same(table, snapshot_id=first) == 2
    assert open_same(table).scan(snapshot_id=first).to_arrow().column_names == ["k", "s", "i"]


def test_a_spec_that_changed_reads_the_same_and_still_prunes(catalog: Any) -> None:
    table = catalog.create_table("ns.respecced", SMALL, partition_spec=by(SMALL, ("s", "identity")))
    table.append(small((1, "a", 1), (2, "b", 2)))
    with table.update_spec() as change:
        change.add_field("i", parse_transform("bucket[4]"), "bucketed")
        change.remove_field("p0")
    table.append(small((3, "a", 3), (4, "b", 4)))
    assert assert_same(table, "s = 'a'") == 2
    assert assert_same(table, "i = 4") == 1
    assert assert_same(table, "s = 'b' and i = 2") == 1
    assert open_same(table).scan("s = 'a' AND i = 1").plan().funnel.files_kept == 1


# ---------------------------------------------------------------- changes


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_table_deleted_from_and_overwritten_reads_the_same(catalog: Any, version: str) -> None:
    table = catalog.create_table(
        "ns.changed", SMALL, partition_spec=by(SMALL, ("s", "identity")), properties={"format-version": version}
    )
    table.append(small(*((k, "abc"[k % 3], k) for k in range(30))))
    before = table.current_snapshot().snapshot_id
    table.delete("i >= 5 and i < 8")  # copy on write
    assert assert_same(table) == 27
    table.delete("s = 'a'")  # by metadata alone
    assert assert_same(table) == 18
    table.overwrite(small((100, "b", 100)), overwrite_filter="s = 'b'")
    assert assert_same(table) == 10
    assert assert_same(table, "i > 20") == 4
    assert assert_same(table, snapshot_id=before) == 30
    assert open_same(table).format_version == int(version)


def test_branches_and_tags_read_the_same(catalog: Any) -> None:
    table = catalog.create_table("ns.refs", SMALL)
    table.append(small((1, "a", 1)))
    first = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_tag(first, "v1").create_branch(first, "dev").commit()
    table.append(small((2, "b", 2)))
    table.append(small((3, "c", 3)), branch="dev")
    mine = open_same(table)
    assert mine.scan(ref="v1").to_arrow().column("k").to_pylist() == [1]
    assert sorted(mine.scan(ref="main").to_arrow().column("k").to_pylist()) == [1, 2]
    assert sorted(mine.scan(ref="dev").to_arrow().column("k").to_pylist()) == [1, 3]
    assert set(mine.refs) == {"main", "v1", "dev"}


def test_files_added_without_ids_read_by_the_name_mapping(catalog: Any, tmp_path: Path) -> None:
    table = catalog.create_table("ns.added", SMALL)
    table.append(small((1, "a", 1)))
    added = Path(table.location().removeprefix("file://")) / "data" / "added.parquet"
    pq.write_table(small((3, "z", 9), names=("i", "s", "k")), added)
    table.add_files([f"file://{added}"])
    assert assert_same(table) == 2
    assert assert_same(table, "k = 9") == 1
    found = open_same(table).scan("k = 9").to_arrow().to_pylist()
    assert found == [{"k": 9, "s": "z", "i": 3}]


def test_a_dynamic_overwrite_and_an_upsert_read_the_same(catalog: Any) -> None:
    table = catalog.create_table("ns.upserted", SMALL, partition_spec=by(SMALL, ("s", "identity")))
    table.append(small((1, "a", 1), (2, "b", 2), (3, "c", 3)))
    table.dynamic_partition_overwrite(small((9, "b", 9)))
    assert assert_same(table) == 3
    table.upsert(small((1, "a", 100), (5, "c", 5)), join_cols=["k"])
    assert assert_same(table) == 4
    assert assert_same(table, "i = 100") == 1


def test_an_empty_table_and_an_empty_append_read_as_nothing(catalog: Any) -> None:
    table = catalog.create_table("ns.empty", ALL_TYPES)
    assert assert_same(table) == 0
    table.append(some_rows(ALL_TYPES, count=0))
    assert assert_same(table) == 0


def test_the_table_reads_after_it_was_moved(every_type: Table, tmp_path: Path) -> None:
    here = Path(every_type.location().removeprefix("file://"))
    there = tmp_path / "elsewhere" / "moved"
    there.parent.mkdir()
    expected = rows_of(every_type.scan().to_arrow())
    here.rename(there)
    assert rows_of(esker.open_table(there).scan().to_arrow()) == expected
