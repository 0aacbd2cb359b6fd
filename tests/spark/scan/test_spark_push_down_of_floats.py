"""Filters on float columns: Spark, Arrow and plain Python select the same rows, whoever wrote the files.

Each group of rows is a row group of its own, so that Spark's reader can drop it by statistics or dictionary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg_lake import directory_of, pyiceberg_catalog

import esker
from esker.lake import Lake
from esker.table import Table

NAN, INF = math.nan, math.inf
GROUPS: tuple[tuple[float | None, ...], ...] = (
    (1.0, NAN),
    (-0.0, -5.0, -0.0),
    (0.0, 7.0),
    (NAN, NAN),
    (INF, 1.5, None),
    (-INF, -0.0, NAN, None),
    (3.25, 4.5),
    (None, None),
)
INNER = pa.struct([("d", pa.float64()), ("f", pa.float32())])
ARROW = pa.schema([("id", pa.int64()), ("grp", pa.int32()), ("d", pa.float64()), ("f", pa.float32()), ("s", INNER)])
DDL = "id bigint, grp int, d double, f float, s struct<d: double, f: float>"


def rows() -> pa.Table:
    flat = [(group, value) for group, values in enumerate(GROUPS) for value in values]
    found = [
        {"id": at, "grp": group, "d": value, "f": value, "s": None if at % 7 == 6 else {"d": value, "f": value}}
        for at, (group, value) in enumerate(flat)
    ]
    return pa.Table.from_pylist(found, schema=ARROW)


# ---------------------------------------------------------------- predicates, and what they mean


def rank(value: float) -> tuple[bool, float]:
    """Spark's order: NaN above all and equal to itself, the zeros one."""
    return (True, 0.0) if math.isnan(value) else (False, value + 0.0)


LITERALS = {
    "0.0D": 0.0,
    "-0.0D": -0.0,
    "5": 5.0,
    "3.25D": 3.25,
    "1e300D": 1e300,
    "CAST('NaN' AS DOUBLE)": NAN,
    "CAST('Infinity' AS DOUBLE)": INF,
}
COMPARED = {
    "=": (0.0, -0.0, NAN, INF),
    "<=>": (0.0, NAN),
    "<>": (0.0, 3.25, NAN),
    "<": (0.0, 5.0, NAN),
    "<=": (-0.0, 3.25, NAN),
    ">": (-0.0, 5.0, 1e300),
    ">=": (0.0, 3.25, NAN, INF),
}
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<=>": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
Meaning = Callable[[float | None], bool]


def compared(operator: str, literal: float) -> Meaning:
    holds = OPERATORS[operator]
    return lambda value: value is not None and holds(rank(value), rank(literal))


PREDICATES: dict[str, Meaning] = {
    f"{{0}} {operator} {text}": compared(operator, literal)
    for operator, literals in COMPARED.items()
    for text, literal in LITERALS.items()
    if any(repr(one) == repr(literal) for one in literals)
} | {
    "{0} IN (0.0D, 7.0D)": lambda v: v in (0.0, 7.0),
    "{0} IN (-0.0D, CAST('NaN' AS DOUBLE))": lambda v: v is not None and (v == 0 or math.isnan(v)),
    "{0} NOT IN (1.0D, 3.25D)": lambda v: v is not None and v not in (1.0, 3.25),
    "NOT ({0} <= 1.0D)": lambda v: v is not None and rank(v) > rank(1.0),
    "NOT ({0} > 1.0D)": lambda v: v is not None and rank(v) <= rank(1.0),
    "isnan({0})": lambda v: v is not None and math.isnan(v),
    "NOT isnan({0})": lambda v: v is None or not math.isnan(v),
    "{0} IS NULL OR {0} > 5": lambda v: v is None or rank(v) > rank(5.0),
    "{0} IS NOT NULL AND {0} <> 1": lambda v: v is not None and v != 1.0,
    "{0} BETWEEN -0.0D AND 3.25D": lambda v: v is not None and 0.0 <= v <= 3.25,
}
SPARK_ONLY: dict[str, Meaning] = {
    "CAST({0} AS double) > 5": lambda v: v is not None and rank(v) > rank(5.0),
    "CAST({0} AS float) >= CAST(0 AS float)": lambda v: v is not None and rank(v) >= rank(0.0),
}


def value_of(row: dict[str, Any], column: str) -> float | None:
    if "." in column:
        return None if row["s"] is None else row["s"][column[2:]]
    found: float | None = row[column]
    return found


def expected(column: str, meaning: Meaning) -> list[int]:
    return [row["id"] for row in rows().to_pylist() if meaning(value_of(row, column))]


# ---------------------------------------------------------------- who writes


