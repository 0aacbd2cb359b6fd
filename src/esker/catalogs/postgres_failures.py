"""What an error of PostgreSQL means for a catalog: try again, another writer won, the server failed, or a mistake."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

_RIGHTS = "give this user the right to do so"
_READ_ONLY = (
    "if this server is a read-only copy, name the primary, or add target_session_attrs=read-write to the URI; if the "
    "database or the user is set to read-only transactions, use another"
)
_NEVER = {  # the same call would fail again: what has to change first
    "42501": _RIGHTS,
    "28000": "check the user",
    "28P01": "check the user and the password",
    "3D000": "check the name of the database, or create it",
    "25006": _READ_ONLY,
    "0A000": _READ_ONLY,  # how a standby refuses an isolation level
}
# Servers send the code of a refused connection, and libpq keeps only its text.
_NEVER_TEXTS = {
    "password authentication failed": _NEVER["28P01"],
    "no password supplied": _NEVER["28P01"],
    "authentication failed": _NEVER["28P01"],
    "no pg_hba.conf entry": "let the server accept this user from this machine",
    "does not exist": "check the names of the user and of the database",
    "could not translate host name": "check the name of the host",
}


class Meaning(Enum):
    """What a failed statement, or a failed connection, says."""

    AGAIN = "again"  # the transaction is undone, and the same work may succeed at once
    LOCKED = "locked"  # another transaction held what this one needs for too long; it is undone
    CANCELLED = "cancelled"  # a time-out of the server, or an administrator, ended the statement; it is undone
    TAKEN = "taken"  # a row of that key is there
    LOST = "lost"  # the connection is gone, or was never made
    FAILED = "failed"  # the server cannot do it now: its disk is full, it has too many connections, it starts
    REFUSED = "refused"  # and will refuse it again
    MISTAKE = "mistake"  # the statement or its values are wrong


class ServerError(Protocol):
    """What is looked at in an error of the driver."""

    @property
    def sqlstate(self) -> str | None:
        """Five letters and digits; None where the server did not answer."""
        ...


def meaning_of(error: ServerError, *, is_mistake: bool = False) -> Meaning:
    """What an error means that came before COMMIT was sent. Whatever it is, nothing was changed.

    ``is_mistake`` says that the driver itself refused the statement or a value.
    """
    code = error.sqlstate or ""
    if code in ("40001", "40P01", "42P07", "42710"):  # the last two: another client makes the same tables just now
        return Meaning.AGAIN
    if code == "23505":
        return Meaning.TAKEN
    if code == "55P03":
        return Meaning.LOCKED
    if code == "57014":
        return Meaning.CANCELLED
    if code in _NEVER:
        return Meaning.REFUSED
    if code.startswith("08") or code in ("57P01", "57P02", "57P05", "25P03", "25P04"):
        return Meaning.LOST
    if code.startswith(("53", "57", "58", "XX")):
        return Meaning.FAILED
    return Meaning.MISTAKE if code or is_mistake else Meaning.LOST


def is_undone(error: ServerError, severity: str | None, *, is_broken: bool) -> bool:
    """Whether an error that answers COMMIT says that the transaction was undone.

    An ERROR on a connection that stays does: the server reports what happens behind the record of a commit as FATAL or
    PANIC, or closes the connection. 40003 and class 08 say themselves that the outcome is not known.
    """
    code = error.sqlstate or ""
    return severity == "ERROR" and not is_broken and bool(code) and code != "40003" and not code.startswith("08")


def what_to_change(error: ServerError, text: str) -> str | None:
    """What has to change before the same call can succeed; None where it may succeed later as it is."""
    if error.sqlstate:
        return _NEVER.get(error.sqlstate)
    return next((advice for sign, advice in _NEVER_TEXTS.items() if sign in text), None)
