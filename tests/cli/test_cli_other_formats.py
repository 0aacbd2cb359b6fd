"""The commands that look at a table, on a Paimon table: a key with two versions, so files have more rows than it."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from unittest.mock import ANY

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


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """The address of a warehouse: ``db.keyed`` has a file for each of 3 commits in one bucket, ``db.log`` has none."""
    address = f"paimon:{tmp_path}/warehouse"
    made = esker.connect(address)
    key = {"identifier_fields": ["id"], "properties": {"bucket": "1"}}
    keyed = made.create_table("db.keyed", "id bigint not null", **key)
    for number in range(3):
        keyed.append({"id": [1, number]})
    made.create_table("db.log", "id bigint")
    return address


def stored(address: str) -> dict[Path, bytes]:
    files = (file for file in Path(address.removeprefix("paimon:")).rglob("*") if file.is_file())
    return {file: file.read_bytes() for file in files}


@pytest.mark.parametrize("command", ["compact", "expire", "orphans"])
def test_the_commands_that_keep_a_table_have_one_document_for_all_formats(
    command: str, lake: str, tmp_path: Path
) -> None:
    iceberg = f"sqlite:///{tmp_path}/iceberg/catalog.db"
    made = esker.connect(iceberg)
    made.create_namespace("db")
    made.create_table("db.keyed", "id bigint").append({"id": [1]})
    for more in ((), ("--yes",)):
        ours, theirs = (run_json("--catalog", one, command, "db.keyed", *more) for one in (lake, iceberg))
        assert list(ours) == list(theirs)
        assert {name for name in ours if isinstance(ours[name], dict)} == {
            name for name in theirs if isinstance(theirs[name], dict)
        }


def test_compact_shows_its_plan_and_acts_only_with_yes(lake: str) -> None:
    before = stored(lake)
    plan = run_json("--catalog", lake, "compact", "db.keyed")
    assert (plan["done"], plan["plan"]["files"], plan["plan"]["files_after"], plan["after"]) == (False, 3, 1, None)
    shown = run("--catalog", lake, "compact", "db.keyed")
    assert (shown.exit_code, "Nothing was changed; --yes does it." in shown.output) == (0, True), shown.output
    assert stored(lake) == before
    done = run_json("--catalog", lake, "compact", "db.keyed", "--yes")
    assert (done["done"], done["files_rewritten"], done["files_added"], done["snapshot_ids"]) == (True, 3, 1, [4])
    assert (done["rows_copied"], done["deleted_rows_left_out"]) == (3, 2)  # 0, 1, 2; two versions of 1 are replaced
    assert (done["before"]["data_files"], done["after"]["data_files"], done["after"]["records"]) == (3, 1, 3)
    assert done["plan"] == plan["plan"]
    assert run_json("--catalog", lake, "compact", "db.log", "--yes")["snapshot_ids"] == []
    assert "Compacted db.log" in run("--catalog", lake, "compact", "db.log", "--yes").stdout


def test_expire_shows_its_plan_and_acts_only_with_yes(lake: str) -> None:
    esker.connect(lake).table("db.keyed").compact()
    before = stored(lake)
    assert run_json("--catalog", lake, "expire", "db.keyed")["snapshot_ids"] == []  # the table keeps ten, for an hour
    plan = run_json("--catalog", lake, "expire", "db.keyed", "--retain-last", "1")
    assert (plan["snapshot_ids"], plan["snapshots_before"], plan["snapshots_after"]) == ([1, 2, 3], 4, 1)
    assert plan["files"] == {"data": 3, "manifest-list": 6}  # the newest snapshot needs the manifests
    assert stored(lake) == before
    done = run_json("--catalog", lake, "expire", "db.keyed", "--retain-last", "1", "--yes")
    assert done == {**plan, "done": True}
    gone = [data for file, data in before.items() if file not in stored(lake) and file.parent.name != "snapshot"]
    assert (len(gone), sum(map(len, gone))) == (done["files_total"], done["total_bytes"])
    assert "Would expire 0 snapshots" in run("--catalog", lake, "expire", "db.keyed").stdout


def test_orphans_shows_its_plan_and_acts_only_with_yes(lake: str) -> None:
    folder = Path(lake.removeprefix("paimon:")) / "db.db/keyed"
    (folder / "bucket-0/data-left-0.parquet").write_bytes(b"abc")
    (folder / "bucket-0/notes.txt").write_bytes(b"of a person")
    before = stored(lake)
    young = run_json("--catalog", lake, "orphans", "db.keyed")
    assert (young["orphans"], young["young"], young["spared"]) == (0, 1, 1)
    old = time.time() - 5 * 86_400
    for file in before:
        os.utime(file, (old, old))
    plan = run_json("--catalog", lake, "orphans", "db.keyed")
    assert (plan["files"], plan["total_bytes"]) == ([str(folder / "bucket-0/data-left-0.parquet")], 3)
    files = sum(folder in file.parents for file in before)
    assert (plan["listed"], plan["in_use"]) == (files, files - 2)
    assert stored(lake) == before
    done = run_json("--catalog", lake, "orphans", "db.keyed", "--yes")
    assert done == {**plan, "done": True, "older_than": ANY, "older_than_ms": ANY}
    assert set(before) - set(stored(lake)) == {folder / "bucket-0/data-left-0.parquet"}


def test_a_path_is_enough_to_change_a_table_that_commits_by_itself(lake: str) -> None:
    path = Path(lake.removeprefix("paimon:")) / "db.db/keyed"
    assert run_json("compact", path, "--yes")["files_added"] == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("maintain", "T"), ("rewrite-manifests", "T"), ("health", "T"), ("verify", "T"), ("tag", "T", "x"),
        ("branch", "T", "x"), ("rollback", "T", "--snapshot-id", "1"), ("stats", "T", "--compute"),
        ("compact", "T", "--strategy", "sort", "--sort-by", "id"), ("compact", "T", "--where", "id = 1"),
        ("compact", "T", "--engine", "spark"), ("expire", "T", "--snapshot-id", "1"),
        ("expire", "T", "--delete", "later"), ("expire", "T", "--clean-metadata"),
        ("orphans", "T", "--quarantine", "q"), ("orphans", "T", "--engine", "spark"),
        ("orphans", "T", "--location", "x"),
        ("drop", "T", "--yes"), ("rename", "T", "db.new"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_a_paimon_table_does_not_have_is_refused_by_name(lake: str, arguments: tuple[str, ...]) -> None:
    before = stored(lake)
    done = run("--catalog", lake, *("db.keyed" if word == "T" else word for word in arguments))
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert re.search("cannot .*(another format than Iceberg|of this format do not|in a Paimon warehouse)", done.stderr)
    assert stored(lake) == before


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
