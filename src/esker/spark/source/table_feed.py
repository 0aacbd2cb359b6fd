"""Follows a table from commit to commit: the offset of a stream, the snapshots after it, and the files that they
add."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from esker.errors import InvalidInput, NoSuchSnapshot, Unsupported
from esker.model.display_text import show_ms
from esker.model.predicates.predicate import TRUE
from esker.ports.engine import ScanTask
from esker.read.plan_tasks import added_files
from esker.read.resolve_snapshot import Resolved, to_epoch_ms
from esker.read.scan import Scan
from esker.table import Table
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata
from esker.write.build_snapshot import head_of
from esker.write.table_changes import ancestors

ALL = -1
NOTHING = -1
UNBEGUN = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """How far a stream has come: everything before a snapshot, and of the snapshot its first files or all of them.

    With ``whole``, the stream starts with the table itself: the files are all files of the snapshot, not only those
    that it added. ``snapshot_id`` is ``NOTHING`` before the table has a snapshot.

    If Spark has to send the first batch again, it asks for its start again. So the first offset is always ``UNBEGUN``,
    and every later one contains where the stream started: ``begin`` and ``begin_whole``.
    """

    snapshot_id: int = UNBEGUN
    files: int = ALL
    whole: bool = False
    begin: int = UNBEGUN
    begin_whole: bool = False

    @property
    def is_done(self) -> bool:
        """Whether all files of the snapshot are done."""
        return self.files == ALL

    @property
    def first(self) -> Offset:
        """The offset at which this stream started."""
        return Offset(snapshot_id=self.begin, files=0 if self.begin_whole else ALL, whole=self.begin_whole)

    def begun_at(self, start: Offset) -> Offset:
        """Return this offset in a stream that started at ``start``."""
        return replace(self, begin=start.snapshot_id, begin_whole=start.whole)

    def as_json(self) -> dict[str, Any]:
        """Return the offset as Spark stores it."""
        names = ("snapshot", "files", "whole", "begin", "begin-whole")
        return dict(zip(names, (self.snapshot_id, self.files, self.whole, self.begin, self.begin_whole), strict=True))

    @classmethod
    def of(cls, given: Any) -> Offset:
        """Return the offset that Spark stored. Raises ``InvalidInput`` if it is not one of Esker's."""
        match given:
            case {
                "snapshot": int(snapshot_id),
                "files": int(files),
                "whole": bool(whole),
                "begin": int(begin),
                "begin-whole": bool(begin_whole),
            }:
                return cls(snapshot_id=snapshot_id, files=files, whole=whole, begin=begin, begin_whole=begin_whole)
            case _:
                raise InvalidInput(
                    f"cannot continue from the checkpoint: {given!r} is not an offset of a table's stream; use a new "
                    "checkpoint"
                )


START = Offset()


