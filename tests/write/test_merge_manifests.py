"""Manifests fold together on commit only where the table asks for it."""

from __future__ import annotations

import pyarrow as pa
import pytest

import esker
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.write.build_manifests import MergePolicy

MERGE = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "4"}


def table_of(properties: dict[str, str], **more: object) -> esker.Table:
    lake = esker.connect("memory:")
    lake.create_namespace("n")
    return lake.create_table("n.t", "id bigint", properties=properties, **more)  # type: ignore[arg-type]


def append(table: esker.Table, number: int) -> None:
    table.append(pa.table({"id": pa.array([number], pa.int64())}))


def manifests(table: esker.Table) -> int:
    return table.inspect.manifests().num_rows


def ids(table: esker.Table, **choice: int) -> list[int]:
    return sorted(table.scan(**choice).to_arrow()["id"].to_pylist())  # type: ignore[arg-type]


def test_without_the_property_an_append_folds_nothing() -> None:
    table = table_of({"commit.manifest.min-count-to-merge": "2"})
    for number in range(6):
        append(table, number)
    assert manifests(table) == 6


@pytest.mark.parametrize("version", [1, 2, 3])
def test_with_it_the_fourth_append_folds_four_into_one_and_every_row_stays(version: int) -> None:
    table = table_of(MERGE, format_version=version)
    counts = []
    for number in range(8):
        append(table, number)
        counts.append(manifests(table))
    assert counts == [1, 2, 3, 1, 2, 3, 1, 2]
    assert ids(table) == list(range(8))
    snapshots = table.snapshots
    assert [ids(table, snapshot_id=s.snapshot_id) for s in snapshots] == [list(range(n + 1)) for n in range(8)]
    assert snapshots[3].summary["manifests-replaced"] == "3"
    assert snapshots[3].summary["manifests-created"] == "1"


def test_a_folded_manifest_tells_the_new_file_as_added_and_the_old_ones_as_existing() -> None:
    table = table_of(MERGE)
    for number in range(4):
        append(table, number)
    entries = table.inspect.entries()
    assert sorted(entries["status"].to_pylist()) == [0, 0, 0, 1]
    numbers = dict(zip(entries["snapshot_id"].to_pylist(), entries["sequence_number"].to_pylist(), strict=True))
    assert numbers == {snapshot.snapshot_id: snapshot.sequence_number for snapshot in table.snapshots}


def test_row_ids_survive_folding() -> None:
    table = table_of(MERGE, format_version=3)
    for number in range(4):
        append(table, number)
    rows = table.scan(columns=["id", "_row_id"]).to_arrow().to_pylist()
    assert {row["id"]: row["_row_id"] for row in rows} == {0: 0, 1: 1, 2: 2, 3: 3}


def test_bins_keep_to_the_target_size_and_the_newest_are_left_to_the_smallest() -> None:
    listed = [
        ManifestFile(path=f"m{n}", length=40, spec_id=0, content=ManifestContent.DATA, added_files=1, existing_files=0)
        for n in range(5)
    ]
    bins = MergePolicy(min_count=2, target_size=100).bins(listed)
    assert [[manifest.path for manifest in bin_] for bin_ in bins] == [["m3", "m4"], ["m1", "m2"]]


@pytest.mark.parametrize(
    "bad", [{"commit.manifest-merge.enabled": "maybe"}, {"commit.manifest.target-size-bytes": "0"}]
)
def test_a_property_that_makes_no_sense_is_refused_by_name(bad: dict[str, str]) -> None:
    with pytest.raises(esker.InvalidInput, match=next(iter(bad))):
        MergePolicy.of(bad)
