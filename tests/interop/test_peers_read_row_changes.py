"""Tables of changed rows, read by PyIceberg 0.12 and DuckDB 1.5 as we read them.

PyIceberg reads position deletes and deletion vectors, and refuses equality deletes; DuckDB reads all three.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from duckdb_iceberg import duckdb_with_iceberg
from row_models import NAME, arrow, in_order, make, rows_in

import esker
from esker.lake import Lake
from esker.table import Table

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]  # the peers' own

MODES = ("copy-on-write", "merge-on-read")


@pytest.fixture(scope="module")
def duck() -> Iterator[Any]:
    connection: Any = duckdb_with_iceberg()
    yield connection
    connection.close()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[Any]:
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    catalog = sql.SqlCatalog(
        "default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    yield catalog
    catalog.engine.dispose()


def by_duckdb(duck: Any, table: Table) -> list[tuple[str, ...]]:
    found: pa.Table = duck.execute(f"SELECT * FROM iceberg_scan('{table.metadata_location}')").to_arrow_table()
    return in_order(found.to_pylist())


def by_pyiceberg(theirs: Any) -> list[tuple[str, ...]]:
    return in_order(theirs.load_table(NAME).scan().to_arrow().to_pylist())


def change(table: Table) -> None:
    """Every verb in turn, each over files that the ones before have left deletes on."""
    table.append(arrow([{"id": i, "region": "eu" if i % 2 else None, "n": i} for i in range(100)]))
    table.append(arrow([{"id": i, "region": "us", "n": i} for i in range(100, 200)]))
    table.delete("id IN (3, 50, 51, 52, 150)")
    table.update({"n": "n * 10", "region": "'us'"}, "id BETWEEN 40 AND 60 OR id = 199")
    table.upsert(arrow([{"id": i, "region": "eu", "n": -i} for i in (1, 45, 120, 777)]), on=["id"])
    table.delete("n < 0 AND id > 100")
    table.delete("id = 4")


@pytest.mark.parametrize("granularity", ["file", "partition"])
@pytest.mark.parametrize("partition_by", [(), ("region",), ("bucket(4, id)",)], ids=["plain", "region", "bucket"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", [2, 3])
def test_peers_read_the_rows_that_changes_leave(
    lake: Lake, duck: Any, theirs: Any, version: int, mode: str, partition_by: tuple[str, ...], granularity: str
) -> None:
    modes = dict.fromkeys(("delete", "update", "merge"), mode)
    table = make(lake, version, modes, partition_by, **{"write.delete.granularity": granularity})
    change(table)
    ours = rows_in(table)
    assert len(ours) == 193
    assert by_pyiceberg(theirs) == ours
    assert by_duckdb(duck, table) == ours


def test_peers_read_vectors_that_took_in_position_deletes(lake: Lake, duck: Any, theirs: Any) -> None:
    table = make(lake, 2, {"delete": "merge-on-read"}, ())
    table.append(arrow([{"id": i, "region": "eu", "n": i} for i in range(1000)]))
    table.delete("id IN (1, 2, 3)")
    with table.alter() as alteration:
        alteration.upgrade_format(3)
    table.delete("id IN (3, 4, 900)")
    assert [file["file_format"] for file in table.inspect.delete_files().to_pylist()] == ["PUFFIN"]
    assert len(rows_in(table)) == 995
    assert by_pyiceberg(theirs) == rows_in(table) == by_duckdb(duck, table)


@pytest.mark.parametrize("partition_by", [(), ("bucket(4, id)",)], ids=["plain", "bucket"])
@pytest.mark.parametrize("version", [2, 3])
def test_duckdb_reads_deletes_by_key(lake: Lake, duck: Any, version: int, partition_by: tuple[str, ...]) -> None:
    table = make(lake, version, {"delete": "merge-on-read"}, partition_by)
    table.append(arrow([{"id": i, "region": "eu", "n": i} for i in range(20)]))
    rows = arrow([{"id": i, "region": "us", "n": 0} for i in (2, 19, 40)])  # a null key stops DuckDB 1.5
    with table.transaction() as tx:
        tx.delete_by_key(rows, on=["id"])
        tx.append(rows)
    assert len(rows_in(table)) == 21
    assert by_duckdb(duck, table) == rows_in(table)
