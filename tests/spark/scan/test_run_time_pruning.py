"""Files that Spark leaves out by itself, by conditions that a frame gets after Esker planned it.

These are filters on the frame, and the rows of another table of a join.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from delete_strategies import with_deletes
from hypothesis import HealthCheck, Phase, event, given, note, settings
from hypothesis import strategies as st
from spark_tables import on_disk
from table_strategies import Story, stories

import esker
from esker.lake import Lake
from esker.model.pruning.evidence import has_span
from esker.model.schema import Schema
from esker.model.types import DateType, Field, StringType, TimestampType
from esker.read import prune_manifest
from esker.spark.expressions.column_expressions import stored_literal
from esker.table import Table

DAYS = [dt.date(2024, 1, day) for day in range(1, 9)]


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    lake.create_namespace("a")
    return lake


def rows_and_files(frame: Any) -> tuple[int, int]:
    """How many rows a frame has, and how many files Spark opens for them: all its scans report it in the first run."""
    fresh = frame.select("*")
    rows = fresh.toArrow().num_rows
    plan = fresh._jdf.queryExecution().executedPlan()
    return rows, _opened(plan.executedPlan() if plan.nodeName() == "AdaptiveSparkPlan" else plan)


def read_files(frame: Any) -> int:
    """How many files Spark opens for a frame."""
    return rows_and_files(frame)[1]


def _opened(plan: Any) -> int:
    if plan.nodeName().endswith("QueryStage"):  # a part of the plan that ran on its own
        return _opened(plan.plan())
    counted = plan.metrics().get("numFiles")
    children = plan.children()
    inner = sum(_opened(children.apply(at)) for at in range(children.length()))
    return inner + (counted.get().value() if counted.isDefined() else 0)


def events(lake: Lake, **more: Any) -> Table:
    """Eight files: one for each day, with ten ids each."""
    table = lake.create_table("a.events", "day date, id bigint, kind string, price decimal(9, 2)", **more)
    for at, day in enumerate(DAYS):
        ids = range(10 * at, 10 * at + 10)
        kinds = [f"kind {at}"] * 5 + [f"kind {at} of more"] * 5
        prices = pa.array([Decimal(id_) for id_ in ids], pa.decimal128(9, 2))
        table.append(pa.table({"day": [day] * 10, "id": [*ids], "kind": kinds, "price": prices}))
    return table


# ---------------------------------------------------------------- filters on a frame


FILTERS = [  # a condition, the files that Spark opens for it, and its rows
    ("id = 35", 1, 1),
    ("35 = id", 1, 1),
    ("id <=> 35", 1, 1),
    ("id > 69", 1, 10),
    ("id >= 69", 2, 11),
    ("id < 10", 1, 10),
    ("10 >= id", 2, 11),
    ("id IN (5, 15, 75, 900)", 3, 3),
    ("id = 5 OR id BETWEEN 70 AND 80", 2, 11),
    ("id < 25 AND kind LIKE 'kind 1%'", 1, 10),
    ("kind = 'kind 3'", 1, 5),
    ("kind > 'kind 6'", 2, 15),
    ("kind LIKE 'kind 7 of%'", 1, 5),
    ("price < 9.5", 1, 10),
    ("price = 99.5", 0, 0),
    ("day = date '2024-01-03'", 1, 10),
    ("day >= '2024-01-07'", 2, 20),
    ("day > date_sub(make_date(2024, 1, 8), 1)", 1, 10),
    ("id IS NULL", 0, 0),
    ("kind IS NOT NULL AND id < 3", 1, 3),
    ("NOT id < 75", 1, 5),
    ("id % 10 = 3", 8, 8),  # about which the bounds say nothing
]


@pytest.mark.parametrize("partitioned", [False, True])
def test_filters_on_a_frame_prune_files(partitioned: bool, lake: Lake) -> None:
    table = events(lake, **({"partition_by": "day"} if partitioned else {}))
    frames = (table.to_spark(), lake.sql("SELECT * FROM a.events"))
    found = [(where, *rows_and_files(frame.where(where))) for where, _, _ in FILTERS for frame in frames]
    assert found == [(where, rows, files) for where, files, rows in FILTERS for _ in frames]


def test_many_values_prune_files(lake: Lake) -> None:
    """With more than ten values, Spark makes a set of them."""
    frame = events(lake).to_spark().where(f"id IN ({', '.join(str(id_) for id_ in range(-30, 12))})")
    assert (len(frame.collect()), read_files(frame)) == (12, 2)


def test_columns_of_the_partition_alone(lake: Lake) -> None:
    frame = events(lake, partition_by="day").to_spark().select("day")
    assert sorted(frame.collect()) == [(day,) for day in DAYS for _ in range(10)]
    counts = frame.where("day < '2024-01-03'").groupBy("day").count()
    assert sorted(map(tuple, counts.collect())) == [(day, 10) for day in DAYS[:2]]


def test_partitions_with_null(lake: Lake) -> None:
    table = lake.create_table("a.t", "kind string, id bigint", partition_by="kind")
    table.append(pa.table({"kind": ["a", "b", None, "", "é 100%/="], "id": [1, 2, 3, 4, 5]}))
    frame = table.to_spark()
    for where, ids in [
        ("kind IS NULL", [3]),
        ("kind IS NOT NULL", [1, 2, 4, 5]),
        ("kind <=> NULL", [3]),
        ("kind <> 'a'", [2, 4, 5]),
        ("kind = ''", [4]),
        ("kind = 'é 100%/='", [5]),
        ("upper(kind) IN ('A', 'B')", [1, 2]),
        ("kind = 'a' OR id = 3", [1, 3]),
        ("coalesce(kind, 'a') = 'a'", [1, 3]),
    ]:
        found = frame.where(where)
        assert sorted(row.id for row in found.collect()) == ids, where
    assert read_files(frame.where("kind IS NULL")) == 1
    assert read_files(frame.where("upper(kind) IN ('A', 'B')")) == 2


def test_a_partition_that_came_later_fixes_nothing(lake: Lake) -> None:
    """Files of two specs are one scan. The older ones have the column's values in their rows only."""
    table = events(lake)
    with table.alter() as change:
        change.add_partition("day")
    table.append(pa.table({"day": [DAYS[0]], "id": [80], "kind": ["new"], "price": [Decimal(1)]}))
    found = table.to_spark().where("day = '2024-01-01'")
    assert sorted(row.id for row in found.collect()) == [*range(10), 80]
    assert read_files(found) == 2


