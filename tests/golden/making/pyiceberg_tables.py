"""The golden tables that PyIceberg writes; its own scans are the answers."""

from __future__ import annotations

import datetime as dt
import uuid
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyiceberg
from golden_answers import Question, answered
from golden_tables import plain_rows
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from tests.golden.making.duckdb_tables import duckdb_engine
from tests.golden.making.neutral import PLACE

ENGINE = f"PyIceberg {pyiceberg.__version__}"
FEW_FILES = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
Asked = list[tuple[Question, Any]]  # with a row filter in PyIceberg's own words


def orders(first: int, count: int) -> pa.Table:
    """Everyday rows: two regions and a null one, several days."""
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "region": pa.array([("eu", "us", None)[n % 3] for n in ids], pa.string()),
            "amount": pa.array([Decimal(n * 101).scaleb(-2) for n in ids], pa.decimal128(12, 2)),
            "ts": pa.array([1_790_000_000_000_000 + n * 20_000_000_000 for n in ids], pa.timestamp("us", tz="UTC")),
        }
    )


class Maker:
    """A catalog of PyIceberg's at the neutral place."""

    def __init__(self, folder: Path) -> None:
        properties = {"py-io-impl": "tests.golden.making.neutral.NeutralFileIO", "golden.folder": str(folder)}
        self._catalog = SqlCatalog("golden", uri=f"sqlite:///{folder}/pyiceberg.db", warehouse=PLACE, **properties)
        self._catalog.create_namespace("n")

    def create(self, name: str, schema: Any, spec: PartitionSpec | None = None, version: int = 2) -> Any:
        """An empty table."""
        properties = {"format-version": str(version), **FEW_FILES}
        how = {} if spec is None else {"partition_spec": spec}
        return self._catalog.create_table(f"n.{name}", schema, f"{PLACE}/{name}", properties=properties, **how)


def _types(maker: Maker) -> tuple[Any, Asked]:
    schema = Schema(
        NestedField(1, "id", IntegerType(), required=True),
        NestedField(2, "flag", BooleanType()),
        NestedField(3, "l", LongType()),
        NestedField(4, "f", FloatType()),
        NestedField(5, "d", DoubleType()),
        NestedField(6, "n", DecimalType(9, 2)),
        NestedField(7, "wide", DecimalType(38, 10)),
        NestedField(8, "day", DateType()),
        NestedField(9, "clock", TimeType()),
        NestedField(10, "ntz", TimestampType()),
        NestedField(11, "tz", TimestamptzType()),
        NestedField(12, "s", StringType()),
        NestedField(13, "u", UUIDType()),
        NestedField(14, "fix", FixedType(3)),
        NestedField(15, "b", BinaryType()),
    )
    table = maker.create("pyiceberg_types", schema)
    arrow = table.schema().as_arrow()
    ntz, tz = dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2026, 11, 15, 12, tzinfo=dt.UTC)
    whole = [
        *(1, True, 2**63 - 1, 0.5, float("nan"), Decimal("1.25"), Decimal("-1E-10"), dt.date(1969, 12, 31)),
        *(dt.time(1, 2, 3, 4), ntz, tz, "ångström 𝄞", uuid.UUID(int=2**127 + 5).bytes, b"abc", b"\x00\xff"),
    ]
    other = [2, False, -(2**63), float("nan"), -0.0, *([None] * 5), tz, "", None, None, b""]
    third = [3, None, 0, -0.0, float("-inf"), *([None] * 10)]
    fourth = [4, None, None, None, 0.0, *([None] * 10)]
    columns = [pa.array(list(values), field.type) for values, field in zip(zip(whole, other, third, fourth), arrow)]  # noqa: B905
    table.append(pa.Table.from_arrays(columns, schema=arrow))
    return table, [(Question(where="s = ''"), "s = ''"), (Question(where="n = 1.25"), "n = 1.25")]


