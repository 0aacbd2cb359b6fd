"""Partition statistics that are computed from an ancestor's equal those from all manifests, and what files say."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import esker
from esker.maintain.statistics.partition_statistics import partition_statistics_of, read_partition_statistics
from esker.table import Table
from esker.write.table_changes import ancestors

PLACES = st.sampled_from([None, "a", "b"])
STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(st.tuples(st.integers(0, 9), PLACES), min_size=1, max_size=4)),
    st.tuples(st.just("delete rows"), st.integers(0, 9)),
    st.tuples(st.just("delete place"), PLACES),
    st.tuples(st.just("overwrite"), st.lists(st.tuples(st.integers(0, 9), PLACES), min_size=1, max_size=2)),
    st.tuples(st.just("merge manifests"), st.none()),
    st.tuples(st.just("evolve"), st.none()),
    st.tuples(st.just("compact"), st.none()),
    st.tuples(st.just("rewrite manifests"), st.none()),
    st.tuples(st.just("compute"), st.none()),
)


def table_of(rows: list[tuple[int, str | None]]) -> pa.Table:
    ids, places = zip(*rows, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "place": pa.array(places, pa.string())})


def take(table: Table, step: str, value: Any) -> None:
    match step:
        case "append":
            table.append(table_of(value))
        case "delete rows":
            table.delete(f"id = {value}")
        case "delete place":
            table.delete("place is null" if value is None else f"place = '{value}'")
        case "overwrite" if len(table.metadata.specs) == 1:  # a later spec could not tell which partitions to replace
            table.overwrite_partitions(table_of(value))
        case "merge manifests":
            with table.alter() as change:
                change.set_properties(
                    {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
                )
        case "evolve" if len(table.metadata.specs) == 1:
            with table.alter() as change:
                change.add_partition("bucket(2, id)")
        case "compact":
            table.compact(min_input_files=2)
        case "rewrite manifests":
            table.rewrite_manifests()
        case "compute":
            table.compute_partition_statistics()


def read(table: Table) -> list[dict[str, Any]]:
    snapshot = table.current_snapshot
    file = None if snapshot is None else partition_statistics_of(table.metadata, snapshot.snapshot_id)
    if file is None:
        return []
    return read_partition_statistics(table.metadata, table._workings.engine, file).to_pylist()


def key(spec_id: int, partition: dict[str, Any]) -> tuple[Any, ...]:
    return (spec_id, *partition.values())


def expected(table: Table) -> dict[tuple[Any, ...], dict[str, int]]:
    """Counts by the files, and the last snapshot that changed a partition by the difference to its parent."""
    found: dict[tuple[Any, ...], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for file in table.inspect.files().to_pylist():
        row = found[key(file["spec_id"], file["partition"])]
        kind, is_vector = file["content"], file["file_format"].lower() == "puffin"
        name = ("data", "position_delete", "equality_delete")[kind]
        row[f"{name}_record_count"] += file["record_count"]
        row["dv_count" if is_vector else f"{name}_file_count"] += 1
        if kind == 0:
            row["total_data_file_size_in_bytes"] += file["file_size_in_bytes"]
    for snapshot in reversed(list(ancestors(table.metadata, table.metadata.current_snapshot_id))):
        changes = table.inspect.file_changes(snapshot.parent_snapshot_id, snapshot.snapshot_id)
        for file in changes.to_pylist():
            row = found.get(key(file["spec_id"], file["partition"]), {})
            row |= {"last_updated_at": snapshot.timestamp_ms, "last_updated_snapshot_id": snapshot.snapshot_id}
    return found


@given(st.lists(STEPS, min_size=1, max_size=8), st.sampled_from([1, 2, 3]), st.booleans())
def test_incremental_statistics_equal_full_ones_and_the_files(
    steps: list[tuple[str, Any]], version: int, merge_on_read: bool
) -> None:
    lake = esker.connect("memory:")
    lake.create_namespace("db")
    mode = "merge-on-read" if merge_on_read and version > 1 else "copy-on-write"
    table = lake.create_table(
        "db.t",
        "id bigint, place string",
        partition_by=["place"],
        format_version=version,
        properties={"write.delete.mode": mode},
    )
    for step, value in steps:
        take(table, step, value)
    table.compute_partition_statistics()
    stepwise = read(table)
    table.compute_partition_statistics(incremental=False)
    assert stepwise == read(table)
    wanted = expected(table)
    assert [key(row["spec_id"], row["partition"]) for row in stepwise] == sorted(
        wanted, key=lambda k: [*((False,) if value is None else (True, value) for value in k[1:]), k[0]]
    )
    for row in stepwise:
        counts = {name: value for name, value in row.items() if name not in ("partition", "spec_id") and value}
        assert counts == {name: value for name, value in wanted[key(row["spec_id"], row["partition"])].items() if value}
