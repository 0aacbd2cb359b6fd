"""The commands that rewrite files: each shows its plan, acts only with --yes, and ends with before and after."""

from __future__ import annotations

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
    """Six files of one row."""
    lake = esker.connect(catalog)
    lake.create_namespace("s")
    table = lake.create_table("s.orders", "id bigint, region string")
    for n in range(6):
        table.append({"id": [n], "region": ["eu"]})
    return table


def test_compact_shows_its_plan_and_acts_only_with_yes(catalog: str, orders: Table) -> None:
    asked = ("--catalog", catalog, "compact", "s.orders")
    plan = run_json(*asked)
    assert (plan["done"], plan["plan"]["files"], plan["plan"]["files_after"]) == (False, 6, 1)
    assert (plan["before"]["data_files"], plan["after"]) == (6, None)
    assert len(orders.refresh().snapshots) == 6
    shown = run(*asked).output
    assert "Would compact s.orders" in shown
    assert "6 files (" in shown
    assert "Nothing was changed; --yes does it." in shown
    done = run_json(*asked, "--yes")
    assert (done["done"], done["files_rewritten"], done["files_added"], done["rows_copied"]) == (True, 6, 1, 6)
    assert (done["before"]["data_files"], done["after"]["data_files"]) == (6, 1)
    assert done["snapshot_ids"] == [orders.refresh().snapshots[-1].snapshot_id]
    again = run(*asked, "--yes")
    assert (again.exit_code, "nothing" in again.output) == (0, True)
    assert orders.verify(deep=True).ok


def test_compact_takes_the_options_of_the_method(catalog: str, orders: Table) -> None:
    asked = ("--catalog", catalog, "compact", "s.orders")
    assert run_json(*asked, "--where", "id > 100")["plan"]["files"] == 0
    assert run_json(*asked, "--min-input-files", "7")["plan"]["files"] == 0
    assert run_json(*asked, "--target-size", "1kb", "--rewrite-all")["plan"]["files"] == 6
    sorted_ = run_json(*asked, "--strategy", "z-order", "--sort-by", "id", "--sort-by", "region", "--yes")
    assert (sorted_["strategy"], sorted_["files_rewritten"]) == ("z-order", 6)
    wrong = run(*asked, "--target-size", "many")
    assert (wrong.exit_code, "'many' is not a size, such as 128mb" in wrong.output) == (2, True)
    assert run(*asked, "--strategy", "sort").exit_code == 2


@pytest.mark.parametrize(("text", "size"), [("512", 512), ("2kb", 2048), ("1 MiB", 1 << 20), ("3GB", 3 << 30)])
def test_sizes_are_read_in_their_units(text: str, size: int) -> None:
    from esker.cli.commands.compact import Bytes

    assert Bytes().convert(text, None, None) == size


def test_rewrite_manifests_shows_its_plan_and_acts_only_with_yes(catalog: str, orders: Table) -> None:
    asked = ("--catalog", catalog, "rewrite-manifests", "s.orders")
    plan = run_json(*asked)
    assert (plan["done"], plan["plan"]["manifests"], plan["plan"]["manifests_after"]) == (False, 6, 1)
    shown = run(*asked).output
    assert "Would rewrite manifests of s.orders" in shown
    assert "Nothing was changed; --yes does it." in shown
    assert len(orders.refresh().snapshots) == 6
    done = run_json(*asked, "--yes")
    assert (done["done"], done["manifests_before"], done["manifests_after"], done["rewritten"]) == (True, 6, 1, 6)
    assert "Rewrote manifests of s.orders" in run(*asked, "--yes", "--rewrite-all").output
    assert "nothing" in run(*asked).output
    assert orders.refresh().verify().ok
