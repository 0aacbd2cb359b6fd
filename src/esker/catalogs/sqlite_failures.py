"""What SQLite says of the disk below a database, as `StorageFailed`."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from esker.errors import StorageFailed
from esker.storage.failures import failure_of

LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
BROKEN = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
UNWRITABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)  # what SQLite says of a file that only can be read
_RIGHTS = "give this user the right to the database and its folder"
_NEVER = {  # the same statement would fail again: what has to change first
    sqlite3.SQLITE_READONLY: _RIGHTS,
    sqlite3.SQLITE_PERM: _RIGHTS,
    sqlite3.SQLITE_AUTH: _RIGHTS,
}
_LATER = {
    sqlite3.SQLITE_FULL: "free some space, then try again",
    sqlite3.SQLITE_IOERR: "look at the disk and at the log of the system, then try again",
    sqlite3.SQLITE_CANTOPEN: "check the database and its folder, then try again",
    sqlite3.SQLITE_PROTOCOL: "try again later",
    sqlite3.SQLITE_NOMEM: "there is not enough memory: try again later",
}


def sqlite_failure(error: sqlite3.Error, operation: str, file: Path) -> StorageFailed | None:
    """The failure of storage that a statement met; None where it failed for another reason."""
    code = sqlite_code(error)
    if code in UNWRITABLE and is_read_only(file):
        return StorageFailed(
            f"cannot {operation}: {file} is read-only for this user; {_RIGHTS}, or copy the lake to a place of yours",
            retryable=False,
            operation=operation,
            file=str(file),
            reason="it is read-only",
        )
    if code == sqlite3.SQLITE_CANTOPEN:  # SQLite does not say why; the system does
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
    """Whether the database is there and can be read, but cannot be written, or the folder it keeps its journal in."""

    def may(place: Path, right: int) -> bool:
        return os.access(place, right, effective_ids=os.access in os.supports_effective_ids)

    return file.is_file() and may(file, os.R_OK) and not (may(file, os.W_OK) and may(file.parent, os.W_OK))


def sqlite_code(error: sqlite3.Error) -> int:
    """The primary code: the extended ones refine its low byte. 0 where SQLite gave none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _why_closed(file: Path, operation: str) -> StorageFailed | None:
    try:
        os.close(os.open(file if file.exists() else file.parent, os.O_RDONLY))
    except OSError as error:
        found = failure_of(error, operation, file, whole=True)
        return found if isinstance(found, StorageFailed) else None
    return None
