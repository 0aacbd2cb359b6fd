"""Tables of ours, read by DuckDB 1.5.5 from their metadata file: the same rows, and the same under a filter.

DuckDB reads format versions 1, 2 and 3; of the types it lacks ``timestamptz_ns`` and ``unknown``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from duckdb_iceberg import duckdb_with_iceberg
from our_tables import FILTERS, TABLES, TERMS, alike, make, some_rows

import esker
from esker.lake import Lake
from esker.table import Table

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]  # DuckDB's own


@pytest.fixture(scope="module")
def duck() -> Iterator[Any]:
    connection: Any = duckdb_with_iceberg()
    yield connection
    connection.close()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))


def scanned(duck: Any, table: Table, rest: str = "", **how: Any) -> pa.Table:
    options = "".join(f", {name} = {value}" for name, value in how.items())
    found: pa.Table = duck.execute(
        f"SELECT * FROM iceberg_scan('{table.metadata_location}'{options}) {rest}"
    ).to_arrow_table()
    return found


def assert_same(duck: Any, table: Table) -> None:
    assert alike(scanned(duck, table)) == alike(table.scan().to_arrow())


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("written", TABLES, ids=lambda written: written.__name__)
def test_duckdb_reads_what_was_written(
    duck: Any, lake: Lake, written: Callable[[Lake, int], Table], version: int
) -> None:
    assert_same(duck, written(lake, version))


@pytest.mark.parametrize("term", TERMS)
def test_a_table_partitioned_by_any_transform_reads_and_prunes_the_same(duck: Any, lake: Lake, term: str) -> None:
    table = make(lake, partition_by=[term])
    table.append(some_rows())
    assert_same(duck, table)
    for where in FILTERS:
        assert alike(scanned(duck, table, f"WHERE {where}")) == alike(table.scan(where).to_arrow()), where


def test_every_snapshot_reads_the_same(duck: Any, lake: Lake) -> None:
    table = make(lake, ("id", "s"), partition_by=["s"])
    for at in range(3):
        table.append(some_rows(4, first=10 * at, columns=("id", "s")))
        table.delete(f"id = {10 * at}")
    for snapshot in table.snapshots:
        seen = scanned(duck, table, snapshot_from_id=snapshot.snapshot_id)
        assert alike(seen) == alike(table.scan(snapshot_id=snapshot.snapshot_id).to_arrow())


def test_nanoseconds_of_version_3_read_the_same(duck: Any, lake: Lake) -> None:
    lake.create_namespace("sales")
    table = lake.create_table("sales.ns", "id int, x timestamp_ns", format_version=3)
    table.append(pa.table({"id": pa.array([1, 2], pa.int32()), "x": pa.array([-1, None], pa.timestamp("ns"))}))
    assert_same(duck, table)


def test_a_table_of_a_directory_catalog_reads_from_its_folder(duck: Any, tmp_path: Path) -> None:
    lake = esker.connect(f"file://{tmp_path}/lake")
    table = make(lake, ("id", "s"), partition_by=["bucket(2, id)"])
    table.append(some_rows(columns=("id", "s")))
    table.delete("id = 3")
    duck.execute("SET unsafe_enable_version_guessing = true")
    found = duck.execute(f"SELECT * FROM iceberg_scan('{table.location}')").to_arrow_table()
    assert alike(found) == alike(table.scan().to_arrow())