SKIP_OVERWRITES = "streaming-skip-overwrite-snapshots"
SKIP_DELETES = "streaming-skip-delete-snapshots"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How to follow a table, from the options of a stream."""

    branch: str
    start: str = "whole"  # or latest
    start_time: str | None = None
    start_snapshot: int | None = None
    skips_overwrites: bool = False
    skips_deletes: bool = False
    max_files: int | None = None
    max_rows: int | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """What remains of one snapshot: its files from ``first`` on. With ``is_passed``, none of them are read."""

    snapshot: Snapshot
    first: int = 0
    whole: bool = False
    is_passed: bool = False


class Feed:
    """Follows one branch. Only ``latest`` and ``stop_at_now`` load the table again. Offsets decide everything else."""

    def __init__(self, table: Table, scan: Scan, manner: Manner) -> None:
        self._table = table
        self._scan = scan  # the columns, the filter and the schema that rows are read with
        self._manner = manner
        self._last: int | None = None  # the last snapshot to read, for a query that ends with what exists now

    @property
    def _metadata(self) -> TableMetadata:
        return self._table.metadata

    def begin(self) -> Offset:
        """Return where a new stream starts, in the table as it is now."""
        head = self._head()
        if self._manner.start_snapshot is not None:
            return self._after_snapshot(head, self._manner.start_snapshot)
        if self._manner.start_time is not None:
            return self._before_time(head, to_epoch_ms(self._manner.start_time))
        if head is None:
            return Offset(snapshot_id=NOTHING)
        if self._manner.start == "latest":
            return Offset(snapshot_id=head.snapshot_id)
        return Offset(snapshot_id=head.snapshot_id, files=0, whole=True)

    def newest(self) -> Offset | None:
        """Return the offset of the current snapshot, or None."""
        head = self._head()
        return None if head is None else Offset(snapshot_id=head.snapshot_id)

    def stop_at_now(self) -> None:
        """Read only snapshots that exist now. Later ones are for another query."""
        self._table.refresh()
        head = self._head()
        self._last = NOTHING if head is None else head.snapshot_id

    def latest(self, start: Offset | None, *, is_limited: bool) -> Offset:
        """Return the offset at which the next batch ends: the current snapshot, or an earlier one if a limit is
        reached.

        A batch ends before a snapshot that cannot be streamed. Raises ``Unsupported`` if that snapshot is the next one.
        """
        self._table.refresh()
        head = self._target()
        first = self.begin() if start is None or start == START else start.first
        if head is None:
            return Offset(snapshot_id=NOTHING).begun_at(first)
        if start is None:  # Spark before 4.2, which reads everything that exists
            return Offset(snapshot_id=head.snapshot_id).begun_at(first)
        return self._reached(first if start == START else start, head, is_limited).begun_at(first)

    def _reached(self, start: Offset, head: Snapshot, is_limited: bool) -> Offset:
        reached = start
        room = _Room(self._manner) if is_limited else None
        try:
            for piece in self._pieces(start, head):
                reached = Offset(snapshot_id=piece.snapshot.snapshot_id)
                if room is not None and not piece.is_passed:
                    files = self._files(piece)
                    taken = room.taken(files[piece.first :])
                    if piece.first + taken < len(files):
                        return replace(reached, files=piece.first + taken, whole=piece.whole)
        except Unsupported:
            if reached == start:
                raise
        return reached

    def tasks(self, start: Offset, end: Offset) -> list[ScanTask]:
        """Return the files between two offsets that the filter leaves."""
        begun = end.first if start == START else start
        last = self._metadata.snapshot(end.snapshot_id)
        if last is None:
            if start == end or end.snapshot_id == NOTHING:
                return []
            raise self._gone(end.snapshot_id)
        found: list[ScanTask] = []
        for piece in self._pieces(begun, last):
            if piece.is_passed:
                continue
            ends_here = piece.snapshot.snapshot_id == end.snapshot_id and not end.is_done
            files = self._files(piece)[piece.first : end.files if ends_here else None]
            kept = {task.data_file.path: task for task in self._planned(piece, self._scan)}
            found += [kept[task.data_file.path] for task in files if task.data_file.path in kept]
        return found

    def _pieces(self, start: Offset, last: Snapshot) -> Iterator[Piece]:
        """Yield what comes after an offset, the oldest first."""
        if not start.is_done:
            unfinished = self._metadata.snapshot(start.snapshot_id)
            if unfinished is None:
                raise self._gone(start.snapshot_id)
            yield Piece(unfinished, start.files, start.whole)
        for snapshot in self._since(start.snapshot_id, last):
            yield Piece(snapshot, is_passed=self._is_passed(snapshot))

    def _since(self, snapshot_id: int, last: Snapshot) -> Sequence[Snapshot]:
        """Return the snapshots after ``snapshot_id``, which may have expired, up to the last."""
        found: list[Snapshot] = []
        for snapshot in ancestors(self._metadata, last.snapshot_id):
            if snapshot.snapshot_id == snapshot_id:
                return found[::-1]
            found.append(snapshot)
            if snapshot.parent_snapshot_id == snapshot_id:
                return found[::-1]
        oldest = found[-1]
        if snapshot_id == NOTHING and oldest.parent_snapshot_id is None:
            return found[::-1]
        raise self._gone(snapshot_id)

    def _is_passed(self, snapshot: Snapshot) -> bool:
        """Return whether a snapshot adds no rows.

        Raises ``Unsupported`` if it changes rows that the stream has read already.
        """
        match snapshot.operation:
            case "append" | None:
                return False
            case "replace":
                return True
            case "delete" if self._manner.skips_deletes:
                return True
            case "overwrite" if self._manner.skips_overwrites:
                return True
            case operation:
                option = SKIP_DELETES if operation == "delete" else SKIP_OVERWRITES
                raise Unsupported(
                    f"cannot stream past snapshot {snapshot.snapshot_id} of {self._table.name}: it is of the kind "
                    f"{operation}, and rows that were given out cannot be taken back; set {option} = true to skip "
                    "such snapshots, or begin a new stream",
                    feature=f"streaming of {operation} snapshots",
                    snapshot_id=snapshot.snapshot_id,
                )

    def _files(self, piece: Piece) -> Sequence[ScanTask]:
        """Return all files of a piece, without the filter: offsets count files, and must stay valid if the filter is
        changed."""
        return self._planned(piece, replace(self._scan, filter=TRUE))

    def _planned(self, piece: Piece, scan: Scan) -> Sequence[ScanTask]:
        schema = scan.resolved.schema
        if piece.whole:
            resolved = Resolved(snapshot=piece.snapshot, schema=schema)
            # without the catalog's planner: offsets count files, and only the manifests give them one order
            return replace(scan, metadata=self._metadata, resolved=resolved, service=None).plan().tasks
        return added_files(self._metadata, scan.table_format, piece.snapshot, schema, scan.filter)

    def _head(self) -> Snapshot | None:
        return head_of(self._metadata, self._manner.branch)

    def _target(self) -> Snapshot | None:
        if self._last is None:
            return self._head()
        return None if self._last == NOTHING else self._metadata.snapshot(self._last)

    def _after_snapshot(self, head: Snapshot | None, snapshot_id: int) -> Offset:
        known = ancestors(self._metadata, None if head is None else head.snapshot_id)
        if not any(snapshot_id in (snapshot.snapshot_id, snapshot.parent_snapshot_id) for snapshot in known):
            raise self._gone(snapshot_id)
        return Offset(snapshot_id=snapshot_id)

    def _before_time(self, head: Snapshot | None, moment_ms: int) -> Offset:
        """Return the last snapshot before a time. Raises ``NoSuchSnapshot`` if it has expired."""
        oldest = None
        for snapshot in ancestors(self._metadata, None if head is None else head.snapshot_id):
            if snapshot.timestamp_ms < moment_ms:
                return Offset(snapshot_id=snapshot.snapshot_id)
            oldest = snapshot
        if oldest is None or oldest.parent_snapshot_id is None:
            return Offset(snapshot_id=NOTHING)
        raise NoSuchSnapshot(
            f"cannot stream {self._table.name} from {show_ms(moment_ms)}: snapshots of that time have expired, the "
            f"oldest that is left is {oldest.snapshot_id} of {show_ms(oldest.timestamp_ms)}; begin later, or with "
            "the whole table",
            as_of_ms=moment_ms,
        )

    def _gone(self, snapshot_id: int) -> NoSuchSnapshot | InvalidInput:
        name = self._table.name
        if self._metadata.snapshot(snapshot_id) is not None:
            return InvalidInput(
                f"cannot stream {name} on from snapshot {snapshot_id}: the branch {self._manner.branch} was "
                "rolled back or replaced and no longer contains it; begin a new stream with a new checkpoint",
                snapshot_id=snapshot_id,
            )
        what = "a table without snapshots" if snapshot_id == NOTHING else f"snapshot {snapshot_id}"
        return NoSuchSnapshot(
            f"cannot stream {name} on from {what}: it has expired, and what was committed since is no longer known; "
            "begin a new stream with a new checkpoint, and keep snapshots for longer than a stream may rest",
            snapshot_id=snapshot_id,
        )


class _Room:
    """How much more fits into a batch. One file always fits."""

    def __init__(self, manner: Manner) -> None:
        self._files = manner.max_files
        self._rows = manner.max_rows
        self._is_empty = True

    def taken(self, files: Sequence[ScanTask]) -> int:
        """Return how many of these files fit, in their order."""
        for count, task in enumerate(files):
            rows = task.data_file.record_count
            full = self._files == 0 or (self._rows is not None and rows > self._rows)
            if full and not self._is_empty:
                return count
            self._is_empty = False
            self._files = None if self._files is None else self._files - 1
            self._rows = None if self._rows is None else max(0, self._rows - rows)
        return len(files)
