"""What Spark's workers wrote, as PyIceberg and DuckDB read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from duckdb_iceberg import duckdb_with_iceberg
from spark_writes import COLUMNS, frame, lake_at, rows_of

import esker

pytestmark = pytest.mark.interop


@pytest.fixture
def table(spark: Any, tmp_path: Path) -> esker.Table:
    lake = lake_at(tmp_path)
    table = lake.create_table("a.t", COLUMNS, partition_by=["bucket(3, id)", "month(ts)"], sort_by=["name"])
    table.append(frame(spark, 200))
    table.append(frame(spark, 50).selectExpr("id + 1000 as id", "name", "inner"))
    return table


def test_pyiceberg_reads_what_workers_wrote(table: esker.Table, tmp_path: Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    theirs = SqlCatalog("default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path)).load_table("a.t")
    found = sorted(theirs.scan().to_arrow().to_pylist(), key=repr)
    assert list(map(repr, found)) == list(map(repr, rows_of(table)))
    pruned = theirs.scan(row_filter="id >= 1000 and id < 1010").to_arrow()
    assert sorted(pruned["id"].to_pylist()) == list(range(1000, 1010))


def test_duckdb_reads_what_workers_wrote(table: esker.Table) -> None:
    session: Any = duckdb_with_iceberg()
    rows = session.execute(
        'select count(*), sum(id), sum(price), count(name), max(wall), count("inner".b) from iceberg_scan(?)',
        [table.metadata_location],
    ).fetchone()
    ours = table.scan().to_arrow()
    kept = [row for row in ours.to_pylist() if row["inner"] is not None]
    assert rows is not None
    assert rows[:2] == (ours.num_rows, sum(ours["id"].to_pylist()))
    assert rows[2] == sum(price for price in ours["price"].to_pylist() if price is not None)
    assert rows[3] == ours.num_rows - ours["name"].null_count
    assert rows[4] == max(wall for wall in ours["wall"].to_pylist() if wall is not None)
    assert rows[5] == len(kept)