def by_esker(lake: Lake, folder: Path, spark: Any) -> Table:
    table = lake.create_table("a.esker", DDL, partition_by=["grp"], format_version=1)
    table.append(rows())
    return table


def by_sparks_workers(lake: Lake, folder: Path, spark: Any) -> Table:
    table = lake.create_table("a.workers", DDL, partition_by=["grp"], format_version=3)
    table.append(spark.createDataFrame(rows()))
    return table


def by_pyiceberg(lake: Lake, folder: Path, spark: Any) -> Table:
    theirs = pyiceberg_catalog(folder / "pyiceberg").create_table("ns.t", schema=ARROW)
    for group in range(len(GROUPS)):
        theirs.append(rows().filter(pa.compute.equal(rows()["grp"], group)))
    return esker.open_table(directory_of(theirs))


def by_pyarrow(lake: Lake, folder: Path, spark: Any) -> Table:
    padded, size = [], max(map(len, GROUPS))
    for group in range(len(GROUPS)):  # row groups have one size, so each is filled up with its last row
        part = rows().filter(pa.compute.equal(rows()["grp"], group))
        filler = part.slice(len(part) - 1).set_column(0, "id", pa.array([-1], pa.int64()))
        padded.append(pa.concat_tables([part, *[filler] * (size - len(part))]))
    path = folder / "plain.parquet"
    pq.write_table(pa.concat_tables(padded), path, row_group_size=size)
    assert pq.ParquetFile(path).num_row_groups == len(GROUPS)
    table = lake.create_table("a.pyarrow", DDL)
    table.add_files([str(path)])
    return table


def by_plain_spark(lake: Lake, folder: Path, spark: Any) -> Table:
    spark.createDataFrame(rows()).repartitionByRange(len(GROUPS), "grp").write.parquet(str(folder / "spark"))
    table = lake.create_table("a.spark", DDL)
    table.add_files([str(path) for path in (folder / "spark").glob("*.parquet")])
    return table


WRITERS = [by_esker, by_sparks_workers, by_pyiceberg, by_pyarrow, by_plain_spark]


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    lake.create_namespace("a")
    return lake


@pytest.fixture
def small_plans(spark: Any) -> Iterator[None]:
    """Hundreds of tiny scans in one query: compiling each would take longer than all else."""
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield
    for key, old in before.items():
        if old is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, old)


def joined(frames: list[Any]) -> Any:
    """Their union, as a tree that is as low as can be: Spark looks at all of a plan at every step of it."""
    half = len(frames) // 2
    return frames[0] if not half else joined(frames[:half]).union(joined(frames[half:]))


def selected(frames: dict[str, Any]) -> dict[str, list[int]]:
    """The ids in each frame, by one job."""
    from pyspark.sql import functions as F  # noqa: N812

    names = list(frames)
    parts = [frames[name].select(F.lit(at).alias("at"), "id") for at, name in enumerate(names)]
    found: dict[str, list[int]] = {name: [] for name in names}
    for row in joined(parts).collect():
        if row["id"] >= 0:
            found[names[row["at"]]].append(row["id"])
    return {name: sorted(ids) for name, ids in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
@pytest.mark.usefixtures("small_plans")
def test_every_predicate_selects_the_same_rows(write: Any, lake: Lake, spark: Any, tmp_path: Path) -> None:
    given = tmp_path / "warehouse" / "given"
    given.mkdir(parents=True)
    table = write(lake, given, spark)
    whole = table.scan().to_spark(spark)
    wanted, frames = {}, {}
    # Writers share the predicates out among them, so that each is asked in every way of some file.
    shift = WRITERS.index(write)
    for at, (text, meaning) in enumerate(PREDICATES.items()):
        for column in ("d", "f", "s.d", "s.f"):
            ids, where = expected(column, meaning), text.format(column)
            found = table.scan(where).to_arrow()["id"].to_pylist()
            assert sorted(id_ for id_ in found if id_ >= 0) == ids, where
        column = ("d", "f", "d", "s.d", "s.f")[(at + shift + at // 5) % 5]
        where = text.format(column)
        wanted[where], frames[where] = expected(column, meaning), whole.filter(where)
        if (at + shift) % 5 == 0:
            wanted[f"scan {where}"], frames[f"scan {where}"] = wanted[where], table.scan(where).to_spark(spark)
        if (at + shift) % 5 == 1 and write is not by_pyiceberg:
            made = lake.sql(f"SELECT * FROM {table.name} WHERE {where}")
            wanted[f"sql {where}"], frames[f"sql {where}"] = wanted[where], made
    for text, meaning in SPARK_ONLY.items():
        wanted[text], frames[text] = expected("f", meaning), whole.filter(text.format("f"))
    found_all = selected(frames)
    assert {name: ids for name, ids in found_all.items() if ids != wanted[name]} == {}
