"""The cache of decoded manifests changes no plan, in memory or from disk, and no row of a scan."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from delete_strategies import with_deletes
from held_rows import held_rows, telling
from hypothesis import given, note, settings
from hypothesis import strategies as st
from query_strategies import queries
from row_oracle import row_truth
from table_strategies import Story, stories

from esker.iceberg.format import IcebergFormat
from esker.iceberg.manifests import manifest_cache
from esker.iceberg.manifests.manifest_cache import ManifestCache
from esker.ports.storage import Storage
from esker.read.plan_tasks import Plan
from esker.read.scan import Scan
from esker.storage.cache_folder import CacheFolder

EXAMPLES = settings(max_examples=min(10, settings.default.max_examples))


class Lasting:
    """A storage in memory that says that its files are the same for every process, so that slabs are stored."""

    def __init__(self, inner: Storage) -> None:
        self._inner = inner

    tags_last = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def tags(self, locations: list[str]) -> list[str | None]:
        return [f"lasting:{location}" for location in locations]


def told(plan: Plan) -> str:
    """The plan as a text: a partition of NaN does not equal itself."""
    return repr((plan.funnel, plan.effects, sorted(plan.tasks, key=lambda task: task.data_file.path)))


def ask(draw: st.DataObject, story: Story, folder: Path) -> None:
    table = story.maker.table()
    storage: Any = Lasting(table.scan().table_format._storage)  # type: ignore[attr-defined]
    rows = story.live_rows()
    first = ManifestCache(1 << 26, CacheFolder(folder, 1 << 28))
    for _ in range(3):
        predicate = draw.draw(queries(story.schema, rows))
        note(f"where {predicate!r}")
        scan: Scan = replace(table.scan(predicate), table_format=IcebergFormat(storage))
        expected = told(scan.plan())
        for cache in (first, first, ManifestCache(1 << 26, CacheFolder(folder, 1 << 28)), ManifestCache(2000)):
            cached = replace(scan, table_format=IcebergFormat(storage, cache=cache))
            assert told(cached.plan()) == expected
            first.flush()
        matching = [row for row in rows if row_truth(predicate, row, story.schema) is True]
        found = held_rows(story.schema, cached.to_arrow())
        assert sorted((telling(row) for row in found), key=repr) == sorted((telling(row) for row in matching), key=repr)


@EXAMPLES
@given(st.data(), stories())
def test_a_cached_plan_is_the_plan(draw: st.DataObject, story: Story) -> None:
    with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        patched.setattr(manifest_cache, "WORTH_MANIFESTS", 1)
        ask(draw, story, Path(folder))


@EXAMPLES
@given(st.data(), with_deletes(stories(versions=(2, 3))))
def test_a_cached_plan_has_the_same_deletes(draw: st.DataObject, story: Story) -> None:
    with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        patched.setattr(manifest_cache, "WORTH_MANIFESTS", 1)
        ask(draw, story, Path(folder))
