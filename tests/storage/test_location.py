"""Locations in the spellings that engines use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esker.storage.location import Location, climbs


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("/a/b", ("file", "", "/a/b")),
        ("a/b/", ("file", "", "a/b")),
        ("file:/a/b", ("file", "", "/a/b")),
        ("file:///a//b/./c/", ("file", "", "/a/b/c")),
        ("FILE:///a", ("file", "", "/a")),
        ("s3://bucket/a b%20c", ("s3", "bucket", "/a b%20c")),
        ("s3a://bucket/a", ("s3", "bucket", "/a")),
        ("s3n://bucket/a", ("s3", "bucket", "/a")),
        ("gcs://bucket/a", ("gs", "bucket", "/a")),
        ("abfss://c@account.dfs.core.windows.net/a", ("abfs", "c@account.dfs.core.windows.net", "/a")),
        ("hdfs://host:8020/a/../b", ("hdfs", "host:8020", "/a/../b")),
        ("s3://bucket", ("s3", "bucket", "/")),
        ("s3://bucket/", ("s3", "bucket", "/")),
        ("C:/data/t", ("file", "", "C:/data/t")),
        ("C:\\data", ("file", "", "C:\\data")),
        ("odd:name", ("file", "", "odd:name")),
    ],
)
def test_a_location_is_taken_apart(text: str, parts: tuple[str, str, str]) -> None:
    found = Location.parse(text)
    assert (found.scheme, found.authority, found.path) == parts


@pytest.mark.parametrize(
    ("text", "base", "way"),
    [
        ("s3a://b/t/data/f", "s3://b/t", "data/f"),
        ("s3://b/t", "s3a://b/t/", ""),
        ("file:/w/t/f", "file:///w/t", "f"),
        ("/w/t/f", "file:/w/t", "f"),
        ("hdfs://h/w/t/f", "/w/t", "f"),
        ("s3://b/f", "s3://b", "f"),
        ("t/f", "t", "f"),
        ("t/f", ".", "t/f"),
        ("/w/t2/f", "/w/t", None),
        ("s3://other/t/f", "s3://b/t", None),
        ("s3://b/t/f", "gs://b/t", None),
        ("/w/f", ".", None),
        ("/w/../etc", "/w", "../etc"),
    ],
)
def test_the_way_down_from_a_base(text: str, base: str, way: str | None) -> None:
    assert Location.parse(text).below(Location.parse(base)) == way


@given(st.lists(st.sampled_from(["a", "b", "..", "."]), min_size=1, max_size=8))
def test_climbing_is_what_a_walk_would_do(parts: list[str]) -> None:
    depth, lowest = 0, 0
    for part in parts:
        depth += {"..": -1, ".": 0}.get(part, 1)
        lowest = min(lowest, depth)
    # a path that dips out and comes back in by name is folded by text alone; what ends above its start always climbs
    if depth < 0:
        assert climbs("/".join(parts))
    if lowest == 0:
        assert not climbs("/".join(parts))


def test_an_absolute_path_climbs() -> None:
    assert climbs("/etc")
