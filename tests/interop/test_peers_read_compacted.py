"""Tables that Esker has compacted, read by PyIceberg 0.12 and DuckDB 1.5 as we read them."""

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

MODES = {"delete": "merge-on-read", "update": "merge-on-read", "merge": "merge-on-read"}


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


def check(duck: Any, theirs: Any, table: Table, expected: list[tuple[str, ...]]) -> None:
    assert rows_in(table) == expected
    found: pa.Table = duck.execute(f"SELECT * FROM iceberg_scan('{table.metadata_location}')").to_arrow_table()
    assert in_order(found.to_pylist()) == expected
    assert in_order(theirs.load_table(NAME).scan().to_arrow().to_pylist()) == expected


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_peers_read_the_same_rows_after_every_rewriting(lake: Lake, theirs: Any, duck: Any, version: int) -> None:
    table = make(lake, version, MODES, ["region"])
    for at in range(6):
        table.append(
            arrow([{"id": i, "region": "eu" if i % 2 else None, "n": i} for i in range(at * 10, at * 10 + 10)])
        )
    table.delete("id in (3, 14, 25, 36, 47)")
    table.delete("id in (4, 15)")
    with table.transaction() as tx:
        tx.delete_by_key(
            pa.table({"id": pa.array([8], pa.int64()), "region": pa.array([None], pa.string())}), ["id", "region"]
        )
    expected = rows_in(table)
    assert len(expected) == 52
    table.rewrite_position_deletes(rewrite_all=True)
    table.compact(min_input_files=2)
    check(duck, theirs, table, expected)
    table.rewrite_manifests(rewrite_all=True)
    check(duck, theirs, table, expected)
    table.compact("z-order", sort_by=["id", "n"])
    check(duck, theirs, table, expected)
    if version == 2:  # PyIceberg 0.12 writes no v3
        theirs.load_table(NAME).append(arrow([{"id": 99, "region": "eu", "n": 1}]).cast(_schema(theirs)))
        assert len(rows_in(table.refresh())) == 53


def _schema(theirs: Any) -> pa.Schema:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return schema_to_pyarrow(theirs.load_table(NAME).schema())
