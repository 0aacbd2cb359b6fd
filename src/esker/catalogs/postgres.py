"""PostgreSQL as the database of a catalog, through psycopg.

A write is one transaction. Where its statements compare by themselves what they change (`write` with ``compares``),
READ COMMITTED is enough: an UPDATE waits for the transaction before it, and compares again. All other writes are
SERIALIZABLE, so that what they read still holds when they write. A transaction that the server undid, for a deadlock
or a serialisation failure, is done again. Once COMMIT was sent, only a clear answer counts: ``COMMIT`` is success, an
error on a connection that stays open is a failure, and everything else is unknown.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from esker.catalogs.postgres_address import PostgresAddress
from esker.catalogs.postgres_failures import Meaning, is_undone, meaning_of, what_to_change
from esker.catalogs.sql_connections import Connections
from esker.catalogs.sql_pointers import CREATE_TABLES, Row, Session
from esker.errors import AlreadyExists, Conflict, EskerError, InvalidInput, OutcomeUnknown, StorageFailed, Unsupported

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

_ATTEMPTS = 8
_MOST_ATTEMPTS = {Meaning.AGAIN: _ATTEMPTS, Meaning.TAKEN: _ATTEMPTS, Meaning.LOST: 2, Meaning.CANCELLED: 2}
_SETTINGS = {  # of libpq, where the URI does not say otherwise
    "connect_timeout": 10,
    "application_name": "esker",
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}


class PostgresDatabase:
    """One database of a server; keeps the promise of ``catalogs.sql_pointers.Database``.

    ``answer_seconds`` is how long the server may take for one statement, ``busy_seconds`` how long a statement waits
    for another transaction.
    """

    def __init__(self, address: PostgresAddress, *, answer_seconds: float = 60.0, busy_seconds: float = 30.0) -> None:
        self._address = address
        self._busy_seconds = busy_seconds
        self._has_tables = False
        # a function that does not hold this object, so that connections are closed as soon as it goes
        self._connections: Connections[psycopg.Connection[Any]] = Connections(
            lambda: _opened(address, answer_seconds), _is_usable
        )

    def read(self, act: str, work: Callable[[Session], T], *, nothing: T) -> T:
        def look(connection: psycopg.Connection[Any]) -> T:
            session = PostgresSession(connection)
            return work(session) if self._tables_are_there(session) else nothing

        return self._tried(act, look)

    def read_at_once(self, work: Callable[[Session], T]) -> T | None:
        return None  # each statement waits for the network

    def write(self, act: str, work: Callable[[Session], T], *, compares: bool = False) -> T:
        level = "READ COMMITTED" if compares else "SERIALIZABLE"
        busy_ms = int(self._busy_seconds * 1000)
        begin = (
            f"BEGIN ISOLATION LEVEL {level}; SET LOCAL lock_timeout = {busy_ms};"
            # a writer that is gone must not lock the others out for ever
            f" SET LOCAL idle_in_transaction_session_timeout = {2 * busy_ms};"
            # what is acknowledged survives a crash, whatever this database does by default
            " SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"
        )

        def change(connection: psycopg.Connection[Any]) -> T:
            session = PostgresSession(connection)
            connection.execute(begin)
            try:
                if not self._tables_are_there(session):
                    for statement in CREATE_TABLES:
                        connection.execute(statement)
                result = work(session)
            except EskerError:
                connection.execute("ROLLBACK")
                raise
            self._commit(act, connection)
            self._has_tables = True
            return result

        return self._tried(act, change)

    def _commit(self, act: str, connection: psycopg.Connection[Any]) -> None:
        error_class = _driver().Error
        try:
            answer = connection.execute("COMMIT").statusmessage
        except error_class as error:
            if is_undone(error, error.diag.severity_nonlocalized, is_broken=connection.broken):
                raise
            raise OutcomeUnknown(
                f"cannot tell whether it happened: to {act}, {self._address.shown} was asked to commit, and gave no "
                f"clear answer: {self._said(error)}",
                catalog=self._address.shown,
            ) from error
        if answer != "COMMIT":  # a transaction with a failed statement in it is undone by COMMIT, without an error
            raise Conflict(
                f"cannot {act}: {self._address.shown} answered the commit with {answer}; nothing was changed",
                catalog=self._address.shown,
            )

    def _tried(self, act: str, work: Callable[[psycopg.Connection[Any]], T]) -> T:
        """What ``work`` finds on a connection, tried again where the server undid it or the connection was lost."""
        driver = _driver()
        mistakes = (driver.DataError, driver.ProgrammingError)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with self._connected(act) as connection:
                    return work(connection)
            except driver.Error as error:
                meaning = meaning_of(error, is_mistake=isinstance(error, mistakes))
                if attempt >= _MOST_ATTEMPTS.get(meaning, 1):
                    raise self._failure(act, error, meaning) from error
                if meaning is Meaning.LOST:
                    self._connections.close_idle()  # after a restart of the server none of them is alive
            except UnicodeError as error:
                raise InvalidInput(f"cannot {act}: it has characters that PostgreSQL cannot store: {error}") from error
            time.sleep(random.uniform(0, 0.01 * 2 ** min(attempt, 5)))
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def _connected(self, act: str) -> Iterator[psycopg.Connection[Any]]:
        with ExitStack() as stack:
            try:
                connection = stack.enter_context(self._connections.borrowed())
            except _driver().Error as error:  # nobody is there: trying again at once would only take longer
                raise self._failure(act, error, Meaning.LOST) from error
            yield connection

    def _failure(self, act: str, error: psycopg.Error, meaning: Meaning) -> EskerError:
        shown, said = self._address.shown, self._said(error)
        facts = {"catalog": shown, "reason": said}
        match meaning:
            case Meaning.AGAIN:
                return Conflict(
                    f"cannot {act}: {shown} undid the change {_ATTEMPTS} times for those of other writers: {said}; "
                    "nothing was changed; try again",
                    **facts,
                )
            case Meaning.LOCKED:
                return Conflict(
                    f"cannot {act}: {shown} stayed locked for {self._busy_seconds:g} s; nothing was changed", **facts
                )
            case Meaning.TAKEN:
                return AlreadyExists(f"cannot {act}: {said}", **facts)
            case Meaning.MISTAKE:
                return InvalidInput(f"cannot {act}: {shown}: {said}", **facts)
            case Meaning.LOST | Meaning.FAILED | Meaning.REFUSED | Meaning.CANCELLED:
                advice = what_to_change(error, said)
                return StorageFailed(
                    f"cannot {act}: {shown}: {said}; nothing was changed; {advice or 'try again later'}",
                    retryable=advice is None,
                    operation=act,
                    **facts,
                )

    def _said(self, error: BaseException) -> str:
        """The first line of a message of the server or of libpq; the rest repeats the statement."""
        lines = self._address.without_secrets(error).splitlines()
        return lines[0] if lines else type(error).__name__

    def _tables_are_there(self, session: PostgresSession) -> bool:
        if not self._has_tables:
            (found,) = session.rows(
                "SELECT to_regclass('iceberg_tables') IS NOT NULL"
                " AND to_regclass('iceberg_namespace_properties') IS NOT NULL AS both_there"
            )
            self._has_tables = found["both_there"]
        return self._has_tables


class PostgresSession:
    """Statements on one connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        cursor = self._connection.execute(_marked(statement), values)
        names = [column.name.lower() for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def columns(self, table: str) -> frozenset[str]:
        cursor = self._connection.execute(_marked(f"SELECT * FROM {table} WHERE 1 = 0"))
        return frozenset(column.name.lower() for column in cursor.description or ())

    def has_table(self, table: str) -> bool:
        (found,) = self.rows("SELECT to_regclass(?) IS NOT NULL AS is_there", (table,))
        return bool(found["is_there"])

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        return self._connection.execute(_marked(statement), values).rowcount


def _opened(address: PostgresAddress, answer_seconds: float) -> Any:
    driver = _driver()
    try:
        given = driver.conninfo.conninfo_to_dict(address.conninfo)
    except driver.Error:  # its message repeats parts of the URI
        raise InvalidInput(
            f"cannot open {address.shown}: it has an option or a sign that PostgreSQL does not know"
        ) from None
    connection = _bounded_class().connect(**{**_SETTINGS, **given}, autocommit=True, prepare_threshold=None)
    connection.answer_seconds = answer_seconds
    return connection


def _driver() -> Any:
    try:
        import psycopg
    except ImportError:
        raise Unsupported(
            "cannot open a PostgreSQL catalog: psycopg is not installed; pip install 'esker[postgres]'",
            feature="postgres",
        ) from None
    return psycopg


@cache
def _bounded_class() -> Any:
    class BoundedConnection(_driver().Connection):  # type: ignore[misc]
        """A connection that does not wait for ever: a server that is cut off without a word never answers."""

        answer_seconds = 60.0

        def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
            return super().wait(_bounded(gen, self.answer_seconds), *args, **options)

    return BoundedConnection


def _bounded(gen: Generator[Any, Any, T], seconds: float) -> Generator[Any, Any, T]:
    """A conversation of the driver, given up when the server takes too long. The driver looks up every 0.1 seconds."""
    deadline = time.monotonic() + seconds
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > deadline:
                raise _driver().OperationalError(f"the server did not answer for {seconds:g} s")
            wanted = gen.send(ready)
    except StopIteration as end:
        found: T = end.value
        return found


@lru_cache(maxsize=128)
def _marked(statement: str) -> str:
    """A statement with the driver's marks for values."""
    return statement.replace("%", "%%").replace("?", "%s")


def _is_usable(connection: psycopg.Connection[Any]) -> bool:
    return not connection.closed
