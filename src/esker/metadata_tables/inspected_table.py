"""The table whose metadata is shown, and the ports that read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from esker.errors import Unsupported
from esker.model.schema import Schema
from esker.model.types import Field, Type
from esker.ports.engine import Engine
from esker.ports.table_format import EntryColumns, TableFormat
from esker.read.resolve_snapshot import resolve_snapshot
from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata

UTC_MICROS = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One version of a table, with the ports that read its manifests."""

    metadata: TableMetadata
    metadata_location: str
    table_format: TableFormat
    engine: Engine

    def snapshot(self, snapshot_id: int | None) -> Snapshot | None:
        """The snapshot of that id, for None the current one. Returns None if the table is empty."""
        return resolve_snapshot(self.metadata, snapshot_id=snapshot_id).snapshot

    def manifests(self, snapshot_id: int | None) -> Sequence[ManifestFile]:
        """The manifests of that snapshot. Empty if the table is empty."""
        snapshot = self.snapshot(snapshot_id)
        return () if snapshot is None else self.table_format.manifests(self.metadata, snapshot)

    def manifests_of_every_snapshot(self) -> Iterator[tuple[Snapshot, Sequence[ManifestFile]]]:
        """Each snapshot that has not expired, with its manifests."""
        for snapshot in self.metadata.snapshots:
            yield snapshot, self.table_format.manifests(self.metadata, snapshot)

    def reachable_manifests(self) -> Sequence[ManifestFile]:
        """The manifests of all snapshots, each once."""
        found: dict[str, ManifestFile] = {}
        for _, manifests in self.manifests_of_every_snapshot():
            for manifest in manifests:
                found.setdefault(manifest.path, manifest)
        return tuple(found.values())

    def entries(self, manifests: Sequence[ManifestFile], columns: EntryColumns) -> Iterator[Entries]:
        """The entries of the manifests, in batches that are not empty."""
        return (batch for batch in self.table_format.entries(self.metadata, manifests, columns) if len(batch))

    def arrow_type(self, type_: Type) -> pa.DataType:
        """The Arrow type in which the engine reads a column of that type. The null type if it cannot."""
        try:
            return self.engine.arrow_schema(Schema(fields=(Field(id=1, name="value", type=type_),))).field(0).type
        except Unsupported:
            return pa.null()


def micros(milliseconds: Sequence[int | None]) -> pa.Array:
    """Times in milliseconds from 1970, as Iceberg shows them: microseconds in UTC.

    A time outside of 64-bit microseconds is shown as null, so that one wrong clock does not hide the other rows.
    """
    return int64s([None if ms is None else ms * 1000 for ms in milliseconds]).cast(UTC_MICROS)


def int64s(numbers: Sequence[int | None]) -> pa.Array:
    """Whole numbers as a column. Numbers beyond 64 bits are null: some writers use such ids."""
    return pa.array([n if n is not None and -(2**63) <= n < 2**63 else None for n in numbers], pa.int64())
