"""SQLite as the database of a catalog: one file, many threads and processes. SQLite's errors become Esker's errors.

Every write takes the write lock of the database at its start (``BEGIN IMMEDIATE``), so everything that a transaction
has read is still valid when it writes. Reading creates nothing: the first write creates the file. A file that cannot be
written, for example on a read-only mount, can still be read.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from esker.catalogs.sql_pointers import CREATE_TABLES, Row, Session
from esker.errors import AlreadyExists, Conflict, Corrupt, EskerError, InvalidInput, OutcomeUnknown, StorageFailed
from esker.storage.failures import failure_of

LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
BROKEN = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
UNWRITABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)  # SQLite's codes for a file that can only be read
_RIGHTS = "give this user permission to write the database and its folder"
_NEVER = {  # the same statement would fail again; the text says what has to change first
    sqlite3.SQLITE_READONLY: _RIGHTS,
    sqlite3.SQLITE_PERM: _RIGHTS,
    sqlite3.SQLITE_AUTH: _RIGHTS,
}
_LATER = {
    sqlite3.SQLITE_FULL: "free some space, then try again",
    sqlite3.SQLITE_IOERR: "check the disk and the system log, then try again",
    sqlite3.SQLITE_CANTOPEN: "check the database and its folder, then try again",
    sqlite3.SQLITE_PROTOCOL: "try again later",
    sqlite3.SQLITE_NOMEM: "there is not enough memory: try again later",
}


def sqlite_failure(error: sqlite3.Error, operation: str, file: Path) -> StorageFailed | None:
    """The `StorageFailed` for an error of a statement. None if the statement failed for another reason."""
    code = sqlite_code(error)
    if code in UNWRITABLE and is_read_only(file):
        return StorageFailed(
            f"cannot {operation}: {file} is read-only for this user; {_RIGHTS}, or copy the lake to a folder of this "
            "user",
            retryable=False,
            operation=operation,
            file=str(file),
            reason="it is read-only",
        )
    if code == sqlite3.SQLITE_CANTOPEN:  # SQLite does not report the reason; the system does
        if file.is_dir():
            return None
        found = _why_closed(file, operation)
        if found is not None:
            return found
    if code not in _NEVER and code not in _LATER:
        return None
    retryable = code in _LATER
    return StorageFailed(
        f"cannot {operation}: {file}: {error}; {_LATER[code] if retryable else _NEVER[code]}",
        retryable=retryable,
        operation=operation,
        file=str(file),
        reason=str(error),
    )


def is_read_only(file: Path) -> bool:
    """Whether the database exists and can be read, but it or the folder of its journal cannot be written."""

    def may(place: Path, right: int) -> bool:
        return os.access(place, right, effective_ids=os.access in os.supports_effective_ids)

    return file.is_file() and may(file, os.R_OK) and not (may(file, os.W_OK) and may(file.parent, os.W_OK))


def sqlite_code(error: sqlite3.Error) -> int:
    """The primary code of an error: the low byte of the extended code. 0 if SQLite gave no code."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _why_closed(file: Path, operation: str) -> StorageFailed | None:
    try:
        os.close(os.open(file if file.exists() else file.parent, os.O_RDONLY))
    except OSError as error:
        found = failure_of(error, operation, file, whole=True)
        return found if isinstance(found, StorageFailed) else None
    return None


# ---------------------------------------------------------------- The database


T = TypeVar("T")

_MOST_IDLE = 8


