"""Table metadata: the root of a table's tree, one immutable version of it. Also the HTML that a notebook shows of
it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from esker.model.display_text import card, first_of, show_ms
from esker.model.partition_and_sort import UNSORTED, PartitionSpec, SortOrder, fields_of_all
from esker.model.schema import Schema
from esker.model.types import Field
from esker.tree.snapshot import RefKind, Snapshot, SnapshotRef


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLogEntry:
    """When a snapshot became the current one."""

    timestamp_ms: int
    snapshot_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLogEntry:
    """An earlier metadata file, and when it was written."""

    timestamp_ms: int
    metadata_file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsFile:
    """A Puffin file of statistics about one snapshot."""

    snapshot_id: int
    path: str
    file_size: int
    footer_size: int
    blobs: tuple[Mapping[str, Any], ...] = ()
    key_metadata: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatisticsFile:
    """A file of statistics per partition of one snapshot."""

    snapshot_id: int
    path: str
    file_size: int


@dataclass(frozen=True, kw_only=True)
class TableMetadata:
    """Everything about a table except its manifests: schemas, specs, snapshots, refs, logs, properties."""

    format_version: int
    uuid: str | None  # v1 tables may have none
    location: str
    last_updated_ms: int
    last_column_id: int
    schemas: tuple[Schema, ...]
    current_schema_id: int
    specs: tuple[PartitionSpec, ...] = (PartitionSpec(),)
    default_spec_id: int = 0
    last_partition_id: int = 999
    sort_orders: tuple[SortOrder, ...] = (UNSORTED,)
    default_sort_order_id: int = 0
    last_sequence_number: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    current_snapshot_id: int | None = None
    snapshots: Sequence[Snapshot] = ()
    snapshot_log: Sequence[SnapshotLogEntry] = ()
    metadata_log: Sequence[MetadataLogEntry] = ()
    refs: Mapping[str, SnapshotRef] = field(default_factory=dict)
    statistics: Sequence[StatisticsFile] = ()
    partition_statistics: Sequence[PartitionStatisticsFile] = ()
    next_row_id: int | None = None
    encryption_keys: tuple[Mapping[str, Any], ...] = ()
    origin: Any = None  # what the codec decoded this from, so that it can write unknown fields back

    @cached_property
    def schema(self) -> Schema:
        """The current schema."""
        return self.schema_by_id[self.current_schema_id]

    @cached_property
    def spec(self) -> PartitionSpec:
        """The partition spec of new data."""
        return self.spec_by_id[self.default_spec_id]

    @cached_property
    def sort_order(self) -> SortOrder:
        """The sort order of new data."""
        return next((o for o in self.sort_orders if o.order_id == self.default_sort_order_id), UNSORTED)

    @cached_property
    def schema_by_id(self) -> Mapping[int, Schema]:
        """Every schema that the table has had, by id."""
        return {schema.schema_id: schema for schema in self.schemas}

    @cached_property
    def spec_by_id(self) -> Mapping[int, PartitionSpec]:
        """Every partition spec that the table has had, by id."""
        return {spec.spec_id: spec for spec in self.specs}

    @cached_property
    def any_field_by_id(self) -> Mapping[int, Field]:
        """The fields of every schema by id, including dropped columns. The newest version of a field is used."""
        older = tuple(s for s in self.schemas if s.schema_id != self.current_schema_id)
        return fields_of_all((*older, self.schema))

    @cached_property
    def current_snapshot(self) -> Snapshot | None:
        """The snapshot of ``main``. None if the table is empty."""
        return None if self.current_snapshot_id is None else self.snapshot(self.current_snapshot_id)

    @cached_property
    def all_refs(self) -> Mapping[str, SnapshotRef]:
        """The refs by name. Contains ``main``, the current snapshot, even if the writer did not record it."""
        if "main" in self.refs or self.current_snapshot_id is None:
            return self.refs
        return {"main": SnapshotRef(snapshot_id=self.current_snapshot_id, kind=RefKind.BRANCH), **self.refs}

    def snapshot(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot of that id, or None. Searches the newest first, because these are needed most."""
        for at in range(len(self.snapshots) - 1, -1, -1):
            if self.snapshots[at].snapshot_id == snapshot_id:
                return self.snapshots[at]
        return None


# ---------------------------------------------------------------- The card in a notebook


_MOST_COLUMNS = 20


def without_history(metadata: TableMetadata) -> TableMetadata:
    """Return the parts of the metadata that a worker needs: schemas, specs and properties, but not thousands of
    snapshots."""
    return replace(
        metadata,
        current_snapshot_id=None,
        snapshots=(),
        snapshot_log=(),
        metadata_log=(),
        refs={},
        statistics=(),
        partition_statistics=(),
        origin=None,
    )


def table_card(name: str, metadata: TableMetadata) -> str:
    """The table's columns, partitioning and current snapshot as HTML, from its metadata alone."""
    snapshot = metadata.current_snapshot
    current = "none: the table is empty"
    if snapshot is not None:
        current = f"{snapshot.snapshot_id}, {snapshot.operation or 'unknown'}, {show_ms(snapshot.timestamp_ms)}"
    return card(
        name,
        [
            ("format", f"v{metadata.format_version}"),
            ("location", metadata.location),
            ("current snapshot", current),
            ("rows", None if snapshot is None else snapshot.summary.get("total-records")),
            ("partitioned by", partitioning(metadata.spec, metadata.schema) or None),
            ("columns", first_of(map(str, metadata.schema), _MOST_COLUMNS, "\n")),
        ],
    )


def partitioning(spec: PartitionSpec, schema: Schema) -> str:
    """The terms of a partition spec: ``day(ts), bucket(16, id)``."""
    return first_of(
        (f"{part.transform} of {schema.name_by_id.get(part.source_id, part.name)}" for part in spec.fields), 8
    )
