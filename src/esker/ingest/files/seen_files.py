"""The files that a checkpoint has read, and how far: one row for each state of a file that was planned.

A *track* is one content, wherever it is located: a file keeps its track while it grows, is renamed, copied or
compressed. The newest row of a track says how much of the content was read, and where it was seen last.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from esker.ingest.files.source_files import Found, SourceFile

SEEN_TABLE = """
CREATE TABLE IF NOT EXISTS seen (
    seq INTEGER PRIMARY KEY, track INTEGER NOT NULL, path TEXT NOT NULL, identity TEXT, size INTEGER NOT NULL,
    digest TEXT NOT NULL, modified_ns INTEGER NOT NULL, start INTEGER NOT NULL, length INTEGER NOT NULL,
    content TEXT NOT NULL, head TEXT, batch INTEGER NOT NULL, refused TEXT, way TEXT);
CREATE INDEX IF NOT EXISTS seen_path ON seen (path);
CREATE INDEX IF NOT EXISTS seen_identity ON seen (identity);
CREATE INDEX IF NOT EXISTS seen_track ON seen (track);
CREATE INDEX IF NOT EXISTS seen_batch ON seen (batch);
"""
# Of the first version: a file was its path, size and digest.
UPGRADE_FILES = """
INSERT INTO seen (track, path, size, digest, modified_ns, start, length, content, batch, refused)
SELECT row_number() OVER (ORDER BY batch, path, size), path, size, digest, modified_ns, 0, size, digest, batch, refused
FROM files ORDER BY batch, path, size;
"""
_COLUMNS = "seq, track, path, identity, size, digest, modified_ns, start, length, content, head, batch"


@dataclass(frozen=True, slots=True)
class Seen:
    """A planned state of a file. ``length`` and ``content`` describe its decompressed content."""

    seq: int
    track: int
    path: str
    identity: str | None  # None: written by an older version, which did not ask
    size: int
    digest: str
    modified_ns: int
    start: int
    length: int
    content: str
    head: str | None  # the digest of the first bytes of a long content
    batch: int


class SeenFiles:
    """The rows of a checkpoint's database. The caller holds the transaction."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._next_track = 0

    def new_track(self) -> int:
        """A number that no content has."""
        if not self._next_track:
            (self._next_track,) = self._database.execute("SELECT coalesce(max(track), 0) + 1 FROM seen").fetchone()
        self._next_track += 1
        return self._next_track - 1

    def unchanged(self, found: Found) -> Seen | None:
        """The row of this file if it was not written to since, under any name."""
        return self._one(
            "(identity = ? OR (identity IS NULL AND path = ?)) AND size = ? AND modified_ns = ?",
            (found.identity, str(found.path), found.size, found.modified_ns),
        )

    def exactly(self, path: str, size: int, digest: str) -> Seen | None:
        """The row of a file with this path and content."""
        return self._one("path = ? AND size = ? AND digest = ?", (path, size, digest))

    def newest_by_identity(self, identity: str) -> Seen | None:
        """The newest state of the file with this device and inode."""
        return self._one("identity = ?", (identity,))

    def newest_of_track(self, track: int) -> Seen | None:
        """How much of a content was read, and where it was seen last."""
        return self._one("track = ?", (track,))

    def tracks_at(self, paths: Iterable[str]) -> list[Seen]:
        """The newest state of each content that was seen at one of these paths."""
        names = list(paths)
        return self._newest_of_tracks(f"path IN ({', '.join('?' * len(names))})", names)

    def tracks_of(self, identity: str) -> list[Seen]:
        """The newest state of each content that the file with this device and inode has had."""
        return self._newest_of_tracks("identity = ?", [identity])

    def _newest_of_tracks(self, condition: str, values: list[str]) -> list[Seen]:
        rows = self._database.execute(
            f"SELECT {_COLUMNS}, max(seq) FROM seen WHERE refused IS NULL AND track IN "
            f"(SELECT track FROM seen WHERE {condition} AND refused IS NULL) GROUP BY track",
            values,
        )
        return [Seen(*row[:-1]) for row in rows]

    def read_between(self, track: int, start: int, end: int) -> list[Seen]:
        """The states of a content of which something between two places was read."""
        rows = self._database.execute(
            f"SELECT {_COLUMNS} FROM seen WHERE track = ? AND start < length AND start < ? AND length > ? "
            "AND refused IS NULL",
            (track, end, start),
        )
        return [Seen(*row) for row in rows]

    def _one(self, condition: str, values: tuple[object, ...]) -> Seen | None:
        row = self._database.execute(
            f"SELECT {_COLUMNS} FROM seen WHERE {condition} AND refused IS NULL ORDER BY seq DESC LIMIT 1", values
        ).fetchone()
        return None if row is None else Seen(*row)

    # ---- changes ----

    def add(self, source: SourceFile, batch: int) -> None:
        """Add a state that a batch reads."""
        self._database.execute(
            "INSERT INTO seen (track, path, identity, size, digest, modified_ns, start, length, content, head, batch) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self.new_track() if source.track is None else source.track,
                source.path,
                source.identity,
                source.size,
                source.digest,
                source.modified_ns,
                source.start,
                source.end,
                source.content or source.digest,
                source.head,
                batch,
            ),
        )

    def move(self, seen: Seen, found: Found) -> None:
        """Record that only a file's name, times or identity changed."""
        self._database.execute(
            "UPDATE seen SET path = ?, identity = ?, modified_ns = ? WHERE seq = ?",
            (str(found.path), found.identity, found.modified_ns, seen.seq),
        )

    def withdraw(self, batch: int) -> None:
        """Remove what a batch planned to read."""
        self._database.execute("DELETE FROM seen WHERE batch = ?", (batch,))

    def refuse(self, source: SourceFile, batch: int, reason: str, way: str | None) -> None:
        """Record that a batch could not read a file. ``way`` is how it was read, if it must not be read in this way
        again."""
        self._database.execute(
            "UPDATE seen SET refused = ?, way = ? WHERE batch = ? AND path = ? AND digest = ?",
            (reason, way, batch, source.path, source.digest),
        )

    def forget(self, sources: Sequence[SourceFile]) -> None:
        """Remove files whose names are never used again."""
        self._database.executemany("DELETE FROM seen WHERE path = ?", [(source.path,) for source in sources])

    # ---- set aside ----

    def set_aside(self, found: Found, way: str) -> str | None:
        """Why this file, unchanged since, cannot be read in this way."""
        row = self._database.execute(
            "SELECT refused FROM seen WHERE path = ? AND identity = ? AND size = ? AND modified_ns = ? AND way = ? "
            "ORDER BY seq DESC LIMIT 1",
            (str(found.path), found.identity, found.size, found.modified_ns, way),
        ).fetchone()
        return None if row is None else str(row[0])

    def was_refused(self, found: Found, since: int) -> bool:
        """Whether a batch from that number on could not read the file, which has not changed since."""
        row = self._database.execute(
            "SELECT 1 FROM seen WHERE path = ? AND size = ? AND modified_ns = ? AND batch >= ? AND refused IS NOT NULL",
            (str(found.path), found.size, found.modified_ns, since),
        ).fetchone()
        return row is not None

    def release_set_aside(self) -> int:
        """Let every file that was set aside be tried again. Returns how many there are."""
        return self._database.execute("DELETE FROM seen WHERE way IS NOT NULL").rowcount
