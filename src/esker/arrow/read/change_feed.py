"""The rows of a change feed: what each commit removed and added, without the rows that it only moved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.arrow_types import to_arrow_schema
from esker.arrow.deletes.deleted_positions import bitmap_of
from esker.arrow.equal_rows import Bools, Int64s, net_rows, row_numbers, unmatched
from esker.arrow.read.row_metadata import LAST_UPDATED_SEQUENCE_NUMBER, POS, ROW_ID
from esker.errors import InvalidInput
from esker.model.schema import Schema
from esker.model.types import LONG, Field
from esker.ports.engine import (
    CHANGE_COLUMNS,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    ChangeGroup,
    ChangeRequest,
    Commit,
    ReadRequest,
    ScanTask,
)

# ---------------------------------------------------------------- Moved rows, found by their lineage (v3)
#
# A moved row has the same row id and was last changed by the same commit.
# This reads two numbers per row instead of whole rows; only changed rows are left to compare by value. If a writer gave
# copied rows new ids, nothing is found here and values are compared.


_RowIds = npt.NDArray[np.int64]
Read = Callable[[ReadRequest], Iterator[pa.RecordBatch]]
_COLUMNS = Schema(
    fields=(
        Field(id=POS, name="_pos", type=LONG),
        Field(id=ROW_ID, name="_row_id", type=LONG),
        Field(id=LAST_UPDATED_SEQUENCE_NUMBER, name="_last_updated_sequence_number", type=LONG),
    )
)


def tells_moved_rows(request: ChangeRequest, group: ChangeGroup) -> bool:
    """Whether files were removed and others added, and every row of the group has a lasting id."""
    if request.metadata.format_version < 3 or any(task.data_file.first_row_id is None for task in group.tasks):
        return False
    return all(any(task.taken_by is None for task in side) for side in (group.deleted, group.inserted))


def without_moved(read: Read, request: ChangeRequest, group: ChangeGroup) -> ChangeGroup:
    """The group without the rows that are on both sides."""
    ours, theirs = (_Side(read, request, tasks) for tasks in (group.deleted, group.inserted))
    if ours.has_repeats or theirs.has_repeats:  # repeated ids cannot identify rows
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
        order = np.argsort(rows, kind="stable")  # quick for ids that are sorted already, as most are
        self._numbers, self._positions = numbers[order], positions[order]
        self.rows, self.changed = rows[order], changed[order]

    @property
    def has_repeats(self) -> bool:
        """Whether two rows have the same id."""
        return bool(np.any(self.rows[1:] == self.rows[:-1]))

    def without(self, moved: _RowIds) -> tuple[ScanTask, ...]:
        """The tasks without the rows at these indices."""
        numbers, positions = self._numbers[moved], self._positions[moved]
        return tuple(
            replace(task, gone=bitmap_of(positions[numbers == number])) for number, task in enumerate(self._tasks)
        )


def _lineage(read: Read, request: ChangeRequest, task: ScanTask) -> tuple[_RowIds, _RowIds, _RowIds]:
    side_request = ReadRequest(
        metadata=request.metadata, tasks=[task], row_schema=request.row_schema, projection=_COLUMNS
    )
    batches = list(read(side_request))
    found = [
        [np.empty(0, np.int64), *(batch.column(at).to_numpy(zero_copy_only=False) for batch in batches)]
        for at in range(len(_COLUMNS.fields))
    ]
    positions, rows, changed = (np.concatenate(parts).astype(np.int64) for parts in found)
    return positions, rows, changed


# ---------------------------------------------------------------- Changed rows
#
# Copy-on-write rewrites a file for a few of its rows. The other rows are removed with the old file and added with the
# new one. Such pairs cancel out within a commit. Only commits with both sides are kept in memory, one partition at a
# time if rows of two partitions cannot be equal.


Batches = Iterable[pa.RecordBatch]
CHANGE_TYPE = CHANGE_COLUMNS[0].name


def read_changes(read: Read, request: ChangeRequest) -> Iterator[pa.RecordBatch]:
    """The changed rows of each commit in turn."""
    if request.net:
        yield from _net(read, request)
        return
    changes = _Changes(read, request)
    for commit in request.commits:
        yield from changes.of(commit)


def _net(read: Read, request: ChangeRequest) -> Iterator[pa.RecordBatch]:
    """The rows that are left when equal rows cancel out over all commits.

    The changed rows are kept in memory, unless all of them were removed or all of them were added.
    """
    groups = [group for commit in request.commits for group in commit.groups]
    if not (any(group.deleted for group in groups) and any(group.inserted for group in groups)):
        yield from read_changes(read, replace(request, net=False))
        return
    whole = replace(request, projection=request.row_schema, net=False)
    schema = to_arrow_schema((*request.row_schema, *CHANGE_COLUMNS))
    rows = pa.Table.from_batches(read_changes(read, whole), schema)
    numbers = row_numbers([rows[f.name] for f in request.row_schema], rows.num_rows)
    signs = np.where(pc.equal(rows[CHANGE_TYPE], INSERT).to_numpy(), 1, -1)
    left = rows.select([f.name for f in (*request.projection, *CHANGE_COLUMNS)])
    yield from left.take(pa.array(net_rows(numbers, signs))).to_batches()


@dataclass(frozen=True, slots=True)
class _Changes:
    read: Read
    request: ChangeRequest

    def of(self, commit: Commit) -> Iterator[pa.RecordBatch]:
        """Removed rows come first, so that a reader may apply the rows in order."""
        plain = [group for group in commit.groups if not group.is_mixed]
        yield from self._rows([task for group in plain for task in group.deleted])
        put_in: list[Batches] = []
        for group in commit.groups:
            if group.is_mixed:
                taken_out, later = self._netted(group, commit)
                yield from taken_out
                put_in.append(later)
        yield from chain.from_iterable(put_in)
        yield from self._rows([task for group in plain for task in group.inserted])

    def _rows(self, tasks: Sequence[ScanTask], *, whole: bool = False) -> Iterator[pa.RecordBatch]:
        fields = (*(self.request.row_schema if whole else self.request.projection), *CHANGE_COLUMNS)
        side_request = ReadRequest(
            metadata=self.request.metadata,
            tasks=tasks,
            row_schema=self.request.row_schema,
            projection=Schema(fields=fields),
        )
        return self.read(side_request) if tasks else iter(())

    def _netted(self, group: ChangeGroup, commit: Commit) -> tuple[Batches, Batches]:
        """The rows that a group really removed and added. If one side is empty, nothing is compared."""
        if tells_moved_rows(self.request, group):
            group = without_moved(self.read, self.request, group)
        out, come = self._rows(group.deleted, whole=True), self._rows(group.inserted, whole=True)
        first_out, first_in = next(out, None), next(come, None)
        if first_out is None or first_in is None:
            return map(self._shown, _all(first_out, out)), map(self._shown, _all(first_in, come))
        taken_out, put_in = self._table(_all(first_out, out)), self._table(_all(first_in, come))
        ours, theirs = unmatched(*_numbered(taken_out, put_in, [f.name for f in self.request.row_schema]))
        taken_out, put_in = taken_out.filter(pa.array(ours)), put_in.filter(pa.array(theirs))
        if self.request.keys:
            taken_out, put_in = self._paired(taken_out, put_in, commit)
        return map(self._shown, taken_out.to_batches()), map(self._shown, put_in.to_batches())

    def _paired(self, taken_out: pa.Table, put_in: pa.Table, commit: Commit) -> tuple[pa.Table, pa.Table]:
        """Rows with the same key on both sides as updates, each new row directly after the old one."""
        names = [f.name for f in self.request.keys]
        ours, theirs = _numbered(taken_out, put_in, names)
        size = int(max(ours.max(initial=-1), theirs.max(initial=-1))) + 1
        mine, other = np.bincount(ours, minlength=size), np.bincount(theirs, minlength=size)
        if np.any((mine > 0) & (other > 0) & (mine + other > 2)):
            raise InvalidInput(
                f"cannot tell updates of snapshot {commit.snapshot_id} by {', '.join(names)}: several rows have the "
                "same key; give columns that identify a row, or no keys to have plain deletes and inserts",
                snapshot_id=commit.snapshot_id,
            )
        both = (mine == 1) & (other == 1)
        updates = _interleaved(
            _marked(_in_order(taken_out, ours, both), UPDATE_BEFORE),
            _marked(_in_order(put_in, theirs, both), UPDATE_AFTER),
        )
        rest = taken_out.filter(pa.array(~both[ours])), put_in.filter(pa.array(~both[theirs]))
        return pa.concat_tables([rest[0], updates]), rest[1]

    def _table(self, batches: Batches) -> pa.Table:
        return pa.Table.from_batches(batches, to_arrow_schema((*self.request.row_schema, *CHANGE_COLUMNS)))

    def _shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.select([f.name for f in (*self.request.projection, *CHANGE_COLUMNS)])


def _all(first: pa.RecordBatch | None, rest: Batches) -> Batches:
    return chain(() if first is None else (first,), rest)


def _numbered(ours: pa.Table, theirs: pa.Table, names: Sequence[str]) -> tuple[Int64s, Int64s]:
    """The rows of both sides, with the same numbers for equal values of these columns."""
    both = pa.concat_tables([ours, theirs])
    numbers = row_numbers([both[name] for name in names], both.num_rows)
    return numbers[: ours.num_rows], numbers[ours.num_rows :]


def _in_order(rows: pa.Table, numbers: Int64s, wanted: Bools) -> pa.Table:
    """The rows with the wanted numbers, sorted by number."""
    at = np.flatnonzero(wanted[numbers])
    return rows.take(pa.array(at[np.argsort(numbers[at])]))


def _marked(rows: pa.Table, kind: str) -> pa.Table:
    at = rows.schema.get_field_index(CHANGE_TYPE)
    return rows.set_column(at, rows.schema.field(at), pa.repeat(pa.scalar(kind), rows.num_rows))


def _interleaved(one: pa.Table, other: pa.Table) -> pa.Table:
    order = np.arange(2 * one.num_rows).reshape(2, -1).T.reshape(-1)
    return pa.concat_tables([one, other]).take(pa.array(order))
