"""The commands that keep tables: each shows its plan, acts only with --yes, and ends with before and after."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import run, run_json

import esker
from esker.table import Table


@pytest.fixture
def catalog(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/catalog.db"


@pytest.fixture
def orders(catalog: str) -> Table:
    """Four appends, all at once old enough."""
    lake = esker.connect(catalog)
    lake.create_namespace("s")
    table = lake.create_table("s.orders", "id bigint")
    for n in range(4):
        table.append({"id": [n]})
    return table


def test_verify_of_a_sound_table(catalog: str, orders: Table) -> None:
    found = run_json("--catalog", catalog, "verify", "s.orders", "--deep")
    assert (found["ok"], found["files"], found["rows_read"], found["findings"]) == (True, 4, 4, [])
    shown = run("--catalog", catalog, "verify", "s.orders")
    assert shown.exit_code == 0
    assert "4 snapshots, 4 manifests, 4 files" in shown.output
    assert "Nothing wrong." in shown.output


def test_expire_shows_its_plan_and_acts_only_with_yes(catalog: str, orders: Table) -> None:
    orders.overwrite({"id": [9]})
    asked = ("--catalog", catalog, "expire", "s.orders", "--older-than", "1ms")
    plan = run_json(*asked)
    assert list(plan) == [
        *("name", "done", "snapshots_before", "snapshots_after", "snapshot_ids", "refs", "files", "files_total"),
        *("total_bytes", "kept_elsewhere", "journal", "finished", "failed", "unreadable"),
    ]
    assert (plan["done"], plan["snapshots_before"], plan["snapshots_after"]) == (False, 5, 1)
    assert plan["files"] == {"data": 4, "manifest": 4, "manifest-list": 4}
    assert len(orders.refresh().snapshots) == 5
    shown = run(*asked)
    assert "Would expire 4 snapshots  of s.orders" in shown.output
    assert "5 before, 1 after" in shown.output
    assert "Nothing was changed; --yes does it." in shown.output
    done = run_json(*asked, "--yes")
    assert {**done, "done": False} == plan
    assert [snapshot.summary["operation"] for snapshot in orders.refresh().snapshots] == ["overwrite"]
    assert "Expired 0 snapshots" in run(*asked, "--yes").output
    assert orders.verify().ok


def test_expire_takes_ids_and_a_number(catalog: str, orders: Table) -> None:
    first = orders.snapshots[0].snapshot_id
    asked = ("--catalog", catalog, "expire", "s.orders")
    assert run_json(*asked, "--snapshot-id", str(first))["snapshot_ids"] == [first]
    assert len(run_json(*asked, "--older-than", "1ms", "--retain-last", "3")["snapshot_ids"]) == 1
    later = run_json(*asked, "--older-than", "1ms", "--delete", "later", "--yes")
    assert later["journal"] is not None
    assert run_json(*asked, "--yes")["finished"] == later["files_total"]
    assert run(*asked, "--retain-last", "0").exit_code == 2


def test_orphans_shows_its_plan_and_acts_only_with_yes(catalog: str, orders: Table) -> None:
    folder = Path(orders.location.removeprefix("file://"))
    lost = folder / "data" / "lost.parquet"
    lost.write_bytes(b"12345")
    os.utime(lost, (1, 1))
    asked = ("--catalog", catalog, "orphans", "s.orders")
    plan = run_json(*asked)
    assert list(plan) == [
        *("name", "done", "location", "older_than", "older_than_ms", "listed", "in_use", "young", "spared", "orphans"),
        *("total_bytes", "quarantine", "failed", "files"),
    ]
    assert (plan["done"], plan["orphans"], plan["total_bytes"]) == (False, 1, 5)
    assert [Path(file).name for file in plan["files"]] == ["lost.parquet"]
    assert lost.exists()
    shown = run(*asked, "--limit", "0")
    assert "Would have deleted 1 file  of s.orders" in shown.output
    assert "1 more file not shown" in shown.output
    assert run(*asked, "--older-than", "1h").exit_code == 2
    done = run(*asked, "--yes")
    assert done.exit_code == 0, done.output
    assert "Deleted 1 file" in done.output
    assert f"{plan['listed']} before, {plan['listed'] - 1} after" in done.output
    assert not lost.exists()
    assert orders.verify().ok


def test_stats_shows_its_plan_and_computes_only_with_yes(catalog: str) -> None:
    lake = esker.connect(catalog)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint, place string", partition_by=["place"])
    table.append({"id": [1, 2, 3], "place": ["eu", "eu", None]})
    asked = ("--catalog", catalog, "stats", "s.t")
    before = run_json(*asked)
    assert (before["columns_of"], before["columns"], before["partitions"], before["plan"]) == (None, [], [], None)
    plan = run_json(*asked, "--compute")
    assert (plan["done"], plan["plan"]["files"], plan["plan"]["columns"]) == (False, 2, None)
    assert not table.refresh().metadata.statistics
    shown = run(*asked, "--compute").output
    assert "No distinct values are recorded." in shown
    assert "would read 2 files" in shown
    assert "Nothing was changed; --yes does it." in shown
    done = run_json(*asked, "--compute", "--yes")
    assert (done["done"], done["plan"]) == (True, None)
    assert done["columns"] == [{"column": "id", "distinct_values": 3}, {"column": "place", "distinct_values": 2 - 1}]
    assert [(one["partition"], one["data_record_count"]) for one in done["partitions"]] == [
        ({"place": None}, 1),
        ({"place": "eu"}, 2),
    ]
    table.refresh().append({"id": [9], "place": ["us"]})
    later = run(*asked, "--limit", "1").output
    assert f"Of snapshot {done['snapshot_id']}, an ancestor." in later
    assert "place=null" in later
    assert "1 more partition not shown; --all shows them." in later


def test_stats_of_chosen_columns_and_of_a_table_without_partitions(catalog: str, orders: Table) -> None:
    asked = ("--catalog", catalog, "stats", "s.orders", "--compute", "--yes", "--column", "id")
    first = orders.snapshots[0].snapshot_id
    assert run_json(*asked, "--snapshot-id", str(first))["columns"] == [{"column": "id", "distinct_values": 1}]
    done = run_json(*asked)
    assert done["columns"] == [{"column": "id", "distinct_values": 4}]
    assert (done["partitions_of"], done["partitions_total"]) == (None, 0)
    assert "No partition statistics are recorded." in run("--catalog", catalog, "stats", "s.orders").output


def test_stats_takes_its_options_together(catalog: str, orders: Table) -> None:
    for option in (["--yes"], ["--column", "id"]):
        refused = run("--catalog", catalog, "stats", "s.orders", *option)
        assert refused.exit_code == 2
        assert "--compute" in refused.output


def test_health_and_maintain(catalog: str, orders: Table) -> None:
    for n in range(8):
        orders.append({"id": [n + 10]})
    found = run_json("--catalog", catalog, "health", "s.orders", status=1)
    assert found["score"] < 80
    assert {one["name"]: one["action"] for one in found["measures"]}["small files"] == "compact()"
    shown = run("--catalog", catalog, "health", "s.orders")
    assert "12 files become 1" in shown.output
    assert "100 × files after compact() / files" in shown.output
    asked = ("--catalog", catalog, "maintain", "s.orders")
    plan = run_json(*asked)
    assert (plan["done"], [step["verb"] for step in plan["steps"]]) == (False, ["compact"])
    assert "Nothing was changed; --yes does it." in run(*asked).output
    assert len(orders.refresh().snapshots) == 12
    assert "skipped" in run(*asked, "--max-bytes", "1", "--yes").output
    done = run(*asked, "--yes")
    assert f"health {found['score']} before, 100 after" in done.output
    assert orders.refresh().inspect.files().num_rows == 1
    assert run_json(*asked, "--yes")["steps"] == []
    assert run("--catalog", catalog, "health", "s.orders").exit_code == 0


def test_verify_repairs_only_with_yes(catalog: str, orders: Table) -> None:
    last = orders.snapshots[-1]
    wrong = replace(last, summary={**last.summary, "total-records": "77"})
    home = orders._at_home()
    changed = replace(orders.metadata, snapshots=(*orders.snapshots[:-1], wrong))
    home.catalog.swap(home.name, orders._state, changed)
    asked = ("--catalog", catalog, "verify", "s.orders")
    assert run(*asked, "--yes").exit_code == 2
    plan = run_json(*asked, "--repair", status=1)
    assert (plan["repairable"], plan["repaired"]) == (["wrong-total"], [])
    assert "Would repair: wrong-total" in run(*asked, "--repair").output
    assert "Repaired: wrong-total." in run(*asked, "--repair", "--yes").output
    assert orders.refresh().snapshots[-1].summary["total-records"] == "4"
