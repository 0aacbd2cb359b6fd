"""The account at the end of a run: each record is in the tables, a dead letter, pending, or known from before; none
twice.

The proof that no part of a file was read twice uses what was done, not how it was decided: places in contents, and the
bytes of files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from esker.ingest.checkpoint import Checkpoint
from esker.ingest.files.changing_files import copied_from
from esker.ingest.files.recognise import is_evidence, names_agree
from esker.ingest.files.seen_files import Seen
from esker.ingest.files.source_files import SourceFile, holds_first
from esker.ingest.receipts import DEAD_LETTER_TABLE, BatchCounts, Delivery
from esker.lake import Lake
from esker.model.predicates.column import col
from esker.write.exactly_once import APPLICATION, NUMBER, last_applied
from esker.write.table_changes import MAIN, ancestors

# ---------------------------------------------------------------- the account


ADDED = "added-records"


@dataclass(slots=True, kw_only=True)
class Account:
    """The numbers of a run. ``check`` compares them with the tables; before that, nothing is proved."""

    received: int = 0
    tables: Counter[str] = field(default_factory=Counter)  # rows found in snapshots of this run's batches
    dead_letters: int = 0
    pending: int = 0  # rows in data files that a receipt names and no table has yet
    deduplicated: int = 0  # records sent twice and left out, if that was asked for
    dropped_by_transform: Counter[str] = field(default_factory=Counter)  # by the table they were decoded for
    added_by_transform: Counter[str] = field(default_factory=Counter)  # likewise; rows beyond those decoded
    unproved: int = 0  # rows that should be in a table which could not be read
    lost: int = 0
    duplicated: int = 0
    batches: int = 0
    requests: int = 0
    files: int = 0
    bytes: int = 0
    known_files: int = 0  # ingested by an earlier run
    already_committed: int = 0  # parts of batches that an earlier run had committed
    conflicts: int = 0  # commits that lost a race with other writers and were repeated
    folded: int = 0  # commits that also merged small manifests of the table
    refused: list[tuple[str, str]] = field(default_factory=list)  # files, and why
    read_twice: list[tuple[str, str]] = field(default_factory=list)  # files, and those that had the same part
    failures: list[tuple[str, Exception]] = field(default_factory=list)  # tables, and why a commit is pending
    stopped: str | None = None  # why the run ended early
    oddities: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    engine: str | None = None  # that read, decoded and wrote; None if nothing had to be
    _expected: dict[tuple[int, str], int] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """received + added = tables + dead letters + pending + deduplicated + dropped, nothing lost, nothing twice."""
        return self._came == self._whole and not (self.unproved or self.lost or self.duplicated)

    @property
    def _whole(self) -> int:
        kept = sum(self.tables.values()) + self.dead_letters + self.pending
        return kept + self.deduplicated + self.dropped_by_transform.total()

    @property
    def _came(self) -> int:
        return self.received + self.added_by_transform.total()

    def count(self, counts: BatchCounts) -> None:
        """Add the counts of a batch."""
        self.received += counts.received
        self.deduplicated += counts.deduplicated
        self.dropped_by_transform.update(counts.dropped)
        self.added_by_transform.update(counts.added)
        self.requests += counts.requests
        self.oddities.update(counts.oddities)

    def expect(self, number: int, deliveries: Iterable[Delivery]) -> None:
        """Record that these parts of a batch should be committed."""
        for delivery in deliveries:
            self._expected[number, delivery.table] = delivery.rows

    @property
    def unchecked(self) -> int:
        """How many parts of batches are not checked yet."""
        return len(self._expected)

    def check(self, lake: Lake, application: str) -> None:
        """Look up every part in its table's history, where it must be exactly once. May be called at any time, and
        again."""
        for name in sorted({table for _, table in self._expected}):
            expected = {number: rows for (number, table), rows in self._expected.items() if table == name}
            try:
                found = _committed(lake, name, application, expected)
            except Exception as error:  # the catalog is not reachable: nothing can be proved now
                if all(table != name for table, _ in self.failures):
                    self.failures.append((name, error))
                continue
            for number, rows in expected.items():
                del self._expected[number, name]
                self._settle(name, rows, found[number])
        self.unproved = sum(self._expected.values())
        self.lost += max(0, self._came - self._whole - self.unproved - self.lost)

    def _settle(self, name: str, expected: int, found: int) -> None:
        self.lost += max(0, expected - found)
        self.duplicated += max(0, found - expected)
        if name == DEAD_LETTER_TABLE:
            self.dead_letters += found
        else:
            self.tables[name] += found

    def facts(self) -> dict[str, Any]:
        """The account as a dictionary, for a program."""
        return {
            "received": self.received,
            "tables": dict(sorted(self.tables.items())),
            "dead_letters": self.dead_letters,
            "pending": self.pending,
            "deduplicated": self.deduplicated,
            "dropped_by_transform": dict(sorted(self.dropped_by_transform.items())),
            "added_by_transform": dict(sorted(self.added_by_transform.items())),
            "unproved": self.unproved,
            "lost": self.lost,
            "duplicated": self.duplicated,
            "holds": self.holds,
            "batches": self.batches,
            "requests": self.requests,
            "files": self.files,
            "bytes": self.bytes,
            "known_files": self.known_files,
            "already_committed": self.already_committed,
            "conflicts": self.conflicts,
            "folded": self.folded,
            "refused": [{"file": file, "reason": reason} for file, reason in self.refused],
            "read_twice": [{"file": file, "earlier": earlier} for file, earlier in self.read_twice],
            "failures": [{"table": table, "reason": str(error)} for table, error in self.failures],
            "stopped": self.stopped,
            "oddities": dict(sorted(self.oddities.items())),
            "seconds": round(self.seconds, 3),
            "engine": self.engine,
        }


def _committed(lake: Lake, name: str, application: str, expected: dict[int, int]) -> Counter[int]:
    """Rows that the snapshots of the batches added. If the table does not have its whole history, because snapshots
    have expired or its catalog keeps only the newest one, the table's property proves a batch."""
    metadata = lake.table(name).metadata
    found: Counter[int] = Counter()
    seen: set[int] = set()
    oldest = None
    for snapshot in ancestors(metadata, metadata.current_snapshot_id):
        oldest = snapshot
        if snapshot.summary.get(APPLICATION) == application and snapshot.summary.get(NUMBER, "").isdecimal():
            number = int(snapshot.summary[NUMBER])
            seen.add(number)
            found[number] += int(snapshot.summary.get(ADDED, "0"))
    if oldest is not None and (oldest.parent_snapshot_id is not None or oldest.sequence_number > 1):
        last = last_applied(metadata, MAIN, metadata.current_snapshot_id, application)
        found.update({number: rows for number, rows in expected.items() if number not in seen and number <= last})
    return found


