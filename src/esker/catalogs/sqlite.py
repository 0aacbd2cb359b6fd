"""SQLite as the database of a catalog: one file, many threads and processes. SQLite's errors become Esker's errors.

Every write takes the write lock of the database at its start (``BEGIN IMMEDIATE``), so everything that a transaction
has read is still valid when it writes. Reading creates nothing: the first write creates the file. A file that cannot be
written, for example on a read-only mount, can still be read.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from esker.catalogs.sql_connections import Connections
from esker.catalogs.sql_pointers import CREATE_TABLES, Row, Session
from esker.errors import AlreadyExists, Conflict, Corrupt, InvalidInput, OutcomeUnknown, StorageFailed
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
        file = self._path

        # functions that do not hold this object, so that connections are closed as soon as it goes
        def connections(seconds: float) -> Connections[_Open]:
            return Connections(lambda: _opened(file, seconds, connection), lambda kept: kept.file == _identity(file))

        self._connections, self._impatient = connections(busy_seconds), connections(0.0)

    def read(self, act: str, work: Callable[[Session], T], *, nothing: T) -> T:
        with self._as_esker_errors(act):
            if not self._path.exists():
                return nothing
        with self._as_esker_errors(act):
            try:
                with self._connections.borrowed() as kept:
                    return _looked(kept, work, nothing)
            except sqlite3.OperationalError as error:
                if sqlite_code(error) not in UNWRITABLE or not is_read_only(self._path):
                    raise
            with closing(self._open_read_only()) as connection:
                return _looked(_Open(connection, None), work, nothing)

    def read_at_once(self, work: Callable[[Session], T]) -> T | None:
        if _identity(self._path) is None:
            return None  # a connection would create the file
        try:
            with self._impatient.borrowed() as kept:
                return _looked(kept, work, None)
        except sqlite3.Error:  # locked, for example: ``read`` waits, and reports what is wrong
            return None

    def write(self, act: str, work: Callable[[Session], T], *, compares: bool = False) -> T:
        with self._as_esker_errors(act):
            self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._as_esker_errors(act), self._connections.borrowed() as kept:
            connection = kept.connection
            if not kept.has_tables():
                # With WAL, readers and the writer do not wait for each other. If the disk does not support WAL, nothing
                # is lost.
                with suppress(sqlite3.OperationalError):
                    connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            try:
                if not kept.has_tables():
                    for statement in CREATE_TABLES:
                        connection.execute(statement)
                result = work(SqliteSession(connection))
            except BaseException:
                if connection.in_transaction:  # if the disk is full, SQLite has rolled back already
                    connection.execute("ROLLBACK")
                raise
            self._commit(act, connection)
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
        return _connected(self._path, self._busy_seconds, self._connection, "?immutable=1")

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

    def has_table(self, table: str) -> bool:
        return bool(self.rows("SELECT 1 AS one FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)))

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        return self._connection.execute(statement, values).rowcount


class _Open:
    """A connection, and the file that it belongs to."""

    __slots__ = ("_has_tables", "connection", "file")

    def __init__(self, connection: sqlite3.Connection, file: tuple[int, int] | None) -> None:
        self.connection = connection
        self.file = file
        self._has_tables = False

    def close(self) -> None:
        """End the connection."""
        self.connection.close()

    def has_tables(self) -> bool:
        """Whether the catalog's tables are in the file."""
        if not self._has_tables:
            found = self.connection.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
                " AND name IN ('iceberg_tables', 'iceberg_namespace_properties')"
            )
            self._has_tables = len(found.fetchall()) == 2 and not self.connection.in_transaction
        return self._has_tables


def _looked(kept: _Open, work: Callable[[Session], T], nothing: T) -> T:
    return work(SqliteSession(kept.connection)) if kept.has_tables() else nothing


def _opened(file: Path, busy_seconds: float, factory: type[sqlite3.Connection]) -> _Open:
    connection = _connected(file, busy_seconds, factory)
    try:
        connection.execute("PRAGMA synchronous = FULL")  # an acknowledged commit survives a power cut
    except BaseException:
        connection.close()
        raise
    return _Open(connection, _identity(file))


def _connected(
    file: Path, busy_seconds: float, factory: type[sqlite3.Connection], options: str = ""
) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(str(file))}{options}",
        uri=True,
        timeout=busy_seconds,
        isolation_level=None,
        check_same_thread=False,
        factory=factory,
    )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