def _transforms(maker: Maker) -> tuple[Any, Asked]:
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "region", StringType()),
        NestedField(3, "amount", DecimalType(12, 2)),
        NestedField(4, "ts", TimestamptzType()),
    )
    spec = PartitionSpec(
        PartitionField(4, 1000, MonthTransform(), "ts_month"),
        PartitionField(1, 1001, BucketTransform(3), "id_bucket"),
        PartitionField(2, 1002, TruncateTransform(1), "region_trunc"),
    )
    table = maker.create("pyiceberg_transforms", schema, spec)
    table.append(orders(0, 6))
    return table, [(Question(where="region = 'us'"), "region = 'us'"), (Question(where="id = 4"), "id = 4")]


def _evolved_spec(maker: Maker) -> tuple[Any, Asked]:
    table = maker.create("pyiceberg_evolved_spec", orders(0, 0).schema)
    table.append(orders(0, 3))
    for first, column, transform, name in (
        (3, "ts", YearTransform(), "y"),
        (6, "ts", DayTransform(), "d"),
        (9, "ts", HourTransform(), "h"),
        (12, "region", IdentityTransform(), "r"),
    ):
        with table.update_spec() as change:
            if name in ("d", "h"):
                change.remove_field("y" if name == "d" else "d")
            change.add_field(column, transform, name)
        table.append(orders(first, 3))
    return table, [(Question(where="id > 4 AND region = 'us'"), "id > 4 and region = 'us'")]


def _evolved_schema(maker: Maker) -> tuple[Any, Asked]:
    place = pa.struct([("x", pa.int32())])
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "f": pa.array([0.5, None], pa.float32()), "gone": ["a", "b"]})
    rows = rows.append_column("place", pa.array([{"x": 1}, None], place))
    table = maker.create("pyiceberg_evolved_schema", rows.schema)
    table.append(rows)
    with table.update_schema() as change:
        change.update_column("id", field_type=LongType())
        change.update_column("f", field_type=DoubleType())
        change.rename_column("f", "g")
        change.delete_column("gone")
        change.add_column(("place", "y"), StringType())
        change.add_column("note", StringType())
        change.move_first("note")
    arrow = table.schema().as_arrow()
    table.append(
        pa.Table.from_pylist([{"note": "n", "id": 2**40, "g": 0.1, "place": {"x": 2, "y": "new"}}], schema=arrow)
    )
    return table, [(Question(where="id > 1"), "id > 1"), (Question(where="note IS NULL"), "note is null")]


def _changes(maker: Maker) -> tuple[Any, Asked]:
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "region", StringType()),
        NestedField(3, "amount", DecimalType(12, 2)),
        NestedField(4, "ts", TimestamptzType()),
    )
    table = maker.create(
        "pyiceberg_changes", schema, PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
    )
    table.append(orders(0, 9))
    table.delete("id = 4")
    table.overwrite(orders(20, 2), "region = 'eu'")
    table.upsert(orders(7, 1).set_column(2, "amount", pa.array([Decimal("9.99")], pa.decimal128(12, 2))), ["id"])
    return table, [
        (Question(where="region = 'eu'"), "region = 'eu'"),
        (Question(where="region IS NULL"), "region is null"),
    ]


def _refs(maker: Maker) -> tuple[Any, Asked]:
    table = maker.create("pyiceberg_branches_and_tags", orders(0, 0).schema)
    table.append(orders(0, 3))
    first = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_tag(first, "first").create_branch(first, "audit").commit()
    table.append(orders(3, 3), branch="audit")
    table.append(orders(6, 3))
    return table, [(Question(ref="first"), "first"), (Question(ref="audit"), "audit")]


def _version_1(maker: Maker) -> tuple[Any, Asked]:
    table = maker.create("pyiceberg_v1", orders(0, 0).schema, version=1)
    table.append(orders(0, 5))
    table.append(orders(5, 5))
    return table, [(Question(where="id >= 7"), "id >= 7")]


