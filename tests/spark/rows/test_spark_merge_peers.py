"""What merges left, as PyIceberg and DuckDB read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from duckdb_iceberg import duckdb_with_iceberg
from spark_writes import lake_at, rows_of

import esker

pytestmark = [pytest.mark.interop, pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])]


@pytest.fixture
def table(spark: Any, tmp_path: Path, mode: str) -> esker.Table:
    properties = {f"write.{verb}.mode": mode for verb in ("delete", "merge", "update")}
    table = lake_at(tmp_path).create_table("a.t", "id bigint, name string", properties=properties)
    table.append(spark.range(0, 300, 1, 2).selectExpr("id", "string(id) AS name"))
    source = spark.range(250, 350).selectExpr("id", "'new' AS name")
    merge = table.merge(source, "t.id = s.id").when_matched_delete("s.id % 2 = 0").when_matched_update("*")
    merge.when_not_matched_insert("*").commit()
    table.delete("id % 5 = 0 AND id < 100")
    return table


def test_pyiceberg_reads_what_a_merge_left(table: esker.Table, tmp_path: Path, mode: str) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    theirs = SqlCatalog("default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path)).load_table("a.t")
    assert sorted(theirs.scan().to_arrow().to_pylist(), key=repr) == rows_of(table)
    assert table.scan().count() == 305
    assert (table.inspect.delete_files().num_rows > 0) == (mode == "merge-on-read")


def test_duckdb_reads_what_a_merge_left(table: esker.Table, mode: str) -> None:
    session: Any = duckdb_with_iceberg()
    found = session.execute("select id, name from iceberg_scan(?)", [table.metadata_location]).fetchall()
    assert sorted(found) == sorted((row["id"], row["name"]) for row in rows_of(table))
