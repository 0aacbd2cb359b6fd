"""The frames of a query: rows of a scan, of ``t.changes`` or of a metadata table, and the small answers of statements.

Frames are reused between queries, because the frame of a table's version never changes. CACHE TABLE keeps the rows of a
version.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from esker.errors import InvalidInput
from esker.model.predicates.predicate import TRUE, Bound, all_of, conjuncts, terms
from esker.model.types import is_floating
from esker.ports.engine import CHANGE_COLUMNS, ReadRequest
from esker.read.scan import Scan, merge_rule_of
from esker.read.scan_changes import ChangeScan
from esker.spark.expressions.function_calls import check_types, expanded
from esker.spark.expressions.run_template import run_template
from esker.spark.session.spark_session import is_connect
from esker.spark.sql.queries.proved_conditions import unproved
from esker.spark.sql.queries.rewrite_query import MetadataRows, Rewritten, Rows, ScanKey
from esker.table import Table
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import StorageLevel
    from pyspark.sql import DataFrame, SparkSession


RANGE_OPTIONS = ("start-snapshot-id", "end-snapshot-id", "start-timestamp", "end-timestamp")
_KIND = CHANGE_COLUMNS[0].name


def changelog_frame(changes: ChangeScan, spark: SparkSession) -> DataFrame:
    """Return the changes with their kind in capitals: INSERT, DELETE, UPDATE_BEFORE and UPDATE_AFTER."""
    frame = changes.to_spark(spark)
    capital = frame.selectExpr(f"* EXCEPT ({_KIND})", f"upper({_KIND}) AS {_KIND}")
    return capital.select(*(f"`{name.replace('`', '``')}`" for name in frame.columns))


def changelog_range(table: Table, options: Mapping[str, object]) -> tuple[int | None, int | None]:
    """Return the snapshot after which changes begin, and the last one. None means the first, and the current one.

    Options and meaning are those of Iceberg's Spark runtime. Times are in milliseconds, in the history of ``main``. A
    snapshot at exactly the start time is left out, like ``start-snapshot-id``. Raises ``InvalidInput`` if options are
    unknown, contradict each other, or are not numbers.
    """
    unknown = sorted(options.keys() - set(RANGE_OPTIONS))
    if unknown:
        raise InvalidInput(f"cannot take the option {unknown[0]!r}: there are {', '.join(RANGE_OPTIONS)}")
    start, end, after, until = (_number(name, options.get(name)) for name in RANGE_OPTIONS)
    for which, by_id, by_time in (("start", start, after), ("end", end, until)):
        if by_id is not None and by_time is not None:
            raise InvalidInput(
                f"cannot read changes: {which}-snapshot-id and {which}-timestamp exclude each other; give one of them"
            )
    if after is not None and until is not None and after >= until:
        raise InvalidInput("cannot read changes: start-timestamp must be before end-timestamp")
    line = _line(table)
    if after is not None:
        start = next((id_ for id_, moment in line if moment <= after), None)
    if until is not None:
        end = next((id_ for id_, moment in line if moment <= until), None)
        if end is None:  # nothing changed before the first snapshot
            return (line[-1][0], line[-1][0]) if line else (None, None)
    return start, end


def _number(name: str, value: object) -> int | None:
    if value is None:
        return None
    text = str(value).strip()
    if not text.removeprefix("-").isdecimal() or not text.isascii():
        raise InvalidInput(f"cannot use {value!r} for the option {name!r}: it must be a whole number")
    return int(text)


def _line(table: Table) -> list[tuple[int, int]]:
    """Return the snapshots in the history of main, the newest first."""
    found, at = [], table.current_snapshot
    while at is not None:
        found.append((at.snapshot_id, at.timestamp_ms))
        at = None if at.parent_snapshot_id is None else table.metadata.snapshot(at.parent_snapshot_id)
    return found


# ---------------------------------------------------------------- known frames
#
# To plan a table's files and give them to Spark takes tens of milliseconds, which is noticeable in a query over eight
# tables. Two queries with different filters share a frame if they read the same files.


_KEPT = 64
_MOST_FILES = 1000  # of a shared frame: each of them is part of its key


@dataclass(frozen=True, slots=True)
class KnownFrame:
    """A frame, the conditions that some of its files do not prove, and a view of it, if it has one."""

    frame: DataFrame
    unproved: frozenset[Bound] | None = None  # None: nothing is known
    view: str | None = None
    by_arrow: bool = False  # whether workers read files with Arrow, which then applies the filter


@dataclass(frozen=True, slots=True)
class _Files:
    """The files that the filter of a scan leaves: the key of their frame, and the conditions that some do not prove."""

    key: Hashable
    unproved: frozenset[Bound] | None


class KnownFrames:
    """The most recently used frames of one session, each with a view that queries name.

    The views are global temporary ones, which no list of the session's own tables and views shows.
    """

    def __init__(self) -> None:
        self._session: SparkSession | None = None
        self._frames: OrderedDict[Hashable, KnownFrame] = OrderedDict()
        self._files: OrderedDict[Hashable, _Files] = OrderedDict()
        self._lock = Lock()

    def of_scan(self, session: SparkSession, key: ScanKey, scan: Scan) -> KnownFrame:
        """Return the frame of a scan in this session. Raises ``Unsupported`` if the table was opened without Spark."""

        def whole() -> KnownFrame:
            return known_frame(scan, session)

        if is_connect(session) or scan.frames is None or _about_floats(scan.filter) != TRUE or merge_rule_of(scan):
            return self.get(session, key, whole)
        with self._lock:
            files = self._files.get(key)
        request = scan.spark_request() if files is None else None
        if files is None and request is not None:
            files = _Files(_files_key(key, request), unproved(request.tasks))
        assert files is not None
        with self._lock:
            self._files[key] = files
            self._files.move_to_end(key)
            while len(self._files) > _KEPT:
                self._files.popitem(last=False)
        if files.key == key:
            return self.get(session, key, whole)
        shared = self.get(session, files.key, lambda: _of_all_rows(request or scan.spark_request(), scan, session))
        return self.get(session, key, whole) if shared.by_arrow else replace(shared, unproved=files.unproved)

    def get(self, session: SparkSession, key: Hashable, make: Callable[[], KnownFrame]) -> KnownFrame:
        """Return the frame of the key in this session. Make it if it does not exist."""
        gone: list[tuple[SparkSession, KnownFrame]] = []
        with self._lock:
            if session is not self._session:  # frames of another session cannot be used
                if self._session is not None:
                    gone += [(self._session, frame) for frame in self._frames.values()]
                self._session = session
                self._frames.clear()
            found = self._frames.get(key)
            if found is not None:
                self._frames.move_to_end(key)
        made = found
        if made is None:
            made = _with_view(make(), session)
            with self._lock:
                if (other := self._frames.get(key)) is not None:  # made by another thread at the same time
                    gone.append((session, made))
                    made = other
                elif session is self._session:
                    self._frames[key] = made
                while len(self._frames) > _KEPT:
                    gone.append((session, self._frames.popitem(last=False)[1]))
        for of, frame in gone:
            with suppress(Exception):  # the session may have been stopped
                _drop_view(frame, of)
        return made


def _files_key(key: ScanKey, request: ReadRequest) -> Hashable:
    """Return what identifies the frame of these files, or the key itself if there are many."""
    tasks = list(islice(request.tasks, _MOST_FILES + 1))
    if len(tasks) > _MOST_FILES or any(task.taken_by is not None or task.gone is not None for task in tasks):
        return key
    return key.version, tuple((task.data_file.path, *(delete.path for delete in task.deletes)) for task in tasks)


def _of_all_rows(request: ReadRequest, scan: Scan, session: SparkSession) -> KnownFrame:
    """Return all rows of the files, whatever the filter. Without float columns, Spark alone filters rows."""
    assert scan.frames is not None
    tasks = [replace(task, residual=TRUE) for task in request.tasks]
    frame = scan.frames.frame(replace(request, tasks=tasks, filter=TRUE), TRUE, session)
    return KnownFrame(frame, by_arrow=_ARROW in frame._jdf.queryExecution().analyzed().toString())


_ARROW = "MapInArrow"
_VIEWS = "spark.sql.globalTempDatabase"


def _with_view(made: KnownFrame, session: SparkSession) -> KnownFrame:
    """Return the frame with a view. A client of Spark Connect has none, because it sends a plan with each query."""
    if is_connect(session):
        return made
    name = f"esker_{uuid4().hex}"
    made.frame.createGlobalTempView(name)
    return replace(made, view=f"{session.conf.get(_VIEWS)}.{name}")


def _drop_view(gone: KnownFrame, session: SparkSession) -> None:
    if gone.view is not None:
        session.catalog.dropGlobalTempView(gone.view.rpartition(".")[2])


# ---------------------------------------------------------------- cached tables
#
# Cached rows belong to one version. If a query finds another version of the table, it reads that version, which
# replaces the cached rows. So no commit is hidden. A query of an older version or of a branch reads files.


@dataclass(frozen=True, slots=True)
class _Kept:
    """The rows of one table at one version, and how Spark stores them."""

    session: SparkSession
    version: Hashable
    level: StorageLevel
    frame: DataFrame


class CachedTables:
    """The tables that a session caches, by their id and location."""

    def __init__(self, frame_of: Callable[[Scan, SparkSession], DataFrame]) -> None:
        self._frame_of = frame_of
        self._kept: dict[str, _Kept] = {}
        self._lock = Lock()

    def cache(self, scan: Scan, spark: SparkSession, *, level: str | None, lazy: bool) -> None:
        """Cache the rows of a whole table. If the table is cached already, nothing is done."""
        name = _name(scan.metadata)
        stored = storage_level(level)
        with self._lock:
            if (kept := self._kept.get(name)) is not None and kept.session is spark:
                return
            made = self._kept[name] = self._made(scan, spark, stored)
        if not lazy:
            made.frame.count()

    def uncache(self, metadata: TableMetadata) -> None:
        """Remove the rows of a table from the cache, if it has any."""
        with self._lock:
            kept = self._kept.pop(_name(metadata), None)
        if kept is not None:
            kept.frame.unpersist()

    def clear(self) -> None:
        """Remove every table from the cache."""
        with self._lock:
            kept = list(self._kept.values())
            self._kept.clear()
        for one in kept:
            one.frame.unpersist()

    def find(self, scan: Scan, spark: SparkSession) -> DataFrame | None:
        """Return the cached rows of the whole table, if the scan is of its current version. Otherwise None."""
        name = _name(scan.metadata)
        with self._lock:
            kept = self._kept.get(name)
            if kept is None or kept.session is not spark or not _is_current(scan):
                return None
            if kept.version != _version(scan):
                kept.frame.unpersist()
                kept = self._kept[name] = self._made(scan, spark, kept.level)
            # After each query, Spark drops the view of its plan, and with it the cached rows of exactly that plan.
            return kept.frame.where("true")

    def _made(self, scan: Scan, spark: SparkSession, level: StorageLevel) -> _Kept:
        whole = replace(scan, filter=TRUE)
        return _Kept(spark, _version(scan), level, self._frame_of(whole, spark).persist(level))


def _name(metadata: TableMetadata) -> str:
    """Return what identifies a table. Old tables have no id."""
    return f"{metadata.uuid} {metadata.location}"


def _is_current(scan: Scan) -> bool:
    snapshot = scan.resolved.snapshot
    current = scan.metadata.current_snapshot_id
    return (None if snapshot is None else snapshot.snapshot_id) == current


def _version(scan: Scan) -> Hashable:
    """Return what identifies the cached rows. Metadata changes with every commit, but not every commit changes rows."""
    metadata = scan.metadata
    mapping = metadata.properties.get("schema.name-mapping.default")
    return metadata.current_snapshot_id, scan.resolved.schema.schema_id, mapping


def storage_level(name: str | None) -> StorageLevel:
    """Return a storage level by Spark's name, by default that of CACHE TABLE.

    Raises ``InvalidInput`` if it is unknown.
    """
    from pyspark import StorageLevel

    found = getattr(StorageLevel, (name or "MEMORY_AND_DISK_DESER").upper(), None)
    if not isinstance(found, StorageLevel):
        raise InvalidInput(f"cannot cache with the storage level {name!r}: Spark has MEMORY_AND_DISK, DISK_ONLY, …")
    return found


def frame_of(rows: Rows, spark: SparkSession) -> DataFrame:
    """Return a frame of the rows. The rows of a scan are not read yet."""
    if isinstance(rows, Scan):
        return _pruned(rows, spark)
    if isinstance(rows, ChangeScan):
        return changelog_frame(rows, spark)
    return arrow_frame(_metadata_rows(rows), spark)


def _pruned(scan: Scan, spark: SparkSession) -> DataFrame:
    """Return the rows of the files that the filter leaves. The query itself filters rows, except for floats."""
    return known_frame(scan, spark).frame


def known_frame(scan: Scan, spark: SparkSession) -> KnownFrame:
    """Return the rows of the files that the filter leaves, and which conditions of the filter some files do not prove.

    Raises ``Unsupported`` if the table was opened without Spark.
    """
    if scan.frames is None:
        return KnownFrame(scan.to_spark(spark))  # raises with the reason
    request = scan.spark_request()
    frame = scan.frames.frame(request, _about_floats(scan.filter), spark)
    return KnownFrame(frame, unproved(request.tasks))


def _about_floats(predicate: Bound) -> Bound:
    """Return the conditions on float columns.

    In Esker's form they can reach Spark's reader, in the query's form not.
    """
    return all_of(part for part in conjuncts(predicate) if any(is_floating(term.field.type) for term in terms(part)))


def arrow_frame(table: pa.Table, spark: SparkSession) -> DataFrame:
    """Return a frame of rows in memory. PySpark does not accept a map column without rows, so it gets one row."""
    import pyarrow as pa

    schema = pa.schema([_optional(field) for field in table.schema])
    if table.num_rows:
        return spark.createDataFrame(table.cast(schema))
    nulls = pa.table([pa.nulls(1, field.type) for field in schema], schema=schema)
    return spark.createDataFrame(nulls).where("false")


def _optional(field: pa.Field) -> pa.Field:
    """Return a nullable field. PySpark refuses a struct that is null if a member is required."""
    import pyarrow as pa

    type_ = field.type
    if pa.types.is_struct(type_):
        type_ = pa.struct([_optional(type_.field(at)) for at in range(type_.num_fields)])
    elif pa.types.is_map(type_):
        type_ = pa.map_(type_.key_field, _optional(type_.item_field))
    elif pa.types.is_list(type_):
        type_ = pa.list_(_optional(type_.value_field))
    return pa.field(field.name, type_, nullable=True)


def run_rewritten(
    rewritten: Rewritten, spark: SparkSession, known: KnownFrames, cached: CachedTables | None = None
) -> DataFrame:
    """Run the query in Spark and return its frame. Each frame has a name that only this statement knows."""

    def make(name: str, rows: Rows) -> KnownFrame:
        if not isinstance(rows, Scan):
            return KnownFrame(frame_of(rows, spark))
        if cached is not None and (kept := cached.find(rows, spark)) is not None:
            return KnownFrame(kept)
        key = rewritten.keys[name]
        assert isinstance(key, ScanKey)
        return known.of_scan(spark, key, rows)

    made = {name: make(name, rows) for name, rows in rewritten.frames.items()}
    text = rewritten.shortened({name: one.unproved for name, one in made.items() if one.unproved is not None})
    template = expanded(text)
    found = _run(template, made, spark)
    if template != text:
        check_types(found)
    return found


def _run(template: str, made: Mapping[str, KnownFrame], spark: SparkSession) -> DataFrame:
    """Run the template with the views of frames, and give Spark the frames that have none."""
    from pyspark.errors import AnalysisException

    frames = {name: one.frame for name, one in made.items()}
    views = {name: one.view for name, one in made.items()}
    try:
        return run_template(spark, template, frames, views)
    except AnalysisException as error:
        if not any(one.view is not None and one.view.rpartition(".")[2] in str(error) for one in made.values()):
            raise
    return run_template(spark, template, frames, {})  # another thread dropped a view


@dataclass(frozen=True, slots=True)
class Answer:
    """A few rows that need no Spark. ``columns`` is DDL, and empty if there is no answer."""

    columns: str
    rows: Sequence[tuple[Any, ...]] = ()


NOTHING = Answer("")


def answer_frame(answer: Answer, spark: SparkSession) -> DataFrame:
    """Return the answer as a frame, without columns and rows if the statement has no answer.

    A few rows of texts and numbers become a query over ``VALUES``, which needs no job. A classic session makes it only
    if more than the rows is asked for.
    """
    from pyspark.sql.types import StructType

    if 0 < len(answer.rows) <= _FEW_ROWS and _PLAIN.fullmatch(answer.columns) and all(map(_is_plain, answer.rows)):
        text = _values_text(answer)
        if is_connect(spark):
            return spark.sql(text)
        from esker.spark.sql.queries.late_answer import LateAnswer

        names = [column.split(None, 1)[0] for column in answer.columns.split(", ")]
        return LateAnswer(names, answer.rows, partial(spark.sql, text))
    return spark.createDataFrame(list(answer.rows), answer.columns or StructType([]))


_FEW_ROWS = 100
_PLAIN = re.compile(r"(\w+ (string|bigint|int)(, |$))+")  # the columns of an answer that VALUES can give


def _is_plain(row: tuple[Any, ...]) -> bool:
    return all(value is None or type(value) in (str, int) for value in row)


def _values_text(answer: Answer) -> str:
    """Return a query with the answer's rows. Each value may be null for Spark, so that every column is nullable."""
    columns = [column.split(None, 1) for column in answer.columns.split(", ")]
    names = ", ".join(f"`{name}`" for name, _ in columns)
    types = [type_ for _, type_ in columns]
    rows = ", ".join(
        "(" + ", ".join(f"IF(true, {_literal(v)}, NULL)::{t}" for v, t in zip(row, types, strict=True)) + ")"
        for row in answer.rows
    )
    return f"SELECT * FROM VALUES {rows} AS answer({names})"


def _literal(value: str | int | None) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else f"X'{value.encode().hex()}'"


def commit_answer(snapshot: Snapshot | None) -> Answer:
    """Return the result of a row change: one row, or none if nothing was changed."""
    columns = ", ".join(
        (
            "operation string",
            "snapshot_id bigint",
            "added_records bigint",
            "updated_records bigint",
            "deleted_records bigint",
        )
    )
    if snapshot is None:
        return Answer(columns)
    counts = (snapshot.rows_inserted, snapshot.rows_updated, snapshot.rows_deleted)
    return Answer(columns, [(snapshot.operation, snapshot.snapshot_id, *counts)])


def _metadata_rows(rows: MetadataRows) -> Any:
    read = getattr(rows.table.inspect, rows.name)
    return read() if rows.snapshot_id is None else read(rows.snapshot_id)
