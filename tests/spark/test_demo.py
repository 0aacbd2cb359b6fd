"""The tour, small: programs are killed on the way, and all sums come out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from esker.demo.page import write_page
from esker.demo.story import Identity, Story
from esker.demo.telemetry import Size
from esker.demo.tour import take


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_tour_loses_and_doubles_nothing_though_its_programs_are_killed(spark: Any, tmp_path: Path) -> None:
    story = take(Story(Console(quiet=True)), tmp_path, Size(days=6, spans_a_day=300, logs_a_day=20, points=40))
    assert story.identity is not None
    assert story.identity.text() == ("sent 2,562 = tables 2,560 + dead letter 2 + pending 0      lost 0   duplicated 0")
    assert story.identity.resent == 300
    assert set(story.counted_by) == {"Esker", "Spark", "PyIceberg", "DuckDB"}
    assert story.holds
    assert any("written, not committed" in step.found and "none" not in step.found for step in story.steps)
    page = write_page(story, tmp_path / "report.html").read_text()
    assert page.count("<svg") == 3
    assert story.identity.text() in page


def test_a_sum_that_does_not_come_out_is_told() -> None:
    lost = Identity(sent=10, resent=0, in_tables=7, dead_letters=1, pending=0, distinct_spans=7, spans=7)
    assert lost.text() == "sent 10 ≠ tables 7 + dead letter 1 + pending 0      lost 2   duplicated 0"
    doubled = Identity(sent=10, resent=0, in_tables=12, dead_letters=0, pending=0, distinct_spans=7, spans=7)
    assert (doubled.lost, doubled.duplicated, doubled.holds) == (0, 2, False)
    waiting = Identity(sent=10, resent=0, in_tables=7, dead_letters=1, pending=2, distinct_spans=5, spans=7)
    assert waiting.text() == "sent 10 = tables 7 + dead letter 1 + pending 2      lost 0   duplicated 0"
    swapped = Identity(sent=10, resent=0, in_tables=10, dead_letters=0, pending=0, distinct_spans=6, spans=7)
    assert (swapped.lost, swapped.holds) == (1, False)  # one is there twice in another's stead


def test_a_page_says_nothing_that_the_telemetry_made_up(tmp_path: Path) -> None:
    story = Story(Console(quiet=True), identity=Identity(1, 0, 1, 0, 0, 1, 1))
    story.slowest = [("<script>alert(1)</script>", "&", 3.0)]
    page = write_page(story, tmp_path / "report.html").read_text()
    assert not re.search("<script", page)
