"""TPC-H, all 22 queries: Esker's tables, plain Parquet under the same Spark, and DuckDB give the same answers."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from benchmarks.tpch_data import TABLES, generate, queries

import esker
from esker.lake import Lake

SCALE = 0.01
QUERIES = queries(SCALE)
ON_WRITTEN = ("q01", "q03", "q06", "q10", "q13", "q15", "q18", "q21")  # those that lean on what is laid out
WITHOUT_IDS = ("customer", "part", "partsupp")
LAYOUT = {
    "lineitem": "PARTITIONED BY (years(l_shipdate)) TBLPROPERTIES ('format-version' = '3')",
    "orders": "PARTITIONED BY (bucket(3, o_orderkey))",
    "customer": "PARTITIONED BY (c_mktsegment)",
}
Row = tuple[Any, ...]
Files = dict[str, list[str]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Three files a table, some of them without field ids."""
    folder = tmp_path_factory.mktemp("tpch")
    with_ids, without = (generate(folder / str(ids), SCALE, parts=3, field_ids=ids) for ids in (True, False))
    return with_ids | {table: without[table] for table in WITHOUT_IDS}


@pytest.fixture(scope="module")
def plain(spark_session: Any, files: Files) -> Any:
    """A session that knows the tables as views of Parquet files."""
    session = spark_session.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    for table, paths in files.items():
        session.read.parquet(*paths).createOrReplaceTempView(table)
    return session


@pytest.fixture(scope="module")
def duck(files: Files) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for table, paths in files.items():
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet({paths})")
    return connection


@pytest.fixture(scope="module")
def added(spark_session: Any, files: Files, plain: Any, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The very same files, taken in where they lie."""
    roots = sorted({str(Path(path).parent) for paths in files.values() for path in paths})
    lake = _lake(spark_session, tmp_path_factory.mktemp("added"), roots)
    for table, paths in files.items():
        lake.create_table(f"tpch.{table}", plain.table(table).schema).add_files(paths)
    return lake


@pytest.fixture(scope="module")
def written(spark_session: Any, files: Files, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The same rows, written through Spark in partitions of several kinds."""
    lake = _lake(spark_session, tmp_path_factory.mktemp("written"))
    for table, paths in files.items():
        spark_session.read.parquet(*paths).createOrReplaceTempView(f"{table}_plain")
        lake.sql(f"CREATE TABLE {table} {LAYOUT.get(table, '')} AS SELECT * FROM {table}_plain")
        spark_session.catalog.dropTempView(f"{table}_plain")
    return lake


@pytest.fixture(scope="module")
def answers() -> dict[str, list[Row]]:
    """What plain Spark answered, by query, asked once."""
    return {}


def _lake(session: Any, folder: Path, allowed_roots: Sequence[str] = ()) -> Lake:
    lake = esker.connect(f"sqlite:///{folder}/catalog.db", allowed_roots=allowed_roots, spark=session)
    lake.create_namespace("tpch")
    lake.sql("USE tpch")
    return lake


def rows_of(frame: Any) -> list[Row]:
    return [tuple(row) for row in frame.collect()]


def plain_answer(answers: dict[str, list[Row]], plain: Any, query: str) -> list[Row]:
    if query not in answers:
        answers[query] = rows_of(plain.sql(QUERIES[query]))
    return answers[query]


def alike(ours: Sequence[Row], theirs: Sequence[Row]) -> bool:
    """Whether they are the same rows; a number that DuckDB computed as a float may differ in what floats lose."""
    return len(ours) == len(theirs) and all(map(_same_rows, sorted(ours, key=_exact), sorted(theirs, key=_exact)))


def _exact(row: Row) -> list[str]:
    return [str(value) for value in row if isinstance(value, str | int | dt.date)]


def _same_rows(ours: Row, theirs: Row) -> bool:
    return len(ours) == len(theirs) and all(map(_same, ours, theirs))


def _same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, float):
        return ours is not None and math.isclose(float(ours), theirs, rel_tol=1e-6, abs_tol=1e-6)
    return bool(ours == theirs)


@pytest.mark.parametrize("query", QUERIES)
def test_files_taken_in_answer_as_plain_parquet_and_duckdb_do(
    spark: Any, plain: Any, duck: Any, added: Lake, answers: dict[str, list[Row]], query: str
) -> None:
    expected = plain_answer(answers, plain, query)
    assert Counter(rows_of(added.sql(QUERIES[query]))) == Counter(expected)
    assert alike(expected, duck.execute(QUERIES[query]).fetchall())


@pytest.mark.parametrize("query", ON_WRITTEN)
def test_rows_written_through_spark_answer_as_plain_parquet_does(
    spark: Any, plain: Any, written: Lake, answers: dict[str, list[Row]], query: str
) -> None:
    assert Counter(rows_of(written.sql(QUERIES[query]))) == Counter(plain_answer(answers, plain, query))


def test_both_lakes_hold_what_they_are_said_to(spark: Any, added: Lake, written: Lake) -> None:
    for table in TABLES:
        mapped = "schema.name-mapping.default" in added.table(f"tpch.{table}").properties
        assert mapped == (table in WITHOUT_IDS)
    assert [len(written.table(f"tpch.{table}").spec.fields) for table in LAYOUT] == [1, 1, 1]
    assert written.table("tpch.lineitem").format_version == 3


def test_sparks_own_reader_reads_all_of_both_lakes(spark: Any, added: Lake, written: Lake) -> None:
    for lake in (added, written):
        plans = [lake.table(f"tpch.{table}").scan().to_spark()._jdf.queryExecution().toString() for table in TABLES]
        assert not any("InArrow" in plan for plan in plans)


@pytest.fixture
def few_broadcasts(spark: Any, plain: Any) -> Iterator[None]:
    """Spark broadcasts tables up to 100 kB only, so that it has a choice between the small tables."""
    name = "spark.sql.autoBroadcastJoinThreshold"
    for session in (spark, plain):
        session.conf.set(name, "100000")
    yield
    for session in (spark, plain):
        session.conf.unset(name)


def joins_of(frame: Any) -> list[str]:
    """The joins of the plan, with keys and sides, from the last one to the first."""
    plan = str(frame._jdf.queryExecution().executedPlan())
    return [re.sub(r"#\d+L?", "", join) for join in re.findall(r"\w+Join[ \[][^\n]*", plan)]


def test_spark_joins_tables_in_the_order_and_the_way_of_plain_parquet(
    few_broadcasts: None, plain: Any, added: Lake
) -> None:
    chosen = {query: joins_of(added.sql(text)) for query, text in QUERIES.items()}
    assert chosen == {query: joins_of(plain.sql(text)) for query, text in QUERIES.items()}
    kinds = {join.split()[0] for joins in chosen.values() for join in joins}
    assert kinds >= {"BroadcastHashJoin", "SortMergeJoin"}


def test_one_row_more_or_a_cent_less_is_seen() -> None:
    row = ("a", 1, Decimal("2.50"), 0.1, dt.date(2020, 1, 1))
    cent = ("a", 1, Decimal("2.49"), 0.1, dt.date(2020, 1, 1))
    assert alike([row], [row])
    assert alike([row], [(*row[:3], 0.1 + 1e-9, row[4])])
    assert not alike([row], [cent])
    assert not alike([row], [row, row])
    assert not alike([row], [(*row[:3], 0.2, row[4])])
