"""How many of the golden tables the peers read right: the figures on the pages, measured again by whoever runs this."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from duckdb_iceberg import duckdb_with_iceberg
from golden_answers import bag
from golden_tables import TABLES, GoldenTable, catalogue, plain_rows
from tests.golden.making.neutral import PLACE, neutral_file_system

import esker

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]  # the peers' own

Read = Callable[[str], list[dict[str, Any]]]
ROOT = Path(__file__).resolve().parents[2]
# Every table that a peer does not read as the engine that recorded it, and why.
PYICEBERG_MISSES = {
    "esker_equality_deletes": "equality deletes",
    "esker_variants": "variants: the table does not load",
    "java_avro": "Avro delete files",
    "java_equality_deletes": "equality deletes",
    "java_equality_deletes_in_partitions": "equality deletes",
    "java_evolved_schema": "a null list of structs with a new member reads as an empty list",
    "java_mixed_formats": "Avro data files",
    "java_nested": "null lists and maps read as empty",
    "java_variants": "variants: the table does not load",
    "java_variants_shredded": "variants: the table does not load",
}
DUCKDB_MISSES = {
    "java_avro": "Avro data files",
    "java_equality_deletes_in_partitions": "equality deletes of one partition take rows of another",
    "java_mixed_formats": "Avro data files",
    "java_orc": "ORC data files",
    "java_types_beyond_spark": "timestamps with a zone in nanoseconds",
}


def _pyiceberg(location: str) -> list[dict[str, Any]]:
    from pyiceberg.table import StaticTable

    properties = {"py-io-impl": "tests.golden.making.neutral.NeutralFileIO", "golden.folder": str(TABLES)}
    return plain_rows(StaticTable.from_metadata(location, properties).scan().to_arrow())


@pytest.fixture
def duckdb() -> Iterator[Read]:
    connection: Any = duckdb_with_iceberg()
    connection.register_filesystem(neutral_file_system(str(TABLES)))

    def read(location: str) -> list[dict[str, Any]]:
        found = connection.execute(f"SELECT * FROM iceberg_scan('{location}')")
        names = [column[0] for column in found.description]
        if "VARIANT" in {str(column[1]) for column in found.description}:  # which it does not hand over as Arrow
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
        return plain_rows(found.to_arrow_table())

    yield read
    connection.close()


def missed(read: Read) -> set[str]:
    """The tables whose rows are not those that were recorded."""
    return {golden.name for golden in catalogue() if not _is_right(read, golden)}


def _is_right(read: Read, golden: GoldenTable) -> bool:
    newest = Path(esker.open_table(golden.directory).metadata_location).name
    (recorded,) = (answer["rows"] for answer in golden.answers() if not answer["asked"])
    try:
        return bag(read(f"{PLACE}/{golden.name}/metadata/{newest}")) == recorded
    except Exception:  # whatever a peer raises, it did not read the table
        return False


def test_pyiceberg_reads_all_but_these() -> None:
    assert missed(_pyiceberg) == set(PYICEBERG_MISSES)


def test_duckdb_reads_all_but_these(duckdb: Read) -> None:
    assert missed(duckdb) == set(DUCKDB_MISSES)


def test_the_pages_give_these_figures() -> None:
    every = len(catalogue())
    pyiceberg, duck = every - len(PYICEBERG_MISSES), every - len(DUCKDB_MISSES)
    assert (
        f"| reads the golden tables right | – | {pyiceberg} of {every} | {every} of {every} |"
        in (ROOT / "README.md").read_text()
    )
    figures = f"Esker reads all {every} right, PyIceberg {pyiceberg}, DuckDB {duck}"
    assert figures in (ROOT / "docs" / "comparison.md").read_text()
