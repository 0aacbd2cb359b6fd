"""Attaches a lake to a Spark session. Only the session object and its DataFrames change: they get other classes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from esker.errors import InvalidInput
from esker.spark.attached.lake_writes import LakeWrites
from esker.spark.expressions.sql_text import literal_text
from esker.spark.session.spark_session import is_connect
from esker.spark.sql.queries.query_frames import RANGE_OPTIONS
from esker.spark.sql.run_statement import SqlRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from esker.lake import Lake

_KEPT = "_esker_attachment"
_VERSIONS = {
    "snapshot-id": "VERSION AS OF {number}",
    "versionasof": "VERSION AS OF {text}",
    "branch": "VERSION AS OF {text}",
    "tag": "VERSION AS OF {text}",
    "as-of-timestamp": "TIMESTAMP AS OF timestamp_millis({number})",
    "timestampasof": "TIMESTAMP AS OF {text}",
}


@dataclass(slots=True)
class Attachment:
    """The state that an attached session keeps about its lake."""

    runner: SqlRunner
    was: Any  # the session's class before it was attached
    lake: Lake
    streams: bool = False  # whether the data source for streams is registered in the session
    _busy: threading.local = field(default_factory=threading.local)

    @property
    def is_busy(self) -> bool:
        """Whether Esker itself is calling Spark now, in this thread."""
        return bool(getattr(self._busy, "on", False))

    @property
    def writes(self) -> LakeWrites:
        """The object that writes frames into the lake."""
        return LakeWrites(self.runner, self.at_work)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Mark a block in which Esker itself calls Spark: the session then behaves as if no lake were attached."""
        before, self._busy.on = self.is_busy, True
        try:
            yield
        finally:
            self._busy.on = before


def attach(spark: SparkSession, lake: Lake, name: str = "lake") -> None:
    """Let a session use a lake's tables as ``<name>.<namespace>.<table>``.

    A name without ``<name>`` works too, if Spark has no table of that name. After this call, ``spark.sql``,
    ``spark.table``, ``spark.read.table``, ``df.writeTo``, ``df.write.saveAsTable``, ``df.write.insertInto``,
    ``spark.readStream.table`` and ``df.writeStream.toTable`` accept the lake's tables. Only this session object and its
    DataFrames change. Other sessions do not see the lake. If a lake is attached already, it is detached first.

    Args:
        spark: the session, classic or Spark Connect
        lake: the lake to attach
        name: the first part of the table names, a plain identifier

    Raises ``InvalidInput`` if ``name`` is not a plain identifier, or is a name that Spark reserves.

        esker.spark.attach(spark, lake)
        spark.sql("SELECT * FROM lake.sales.orders")
        df.writeTo("lake.sales.orders").append()
    """
    if not isinstance(name, str) or not name.isidentifier() or name.lower() in ("spark_catalog", "global_temp"):
        raise InvalidInput(f"cannot attach the lake as {name!r}: it is not a plain name; use a name such as lake")
    detach(spark)
    runner = SqlRunner(lake, lambda: spark, name)
    kind: Any = type(spark)
    attachment = Attachment(runner, kind, lake)
    spark.__dict__[_KEPT] = attachment
    spark.__class__ = _attached(kind, is_connect(spark))
    if is_connect(spark):
        from esker.spark.attached.connect_client import listen

        listen(spark, attachment)
    else:
        _teach_frames_of(spark)


def detach(spark: SparkSession) -> None:
    """Undo ``attach``. A session without a lake is not changed. Raises nothing.

    esker.spark.detach(spark)
    """
    attachment = spark.__dict__.pop(_KEPT, None)
    if attachment is None:
        return
    if is_connect(spark):
        from esker.spark.attached.connect_client import stop_listening

        stop_listening(spark)
    spark.__class__ = attachment.was


def attachment_of(session: Any) -> Attachment | None:
    """Return the state of the attached lake. Returns None if no lake is attached, or while Esker itself calls Spark."""
    found: Attachment | None = session.__dict__.get(_KEPT)
    return None if found is None or found.is_busy else found