def test_a_column_that_was_renamed_and_one_that_took_its_name(lake: Lake) -> None:
    table = events(lake, partition_by="day")
    with table.alter() as change:
        change.rename_column("id", "old")
        change.rename_column("day", "on")
    with table.alter() as change:
        change.add_column("id", "bigint")
    table.append(pa.table({"on": [DAYS[0]], "old": [80], "kind": ["k"], "price": [Decimal(1)], "id": [5]}))
    frame = table.to_spark()
    assert [(row.old, row.id) for row in frame.where("id = 5").collect()] == [(80, 5)]
    assert [(row.old, row.id) for row in frame.where("old = 5").collect()] == [(5, None)]
    assert read_files(frame.where("old = 5")) == 1
    assert read_files(frame.where("`on` = '2024-01-02'")) == 1


def test_a_column_that_was_widened(lake: Lake) -> None:
    table = lake.create_table("a.t", "kind int, id int", partition_by="kind")
    for at in range(5):
        table.append(pa.table({"kind": pa.array([at], pa.int32()), "id": pa.array([at], pa.int32())}))
    with table.alter() as change:
        change.widen_column("kind", "bigint")
        change.widen_column("id", "bigint")
    table.append(pa.table({"kind": [1 << 40], "id": [1 << 40]}))
    for column in ("kind", "id"):
        for where, rows in [(f"{column} > 3", 2), (f"{column} = {1 << 40}", 1), (f"{column} < {1 << 40}", 5)]:
            found = table.to_spark().where(where)
            assert len(found.collect()) == rows
            assert read_files(found) == rows


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_deletes_stay_with_their_files(lake: Lake, mode: str) -> None:
    table = events(lake, partition_by="day", properties={"write.delete.mode": mode})
    table.delete("id % 2 = 0")
    frame = table.to_spark()
    assert sorted(row.id for row in frame.where("id BETWEEN 25 AND 32").collect()) == [25, 27, 29, 31]
    assert read_files(frame.where("id BETWEEN 25 AND 32")) == 2
    assert read_files(frame.where("day = '2024-01-03'")) == 1


def test_a_filter_that_fails_says_why(lake: Lake) -> None:
    """A condition on the partition runs while Spark plans."""
    from pyspark.errors import ArithmeticException

    table = lake.create_table("a.t", "kind int, id int", partition_by="kind")
    for at in range(5):
        table.append(pa.table({"kind": pa.array([at], pa.int32()), "id": pa.array([at], pa.int32())}))
    with pytest.raises(ArithmeticException, match="DIVIDE_BY_ZERO"):
        table.to_spark().where("10 / kind > 4").collect()
    assert len(table.to_spark().where("kind > 0 AND 10 / kind > 4").collect()) == 2


# ---------------------------------------------------------------- joins


def test_the_rows_of_a_join_prune_partitions(lake: Lake, spark: Any) -> None:
    table = events(lake, partition_by="day")
    days = lake.create_table("a.days", "day date, name string")
    days.append(pa.table({"day": DAYS, "name": [f"{day:%A}" for day in DAYS]}))
    joined = lake.sql("SELECT e.id FROM a.events e JOIN a.days d ON e.day = d.day WHERE d.name = 'Tuesday'")
    assert sorted(row.id for row in joined.collect()) == list(range(10, 20))
    assert read_files(joined) == 1 + 1
    frames = table.to_spark().join(days.to_spark().where("name LIKE 'T%'"), "day")
    assert len(frames.collect()) == 20
    assert read_files(frames) == 1 + 2


