"""``esker diff --rows``: the rows that came and went, for people and for programs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from command_line import run, run_json

import esker


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """One row added, one taken away by rewriting its file, one changed."""
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    lake.create_namespace("ns")
    made = lake.create_table("ns.t", "id bigint not null, name string")
    made.append(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
    made.tag("before")
    made.append(pa.table({"id": [4], "name": ["d"]}))
    made.delete("id = 3")
    with made.transaction() as tx:
        tx.delete("id = 2")
        tx.append(pa.table({"id": [2], "name": ["new"]}))
    return tmp_path / "warehouse/ns/t"


def test_rows_take_the_place_of_files(table: Path) -> None:
    said = run("diff", table, "before", "--rows").stdout.splitlines()
    assert said[1].split() == ["files", "rows", "size"]
    at = next(number for number, line in enumerate(said) if line.startswith("_change_type"))
    assert said[at].split() == ["_change_type", "_commit_snapshot_id", "id", "name"]
    found = [(kind, row, name) for kind, _, row, name in (line.split() for line in said[at + 2 : -1])]
    assert found == [
        ("insert", "4", "d"),
        ("delete", "3", "c"),
        ("delete", "2", "b"),
        ("insert", "2", "new"),
    ]
    assert said[-1] == "4 rows"
    few = run("diff", table, "before", "--rows", "--limit", "2").stdout.splitlines()
    assert few[-1] == "2 rows shown of more; --limit N or --all shows them."


def test_keys_show_updates(table: Path) -> None:
    facts = run_json("diff", table, "before", "main", "--rows", "--keys", "id", "--where", "id = 2")
    assert [row["_change_type"] for row in facts["rows"]] == ["update_before", "update_after"]
    assert [row["name"] for row in facts["rows"]] == ["b", "new"]
    assert "files" not in facts
    assert facts["files_total"] > 0
    assert [column["name"] for column in facts["columns"]][-3:] == [
        "_change_type",
        "_change_ordinal",
        "_commit_snapshot_id",
    ]


def test_rows_are_told_forwards_only(table: Path) -> None:
    found = run("diff", table, "main", "before", "--rows")
    assert found.exit_code == 2
    assert "the first is not an ancestor of the second" in found.stderr
    assert run("diff", table, "main", "main", "--rows").stdout.splitlines()[-1] == "No rows."


def test_a_condition_without_rows_is_bad_usage(table: Path) -> None:
    for option in (("--where", "id = 1"), ("--keys", "id")):
        found = run("diff", table, "before", *option)
        assert found.exit_code == 2
        assert "--where and --keys are for rows: give --rows as well" in found.stderr
