"""Numbers and times as people read them."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esker.cli.answer import iso, plain
from esker.cli.humanize import ago, change, counted, duration, number, size
from esker.cli.open_table import looks_like_path, relative_path
from esker.cli.screen import clean

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (0, "now"),
        (SECOND, "1 second ago"),
        (59 * SECOND, "59 seconds ago"),
        (MINUTE, "1 minute ago"),
        (90 * MINUTE, "1 hour ago"),
        (23 * HOUR, "23 hours ago"),
        (DAY, "1 day ago"),
        (29 * DAY, "29 days ago"),
        (45 * DAY, "1 month ago"),
        (400 * DAY, "1 year ago"),
        (10_000 * DAY, "27 years ago"),
        (-2 * HOUR, "in 2 hours"),
    ],
)
def test_a_time_is_told_by_its_distance(before: int, said: str) -> None:
    now = 1_800_000_000_000
    assert ago(now - before, now) == said


def test_numbers_have_their_thousands_apart_and_unknown_ones_say_so() -> None:
    assert number(1_234_567) == "1,234,567"
    assert number(None) == "?"
    assert (counted(1, "file"), counted(2, "file"), counted(0, "file")) == ("1 file", "2 files", "0 files")
    assert (change(3, "+"), change(0, "+"), change(None, "-")) == ("+3", "", "")
    assert (size(None), size(512), size(1536)) == ("?", "512 B", "1.5 KiB")
    assert (duration(7 * DAY), duration(90 * SECOND), duration(1)) == ("7 days", "90 seconds", "1 ms")


@given(st.integers(-(10**15), 10**15), st.integers(-(10**15), 10**15))
def test_any_two_times_have_a_distance(one: int, other: int) -> None:
    assert ago(one, other)


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.decimals()
    | st.dates()
    | st.datetimes()
    | st.times()
    | st.timedeltas()
    | st.uuids(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=8,
)


@given(_VALUES)
def test_any_value_becomes_json_that_every_parser_takes(value: object) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    json.loads(json.dumps(plain(value)), parse_constant=refuse)


def test_values_keep_their_exactness() -> None:
    assert plain(2**63) == 2**63
    assert plain(Decimal("1.10")) == "1.10"
    assert plain(b"\x00\xff") == "00ff"
    assert plain(date(2026, 1, 31)) == "2026-01-31"
    assert plain(datetime(2026, 1, 31, 12, tzinfo=UTC)) == "2026-01-31T12:00:00+00:00"
    assert plain(timedelta(minutes=1)) == 60.0
    assert plain(UUID(int=1)) == "00000000-0000-0000-0000-000000000001"
    assert plain([math.nan, -math.inf, 0.5]) == ["nan", "-inf", 0.5]
    assert plain({1: Path("/a")}) == {"1": "/a"}
    assert iso(0) == "1970-01-01T00:00:00.000+00:00"
    assert iso(10**18) is None


@given(st.text())
def test_no_text_can_steer_a_terminal(text: str) -> None:
    assert not any((ord(c) < 32 and c != "\t") or 127 <= ord(c) < 160 for c in clean(text))


def test_a_steering_sequence_is_shown_instead() -> None:
    assert clean("a\x1b[31mb\r\u202e") == r"a\x1b[31mb\r\u202e"


def test_a_path_is_told_from_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    for path in ("a/b", "/a", "t.metadata.json", "x.json.gz", ".", "..", "here", "file:///a"):
        assert looks_like_path(path), path
    for name in ("sales.orders", "a.b.c", "orders", "x\0y", "n" * 5000):
        assert not looks_like_path(name), name


def test_a_path_below_the_table_is_shown_from_there() -> None:
    assert relative_path("s3://b/t/data/f", "s3://b/t/") == "data/f"
    assert relative_path("s3://b/other/f", "s3://b/t") == "s3://b/other/f"
    assert relative_path("s3://b/table/f", "s3://b/t") == "s3://b/table/f"
