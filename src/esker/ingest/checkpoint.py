"""The records of an ingest: the plan of each batch before it is executed, and its result.

A checkpoint is a directory with a small database, a lock, and the receipts of commits that are not proved yet. Batches
are numbered upwards. The number and the checkpoint's id are the mark by which a table records a batch.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import msgspec

from esker.catalogs.sqlite import LOCKED, sqlite_code, sqlite_failure
from esker.errors import Conflict, Corrupt, EskerError, InvalidInput
from esker.ingest.files.seen_files import SEEN_TABLE, UPGRADE_FILES, Seen, SeenFiles
from esker.ingest.files.source_files import Found, SourceFile
from esker.ingest.receipts import BatchCounts
from esker.kafka.subscription import OffsetRange, Partition, Positions
from esker.storage.failures import naming_failures
from esker.storage.fsync_and_locks import locked
from esker.storage.location import check_local_folder

_VERSION = "2"  # 1: files were known by path, size and digest alone
_TABLES = (
    """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batches (number INTEGER PRIMARY KEY, plan TEXT NOT NULL, done TEXT);
CREATE INDEX IF NOT EXISTS unfinished ON batches (number) WHERE done IS NULL;
CREATE TABLE IF NOT EXISTS tables (name TEXT PRIMARY KEY, uuid TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS positions (
    cluster TEXT, topic TEXT, number INTEGER, next INTEGER NOT NULL,
    PRIMARY KEY (cluster, topic, number)) WITHOUT ROWID;
"""
    + SEEN_TABLE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The content of a batch: files, dead letters, or ranges of Kafka topics. It is on disk before anything is done, so
    that repeating it does the same."""

    number: int
    files: tuple[SourceFile, ...]
    planned_at_us: int  # also the time of ingestion of its rows
    letters: tuple[str, ...] = ()  # batches whose dead letters are decoded again
    cluster: str | None = None  # of Kafka: the cluster of these offsets
    ranges: tuple[OffsetRange, ...] = ()
    passed: tuple[OffsetRange, ...] = ()  # offsets that are gone and could not be read
    about_bytes: int = 0  # of the messages in the ranges, estimated from earlier batches


class Checkpoint:
    """The driver's hold on a checkpoint. Raises ``Conflict`` if another process drives it.

    A second process may plan for the driver: it gets the driver's ``term`` and takes no lock. After another driver has
    begun a term, nothing that it writes is kept.
    """

    def __init__(
        self,
        directory: Path,
        *,
        kind: str,
        term: str | None = None,
        connection: type[sqlite3.Connection] = sqlite3.Connection,
    ) -> None:
        check_local_folder(directory, "a checkpoint")
        self.directory = directory
        self.pending = directory / "pending"
        self.term = term or str(uuid4())
        self._drives = term is None
        self._lock: int | None = None
        if self._drives:
            with naming_failures("keep a checkpoint in", directory):
                self.pending.mkdir(parents=True, exist_ok=True)
                self._lock = _locked(directory)
        try:
            with self._reading():
                self._database = sqlite3.connect(
                    directory / "checkpoint.db", isolation_level=None, factory=connection, check_same_thread=False
                )
                self._open(kind)
        except BaseException:
            self._unlock()
            raise

    def _open(self, kind: str) -> None:
        self._database.execute("PRAGMA synchronous = EXTRA")  # a plan that is reported is on disk
        if self._drives:
            self._database.executescript(_TABLES)
        self._seen = SeenFiles(self._database)
        with self._writing(begin=self._drives):
            if self._drives:
                for key, value in (("version", _VERSION), ("id", str(uuid4())), ("kind", kind)):
                    self._database.execute("INSERT OR IGNORE INTO about VALUES (?, ?)", (key, value))
                for key, value in (("term", self.term), ("known_files", "0"), ("trouble", "")):
                    self._database.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (key, value))
            about = dict(self._database.execute("SELECT key, value FROM about"))
            if about["version"] == "1":
                self._database.execute(UPGRADE_FILES)
                self._database.execute("DROP TABLE files")
                about["version"] = _VERSION
                self._database.execute("UPDATE about SET value = ? WHERE key = 'version'", (_VERSION,))
        if about["version"] != _VERSION:
            raise InvalidInput(f"cannot use the checkpoint {self.directory}: a newer esker wrote it")
        if about["kind"] != kind:
            raise InvalidInput(
                f"cannot use the checkpoint {self.directory} for {kind}: it is one of {about['kind']}; give another",
                path=str(self.directory),
            )
        self.id = about["id"]

    def close(self) -> None:
        """Release the checkpoint for another process."""
        self._database.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def application(self) -> str:
        """The name under which tables record its batches."""
        return f"esker-ingest-{self.id}"

    # ---- files ----

    def unchanged(self, found: Found) -> Seen | None:
        """What was planned of this file, if its size and times show that it was not written to since."""
        with self._reading():
            return self._seen.unchanged(found)

    def exactly(self, source: SourceFile) -> Seen | None:
        """What was planned of a file with this path and content."""
        with self._reading():
            return self._seen.exactly(source.path, source.size, source.digest)

    def newest_by_identity(self, identity: str) -> Seen | None:
        """What was planned last of the file with this device and inode."""
        with self._reading():
            return self._seen.newest_by_identity(identity)

    def newest_of_track(self, track: int) -> Seen | None:
        """What was planned last of a content."""
        with self._reading():
            return self._seen.newest_of_track(track)

    def tracks_at(self, paths: Iterable[str]) -> list[Seen]:
        """What was planned last of each content that was seen at one of these paths."""
        with self._reading():
            return self._seen.tracks_at(paths)

    def tracks_of(self, identity: str) -> list[Seen]:
        """What was planned last of each content that the file with this device and inode has had."""
        with self._reading():
            return self._seen.tracks_of(identity)

    def read_between(self, track: int, start: int, end: int) -> list[Seen]:
        """What was planned of a content between two of its places."""
        with self._reading():
            return self._seen.read_between(track, start, end)

    def new_track(self) -> int:
        """A number for a new content."""
        with self._reading():
            return self._seen.new_track()

    def move(self, seen: Seen, found: Found) -> None:
        """Record that a file has another name or other times, and the same content."""
        with self._writing():
            self._seen.move(seen, found)

    def recognise(self, source: SourceFile, batch: int) -> None:
        """Record that a batch read all of a file under another name."""
        with self._writing():
            self._seen.add(source, batch)

    def set_aside(self, found: Found, way: str) -> str | None:
        """Why this file, unchanged since, cannot be read in this way; None if it may be tried."""
        with self._reading():
            return self._seen.set_aside(found, way)

    def was_refused(self, found: Found, *, since: int) -> bool:
        """Whether a batch from this number on could not read the file, which has not changed since."""
        with self._reading():
            return self._seen.was_refused(found, since)

    def release_set_aside(self) -> int:
        """Let the next run try every file that was set aside. Returns how many there are."""
        with self._writing():
            return self._seen.release_set_aside()

    @property
    def known_files(self) -> int:
        """How many files the planning process found that were ingested before this term."""
        return int(self._noted("known_files") or 0)

    def note_known(self, files: int) -> None:
        """Report files that were ingested before to the driver."""
        self._note("known_files", str(files))

    @property
    def trouble(self) -> str | None:
        """Why the planning process cannot look for new input now; None if it can."""
        return self._noted("trouble")

    def note_trouble(self, text: str | None) -> None:
        """Report to the driver that a look failed, or with None that looks succeed again."""
        self._note("trouble", text or "")

    def _noted(self, key: str) -> str | None:
        with self._reading():
            row = self._database.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
        return (row and row[0]) or None

    def _note(self, key: str, value: str) -> None:
        with self._writing():
            self._database.execute("UPDATE about SET value = ? WHERE key = ?", (value, key))

    def is_done(self, found: Found) -> bool:
        """Whether all rows of this file are committed."""
        seen = self.unchanged(found)
        return seen is not None and self.is_ticked_off(seen.batch)

    def forget_files(self, sources: Sequence[SourceFile]) -> None:
        """Forget files that are deleted and whose names are never used again."""
        with self._writing():
            self._seen.forget(sources)

    # ---- batches ----

    def plan(self, files: Sequence[SourceFile], *, at_us: int, letters: Sequence[str] = ()) -> Plan:
        """Record the next batch and return its plan."""
        with self._writing():
            (number,) = self._database.execute("SELECT coalesce(max(number) + 1, 0) FROM batches").fetchone()
            plan = Plan(number=number, files=tuple(files), planned_at_us=at_us, letters=tuple(letters))
            text = msgspec.json.encode(plan).decode()
            self._database.execute("INSERT INTO batches VALUES (?, ?, NULL)", (number, text))
            for file in files:
                self._seen.add(file, number)
        return plan

    def plan_ranges(
        self,
        cluster: str,
        ranges: Sequence[OffsetRange],
        *,
        at_us: int,
        passed: Sequence[OffsetRange] = (),
        about_bytes: int = 0,
    ) -> Plan:
        """Record the next batch of offsets, and the positions after it."""
        with self._writing():
            (number,) = self._database.execute("SELECT coalesce(max(number) + 1, 0) FROM batches").fetchone()
            plan = Plan(
                number=number,
                files=(),
                planned_at_us=at_us,
                cluster=cluster,
                ranges=tuple(ranges),
                passed=tuple(passed),
                about_bytes=about_bytes,
            )
            text = msgspec.json.encode(plan).decode()
            self._database.execute("INSERT INTO batches VALUES (?, ?, NULL)", (number, text))
            self._move(cluster, {one.place: one.end for one in (*passed, *ranges)})
        return plan

    @property
    def next_number(self) -> int:
        """The number of the next batch."""
        with self._reading():
            row = self._database.execute("SELECT coalesce(max(number) + 1, 0) FROM batches").fetchone()
        return int(row[0])

    def unfinished(self) -> list[Plan]:
        """Batches that are planned and not done, in order. Raises ``Corrupt`` for a plan that cannot be read."""
        with self._reading():
            rows = self._database.execute("SELECT plan FROM batches WHERE done IS NULL ORDER BY number").fetchall()
        try:
            return [msgspec.json.decode(text, type=Plan) for (text,) in rows]
        except msgspec.MsgspecError as error:
            raise Corrupt(str(self.directory / "checkpoint.db"), f"a plan cannot be read: {error}") from error

    def withdraw(self, number: int) -> None:
        """Withdraw a batch without a receipt: its files and offsets are new again. Its number is not used again,
        because a table that has it would ignore the other batch."""
        with self._writing():
            for (plan,) in self._database.execute(
                "SELECT plan FROM batches WHERE number = ? AND done IS NULL", (number,)
            ):
                was = msgspec.json.decode(plan, type=Plan)
                self._move(was.cluster or "", {one.place: one.start for one in (*was.ranges, *was.passed)})
            text = msgspec.json.encode(BatchCounts()).decode()
            self._database.execute("UPDATE batches SET done = ? WHERE number = ? AND done IS NULL", (text, number))
            self._seen.withdraw(number)

    def refuse(self, plan: Plan, source: SourceFile, reason: str, *, way: str | None = None) -> Plan:
        """Return the plan without a file that cannot be read. Only for a batch without a receipt. With ``way``, the
        file is set aside: it is not read in this way again until it changes."""
        kept = Plan(
            number=plan.number,
            files=tuple(file for file in plan.files if file != source),
            planned_at_us=plan.planned_at_us,
            letters=plan.letters,
        )
        with self._writing():
            text = msgspec.json.encode(kept).decode()
            self._database.execute("UPDATE batches SET plan = ? WHERE number = ?", (text, plan.number))
            self._seen.refuse(source, plan.number, reason, way)
        return kept

    def is_ticked_off(self, number: int) -> bool:
        """Whether this batch is in its tables."""
        with self._reading():
            # By the index: reading past the plan of many files in its row is slow.
            row = self._database.execute(
                "SELECT EXISTS (SELECT 1 FROM batches WHERE number = ?1) AND NOT EXISTS "
                "(SELECT 1 FROM batches INDEXED BY unfinished WHERE number = ?1 AND done IS NULL)",
                (number,),
            ).fetchone()
        return bool(row[0])

    def counts(self, number: int) -> BatchCounts:
        """The counts of a batch that is in its tables."""
        with self._reading():
            row = self._database.execute("SELECT done FROM batches WHERE number = ?", (number,)).fetchone()
        try:
            return BatchCounts() if row is None or row[0] is None else msgspec.json.decode(row[0], type=BatchCounts)
        except msgspec.MsgspecError as error:
            raise Corrupt(
                str(self.directory / "checkpoint.db"), f"the counts of a batch cannot be read: {error}"
            ) from error

    def read_lately(self, batches: int = 20) -> tuple[int, int]:
        """How many bytes of files the last batches read, and how many records these had."""
        with self._reading():
            rows = self._database.execute(
                "SELECT plan, done FROM batches WHERE done IS NOT NULL ORDER BY number DESC LIMIT ?", (batches,)
            ).fetchall()
        read = [msgspec.json.decode(plan, type=Plan) for plan, _ in rows]
        held = [msgspec.json.decode(done, type=BatchCounts).received for _, done in rows]
        of_records = [(plan, received) for plan, received in zip(read, held, strict=True) if received]
        return sum(file.new_bytes for plan, _ in of_records for file in plan.files), sum(held)

    def read_of_topics(self, batches: int = 20) -> tuple[int, int, int]:
        """How many offsets with messages the last batches read, and their bytes and records."""
        with self._reading():
            rows = self._database.execute(
                "SELECT plan, done FROM batches WHERE done IS NOT NULL ORDER BY number DESC LIMIT ?", (batches,)
            ).fetchall()
        offsets = size = records = 0
        for text, done in rows:
            held = msgspec.json.decode(done, type=BatchCounts)
            if held.bytes:
                plan = msgspec.json.decode(text, type=Plan)
                offsets += sum(one.end - one.start for one in plan.ranges)
                size += held.bytes
                records += held.received
        return offsets, size, records

    def tick_off(self, number: int, counts: BatchCounts) -> None:
        """Record that the batch is in its tables."""
        with self._writing():
            text = msgspec.json.encode(counts).decode()
            self._database.execute("UPDATE batches SET done = ? WHERE number = ?", (text, number))

    # ---- positions ----

    def clusters(self) -> list[str]:
        """The Kafka clusters that have positions."""
        with self._reading():
            found = self._database.execute("SELECT DISTINCT cluster FROM positions ORDER BY cluster").fetchall()
        return [cluster for (cluster,) in found]

    def positions(self, cluster: str) -> dict[Partition, int]:
        """The next offset of each partition."""
        with self._reading():
            found = self._database.execute("SELECT topic, number, next FROM positions WHERE cluster = ?", (cluster,))
            return {Partition(topic, number): offset for topic, number, offset in found}

    def begin_topics(self, cluster: str, positions: Positions) -> None:
        """Record where partitions begin."""
        with self._writing():
            self._move(cluster, positions)

    def _move(self, cluster: str, positions: Positions) -> None:
        self._database.executemany(
            "INSERT OR REPLACE INTO positions VALUES (?, ?, ?, ?)",
            [(cluster, place.topic, place.number, offset) for place, offset in positions.items()],
        )

    # ---- tables ----

    def tables(self) -> dict[str, str]:
        """The tables of batches and their ids: a name may be given to another table."""
        with self._reading():
            return dict(self._database.execute("SELECT name, uuid FROM tables"))

    def remember_table(self, name: str, uuid: str | None) -> None:
        """Record a table that a batch goes to."""
        if uuid is not None and self.tables().get(name) != uuid:
            with self._writing():
                self._database.execute("INSERT OR REPLACE INTO tables VALUES (?, ?)", (name, uuid))

    @contextmanager
    def _writing(self, *, begin: bool = False) -> Iterator[None]:
        """A transaction. Raises ``Conflict`` if another driver has begun a term since."""
        with self._reading():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                if not begin:
                    self._check_term()
                yield
                self._database.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._database.execute("ROLLBACK")
                raise

    def _check_term(self) -> None:
        found = self._database.execute("SELECT value FROM about WHERE key = 'term'").fetchone()
        if found is None or found[0] != self.term:
            raise Conflict(
                f"cannot write to the checkpoint {self.directory}: another process drives it now; stop this one",
                path=str(self.directory),
            )

    @contextmanager
    def _reading(self) -> Iterator[None]:
        file = self.directory / "checkpoint.db"
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise _named(error, file) from error