def test_a_join_that_keeps_all_rows_prunes_nothing(lake: Lake) -> None:
    events(lake, partition_by="day")
    days = lake.create_table("a.days", "day date, name string")
    days.append(pa.table({"day": DAYS[:1], "name": ["first"]}))
    joined = lake.sql("SELECT e.id, d.name FROM a.events e LEFT JOIN a.days d ON e.day = d.day AND d.name = 'first'")
    assert len(joined.collect()) == 80


# ---------------------------------------------------------------- the law


def _literals(draw: st.DrawFn, f: Field, rows: list[Any]) -> Any:
    """A value of the column, or one beside it."""
    held = [row[f.id] for row in rows if row[f.id] is not None]
    value = draw(st.sampled_from(held)) if held else ("a" if isinstance(f.type, StringType) else 0)
    if isinstance(value, str):
        return draw(st.sampled_from([value, value[:1], f"{value}a"]))
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 30:
        return value + draw(st.sampled_from([0, 0, -1, 1]))
    if isinstance(f.type, TimestampType | DateType):  # the last ones are too large for Spark's own filters
        most = 1 << (30 if isinstance(f.type, DateType) else 60)
        return max(min(value, most), -most)
    return value


@st.composite
def conditions(draw: st.DrawFn, fields: list[Field], rows: list[Any], depth: int = 0) -> Any:
    """A condition of Spark's, and its text."""
    from pyspark.sql import functions as F  # noqa: N812

    shape = draw(st.sampled_from(["leaf"] * 3 + ["and", "or", "not"] * (depth < 2)))
    if shape == "not":
        inner, text = draw(conditions(fields, rows, depth + 1))
        return ~inner, f"NOT ({text})"
    if shape != "leaf":
        (left, first), (right, second) = (draw(conditions(fields, rows, depth + 1)) for _ in range(2))
        return (left & right) if shape == "and" else (left | right), f"({first}) {shape} ({second})"
    f = draw(st.sampled_from(fields))
    column = F.col(f"`{f.name}`")
    kinds = ["=", "<", "<=", ">", ">=", "<=>", "turned", "in", "null", "not null"]
    kind = draw(st.sampled_from([*kinds, *(["like"] if isinstance(f.type, StringType) else [])]))
    values = [_literals(draw, f, rows) for _ in range(draw(st.sampled_from([1, 2, 12])) if kind == "in" else 1)]
    one, *_ = literals = [stored_literal(f.type, value) for value in values]
    made = {
        "=": lambda: column == one,
        "<": lambda: column < one,
        "<=": lambda: column <= one,
        ">": lambda: column > one,
        ">=": lambda: column >= one,
        "<=>": lambda: column.eqNullSafe(one),
        "turned": lambda: one < column,
        "in": lambda: column.isin(*literals),
        "null": column.isNull,
        "not null": column.isNotNull,
        "like": lambda: column.startswith(values[0]),
    }[kind]()
    return made, f"{f.name} {kind} {values}"


def _asked(schema: Schema) -> list[Field]:
    """The columns that have spans, under names by which Spark finds them."""
    names = Counter(f.name.casefold() for f in schema)
    return [f for f in schema if has_span(f.type) and names[f.name.casefold()] == 1 and not {*".`"} & {*f.name}]


def _texts(frame: Any) -> list[str]:
    """The rows, with times of any year."""
    from pyspark.sql import functions as F  # noqa: N812

    texts = frame.select(*(F.col(f"`{name}`").cast("string") for name in frame.columns))
    return sorted(map(repr, texts.collect()))


@pytest.mark.slow
@settings(
    max_examples=12 if settings.default.max_examples <= 100 else settings.default.max_examples // 8,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(story=st.one_of(stories(), with_deletes(stories(versions=(2, 3)))), data=st.data())
def test_a_filter_on_a_frame_keeps_what_it_would_keep_of_the_rows(
    spark: Any, story: Story, data: st.DataObject
) -> None:
    """Spark applies the same filter to the rows themselves, where there are no files to leave out."""
    fields = _asked(story.schema)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(prune_manifest, "FEW_FILES", 0)
        frame = on_disk(story.maker, Path(folder)).scan(columns=[f.name for f in fields]).to_spark(spark)
        rows = spark.createDataFrame(frame.toArrow(), frame.schema)
        for _ in range(3):
            condition, text = data.draw(conditions(fields, story.live_rows()))
            note(text)
            found, expected = (_texts(one.where(condition)) for one in (frame, rows))
            assert found == expected
            kept = read_files(frame.where(condition))
            event(f"{bool(expected)} rows, {'some' if kept < len(story.files) else 'no'} files pruned")
