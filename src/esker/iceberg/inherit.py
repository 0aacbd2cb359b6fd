"""What a manifest entry leaves out because its manifest says it: sequence numbers, snapshot ids, row ids.

A writer leaves them null so that a retried commit rewrites one manifest list and no manifest (checklist B3); a
reader fills them in from the list's row. Everything here works on whole columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from esker.errors import Corrupt
from esker.model.arrow_arrays import arrow_array, null_mask, numbers_of
from esker.tree.manifest import EntryStatus
from esker.tree.manifest_list import ManifestContent, ManifestFile

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]
    Int8s = npt.NDArray[np.int8]
    Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of some manifests, one manifest after the other."""

    manifests: tuple[ManifestFile, ...]
    index: Int64s  # which manifest a row is from
    starts: Int64s  # the first row of each manifest
    status: Int8s

    def of(self, values: Sequence[int]) -> Int64s:
        """A number of each manifest, repeated for its rows."""
        return np.array(values, np.int64)[self.index]

    def first(self, bad: Bools) -> ManifestFile:
        """The manifest of the first row where ``bad`` holds."""
        return self.manifests[int(self.index[int(np.argmax(bad))])]


def inherit_sequence_numbers(rows: Rows, written: pa.Array, versions: Sequence[int]) -> Int64s:
    """The data sequence number of every row; ``versions`` are the manifests' format versions.

    An ADDED entry takes the manifest's number (B1); all of a v1 manifest are 0, which had no numbers (B4). An
    EXISTING or DELETED entry must carry its own. A data file that does not reads as 0, the number of files older
    than any count, so that no delete is lost on it; a live delete file that does not could apply to anything.
    """
    missing = null_mask(written)
    values = numbers_of(written, null=0).copy()
    _refuse_negative(rows, values, "sequence number")
    if not missing.any():
        return values
    counted = rows.of([version > 1 for version in versions]).astype(bool)
    inherits = missing & counted & (rows.status == EntryStatus.ADDED)
    values[inherits] = rows.of([manifest.sequence_number for manifest in rows.manifests])[inherits]
    deletes = rows.of([m.content is ManifestContent.DELETES and m.sequence_number > 0 for m in rows.manifests])
    unknown = missing & (rows.status == EntryStatus.EXISTING) & deletes.astype(bool)
    if unknown.any():
        raise Corrupt(rows.first(unknown).path, "an existing delete file has no sequence number")
    return values


def inherit_file_sequence_numbers(rows: Rows, written: pa.Array, versions: Sequence[int]) -> pa.Array:
    """The number of the snapshot that added the file; null where nobody says."""
    missing = null_mask(written)
    if not missing.any():
        return written
    numbers = rows.of(
        [
            0 if version < 2 else manifest.sequence_number
            for manifest, version in zip(rows.manifests, versions, strict=True)
        ]
    )
    inherits = missing & ((rows.status == EntryStatus.ADDED) | (numbers == 0))
    values = np.where(inherits, numbers, numbers_of(written, null=0))
    return arrow_array(values, null=missing & ~inherits)


def inherit_snapshot_ids(rows: Rows, written: pa.Array) -> pa.Array:
    """Who added the file, or removed it (B5): the manifest's own snapshot unless the entry names another."""
    missing = null_mask(written)
    if not missing.any():
        return written
    known = rows.of([manifest.added_snapshot_id is not None for manifest in rows.manifests]).astype(bool)
    ids = rows.of([manifest.added_snapshot_id or 0 for manifest in rows.manifests])
    values = np.where(missing, ids, numbers_of(written, null=0))
    return arrow_array(values, null=missing & ~known)


def inherit_first_row_ids(rows: Rows, written: pa.Array, record_count: Int64s) -> pa.Array:
    """The id of each file's first row (I4): the manifest's, moved on by every live file before it that had none.

    DELETED entries consume nothing. Without a number on the manifest there is none to inherit (I8).
    """
    assigned = rows.of(
        [manifest.content is ManifestContent.DATA and manifest.first_row_id is not None for manifest in rows.manifests]
    ).astype(bool)
    missing = null_mask(written)
    takes = missing & assigned & (rows.status != EntryStatus.DELETED)
    if not takes.any():
        return written
    consumed = np.where(takes, record_count, 0)
    before = np.cumsum(consumed) - consumed
    # a manifest without rows may begin where the last row ends
    at_start = np.append(before, 0)[rows.starts]
    first = rows.of([manifest.first_row_id or 0 for manifest in rows.manifests])
    values = np.where(takes, first + before - at_start[rows.index], numbers_of(written, null=0))
    return arrow_array(values, null=missing & ~takes)


def _refuse_negative(rows: Rows, values: Int64s, what: str) -> None:
    bad = values < 0
    if bad.any():
        raise Corrupt(rows.first(bad).path, f"a {what} is negative: {int(values[int(np.argmax(bad))])}")
