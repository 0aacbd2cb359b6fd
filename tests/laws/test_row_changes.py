"""Rows after any mix of changes are what a list of dicts says they are: in every version, mode and layout."""

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

GRANULARITIES = st.sampled_from(["file", "partition"])


@given(
    version=st.sampled_from([1, 2, 3]),
    modes=MODES,
    granularity=GRANULARITIES,
    partition_by=st.sampled_from(PARTITIONINGS),
    first=beginnings,
    steps=st.lists(changes, max_size=8),
)
@settings(max_examples=60)
def test_rows_after_any_mix_of_changes_equal_the_model(
    version: int,
    modes: Mapping[str, str],
    granularity: str,
    partition_by: Sequence[str],
    first: Append,
    steps: Sequence[Change],
) -> None:
    memory = MemoryLake()
    table = make(memory.lake(), version, modes, partition_by, **{"write.delete.granularity": granularity})
    model: Model = []
    for step in (first, *steps):
        with table.transaction() as tx:
            step.change(tx)
        model = step.model(model)
        assert rows_in(table) == in_order(model), step
    check_sound(memory.lake(), NAME)
    _check_row_ids(table)


@given(
    version=st.sampled_from([2, 3]),
    modes=MODES,
    partition_by=st.sampled_from(PARTITIONINGS),
    before=st.lists(beginnings, min_size=1, max_size=2),
    together=st.lists(changes, min_size=2, max_size=5),
)
@settings(max_examples=60)
def test_changes_of_one_transaction_see_one_another(
    version: int,
    modes: Mapping[str, str],
    partition_by: Sequence[str],
    before: Sequence[Append],
    together: Sequence[Change],
) -> None:
    memory = MemoryLake()
    table = make(memory.lake(), version, modes, partition_by)
    model: Model = []
    for step in before:
        with table.transaction() as tx:
            step.change(tx)
        model = step.model(model)
    with table.transaction() as tx:
        for step in together:
            step.change(tx)
            model = step.model(model)
    assert rows_in(table) == in_order(model)
    assert len(table.snapshots) <= len(before) + 1
    check_sound(memory.lake(), NAME)
    _check_row_ids(table)


@given(
    version=st.sampled_from([2, 3]),
    modes=MODES,
    partition_by=st.sampled_from([(), ("bucket(3, id)",)]),
    first=beginnings,
    steps=st.lists(changes | streams, min_size=1, max_size=6),
)
@settings(max_examples=40)
def test_deletes_by_key_fit_in_with_every_other_change(
    version: int, modes: Mapping[str, str], partition_by: Sequence[str], first: Append, steps: Sequence[Any]
) -> None:
    memory = MemoryLake()
    table = make(memory.lake(), version, modes, partition_by)
    model: Model = []
    for step in (first, *steps):
        with table.transaction() as tx:
            step.change(tx)
        model = step.model(model)
        assert rows_in(table) == in_order(model), step
    check_sound(memory.lake(), NAME)


@given(modes=MODES, begin=beginnings, first=st.lists(changes, max_size=3), then=st.lists(changes, max_size=4))
@settings(max_examples=30)
def test_a_table_that_is_upgraded_between_changes_keeps_its_rows(
    modes: Mapping[str, str], begin: Append, first: Sequence[Change], then: Sequence[Change]
) -> None:
    memory = MemoryLake()
    table = make(memory.lake(), 2, modes, ())
    model: Model = []
    for at, step in enumerate((begin, *first, *then)):
        if at == len(first) + 1:
            with table.alter() as change:
                change.upgrade_format(3)
        with table.transaction() as tx:
            step.change(tx)
        model = step.model(model)
        assert rows_in(table) == in_order(model), step
    check_sound(memory.lake(), NAME)


def _check_row_ids(table: Any) -> None:
    """No two rows have one id (v3)."""
    if table.format_version > 2:
        found = table.scan(columns=["_row_id"]).to_arrow().column(0).to_pylist()
        assert None not in found
        assert len(set(found)) == len(found)
