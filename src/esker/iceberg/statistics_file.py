"""Puffin files of theta sketches, and their entries in table metadata (checklist J1, J2)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from esker.errors import EskerError
from esker.iceberg.puffin import BlobMetadata, NewBlob, encode_puffin, read_blob, read_footer
from esker.ports.statistics import ColumnSketch
from esker.ports.storage import Storage
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import StatisticsFile
from esker.version import VERSION

THETA = "apache-datasketches-theta-v1"
log = logging.getLogger("esker.statistics")


def write_statistics(
    storage: Storage,
    location: str,
    snapshot: Snapshot,
    sketches: Sequence[ColumnSketch],
    replaced: StatisticsFile | None,
) -> StatisticsFile:
    """Write a file of sketches and of the other blobs of the file that it replaces. Returns the entry that names it."""
    blobs = [_blob(snapshot, sketch) for sketch in sketches]
    blobs += _kept(storage, replaced, blobs)
    content, footer = encode_puffin(blobs, properties={"created-by": f"Esker {VERSION}"})
    storage.write_new(location, content)
    return StatisticsFile(
        snapshot_id=snapshot.snapshot_id,
        path=location,
        file_size=len(content),
        footer_size=footer.size,
        blobs=tuple(map(_entry, footer.blobs)),
    )


def _blob(snapshot: Snapshot, sketch: ColumnSketch) -> NewBlob:
    return NewBlob(
        type=THETA,
        content=sketch.content,
        fields=(sketch.field_id,),
        snapshot_id=snapshot.snapshot_id,
        sequence_number=snapshot.sequence_number,
        codec="zstd",
        properties={"ndv": str(sketch.distinct_values)},
    )


def _kept(storage: Storage, replaced: StatisticsFile | None, new: Iterable[NewBlob]) -> list[NewBlob]:
    """The blobs of the replaced file that the new ones do not replace. Empty if the file cannot be read: statistics
    are never a reason to refuse newer ones."""
    if replaced is None:
        return []
    known = {(blob.type, blob.fields) for blob in new}
    try:
        return [blob for blob in _blobs(storage, replaced.path) if (blob.type, blob.fields) not in known]
    except EskerError as error:
        log.warning("cannot keep the other statistics of %s: %s", replaced.path, error)
        return []


def _blobs(storage: Storage, location: str) -> Iterator[NewBlob]:
    content = storage.read(location)

    def read(offset: int, length: int) -> bytes:
        return content[offset : offset + length]

    for blob in read_footer(location, len(content), read).blobs:
        yield NewBlob(
            type=blob.type,
            content=read_blob(location, blob, read),
            fields=blob.fields,
            snapshot_id=blob.snapshot_id,
            sequence_number=blob.sequence_number,
            codec=None if blob.codec is None else "zstd",
            properties=blob.properties,
        )


def _entry(blob: BlobMetadata) -> dict[str, Any]:
    """The blob in table metadata: without the place that only the footer has."""
    return {
        "type": blob.type,
        "snapshot-id": blob.snapshot_id,
        "sequence-number": blob.sequence_number,
        "fields": list(blob.fields),
        "properties": dict(blob.properties),
    }
