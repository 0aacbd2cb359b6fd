"""Rows that a commit only moved, told by their lineage (v3): the same row id, last changed by the same commit.

Two numbers a row are read for it instead of whole rows, and what is left to compare by value is what changed. Where a
writer gave copied rows new ids, nothing is found here, and values decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from esker.arrow.deleted_positions import bitmap_of
from esker.arrow.metadata_columns import LAST_UPDATED_SEQUENCE_NUMBER, POS, ROW_ID
from esker.model.schema import Schema
from esker.model.types import LONG, Field
from esker.ports.changes import ChangeGroup, ChangeRequest
from esker.ports.engine import ReadRequest, ScanTask

Int64s = npt.NDArray[np.int64]
Read = Callable[[ReadRequest], Iterator[pa.RecordBatch]]
_COLUMNS = Schema(
    fields=(
        Field(id=POS, name="_pos", type=LONG),
        Field(id=ROW_ID, name="_row_id", type=LONG),
        Field(id=LAST_UPDATED_SEQUENCE_NUMBER, name="_last_updated_sequence_number", type=LONG),
    )
)


def tells_moved_rows(request: ChangeRequest, group: ChangeGroup) -> bool:
    """Whether files went and others came, and every row of the group has an id that lasts."""
    if request.metadata.format_version < 3 or any(task.data_file.first_row_id is None for task in group.tasks):
        return False
    return all(any(task.taken_by is None for task in side) for side in (group.deleted, group.inserted))


def without_moved(read: Read, request: ChangeRequest, group: ChangeGroup) -> ChangeGroup:
    """The group without the rows that are on both sides."""
    ours, theirs = (_Side(read, request, tasks) for tasks in (group.deleted, group.inserted))
    if ours.has_repeats or theirs.has_repeats:  # ids that are no ids tell nothing
        return group
    place = np.minimum(np.searchsorted(theirs.rows, ours.rows), max(0, len(theirs.rows) - 1))
    same = np.zeros(len(ours.rows), dtype=bool)
    if len(theirs.rows):
        same = (theirs.rows[place] == ours.rows) & (theirs.changed[place] == ours.changed)
    return ChangeGroup(deleted=ours.without(np.flatnonzero(same)), inserted=theirs.without(place[same]))


class _Side:
    """The lineage of the rows of some tasks, by row id."""

    def __init__(self, read: Read, request: ChangeRequest, tasks: Sequence[ScanTask]) -> None:
        self._tasks = tasks
        columns = [_lineage(read, request, task) for task in tasks]
        numbers = np.repeat(np.arange(len(tasks)), [len(positions) for positions, _, _ in columns])
        positions, rows, changed = (np.concatenate(parts) for parts in zip(*columns, strict=True))
        order = np.argsort(rows, kind="stable")  # which is quick for ids that are in order already, as most are
        self._numbers, self._positions = numbers[order], positions[order]
        self.rows, self.changed = rows[order], changed[order]

    @property
    def has_repeats(self) -> bool:
        """Whether two rows have one id."""
        return bool(np.any(self.rows[1:] == self.rows[:-1]))

    def without(self, moved: Int64s) -> tuple[ScanTask, ...]:
        """The tasks without the rows at these places."""
        numbers, positions = self._numbers[moved], self._positions[moved]
        return tuple(
            replace(task, gone=bitmap_of(positions[numbers == number])) for number, task in enumerate(self._tasks)
        )


def _lineage(read: Read, request: ChangeRequest, task: ScanTask) -> tuple[Int64s, Int64s, Int64s]:
    told = ReadRequest(metadata=request.metadata, tasks=[task], row_schema=request.row_schema, projection=_COLUMNS)
    batches = list(read(told))
    found = [
        [np.empty(0, np.int64), *(batch.column(at).to_numpy(zero_copy_only=False) for batch in batches)]
        for at in range(len(_COLUMNS.fields))
    ]
    positions, rows, changed = (np.concatenate(parts).astype(np.int64) for parts in found)
    return positions, rows, changed
