"""``entries`` and ``all_entries``: what manifests say of files, deleted entries included."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from esker.metadata_tables.content_files import ContentFiles
from esker.metadata_tables.subject import Subject
from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestFile


def entries(subject: Subject, snapshot_id: int | None = None) -> pa.Table:
    """Every entry of one snapshot's manifests."""
    return _table(subject, subject.manifests(snapshot_id))


def all_entries(subject: Subject) -> pa.Table:
    """Every entry of every manifest that some snapshot still reaches."""
    return _table(subject, subject.reachable_manifests())


def _table(subject: Subject, manifests: Sequence[ManifestFile]) -> pa.Table:
    shape = ContentFiles.of(subject)
    schema = pa.schema(
        [
            pa.field("status", pa.int32(), nullable=False),
            pa.field("snapshot_id", pa.int64()),
            pa.field("sequence_number", pa.int64()),
            pa.field("file_sequence_number", pa.int64()),
            pa.field("data_file", pa.struct(shape.fields()), nullable=False),
            shape.readable.field,
        ]
    )
    batches = [_batch(shape, schema, batch) for batch in subject.entries(manifests, shape.entry_columns)]
    return pa.Table.from_batches(batches, schema)


def _batch(shape: ContentFiles, schema: pa.Schema, batch: Entries) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array(batch.status.astype(np.int32)),
            batch.snapshot_id,
            pa.array(batch.sequence_number),
            batch.file_sequence_number,
            pa.StructArray.from_arrays(shape.columns(batch), fields=list(shape.fields())),
            shape.readable_metrics(batch),
        ],
        schema=schema,
    )
