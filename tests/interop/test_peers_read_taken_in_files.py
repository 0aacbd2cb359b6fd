"""Files of Hive's folders, taken in where they are: peers read the columns that only the folders name as Esker does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from duckdb_iceberg import duckdb_with_iceberg

import esker
from esker.table import Table

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]  # the peers' own


@pytest.fixture
def table(tmp_path: Path) -> Table:
    lake = esker.connect(
        f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), allowed_roots=[tmp_path / "given"]
    )
    lake.create_namespace("s")
    made = lake.create_table("s.t", "id bigint, day date, region string", partition_by=["day", "region"])
    for at, way in enumerate(["day=2026-01-01/region=eu", "day=2026-01-02/region=a%2Fb c"]):
        (tmp_path / "given" / way).mkdir(parents=True)
        pq.write_table(pa.table({"id": pa.array([at, at + 10])}), tmp_path / "given" / way / "part-0.parquet")
    made.add_files([str(tmp_path / "given")])
    made.append(pa.table({"id": [99], "day": pa.array([0], pa.date32()), "region": ["us"]}))
    return made


def in_order(rows: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(map(str, row.values())) for row in rows.select(["id", "day", "region"]).to_pylist())


EXPECTED = [
    ("0", "2026-01-01", "eu"),
    ("1", "2026-01-02", "a/b c"),
    ("10", "2026-01-01", "eu"),
    ("11", "2026-01-02", "a/b c"),
    ("99", "1970-01-01", "us"),
]


def test_esker_reads_what_folders_name(table: Table) -> None:
    assert in_order(table.scan().to_arrow()) == EXPECTED


def test_pyiceberg_reads_what_folders_name(table: Table, tmp_path: Path) -> None:
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    catalog = sql.SqlCatalog("default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    try:
        assert in_order(catalog.load_table("s.t").scan().to_arrow()) == EXPECTED
        assert in_order(catalog.load_table("s.t").scan(row_filter="region = 'eu'").to_arrow()) == [
            row for row in EXPECTED if row[2] == "eu"
        ]
    finally:
        catalog.engine.dispose()


def test_duckdb_reads_what_folders_name(table: Table) -> None:
    duck: Any = duckdb_with_iceberg()
    try:
        found = duck.execute(f"SELECT * FROM iceberg_scan('{table.metadata_location}')").to_arrow_table()
    finally:
        duck.close()
    assert in_order(found) == EXPECTED
