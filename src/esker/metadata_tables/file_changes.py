"""Which files came and went between two snapshots.

Manifests never change, so those that both snapshots list hold the same files in both and are left unread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from esker.metadata_tables.content_files import ContentFiles
from esker.metadata_tables.subject import Subject
from esker.tree.manifest_list import ManifestFile

# several deletion vectors share one Puffin file: what each is about tells them apart
IDENTITY = ("file_path", "referenced_data_file", "content_offset")
COLUMNS = (*IDENTITY, "content", "file_format", "spec_id", "partition", "record_count", "file_size_in_bytes")


def file_changes(subject: Subject, from_snapshot: int | None, to_snapshot: int | None) -> pa.Table:
    """One row a file that only one of the two has, ``change`` being ``added`` or ``removed``.

    None stands for the table before its first snapshot. A file that was rewritten into another manifest but is
    live in both is no change.
    """
    before = () if from_snapshot is None else subject.manifests(from_snapshot)
    after = () if to_snapshot is None else subject.manifests(to_snapshot)
    shared = {manifest.path for manifest in before} & {manifest.path for manifest in after}
    shape = ContentFiles.of(subject, COLUMNS)
    old = _live(subject, shape, [m for m in before if m.path not in shared])
    new = _live(subject, shape, [m for m in after if m.path not in shared])
    return pa.concat_tables([_only_in(new, old, "added"), _only_in(old, new, "removed")])


def _live(subject: Subject, shape: ContentFiles, manifests: Sequence[ManifestFile]) -> pa.Table:
    schema = pa.schema(shape.fields())
    manifests = [m for m in manifests if m.may_hold_live_files]
    batches = (batch.take(batch.is_live) for batch in subject.entries(manifests, shape.entry_columns))
    return pa.Table.from_batches((pa.RecordBatch.from_arrays(shape.columns(b), schema=schema) for b in batches), schema)


def _only_in(these: pa.Table, those: pa.Table, change: str) -> pa.Table:
    known = set(_identities(those))
    mine = [at for at, identity in enumerate(_identities(these)) if identity not in known]
    kept = these.take(pa.array(mine, pa.int64()))
    return kept.add_column(
        0, pa.field("change", pa.string(), nullable=False), pa.array([change] * len(kept), pa.string())
    )


def _identities(files: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(files[name].to_pylist() for name in IDENTITY), strict=True)
