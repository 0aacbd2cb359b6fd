"""What a plan costs: which statistics it decodes, and how much memory a plan takes that is read task by task."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from table_maker import TableMaker

from esker.iceberg import format as format_module
from esker.iceberg.format import IcebergFormat
from esker.iceberg.manifests.manifest_cache import ManifestCache
from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.schema import Schema
from esker.model.transform import DAY, IDENTITY, BucketTransform, Transform
from esker.model.types import DOUBLE, LONG, STRING, TIMESTAMP, Field
from esker.model.values import to_bytes
from esker.ports.table_format import EntryColumns
from esker.read.scan import Scan
from esker.tree.data_file import DataFile, Metrics
from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestFile
from esker.tree.table_metadata import TableMetadata

SCHEMA = Schema(
    fields=(
        Field(id=1, name="id", type=LONG),
        Field(id=2, name="ts", type=TIMESTAMP),
        Field(id=3, name="mission", type=STRING),
        Field(id=4, name="weight", type=DOUBLE),
    )
)
FIRST_DAY = 20_454  # 2026-01-01


class Watched:
    """A format that records which statistics were asked for."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.metrics: list[frozenset[int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def entries(
        self, metadata: TableMetadata, manifests: Sequence[ManifestFile], columns: EntryColumns
    ) -> Iterator[Entries]:
        self.metrics.append(frozenset(columns.metrics))
        yield from self._inner.entries(metadata, manifests, columns)


def spec(*fields: tuple[int, Transform], spec_id: int = 0) -> PartitionSpec:
    return PartitionSpec(
        spec_id=spec_id,
        fields=tuple(
            PartitionField(source_id=source, field_id=1000 + at, name=f"p{at}", transform=transform)
            for at, (source, transform) in enumerate(fields)
        ),
    )


def file(name: str, *partition: object, spec_id: int = 0, first_id: int = 0) -> DataFile:
    low, high = to_bytes(LONG, first_id), to_bytes(LONG, first_id + 99)
    return DataFile(
        path=f"mem:/t/data/{name}.parquet",
        file_format="parquet",
        record_count=100,
        file_size=1000,
        partition=partition,
        spec_id=spec_id,
        metrics=Metrics(value_counts={1: 100}, null_counts={1: 0}, lower_bounds={1: low}, upper_bounds={1: high}),
    )


def watched(maker: TableMaker, where: str) -> tuple[frozenset[int], Scan]:
    scan = maker.table().scan(where)
    format_ = Watched(scan.table_format)
    seen = replace(scan, table_format=format_)  # type: ignore[arg-type]
    seen.plan()
    return format_.metrics[0], seen


@pytest.mark.parametrize(
    ("where", "metrics", "kept"),
    [
        ("mission = 'a'", set(), 6),
        ("mission IN ('a', 'b') AND mission <> 'b'", set(), 6),
        ("ts >= '2026-01-02' AND ts < '2026-01-03'", set(), 4),
        ("mission = 'a' AND ts >= '2026-01-02'", set(), 4),
        ("ts >= '2026-01-02T12:00:00'", {2}, 8),
        ("mission = 'a' AND id < 100", {1}, 3),
        ("mission = 'a' OR id < 100", {1}, 9),
    ],
)
def test_a_filter_on_partitions_alone_decodes_no_statistics(where: str, metrics: set[int], kept: int) -> None:
    maker = TableMaker(SCHEMA, specs=[spec((3, IDENTITY), (2, DAY))])
    for day in range(3):
        for mission in "ab":
            maker.manifest(
                [file(f"{mission}{day}-{at}", mission, FIRST_DAY + day, first_id=at * 100) for at in range(2)]
            )
    asked, scan = watched(maker, where)
    assert asked == metrics
    assert scan.plan().funnel.files_kept == kept
    assert "files by statistics" in scan.explain()


def test_a_column_that_one_spec_does_not_have_needs_its_statistics() -> None:
    maker = TableMaker(SCHEMA, specs=[spec((3, IDENTITY)), spec((1, BucketTransform(4)), spec_id=1)])
    maker.manifest([file("a", "a")])
    maker.manifest([file("b", 1, spec_id=1)], spec_id=1)
    assert watched(maker, "mission = 'a'")[0] == {3}


def test_a_bucket_and_a_float_need_their_statistics() -> None:
    maker = TableMaker(SCHEMA, specs=[spec((1, BucketTransform(4)), (4, IDENTITY))])
    maker.manifest([file("a", 1, 0.5)])
    assert watched(maker, "id = 7")[0] <= {1}
    assert watched(maker, "weight > 0.25 AND id > 1")[0] == {1, 4}


# ---------------------------------------------------------------- Task by task


def many(manifests: int) -> TableMaker:
    maker = TableMaker(SCHEMA)
    for number in range(manifests):
        maker.manifest([file(f"{number:05}-{at}-{'x' * 60}", first_id=number * 1000) for at in range(40)])
    return maker


def test_the_tasks_one_by_one_are_those_of_the_plan() -> None:
    maker = many(4)
    data = maker.data_file([{"id": 5, "ts": 0, "mission": "a", "weight": 1.0}])
    maker.manifest([data])
    maker.manifest([maker.position_deletes([(data.path, 0)])])
    for where in (None, "id < 2000", "id = 5", "id < -1"):
        scan = maker.table().scan(where)
        assert list(scan.tasks()) == list(scan.plan().tasks)
    assert list(TableMaker(SCHEMA).table().scan().tasks()) == []


@pytest.mark.parametrize("kept", [None, 100_000])
def test_memory_does_not_grow_with_the_tasks(kept: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a cache of manifests, and with a small one."""
    monkeypatch.setattr(format_module, "MANIFESTS_AT_ONCE", 4)
    peaks = {}
    list(many(1).table().scan().tasks())  # what is imported or compiled once
    for manifests in (12, 96):
        scan = many(manifests).table().scan()
        storage = scan.table_format._storage  # type: ignore[attr-defined]
        cache = None if kept is None else ManifestCache(kept)
        scan = replace(scan, table_format=IcebergFormat(storage, threads=1, cache=cache))
        tracemalloc.start()
        count = sum(1 for _ in scan.tasks())
        peaks[manifests] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == manifests * 40
    assert peaks[96] < 3 * peaks[12], peaks
