"""Which entries of a snapshot's manifests are its files: the ADDs whose file no DELETE names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from esker.model.arrow_arrays import arrow_array, flags_of, numbers_of
from esker.paimon.manifests.manifest import FileEntry, Kind

_REST = (
    "_BUCKET", "_FILE._LEVEL", "_FILE._FILE_NAME", "_FILE._EXTRA_FILES", "_FILE._EMBEDDED_FILE_INDEX",
    "_FILE._EXTERNAL_PATH",
)  # fmt: skip


def live_entries(table: pa.Table, partition_of: Callable[[bytes], Any] = bytes) -> pa.Table:
    """The live rows of ``read_manifests``, in order. It needs the columns ``IDENTITY``.

    ``partition_of`` decodes a partition: two writers may write the same values as different bytes. Only files whose
    name occurs twice are compared in full, so the cost is that of a few columns.
    """
    added = numbers_of(table["_KIND"].combine_chunks(), null=0) == Kind.ADD
    names = table["_FILE._FILE_NAME"]
    counts = names.value_counts()
    repeated = counts.field("values").filter(arrow_array(numbers_of(counts.field("counts"), null=0) > 1))
    if added.all() and not len(repeated):
        return table
    if not len(repeated):
        return table.filter(
            arrow_array(added)
        )  # a DELETE alone: its ADD has the same name, so it is in no manifest here
    at = np.flatnonzero(flags_of(pc.is_in(names.combine_chunks(), value_set=repeated)))
    doubtful = table.take(arrow_array(at))
    partitions = [partition_of(value) for value in doubtful["_PARTITION"].to_pylist()]
    columns = [doubtful[name].to_pylist() for name in _REST]
    identities = [
        (partition, *(tuple(part) if isinstance(part, list) else part for part in rest))
        for partition, *rest in zip(partitions, *columns, strict=True)
    ]
    seen = {identity for identity, row in zip(identities, at, strict=True) if not added[row]}
    keep = added.copy()
    for identity, row in zip(identities, at, strict=True):
        if added[row]:
            keep[row] = identity not in seen
            seen.add(identity)  # a set: the second ADD of a file is no second file
    return table.filter(arrow_array(keep))


def live_files(entries: Iterable[FileEntry]) -> list[FileEntry]:
    """The same for entries as objects, in the order in which they were added."""
    given = list(entries)
    gone = {entry.identity for entry in given if entry.kind is Kind.DELETE}
    kept = {entry.identity: entry for entry in reversed(given) if entry.kind is Kind.ADD}
    return [entry for entry in reversed(kept.values()) if entry.identity not in gone]