# ---------------------------------------------------------------- the proof that nothing was read twice


@dataclass(frozen=True, slots=True)
class ReadTwice:
    """Two files of which the same part was read, and how many rows are in the tables twice because of it."""

    file: str
    earlier: str
    rows: int


def read_twice(lake: Lake, checkpoint: Checkpoint, source: SourceFile, batch: int) -> Iterator[ReadTwice]:
    """The parts of a file that another batch, or this one by another name, has read as well."""
    for whole in _related(checkpoint, source):
        if whole.track != source.track and not (_may_be_same(source, whole) and _is_same(source, whole)):
            continue
        for seen in checkpoint.read_between(whole.track, source.start, source.end):
            if (seen.batch, seen.path, seen.digest) == (batch, source.path, source.digest):
                continue
            inner = (seen.path, seen.batch) if seen.start >= source.start else (source.path, batch)
            yield ReadTwice(source.path, seen.path, max(1, _rows(lake, checkpoint, *inner)))


def _related(checkpoint: Checkpoint, source: SourceFile) -> list[Seen]:
    """Everything that was read of the contents that this file had, or that rotation may have copied to it."""
    paths = [source.path, *map(str, copied_from(Path(source.path)))]
    tracks = {one.track: one for one in checkpoint.tracks_at(paths)}
    for one in checkpoint.tracks_of(source.identity or ""):
        if names_agree(one.path, Path(source.path)) or is_evidence(one, source.end):
            tracks.setdefault(one.track, one)
    return list(tracks.values())


def _may_be_same(source: SourceFile, seen: Seen) -> bool:
    """Whether both may be the same file: another file under a reused name does not count."""
    if seen.path == source.path and None not in (seen.identity, source.identity) and seen.identity != source.identity:
        return False
    return seen.head is None or source.head is None or seen.head == source.head


def _is_same(source: SourceFile, seen: Seen) -> bool:
    """Whether the longer of two contents begins with the shorter."""
    if source.end == seen.length:
        return (source.content or source.digest) == seen.content
    if source.end > seen.length:
        return holds_first(Path(source.path), seen.length, seen.content)
    other = Path(seen.path)  # it may be another file by now
    return holds_first(other, seen.length, seen.content) and holds_first(
        other, source.end, source.content or source.digest
    )


def _rows(lake: Lake, checkpoint: Checkpoint, path: str, batch: int) -> int:
    """Rows of a file that a batch added, counted in the tables; 0 if these do not record the file of a row."""
    mark, found = f"{checkpoint.id}/{batch}", 0
    for name in checkpoint.counts(batch).rows:
        table = lake.table(name)
        source, batch_id = ("source", "batch") if name == DEAD_LETTER_TABLE else ("_source", "_batch_id")
        if {source, batch_id} <= {field.name for field in table.schema.fields}:
            found += table.scan((col(source) == path) & (col(batch_id) == mark)).count()
    return found