def written_kind(directory: Path) -> str | None:
    """The kind of an existing checkpoint; None if there is none."""
    file = directory / "checkpoint.db"
    if not file.is_file():
        return None
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as database:
            row = database.execute("SELECT value FROM about WHERE key = 'kind'").fetchone()
    except sqlite3.DatabaseError as error:
        raise _named(error, file) from error
    return None if row is None else str(row[0])


def _named(error: sqlite3.DatabaseError, file: Path) -> EskerError:
    """The error for a failed statement. It means that nothing was changed."""
    if sqlite_code(error) in LOCKED:
        return Conflict(f"cannot use the checkpoint {file}: {error}; try again", path=str(file))
    return sqlite_failure(error, "use the checkpoint", file) or Corrupt(str(file), str(error))


def driver_of(directory: Path) -> str | None:
    """The process that drives a checkpoint, as it recorded itself."""
    with suppress(OSError), closing(os.fdopen(os.open(directory / "driver.lock", os.O_RDONLY))) as file:
        return file.read(32).strip() or None
    return None


def _locked(directory: Path) -> int:
    handle = locked(directory / "driver.lock", mode=0o644)
    if handle is None:
        who = driver_of(directory)
        raise Conflict(
            f"cannot drive the checkpoint {directory}: process {who or 'of another user'} does; "
            "stop that one, or give this one a checkpoint of its own",
            path=str(directory),
            process=who,
        )
    os.ftruncate(handle, 0)
    os.write(handle, str(os.getpid()).encode())
    return handle