class SqliteDatabase:
    """A database file. Implements ``catalogs.sql_pointers.Database``."""

    def __init__(
        self,
        path: str | Path,
        *,
        busy_seconds: float = 30.0,
        connection: type[sqlite3.Connection] = sqlite3.Connection,
    ) -> None:
        self._path = Path(path).absolute()
        self._busy_seconds = busy_seconds
        self._connection = connection
        self._has_tables = False
        self._lock = threading.Lock()
        self._idle: list[_Open] = []
        weakref.finalize(self, _close_all, self._idle)

    def read(self, act: str, work: Callable[[Session], T], *, nothing: T) -> T:
        with self._as_esker_errors(act):
            if not self._path.exists():
                return nothing
        with self._as_esker_errors(act):
            try:
                with self._borrowed() as connection:
                    return self._looked(connection, work, nothing)
            except sqlite3.OperationalError as error:
                if sqlite_code(error) not in UNWRITABLE or not is_read_only(self._path):
                    raise
            with closing(self._open_read_only()) as connection:
                return self._looked(connection, work, nothing)

    def _looked(self, connection: sqlite3.Connection, work: Callable[[Session], T], nothing: T) -> T:
        session = SqliteSession(connection)
        return work(session) if self._tables_are_there(session) else nothing

    def write(self, act: str, work: Callable[[Session], T]) -> T:
        with self._as_esker_errors(act):
            self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._as_esker_errors(act), self._borrowed() as connection:
            session = SqliteSession(connection)
            if not self._tables_are_there(session):
                # With WAL, readers and the writer do not wait for each other. If the disk does not support WAL, nothing
                # is lost.
                with suppress(sqlite3.OperationalError):
                    connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            try:
                if not self._has_tables:
                    for statement in CREATE_TABLES:
                        connection.execute(statement)
                result = work(session)
            except BaseException:
                if connection.in_transaction:  # if the disk is full, SQLite has rolled back already
                    connection.execute("ROLLBACK")
                raise
            self._commit(act, connection)
        self._has_tables = True
        return result

    def _commit(self, act: str, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if sqlite_code(error) in LOCKED and connection.in_transaction:
                # SQLite documents that a busy commit has done nothing and may be rolled back.
                connection.execute("ROLLBACK")
                raise
            raise OutcomeUnknown(
                f"cannot tell whether it happened: to {act}, a commit to {self._path} failed: {error}",
                file=str(self._path),
            ) from error

    def _tables_are_there(self, session: SqliteSession) -> bool:
        if not self._has_tables:
            found = session.rows(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
                " AND name IN ('iceberg_tables', 'iceberg_namespace_properties')"
            )
            self._has_tables = len(found) == 2
        return self._has_tables

    @contextmanager
    def _borrowed(self) -> Iterator[sqlite3.Connection]:
        """A connection that no other thread uses meanwhile. After an error it is not used again."""
        kept = self._take()
        try:
            yield kept.connection
        except BaseException as error:
            if isinstance(error, EskerError) and not isinstance(error, OutcomeUnknown):
                self._give_back(kept)
            else:
                kept.connection.close()
            raise
        self._give_back(kept)

    def _take(self) -> _Open:
        while True:
            kept = self._idle_one()
            if kept is None:
                return self._open()
            if kept.file == _identity(self._path):
                return kept
            kept.connection.close()  # the file was removed or replaced: nobody would see the changes
            self._has_tables = False

    def _idle_one(self) -> _Open | None:
        """An idle connection of this process, or None. Those of a parent process are not used: SQLite forbids it after
        a fork."""
        with self._lock:
            for at in range(len(self._idle) - 1, -1, -1):
                if self._idle[at].process == os.getpid():
                    return self._idle.pop(at)
        return None

    def _give_back(self, kept: _Open) -> None:
        with self._lock:
            if len(self._idle) < _MOST_IDLE:
                self._idle.append(kept)
                return
        kept.connection.close()

    def _open(self) -> _Open:
        connection = self._connected()
        try:
            connection.execute("PRAGMA synchronous = FULL")  # an acknowledged commit survives a power failure
        except BaseException:
            connection.close()
            raise
        return _Open(connection, os.getpid(), _identity(self._path))

    def _open_read_only(self) -> sqlite3.Connection:
        """A connection to a file in a folder where SQLite cannot create its shared files.

        It assumes that the file does not change, so it is used for one read. Changes in a writer's journal are not in
        the file yet. If there are any, the read is refused, because it would return an older state of the catalog.
        """
        for suffix in ("-wal", "-journal"):
            journal = self._path.with_name(self._path.name + suffix)
            if journal.exists() and journal.stat().st_size:
                raise StorageFailed(
                    f"cannot read {self._path}: it is read-only here, and {journal.name} beside it has changes that "
                    "are not in it yet; open the lake once where it can be written, or copy it to such a place",
                    retryable=False,
                    operation="read the catalog",
                    file=str(self._path),
                    reason="it is read-only",
                )
        return self._connected("?immutable=1")

    def _connected(self, options: str = "") -> sqlite3.Connection:
        return sqlite3.connect(
            f"file:{quote(str(self._path))}{options}",
            uri=True,
            timeout=self._busy_seconds,
            isolation_level=None,
            check_same_thread=False,
            factory=self._connection,
        )

    @contextmanager
    def _as_esker_errors(self, act: str) -> Iterator[None]:
        """Raise each error of SQLite in the block as an Esker error. Each of them says that nothing changed."""
        file = str(self._path)
        try:
            yield
        except sqlite3.IntegrityError as error:
            raise AlreadyExists(f"cannot {act}: {error}", file=file) from error
        except sqlite3.Error as error:
            code = sqlite_code(error)
            if code in LOCKED:
                raise Conflict(
                    f"cannot {act}: {file} stayed locked for {self._busy_seconds:g} s; nothing was changed", file=file
                ) from error
            if code in BROKEN:
                raise Corrupt(file, f"{error}") from error
            refused = InvalidInput(f"cannot {act}: {file}: {error}", file=file)
            raise sqlite_failure(error, act, self._path) or refused from error
        except OSError as error:
            raise failure_of(error, act, error.filename or file, whole=True) from error


class SqliteSession:
    """The statements on one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        cursor = self._connection.execute(statement, values)
        names = [column[0].lower() for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def columns(self, table: str) -> frozenset[str]:
        cursor = self._connection.execute(f"SELECT * FROM {table} WHERE 1 = 0")
        return frozenset(column[0].lower() for column in cursor.description)

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        return self._connection.execute(statement, values).rowcount


class _Open:
    """A connection, and the process and file that it belongs to."""

    __slots__ = ("connection", "file", "process")

    def __init__(self, connection: sqlite3.Connection, process: int, file: tuple[int, int] | None) -> None:
        self.connection = connection
        self.process = process
        self.file = file


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _close_all(idle: list[_Open]) -> None:
    for kept in idle:
        if kept.process == os.getpid():
            kept.connection.close()