@cache
def _attached(base: Any, connect: bool) -> Any:
    """Return the class of sessions that have a lake."""

    class AttachedSession(base):  # type: ignore[misc]
        def sql(self, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: N803
            found = attachment_of(self)
            if found is None or any(name.startswith("esker_") for name in kwargs):  # a query by Esker itself
                return super().sql(sqlQuery, args, **kwargs)
            with found.at_work():
                return found.runner.run(sqlQuery, args, **kwargs)

        def table(self, tableName: str) -> DataFrame:  # noqa: N803
            return self.read.table(tableName)

        @property
        def read(self) -> Any:
            reader = super().read
            kind: Any = type(reader)
            if attachment_of(self) is not None:
                reader.__class__ = _reading(kind)
            return reader

        @property
        def readStream(self) -> Any:  # noqa: N802
            reader = super().readStream
            kind: Any = type(reader)
            if attachment_of(self) is not None:
                from esker.spark.attached.table_streams import streaming_reader

                reader.__class__ = streaming_reader(kind)
            return reader

        def newSession(self) -> SparkSession:  # noqa: N802
            return _without(super().newSession(), base)

        def cloneSession(self) -> SparkSession:  # noqa: N802
            return _without(super().cloneSession(), base)

    if not connect:
        AttachedSession._sc = property(_context_of_frames, _set_context)
    AttachedSession.__name__ = AttachedSession.__qualname__ = base.__name__
    AttachedSession.__module__ = base.__module__
    return AttachedSession


def _without(session: Any, base: Any) -> SparkSession:
    """Return another session that this one made. It has no lake."""
    session.__class__ = base
    return session


def _set_context(session: Any, context: Any) -> None:
    session.__dict__["_sc"] = context


def _context_of_frames(session: Any) -> Any:
    """Return the session's context.

    Every method that makes a DataFrame reads the context in the DataFrame's constructor. That is the place where a new
    DataFrame gets the class whose writers know the lake.
    """
    from pyspark.sql.classic.dataframe import DataFrame

    from esker.spark.attached.frame_writers import AttachedFrame

    asking = sys._getframe(1)
    made = asking.f_locals.get("self")
    if asking.f_code is DataFrame.__init__.__code__ and type(made) is DataFrame:
        made.__class__ = AttachedFrame
    return session.__dict__["_sc"]


def _teach_frames_of(session: Any) -> None:
    """Give the session's existing DataFrames the class whose writers know the lake.

    Other DataFrames are not changed.
    """
    import gc

    from pyspark.sql.classic.dataframe import DataFrame

    from esker.spark.attached.frame_writers import AttachedFrame

    for found in gc.get_objects():
        if type(found) is DataFrame and found.__dict__.get("_session") is session:
            found.__class__ = AttachedFrame


@cache
def _reading(base: Any) -> Any:
    """Return the class of readers that know the lake."""

    class AttachedReader(base):  # type: ignore[misc]
        def option(self, key: str, value: Any) -> Any:
            self.__dict__.setdefault("_esker_options", {})[key.lower()] = value
            return super().option(key, value)

        def options(self, **options: Any) -> Any:
            for key, value in options.items():
                self.option(key, value)
            return self

        def table(self, tableName: str) -> DataFrame:  # noqa: N803
            found = attachment_of(self._spark) if hasattr(self, "_spark") else attachment_of(self._client)
            if found is None:
                return super().table(tableName)
            with found.at_work():
                if not found.writes.owns(tableName):
                    return super().table(tableName)
                given = self.__dict__.get("_esker_options", {})
                if any(name in given for name in RANGE_OPTIONS):
                    return found.runner.changes(tableName, given)
                return found.runner.run(f"SELECT * FROM {tableName}{self._version()}")

        def _version(self) -> str:
            given = self.__dict__.get("_esker_options", {})
            unknown = sorted(given.keys() - _VERSIONS.keys())
            if unknown:
                raise InvalidInput(
                    f"cannot read with the option {unknown[0]!r}: it is not known; use one of "
                    f"{', '.join((*_VERSIONS, *RANGE_OPTIONS))}"
                )
            return "".join(f" {_clause(key, value)}" for key, value in given.items())

    return AttachedReader


def _clause(option: str, value: Any) -> str:
    """Return a reader's option as a clause of SQL.

    Raises ``InvalidInput`` if a number is needed and the value is none.
    """
    clause = _VERSIONS[option]
    if "{number}" not in clause:
        return clause.format(text=literal_text(str(value)))
    try:
        return clause.format(number=int(value))
    except (TypeError, ValueError):
        raise InvalidInput(f"cannot read with the option {option!r} = {value!r}: it must be a whole number") from None
