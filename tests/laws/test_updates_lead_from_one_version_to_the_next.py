"""The updates of a REST commit, applied to the base, give the new version: for every change that a writer makes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import esker
from esker.catalogs.memory import memory_catalog
from esker.catalogs.rest.apply_updates import applied, failed_requirement
from esker.catalogs.rest.metadata_updates import requirements_of, updates_of
from esker.errors import EskerError
from esker.model.table_names import TableName
from esker.ports.catalog import Accepted, Catalog, Swap, TableState
from esker.tree.table_metadata import PartitionStatisticsFile, StatisticsFile, TableMetadata
from esker.wiring import lake_over

pytestmark = pytest.mark.slow

OWN = ("last_updated_ms", "snapshot_log", "metadata_log", "origin", "refs", "snapshots", "statistics")
"""Fields that a server writes itself, or that are compared by their content."""


class Recording:
    """A catalog that remembers each swap."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.swaps: list[tuple[TableMetadata, TableMetadata]] = []

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        self.swaps.append((base.metadata, new))
        return self._catalog.swap(name, base, new)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)


def assert_same(after: TableMetadata, new: TableMetadata) -> None:
    for field in TableMetadata.__dataclass_fields__:
        ours, theirs = getattr(after, field), getattr(new, field)
        if field in OWN:
            continue
        if field in ("schemas", "specs", "sort_orders", "encryption_keys"):
            ours, theirs = sorted(map(repr, ours)), sorted(map(repr, theirs))
        if field == "partition_statistics":
            ours, theirs = tuple(ours), tuple(theirs)
        assert ours == theirs, field
    assert after.all_refs == new.all_refs
    assert list(after.snapshots) == list(new.snapshots)
    assert tuple(after.statistics) == tuple(new.statistics)
    known = {snapshot.snapshot_id for snapshot in after.snapshots}
    assert all(entry.snapshot_id in known for entry in after.snapshot_log)


def append(table: esker.Table, n: int) -> None:
    ids = pa.array([n, n + 1], pa.int64())
    table.append(
        pa.table({field.name: ids if field.name == "id" else None for field in table.schema if field.name == "id"})
    )


def alter(table: esker.Table, n: int) -> None:
    with table.alter() as change:
        match n % 6:
            case 0:
                change.add_column(f"c{n}", "int")
            case 1:
                change.rename_column("extra", f"extra{n}")
            case 2:
                change.set_properties({f"p{n}": "1", "same": str(n)})
            case 3:
                change.remove_properties("same")
            case 4:
                change.add_partition(f"bucket({n + 1}, id)")
            case _:
                change.set_sort_order("id desc")


def upgrade(table: esker.Table, n: int) -> None:
    with table.alter() as change:
        change.upgrade_format(3)
        change.add_column(f"u{n}", "string")


STEPS = {
    "append": append,
    "alter": alter,
    "upgrade": upgrade,
    "delete": lambda table, n: table.delete(f"id = {n}"),
    "overwrite": lambda table, n: table.overwrite(pa.table({"id": pa.array([n], pa.int64())})),
    "tag": lambda table, n: table.tag(f"t{n}"),
    "branch": lambda table, n: table.branch(f"b{n}"),
    "drop ref": lambda table, n: table.drop_ref(min(set(table.refs) - {"main"})),
    "rollback": lambda table, n: table.rollback(snapshot_id=table.snapshots[0].snapshot_id),
    "expire": lambda table, n: expire(table),
    "drop column": lambda table, n: drop_column(table),
}


def expire(table: esker.Table) -> None:
    """Remove every snapshot that no ref names."""
    home, state = table._at_home(), table._state
    named = {ref.snapshot_id for ref in state.metadata.all_refs.values()}
    kept = tuple(snapshot for snapshot in state.metadata.snapshots if snapshot.snapshot_id in named)
    log = tuple(entry for entry in state.metadata.snapshot_log if entry.snapshot_id in named)
    outcome = home.catalog.swap(home.name, state, replace(state.metadata, snapshots=kept, snapshot_log=log))
    assert isinstance(outcome, Accepted)
    table.refresh()


def drop_column(table: esker.Table) -> None:
    with table.alter() as change:
        change.drop_column(next(field.name for field in table.schema if field.name != "id"))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 20)), min_size=1, max_size=8),
    st.sampled_from([1, 2, 3]),
)
def test_updates_applied_to_the_base_give_the_new_version(steps: list[tuple[str, int]], version: int) -> None:
    catalog = Recording(memory_catalog())
    lake = lake_over(catalog)
    lake.create_namespace("a")
    table = lake.create_table("a.t", "id bigint, extra string", format_version=version)
    append(table, 0)
    for step, n in steps:
        try:
            STEPS[step](table, n)
        except (EskerError, IndexError, StopIteration, ValueError):
            continue  # not every step is possible at every time
    assert catalog.swaps
    for base, new in catalog.swaps:
        updates = updates_of(base, new)
        requirements = requirements_of(base, updates)
        assert failed_requirement(base, requirements) is None
        assert_same(applied(base, updates), new)
        assert updates_of(new, new) == []
    first = catalog.swaps[0][0]
    empty = replace(first, schemas=(), specs=(), sort_orders=(), properties={}, last_column_id=0, last_partition_id=999)
    assert_same(applied(replace(empty, uuid=None, location=""), updates_of(None, first)), first)


def test_statistics_and_keys_are_set_and_removed() -> None:
    lake = lake_over(memory_catalog())
    lake.create_namespace("a")
    table = lake.create_table("a.t", "id bigint", format_version=3)
    append(table, 0)
    base = table._state.metadata
    id_ = base.snapshots[0].snapshot_id
    full = replace(
        base,
        statistics=(StatisticsFile(snapshot_id=id_, path="memory://s", file_size=9, footer_size=4),),
        partition_statistics=(PartitionStatisticsFile(snapshot_id=id_, path="memory://p", file_size=3),),
        encryption_keys=({"key-id": "k", "encrypted-key-metadata": "eA=="},),
    )
    for one, other in ((base, full), (full, base)):
        assert_same(applied(one, updates_of(one, other)), other)
    assert [update["action"] for update in updates_of(full, base)] == [
        "remove-statistics",
        "remove-partition-statistics",
        "remove-encryption-key",
    ]
