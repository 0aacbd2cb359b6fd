"""The commands that keep tables: each shows its plan, acts only with --yes, and ends with before and after."""

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