def _nested(maker: Maker) -> tuple[Any, Asked]:
    deep = pa.list_(pa.struct([("k", pa.string()), ("v", pa.list_(pa.float64()))]))
    rows = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int32()),
            "deep": pa.array([[{"k": "a", "v": [1.0, None]}, {"k": None, "v": []}], [], None], deep),
            "m": pa.array([[("a", 1), ("b", None)], [], None], pa.map_(pa.string(), pa.int64())),
            "s": pa.array([{"x": {"y": 1}}, {"x": None}, None], pa.struct([("x", pa.struct([("y", pa.int32())]))])),
        }
    )
    table = maker.create("pyiceberg_nested", rows.schema)
    table.append(rows)
    return table, [(Question(where="s.x.y = 1"), "s.x.y = 1")]


def duckdb_files(maker: Maker, folder: Path, connection: Any) -> dict[str, Any]:
    """Parquet files that DuckDB wrote, without field ids, taken in by PyIceberg with a name mapping."""
    name = "duckdb_files_in_pyiceberg"
    (folder / name / "data").mkdir(parents=True)
    paths = [f"{PLACE}/{name}/data/{part}.parquet" for part in ("a", "b")]
    for at, path in enumerate(paths):
        connection.execute(
            f"COPY (SELECT (i + {at * 4})::BIGINT AS id, 'n' || i AS s, i / 4 AS d, "
            f"DATE '2026-11-15' + i::INTEGER AS day, "
            f"[i, NULL] AS li, {{'x': i}} AS st FROM range(4) r(i)) TO '{path}' (FORMAT parquet)"
        )
    table = maker.create(name, pq.read_schema(folder / name / "data" / "a.parquet"))
    table.add_files(paths)
    asked = [(Question(where="id > 5"), "id > 5"), (Question(where="s = 'n1'"), "s = 'n1'")]
    return {
        "name": name,
        "writer": f"{duckdb_engine(connection)} (files) and {ENGINE} (table)",
        "exercises": ("v2", "name-mapping", "nested"),
        "about": "Parquet files of DuckDB's, which have no field ids, added to a table by a name mapping",
        "answers": _answers(table, asked),
    }


MAKERS: tuple[tuple[Callable[[Maker], tuple[Any, Asked]], tuple[str, ...], str], ...] = (
    (
        _types,
        ("v2", "decimals", "timestamps", "nan", "negative-zero", "binary", "uuid"),
        "every type of PyIceberg's, with NaN, infinities, both zeros and nulls",
    ),
    (_transforms, ("v2", "transforms"), "partitioned by month, bucket and truncate"),
    (
        _evolved_spec,
        ("v2", "evolved-spec", "transforms"),
        "files under five specs: none, year, day, hour, and a region",
    ),
    (_evolved_schema, ("v2", "evolved-schema", "nested"), "columns added, dropped, renamed, widened and moved"),
    (_changes, ("v2", "transforms"), "rows deleted, overwritten and upserted by rewriting files"),
    (_refs, ("v2", "branches-tags"), "a tag on the first snapshot and a branch that went its own way"),
    (_version_1, ("v1",), "format version 1, appended to twice"),
    (_nested, ("v2", "nested"), "structs, lists and maps inside each other, empty and null"),
)


def pyiceberg_tables(folder: Path, connection: Any) -> Iterator[dict[str, Any]]:
    """Write each table below the folder, and say what it is with PyIceberg's answers about it."""
    maker = Maker(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyIceberg's own
        for make, exercises, about in MAKERS:
            table, asked = make(maker)
            facts = {"name": table.name()[-1], "writer": ENGINE, "exercises": exercises, "about": about}
            yield {**facts, "answers": _answers(table, asked)}
        yield duckdb_files(maker, folder, connection)


def _answers(table: Any, asked: Asked) -> list[dict[str, Any]]:
    questions = [(Question(), table.scan())]
    questions += [
        (Question(snapshot_id=snapshot.snapshot_id), table.scan(snapshot_id=snapshot.snapshot_id))
        for snapshot in table.snapshots()
    ]
    for question, said in asked:
        scan = table.scan().use_ref(said) if question.ref else table.scan(row_filter=said)
        questions.append((question, scan))
    found = [(question, scan.to_arrow()) for question, scan in questions]
    return [answered(question, rows.column_names, plain_rows(rows)) for question, rows in found]
