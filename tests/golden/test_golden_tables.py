"""The project's own golden tables: Esker reads from each what the engine that recorded it read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from golden_answers import bag
from golden_tables import ANSWERS, CATALOGUE, PAGE, TABLES, GoldenTable, catalogue, plain_rows
from tests.golden.making.page import page

import esker

PLACE = "s3://golden"
MOST_BYTES = 1_900_000
# What the tables together must cover: each is promised by the page.
COVERED = {
    *("v1", "v2", "v3", "transforms", "evolved-spec", "evolved-schema", "position-deletes", "deletion-vectors"),
    *("equality-deletes", "nested", "decimals", "timestamps", "nan", "negative-zero", "binary", "uuid", "orc", "avro"),
    *("branches-tags", "many-manifests", "defaults", "row-lineage", "variant"),
}
each_table = pytest.mark.parametrize("golden", catalogue(), ids=[golden.name for golden in catalogue()])


@each_table
def test_esker_reads_what_the_engine_that_wrote_it_recorded(golden: GoldenTable) -> None:
    table = esker.open_table(golden.directory)
    for answer in golden.answers():
        scan = table.scan(**answer["asked"])
        rows = scan.to_arrow()
        assert rows.column_names == answer["columns"], answer["asked"]
        assert bag(plain_rows(rows)) == answer["rows"], answer["asked"]
        assert scan.count() == len(answer["rows"]), answer["asked"]


@each_table
def test_every_snapshot_was_asked_about(golden: GoldenTable) -> None:
    """But where the engine has no way to ask: DuckDB's tables have one, and one table is beyond Spark's types."""
    table = esker.open_table(golden.directory)
    asked = {answer["asked"].get("snapshot_id") for answer in golden.answers()} - {None}
    expected = {snapshot.snapshot_id for snapshot in table.snapshots}
    if golden.writer.startswith("DuckDB") or "nanoseconds" in golden.exercises:
        assert asked <= expected
    else:
        assert asked == expected


@each_table
def test_a_table_is_what_the_catalogue_says(golden: GoldenTable) -> None:
    table, says = esker.open_table(golden.directory), set(golden.exercises)
    files = table.inspect.all_files().to_pylist()
    kinds = {_kind(file) for file in files}
    versions = {f"v{version}" for version in (1, 2, 3)} & says
    assert f"v{table.format_version}" == max(versions)
    assert {file["file_format"].lower() for file in files if file["content"] == 0} - {"parquet"} == {
        "orc",
        "avro",
    } & says
    assert kinds - {"data"} == {"position-deletes", "deletion-vectors", "equality-deletes"} & says
    assert ("branches-tags" in says) == (len(table.refs) > 1)
    assert ("evolved-spec" in says) == (len(table.metadata.specs) > 1)
    assert ("many-manifests" in says) == (table.inspect.manifests().num_rows >= 8)
    assert ("defaults" in says) == any(field.initial_default is not None for field in table.schema)
    assert ("name-mapping" in says) == ("schema.name-mapping.default" in table.properties)
    assert ("gzip-metadata" in says) == str(table.metadata_location).endswith(".gz.metadata.json")


def _kind(file: dict[str, Any]) -> str:
    if file["content"] == 1:
        return "deletion-vectors" if file["file_format"].upper() == "PUFFIN" else "position-deletes"
    return "equality-deletes" if file["content"] == 2 else "data"


@each_table
def test_a_table_names_no_machine(golden: GoldenTable) -> None:
    """Neither in its metadata, nor in manifests and manifest lists, nor in position deletes."""
    table = esker.open_table(golden.directory)
    assert table.location == f"{PLACE}/{golden.name}"
    named = table.inspect.all_files()["file_path"].to_pylist() + table.inspect.all_manifests()["path"].to_pylist()
    named += table.inspect.snapshots()["manifest_list"].to_pylist()
    named += [path for path in table.inspect.position_deletes()["file_path"].to_pylist() if path is not None]
    assert named
    assert [place for place in named if not place.startswith(f"{PLACE}/{golden.name}/")] == []
    for file in golden.directory.rglob("*.parquet"):
        assert b"file:/" not in str(pq.read_metadata(file).metadata).encode()


def test_the_catalogue_and_the_folders_agree() -> None:
    names = [golden.name for golden in catalogue()]
    assert names == sorted(set(names))
    assert names == sorted(path.name for path in TABLES.iterdir())
    assert names == sorted(path.stem for path in ANSWERS.iterdir())
    assert PAGE.read_text() == page(json.loads(CATALOGUE.read_text()))


def test_together_the_tables_cover_what_is_promised() -> None:
    assert {feature for golden in catalogue() for feature in golden.exercises} >= COVERED
    assert {golden.writer.split()[0] for golden in catalogue()} == {"Iceberg", "PyIceberg", "DuckDB", "Esker"}


def test_esker_is_never_the_engine_that_answers() -> None:
    for golden in catalogue():
        assert "Esker" not in golden.recorded_by
        assert golden.recorded_by == golden.writer or golden.writer.startswith("Esker")


def test_the_tables_stay_small() -> None:
    assert sum(path.stat().st_size for path in TABLES.rglob("*") if path.is_file()) < MOST_BYTES


def test_pages_count_the_tables_that_are_there() -> None:
    """A figure that a reader can check: the pages give the number of golden tables."""
    root = Path(__file__).resolve().parents[2]
    for name in ("README.md", "docs/comparison.md"):
        assert f"[{len(catalogue())} golden tables](" in (root / name).read_text(), name
