"""Requests that a catalog server has carried out, by their idempotency keys, in the database of the catalog.

A request and its effect must never be separated: if the answer is lost and the client sends the request again, the
server has to know that it was carried out. So the record is written in the transaction that has the effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TypeVar
from uuid import uuid4

from esker.catalogs.sql_pointers import Database, Session
from esker.errors import EskerError

T = TypeVar("T")

_TABLE = (
    "CREATE TABLE IF NOT EXISTS esker_requests ("
    " request_key VARCHAR(36) NOT NULL PRIMARY KEY, fingerprint VARCHAR(64) NOT NULL, attempt VARCHAR(36) NOT NULL,"
    " status INTEGER NOT NULL, answer TEXT NOT NULL, kept_ms BIGINT NOT NULL)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRequest:
    """A request that was carried out: its key, what it asked for, and its answer.

    The answer to a success is made again from the catalog. It is empty, or the metadata file of a table that was
    removed.
    """

    key: str
    fingerprint: str
    status: int
    answer: str
    kept_ms: int


class CarriedOutBefore(EskerError):
    """A twin of this request has been carried out meanwhile. Nothing was changed by this one."""


@dataclass(slots=True)
class Pending:
    """A request that is being carried out. ``is_kept`` says whether its record was written beside a change."""

    request: KeptRequest
    attempt: str
    forget_before_ms: int
    is_kept: bool = False


_pending: ContextVar[Pending | None] = ContextVar("pending", default=None)


class RecordingDatabase:
    """A database that keeps the pending request in the transaction of its effect. Implements ``Database``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, act: str, work: Callable[[Session], T], *, nothing: T) -> T:
        return self._database.read(act, work, nothing=nothing)

    def read_at_once(self, work: Callable[[Session], T]) -> T | None:
        return self._database.read_at_once(work)

    def write(self, act: str, work: Callable[[Session], T], *, compares: bool = False) -> T:
        pending = _pending.get()
        if pending is None:
            return self._database.write(act, work, compares=compares)

        def both(session: Session) -> T:
            found = work(session)
            if isinstance(found, str):  # where a table was that is gone now: the answer is made from it again
                pending.request = replace(pending.request, answer=found)
            _insert(session, pending)
            return found

        return self._database.write(act, both, compares=compares)


class SqlRequestLog:
    """The kept requests of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._database.write("prepare the log of requests", lambda session: session.change(_TABLE))

    def find(self, key: str) -> KeptRequest | None:
        """The request with a key; None if it is not kept."""

        def work(session: Session) -> KeptRequest | None:
            rows = session.rows("SELECT * FROM esker_requests WHERE request_key = ?", (key,))
            if not rows:
                return None
            row = rows[0]
            return KeptRequest(
                key=row["request_key"],
                fingerprint=row["fingerprint"],
                status=int(row["status"]),
                answer=row["answer"],
                kept_ms=int(row["kept_ms"]),
            )

        return self._database.read("look for a request", work, nothing=None)

    @contextmanager
    def beside(self, request: KeptRequest, *, forget_before_ms: int) -> Iterator[Pending]:
        """Keep the request in the transaction of the next change. Requests from before that time are removed.

        The change raises ``CarriedOutBefore``, and is not made, if another request with the key is kept.
        """
        pending = Pending(request, str(uuid4()), forget_before_ms)
        token = _pending.set(pending)
        try:
            yield pending
        finally:
            _pending.reset(token)

    def keep(self, request: KeptRequest) -> None:
        """Keep a request that had no effect. One that is kept already stays."""
        pending = Pending(request, str(uuid4()), 0)

        def work(session: Session) -> None:
            if not session.rows("SELECT 1 AS one FROM esker_requests WHERE request_key = ?", (request.key,)):
                _insert(session, pending)

        self._database.write("keep a request", work)


def _insert(session: Session, pending: Pending) -> None:
    request = pending.request
    there = session.rows("SELECT attempt FROM esker_requests WHERE request_key = ?", (request.key,))
    if there and there[0]["attempt"] == pending.attempt:
        pending.is_kept = True
        return  # an attempt with an unknown outcome was committed after all
    if there:
        raise CarriedOutBefore(f"a request with the key {request.key} was carried out before")
    if pending.forget_before_ms:
        session.change("DELETE FROM esker_requests WHERE kept_ms < ?", (pending.forget_before_ms,))
    session.change(
        "INSERT INTO esker_requests (request_key, fingerprint, attempt, status, answer, kept_ms)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (request.key, request.fingerprint, pending.attempt, request.status, request.answer, request.kept_ms),
    )
    pending.is_kept = True
