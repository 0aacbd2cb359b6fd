"""What a notebook and a prompt show: short, escaped, and nothing is read or started for it."""

from __future__ import annotations

import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest

import esker

HOSTILE = "<script>alert('x')</script>"


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.found.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += f"{data}\n"


def _read(shown: str) -> str:
    """The text of a card, which has no tags but those of a small table."""
    tags = _Tags()
    tags.feed(shown)
    assert tags.found <= {"table", "caption", "b", "tr", "th", "td", "pre"}
    assert len(shown) < 10_000
    return tags.text


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """One of each, of a lake whose files are gone and whose Spark would fail to start."""

    def refuse() -> NoReturn:
        raise AssertionError("nothing that is shown needs Spark")

    lake = esker.connect(f"sqlite:///{tmp_path}/a & <b>/catalog.db")
    monkeypatch.setattr(lake, "_get_spark", refuse)
    lake.create_namespace("sales")
    table = lake.create_table(
        "sales.orders", f"id int, `{HOSTILE}` string, c struct<d: int>", partition_by=["bucket(4, id)"]
    )
    snapshot = table.append(pa.table({"id": pa.array([1], pa.int32())}), summary={"note": HOSTILE})
    view = lake.create_view("sales.v", f"SELECT '{HOSTILE}' AS x".replace("'x'", "x"), schema="x string")
    scan = table.scan(f"`{HOSTILE}` > 'a' AND id > 0", limit=1000)
    feed = table.scan_changes(None)
    plans = {"plan": scan.plan(), "feed's plan": feed.plan()}
    shutil.rmtree(tmp_path / "a & <b>")
    asked = table.scan(f"`{HOSTILE}` > 'a' AND id > 0", limit=1000)  # not planned
    return {"lake": lake, "table": table, "view": view, "scan": asked, "snapshot": snapshot, "feed": feed, **plans}


@pytest.mark.parametrize(
    ("what", "parts"),
    [
        ("lake", ["a & <b>/catalog.db"]),
        ("table", ["sales.orders", "v2", "a & <b>", "append", f"2: {HOSTILE}", "bucket[4] of id"]),
        ("view", ["sales.v", "SELECT"]),
        ("scan", [HOSTILE, "> 'a'", "1,000", "columns"]),
        ("snapshot", ["append", "note", HOSTILE, "total-records"]),
        ("feed", ["Changes of", "snapshots", "1"]),
        ("plan", ["0 of 1 to read", HOSTILE]),
        ("feed's plan", ["1 of 1 files"]),
    ],
)
def test_a_notebook_shows_escaped_html(held: dict[str, Any], what: str, parts: list[str]) -> None:
    text = _read(held[what]._repr_html_())
    for part in parts:
        assert part in text


@pytest.mark.parametrize(
    ("what", "start", "part"),
    [
        ("lake", "<esker.Lake sqlite:///", "catalog.db"),
        ("table", "<esker.Table sales.orders: ", "1 snapshots"),
        ("view", "<esker.View sales.v", ""),
        ("scan", "<esker.Scan of ", "limit 1,000"),
        ("snapshot", "<Snapshot ", "append"),
        ("feed", "<esker.ChangeScan of ", "snapshots 1"),
        ("plan", "<esker.Plan: ", "0 of 1 files"),
        ("feed's plan", "<esker.ChangePlan of 1 snapshots: ", "1 of 1 files"),
    ],
)
def test_a_prompt_shows_one_short_line(held: dict[str, Any], what: str, start: str, part: str) -> None:
    shown = repr(held[what])
    assert shown.startswith(start)
    assert part in shown
    assert "\n" not in shown
    assert len(shown) < 600


def test_a_table_of_many_columns_shows_the_first() -> None:
    lake = esker.connect("memory:")
    lake.create_namespace("a")
    wide = lake.create_table("a.wide", ", ".join(f"c{at} int" for at in range(500)))
    assert "and 480 more" in _read(wide._repr_html_())
    assert "and 488 more" in _read(wide.scan()._repr_html_())
    assert "the table is empty" in _read(wide._repr_html_())
    assert repr(lake) == "<esker.Lake in memory>"
