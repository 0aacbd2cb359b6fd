"""Variants on the command line: what is in them is shown, not the bytes they are kept in."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest
from command_line import run, run_json
from corpus import corpus_root

import esker
from esker.model.variant import Moment

VALUES = [{"a": [1, None], "b": Decimal("1.50")}, None, "text", dt.date(2026, 11, 15), b"\x01", Moment(1, "ns")]


@pytest.fixture
def catalog(tmp_path: Path) -> str:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    lake = esker.connect(uri, warehouse=str(tmp_path / "warehouse"))
    lake.create_namespace("n")
    table = lake.create_table("n.t", "id bigint, v variant, l array<variant>, m map<string, variant>", format_version=3)
    table.append([{"id": at, "v": v, "l": [v, 1], "m": {"k": v}} for at, v in enumerate(VALUES)])
    return uri


def test_a_scan_shows_what_is_in_variants(catalog: str) -> None:
    told = run_json("--catalog", catalog, "scan", "n.t", "--all")
    assert [column["type"] for column in told["columns"]] == [
        "int64",
        "variant",
        "list<element: variant>",
        "map<string, variant>",
    ]
    shown = [{"a": [1, None], "b": "1.50"}, None, "text", "2026-11-15", "01", "1970-01-01 00:00:00.000000001"]
    rows = sorted(told["rows"], key=lambda row: row["id"])
    assert [row["v"] for row in rows] == shown
    assert [row["l"] for row in rows] == [[value, 1] for value in shown]
    assert [row["m"] for row in rows] == [[["k", value]] for value in shown]
    assert '{"a": [1, null], "b": "1.50"}' in run("--catalog", catalog, "scan", "n.t", "--columns", "v").stdout


def test_the_variants_of_another_engine_are_shown_as_it_describes_them() -> None:
    variants = corpus_root() / "iceberg" / "impala" / "trino_variant"
    rows = {row["descr"]: row["v"] for row in run_json("scan", variants, "--all")["rows"]}
    assert rows["obj nested data/items"] == {"data": {"items": [10, 20, 30]}}
    assert rows["obj large field ids"] == {"f0": 42, "f299": 7}
    assert rows["decimal8 -1.23e8.."] == "-123456789.987654321"
    assert rows["time 12:33:54.123456"] == "12:33:54.123456"
    assert rows["ts ntz nanos"] == "1957-11-07 12:33:54.123456789"
    assert rows["uuid"] == "f24f9b64-81fa-49d1-b74e-8c09a6e31c56"
    assert rows["variant null"] is rows["NULL"] is None
