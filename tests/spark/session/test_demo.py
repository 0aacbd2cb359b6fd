"""The tour, small: programs are killed on the way, and all sums come out."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from esker.demo.report import report, write_page
from esker.demo.story import Batch, Identity, Story
from esker.demo.telemetry import Size
from esker.demo.tour import CLUSTER, take

SMALL = Size(days=6, spans_a_day=300, logs_a_day=20, points=40)
QUIET = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def taken(folder: Path, master: str) -> Story:
    """The tour whose first driver runs on that master; its second is the session of the tests."""
    story = take(Story(Console(quiet=True)), folder, SMALL, master=master)
    assert story.identity is not None
    assert story.identity.text() == ("sent 2,562 = tables 2,560 + dead letter 2 + pending 0      lost 0   duplicated 0")
    assert story.identity.resent == 300
    assert set(story.counted_by) == {"Esker", "Spark", "PyIceberg", "DuckDB", "Polars"}
    assert story.holds
    assert any(re.search(r"batch \d+ written, not committed", step.found) for step in story.steps)
    assert {batch.driver for batch in story.batches} == {1, 2}
    assert sum(batch.dead for batch in story.batches) <= 2  # of the batch in hand, nobody may have heard
    assert sum(requests for _, requests, _ in story.services) == 2400
    steps = {step.what.partition(":")[0]: step.found for step in story.steps}
    compacted = re.fullmatch(r"files (\d+) → (\d+)", steps["compact"])
    assert compacted is not None
    assert 0 < int(compacted[2]) <= 7 < int(compacted[1])  # one of each day
    assert re.fullmatch(r"snapshots \d+ → 2; [1-9]\d* files deleted", steps["expire"])
    assert steps["verify"].endswith(" spans, 0 findings")
    return story


class TestTour:
    pytestmark = QUIET

    def test_nothing_is_lost_or_doubled_though_the_driver_and_the_receiver_are_killed(
        self, spark: Any, tmp_path: Path
    ) -> None:
        story = taken(tmp_path, "local[2]")
        assert story.killed == ["the receiver", "the driver"]
        assert story.headline() == "Killed twice, nothing lost"
        page = write_page(story, tmp_path / "report.html").read_text()
        assert story.identity is not None
        for said in (story.headline(), story.identity.text(), "300 spans were sent twice", f"PySpark {spark.version}"):
            assert said in page
        assert f"esker --catalog sqlite:///{tmp_path}/catalog.db ls" in page  # with its folder, or without
        story.console = Console(record=True, width=100, file=StringIO())
        report(story, tmp_path, tmp_path / "report.html")
        assert "Killed twice, nothing lost" in story.console.export_text()

    def test_an_executor_may_be_killed_as_well(self, spark: Any, tmp_path: Path) -> None:
        story = taken(tmp_path, CLUSTER)
        assert story.killed == ["an executor", "the receiver", "the driver"]


def test_a_sum_that_does_not_come_out_is_told() -> None:
    lost = Identity(sent=10, resent=0, in_tables=7, dead_letters=1, pending=0, distinct_spans=7, spans=7)
    assert lost.text() == "sent 10 ≠ tables 7 + dead letter 1 + pending 0      lost 2   duplicated 0"
    doubled = Identity(sent=10, resent=0, in_tables=12, dead_letters=0, pending=0, distinct_spans=7, spans=7)
    assert (doubled.lost, doubled.duplicated, doubled.holds) == (0, 2, False)
    waiting = Identity(sent=10, resent=0, in_tables=7, dead_letters=1, pending=2, distinct_spans=5, spans=7)
    assert waiting.text() == "sent 10 = tables 7 + dead letter 1 + pending 2      lost 0   duplicated 0"
    swapped = Identity(sent=10, resent=0, in_tables=10, dead_letters=0, pending=0, distinct_spans=6, spans=7)
    assert (swapped.lost, swapped.holds) == (1, False)  # one is there twice in another's stead
    story = Story(Console(quiet=True), identity=lost, killed=["the driver"], counted_by={"Esker": 1})
    assert story.headline() == "Killed once: 2 lost, 0 duplicated"


def test_a_page_says_nothing_that_the_telemetry_made_up(tmp_path: Path) -> None:
    story = Story(Console(quiet=True), identity=Identity(1, 0, 1, 0, 0, 1, 1))
    story.slowest = [("<script>alert(1)</script>", "&", 3.0)]
    page = write_page(story, tmp_path / "report.html").read_text()
    assert not re.search("<script", page)


def test_a_page_fits_a_phone_and_the_dark_and_cuts_no_word(tmp_path: Path) -> None:
    story = Story(Console(quiet=True), identity=Identity(1, 0, 1, 0, 0, 1, 1))
    name = "an operation whose name is far longer than any column of a plot would be on a telephone"
    story.slowest = [("checkout", name, 3.0)]
    story.batches = [Batch(0, 10, 9, 1, 3, 1), Batch(1, 5, 5, 0, 0, 2)]
    page = write_page(story, tmp_path / "report.html").read_text()
    assert name in page
    assert "name='viewport' content='width=device-width" in page
    assert "prefers-color-scheme:dark" in page
    assert "<svg" not in page  # its words would shrink with it, and be cut at its edge
    assert page.count("style='height:") == 2  # a column a batch
    assert "1 batches were taken in by the driver that was killed, 1 by the one after it" in page
