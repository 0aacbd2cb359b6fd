"""Where new metadata files lie, under names that cannot clash."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from uuid import uuid4

from esker.tree.snapshot import LazySequence
from esker.tree.table_metadata import TableMetadata


@dataclass(slots=True)
class MetadataNames:
    """Names for one operation's manifests and lists."""

    operation_id: str = field(default_factory=lambda: str(uuid4()))
    _manifests: int = 0

    def manifest(self, metadata: TableMetadata) -> str:
        """A location for the operation's next manifest."""
        number = self._manifests
        self._manifests += 1
        return f"{metadata_folder(metadata)}/{self.operation_id}-m{number}.avro"

    def manifest_list(self, metadata: TableMetadata, snapshot_id: int, attempt: int) -> str:
        """A location for the list of one attempt."""
        return f"{metadata_folder(metadata)}/snap-{snapshot_id}-{attempt}-{self.operation_id}.avro"


def metadata_folder(metadata: TableMetadata) -> str:
    """Where the table's metadata files go."""
    chosen = metadata.properties.get("write.metadata.path")
    return chosen.rstrip("/") if chosen else f"{metadata.location.rstrip('/')}/metadata"


def new_snapshot_id(metadata: TableMetadata) -> int:
    """A random id over 63 bits that no snapshot of the table has."""
    while True:
        drawn = secrets.randbits(63)
        if drawn and not _is_taken(metadata, drawn):
            return drawn


def _is_taken(metadata: TableMetadata, snapshot_id: int) -> bool:
    """Looked up in the history as it lies: decoding thousands of snapshots to find no clash would cost the commit."""
    snapshots = metadata.snapshots
    if not isinstance(snapshots, LazySequence):
        return any(snapshot.snapshot_id == snapshot_id for snapshot in snapshots)
    raw, plain = snapshots.raw_and_plain()
    if any(snapshot.snapshot_id == snapshot_id for snapshot in plain):
        return True
    return str(snapshot_id).encode() in b"\n".join(raw)
