"""The commands that look at a table, on a Paimon table: a key with two versions, so files have more rows than it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import run, run_json
from paimon_tables import PaimonTable, schema, versions

import esker


@pytest.fixture
def table(tmp_path: Path) -> Path:
    made = PaimonTable(tmp_path / "db.db/t", schema({"k": "BIGINT NOT NULL", "v": "STRING"}, keys=["k"], bucket="1"))
    made.append(versions([1, 2], 0, v=["a", "b"]))
    made.append(versions([2, 3], 5, v=["c", "d"]))
    return made.path


def test_info_counts_files_and_does_not_count_versions_as_rows(table: Path) -> None:
    found = run_json("info", table)
    assert (found["data_files"], found["rows"], found["rows_at_most"]) == (2, None, 4)
    assert "Iceberg" not in run("info", table).stdout


def test_files_and_manifests_are_listed(table: Path) -> None:
    files = run_json("files", table)
    assert [(file["rows"], file["content"], file["format"]) for file in files["files"]] == [(2, "data", "parquet")] * 2
    manifests = run_json("manifests", table)
    assert [one["added_files"] for one in manifests["manifests"]] == [1, 1]


def test_what_is_for_iceberg_only_is_refused_in_a_line(table: Path) -> None:
    for command in ("health", "verify"):
        done = run(command, table)
        assert done.exit_code == 2, done.output
        assert "Iceberg" in done.stderr


def test_the_tree_shows_each_live_file_below_the_manifest_that_added_it(table: Path) -> None:
    esker.open_table(table).compact()  # the third manifest deletes the files of the first two
    found = run_json("tree", table, "--snapshots", 9)
    third, second, first = found["snapshots"]
    assert [snapshot["snapshot_id"] for snapshot in (third, second, first)] == [3, 2, 1]
    assert [(one["files_total"], one["rows"]) for one in first["manifests"]] == [(1, 2)]
    assert [(one["files_total"], one["rows"]) for one in second["manifests"]] == [(1, 2), (1, 2)]
    assert [(one["files_total"], one["files_removed"]) for one in third["manifests"]] == [(0, 0), (0, 0), (1, 2)]
    assert third["manifests"][2]["files"][0]["path"].startswith(str(table / "bucket-0/data-"))
    shown = run("tree", table).stdout
    assert "Iceberg" not in shown
    assert "snapshot-3" in shown


def test_the_tree_names_the_manifest_that_is_broken(table: Path) -> None:
    broken = run_json("tree", table)["snapshots"][0]["manifests"][0]["path"]
    Path(broken).write_bytes(b"Obj")
    done = run("tree", table, "--json")
    assert done.exit_code == 1
    newest = json.loads(done.stdout)["snapshots"][0]
    assert [one["problem"] is not None for one in newest["manifests"]] == [True, False]
    assert [one["files_total"] for one in newest["manifests"]] == [None, None]  # which files live is not known
