"""Rows before a compaction are the rows after it: any mix of changes, versions, deletes and layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from doors import MemoryLake
from hypothesis import given, settings
from hypothesis import strategies as st
from row_models import (
    MODES,
    NAME,
    PARTITIONINGS,
    Append,
    Change,
    Model,
    beginnings,
    changes,
    in_order,
    make,
    rows_in,
    streams,
)
from sound_tables import check_sound

from esker.table import Table

LAYOUTS: tuple[Mapping[str, Any], ...] = (
    {"strategy": "bin-pack", "rewrite_all": True},
    {"strategy": "bin-pack", "min_input_files": 2},
    {"strategy": "sort", "sort_by": ["region desc nulls last", "n"]},
    {"strategy": "z-order", "sort_by": ["id", "region", "n"]},
)


def with_lineage(table: Table) -> list[tuple[str, ...]]:
    more = ["_row_id", "_last_updated_sequence_number"] if table.format_version > 2 else []
    return in_order(table.scan(columns=["id", "region", "n", *more]).to_arrow().to_pylist())


@given(
    version=st.sampled_from([1, 2, 3]),
    modes=MODES,
    granularity=st.sampled_from(["file", "partition"]),
    partition_by=st.sampled_from(PARTITIONINGS),
    first=beginnings,
    steps=st.lists(changes, max_size=5),
    layout=st.sampled_from(LAYOUTS),
    after=st.lists(changes, max_size=2),
)
@settings(max_examples=30)
def test_rows_and_lineage_are_the_same_after_a_compaction(
    version: int,
    modes: Mapping[str, str],
    granularity: str,
    partition_by: Sequence[str],
    first: Append,
    steps: Sequence[Change],
    layout: Mapping[str, Any],
    after: Sequence[Change],
) -> None:
    memory = MemoryLake()
    table = make(memory.lake(), version, modes, partition_by, **{"write.delete.granularity": granularity})
    model: Model = []
    for step in (first, *steps):
        with table.transaction() as tx:
            step.change(tx)
        model = step.model(model)
    before = with_lineage(table)
    table.compact(**layout)
    assert with_lineage(table) == before
    assert rows_in(table) == in_order(model)
    for step in after:
        with table.transaction() as tx:
            step.change(tx)
        model = step.model(model)
        assert rows_in(table) == in_order(model), step
    check_sound(memory.lake(), NAME)


@given(
    version=st.sampled_from([2, 3]),
    modes=MODES,
    partition_by=st.sampled_from([(), ("bucket(3, id)",)]),
    first=beginnings,
    steps=st.lists(changes | streams, min_size=1, max_size=5),
    layout=st.sampled_from(LAYOUTS),
)
@settings(max_examples=20)
def test_deletes_by_key_are_applied_once_and_for_all(
    version: int,
    modes: Mapping[str, str],
    partition_by: Sequence[str],
    first: Append,
    steps: Sequence[Any],
    layout: Mapping[str, Any],
) -> None:
    memory = MemoryLake()
    table = make(memory.lake(), version, modes, partition_by)
    model: Model = []
    for step in (first, *steps):
        with table.transaction() as tx:
            step.change(tx)
        model = step.model(model)
    table.compact(**{**layout, "rewrite_all": True})
    assert rows_in(table) == in_order(model)
    assert table.inspect.delete_files().num_rows == 0, "every delete was applied"
    check_sound(memory.lake(), NAME)
