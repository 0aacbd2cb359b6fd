"""Paimon tables that Esker converted, read by PyIceberg and DuckDB: they have the rows of the Paimon table."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from corpus import corpus_root, of_each
from duckdb_iceberg import duckdb_with_iceberg
from paimon_corpus import as_text

import esker

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]  # the peers' own

APPENDED = ["java.db/jappend", "py.db/append_part", "py.db/append_bucketed", "spark.db/s_append", "spark.db/s_ts3"]
PARTITIONED = [f"py20_partitions.db/{name}" for name in ("pbin", "pbool", "pdate", "pdbl", "pdec", "pstr", "pts")]
COMPACTED = ["java.db/jdv", "java.db/jfirst"]
REFUSED = {
    "ghost.db/g": "has other rows",
    "java.db/jlookup": "rows that delete",
    "java.db/jpk": "not fully compacted",
    "py.db/pk_dedup": "not fully compacted",
    "py.db/evolve_dv": "data-evolution.enabled",
}


@pytest.fixture(scope="module")
def duck() -> Iterator[Any]:
    connection: Any = duckdb_with_iceberg()
    yield connection
    connection.close()


@pytest.fixture
def lake(tmp_path: Path) -> esker.Lake:
    made = esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db", allowed_roots=[tmp_path / "paimon"])
    made.create_namespace("db")
    return made


def copied(name: str, tmp_path: Path) -> Path:
    place = tmp_path / "paimon" / name
    shutil.copytree(corpus_root() / "paimon" / name, place)
    return place


@of_each("name", [*APPENDED, *PARTITIONED, *COMPACTED], ids=str)
def test_peers_read_the_rows_of_the_paimon_table(name: str, tmp_path: Path, lake: esker.Lake, duck: Any) -> None:
    static = pytest.importorskip("pyiceberg.table").StaticTable
    place = copied(name, tmp_path)
    made = lake.convert_table("db.made", str(place))
    whole = esker.open_table(place).to_arrow()
    expected = as_text(whole.to_pylist())
    assert as_text(made.to_arrow().to_pylist()) == expected
    assert as_text(static.from_metadata(made.metadata_location).scan().to_arrow().to_pylist()) == expected
    order = "order by all"
    found = duck.execute(f"select id from iceberg_scan('{made.metadata_location}') {order}").fetchall()
    assert [row[0] for row in found] == sorted(whole["id"].to_pylist())


@of_each("name", sorted(REFUSED), ids=str)
def test_a_table_whose_files_are_not_its_rows_is_refused(name: str, tmp_path: Path, lake: esker.Lake) -> None:
    with pytest.raises(esker.Unsupported, match=REFUSED[name]):
        lake.convert_table("db.made", str(copied(name, tmp_path)))
    assert lake.tables("db") == []
