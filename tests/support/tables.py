"""Small tables made by hand, for tests that need one and do not care what is in it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from uuid import uuid4

from esker.model.schema import Schema
from esker.model.types import Field, LongType, StringType
from esker.tree.snapshot import RefKind, Snapshot, SnapshotRef
from esker.tree.table_metadata import SnapshotLogEntry, TableMetadata


def empty_table(location: str, **properties: str) -> TableMetadata:
    """A table of two columns and no snapshot."""
    columns = (Field(id=1, name="id", type=LongType(), required=True), Field(id=2, name="name", type=StringType()))
    return TableMetadata(
        format_version=2,
        uuid=str(uuid4()),
        location=location,
        last_updated_ms=1_700_000_000_000,
        last_column_id=2,
        schemas=(Schema(fields=columns),),
        current_schema_id=0,
        properties=properties,
    )


def next_snapshot(metadata: TableMetadata) -> TableMetadata:
    """The same table with one more snapshot on main, which names a list that nobody wrote."""
    at_ms = metadata.last_updated_ms + 1
    snapshot = Snapshot(
        snapshot_id=random.getrandbits(62) | 1,
        parent_snapshot_id=metadata.current_snapshot_id,
        sequence_number=metadata.last_sequence_number + 1,
        timestamp_ms=at_ms,
        manifest_list=f"{metadata.location}/metadata/none.avro",
        summary={"operation": "append"},
        schema_id=metadata.current_schema_id,
    )
    main = SnapshotRef(snapshot_id=snapshot.snapshot_id, kind=RefKind.BRANCH)
    return replace(
        metadata,
        snapshots=(*metadata.snapshots, snapshot),
        current_snapshot_id=snapshot.snapshot_id,
        refs={**metadata.refs, "main": main},
        snapshot_log=(
            *metadata.snapshot_log,
            SnapshotLogEntry(timestamp_ms=at_ms, snapshot_id=snapshot.snapshot_id),
        ),
        last_sequence_number=snapshot.sequence_number,
        last_updated_ms=at_ms,
    )


def with_properties(metadata: TableMetadata, changes: Mapping[str, str]) -> TableMetadata:
    """The same table a millisecond later, with some properties set."""
    return replace(
        metadata, properties={**metadata.properties, **changes}, last_updated_ms=metadata.last_updated_ms + 1
    )
