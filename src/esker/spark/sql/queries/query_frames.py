"""The frames of a query: rows of a scan, of ``t.changes`` or of a metadata table, and the small answers of statements.

Frames are kept between queries: the frame of a table's version never changes, and CACHE TABLE keeps rows of a version.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from esker.errors import InvalidInput
from esker.model.predicates.predicate import TRUE, Bound, all_of, conjuncts, terms
from esker.model.types import is_floating
from esker.ports.engine import CHANGE_COLUMNS
from esker.read.scan import Scan
from esker.read.scan_changes import ChangeScan
from esker.spark.expressions.function_calls import check_types, expanded
from esker.spark.sql.queries.rewrite_query import MetadataRows, Rewritten, Rows
from esker.table import Table
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import StorageLevel
    from pyspark.sql import DataFrame, SparkSession


# ---------------------------------------------------------------- changelog
#
# ``t.changes``, and the range of snapshots that its options name, as in Iceberg's Spark runtime.


RANGE_OPTIONS = ("start-snapshot-id", "end-snapshot-id", "start-timestamp", "end-timestamp")
_KIND = CHANGE_COLUMNS[0].name


def changelog_frame(changes: ChangeScan, spark: SparkSession) -> DataFrame:
    """The changes with their kind in capitals: INSERT, DELETE, UPDATE_BEFORE and UPDATE_AFTER."""
    frame = changes.to_spark(spark)
    capital = frame.selectExpr(f"* EXCEPT ({_KIND})", f"upper({_KIND}) AS {_KIND}")
    return capital.select(*(f"`{name.replace('`', '``')}`" for name in frame.columns))


def changelog_range(table: Table, options: Mapping[str, object]) -> tuple[int | None, int | None]:
    """The snapshot after which changes begin, and the last one; None for the first and for the current one.

    Times are in milliseconds, on the way that ``main`` came. A snapshot of exactly the start is left out, as
    ``start-snapshot-id`` is. ``InvalidInput`` where options are unknown, contradict each other, or are no numbers.
    """
    unknown = sorted(options.keys() - set(RANGE_OPTIONS))
    if unknown:
        raise InvalidInput(f"cannot take the option {unknown[0]!r}: there are {', '.join(RANGE_OPTIONS)}")
    start, end, after, until = (_number(name, options.get(name)) for name in RANGE_OPTIONS)
    for which, by_id, by_time in (("start", start, after), ("end", end, until)):
        if by_id is not None and by_time is not None:
            raise InvalidInput(f"cannot read changes: give one of {which}-snapshot-id and {which}-timestamp")
    if after is not None and until is not None and after >= until:
        raise InvalidInput("cannot read changes: start-timestamp must be before end-timestamp")
    line = _line(table)
    if after is not None:
        start = next((id_ for id_, moment in line if moment <= after), None)
    if until is not None:
        end = next((id_ for id_, moment in line if moment <= until), None)
        if end is None:  # before the first snapshot nothing changed
            return (line[-1][0], line[-1][0]) if line else (None, None)
    return start, end


def _number(name: str, value: object) -> int | None:
    if value is None:
        return None
    text = str(value).strip()
    if not text.removeprefix("-").isdecimal() or not text.isascii():
        raise InvalidInput(f"cannot take {value!r} for the option {name!r}: give a whole number")
    return int(text)


def _line(table: Table) -> list[tuple[int, int]]:
    """The snapshots that main came by, newest first."""
    found, at = [], table.current_snapshot
    while at is not None:
        found.append((at.snapshot_id, at.timestamp_ms))
        at = None if at.parent_snapshot_id is None else table.metadata.snapshot(at.parent_snapshot_id)
    return found


# ---------------------------------------------------------------- known frames
#
# Frames that were made before: a version of a table never changes, so neither does the frame of its files.
#
# To plan a table's files and hand them to Spark takes tens of milliseconds, which a query over eight tables feels.


_KEPT = 64


class KnownFrames:
    """The frames of one session that were used last."""

    def __init__(self) -> None:
        self._session: SparkSession | None = None
        self._frames: OrderedDict[Hashable, DataFrame] = OrderedDict()
        self._lock = Lock()

    def get(self, session: SparkSession, key: Hashable, make: Callable[[], DataFrame]) -> DataFrame:
        """The frame known by the key in this session, made if it is not known."""
        with self._lock:
            if session is not self._session:  # frames of a session that ended are of no use
                self._session = session
                self._frames.clear()
            found = self._frames.get(key)
            if found is not None:
                self._frames.move_to_end(key)
                return found
        made = make()
        with self._lock:
            if session is self._session:
                self._frames[key] = made
            while len(self._frames) > _KEPT:
                self._frames.popitem(last=False)
        return made


# ---------------------------------------------------------------- cached tables
#
# CACHE TABLE over tables of the lake: rows that Spark keeps, for as long as they are the table's own.
#
# Kept rows are those of one version. A query that finds the table at another version, by whoever's commit, reads that
# one, and it takes the place of the old rows. So no commit is hidden. A query of an older version or of a branch reads
# files.


@dataclass(frozen=True, slots=True)
class _Kept:
    """The rows of one table at one version, and how Spark stores them."""

    session: SparkSession
    version: Hashable
    level: StorageLevel
    frame: DataFrame


class CachedTables:
    """The tables that a session caches, each by its id and location."""

    def __init__(self, frame_of: Callable[[Scan, SparkSession], DataFrame]) -> None:
        self._frame_of = frame_of
        self._kept: dict[str, _Kept] = {}
        self._lock = Lock()

    def cache(self, scan: Scan, spark: SparkSession, *, level: str | None, lazy: bool) -> None:
        """Keep the rows of a scan of a whole table; those of a table that is cached already stay as they are."""
        name = _name(scan.metadata)
        stored = storage_level(level)
        with self._lock:
            if (kept := self._kept.get(name)) is not None and kept.session is spark:
                return
            made = self._kept[name] = self._made(scan, spark, stored)
        if not lazy:
            made.frame.count()

    def uncache(self, metadata: TableMetadata) -> None:
        """Let Spark forget the rows of a table; nothing where it keeps none."""
        with self._lock:
            kept = self._kept.pop(_name(metadata), None)
        if kept is not None:
            kept.frame.unpersist()

    def clear(self) -> None:
        """Forget every table."""
        with self._lock:
            kept = list(self._kept.values())
            self._kept.clear()
        for one in kept:
            one.frame.unpersist()

    def find(self, scan: Scan, spark: SparkSession) -> DataFrame | None:
        """The rows that are kept of the whole table where the scan is of its current version; None where none are."""
        name = _name(scan.metadata)
        with self._lock:
            kept = self._kept.get(name)
            if kept is None or kept.session is not spark or not _is_current(scan):
                return None
            if kept.version != _version(scan):
                kept.frame.unpersist()
                kept = self._kept[name] = self._made(scan, spark, kept.level)
            # Spark forgets what it keeps of a plan when it drops a view of just that plan, as it does after each query
            return kept.frame.where("true")

    def _made(self, scan: Scan, spark: SparkSession, level: StorageLevel) -> _Kept:
        whole = replace(scan, filter=TRUE)
        return _Kept(spark, _version(scan), level, self._frame_of(whole, spark).persist(level))


def _name(metadata: TableMetadata) -> str:
    """What tells a table from any other; old tables have no id."""
    return f"{metadata.uuid} {metadata.location}"


def _is_current(scan: Scan) -> bool:
    snapshot = scan.resolved.snapshot
    current = scan.metadata.current_snapshot_id
    return (None if snapshot is None else snapshot.snapshot_id) == current


def _version(scan: Scan) -> Hashable:
    """Metadata changes with every commit; what is not changed by it may be kept."""
    metadata = scan.metadata
    mapping = metadata.properties.get("schema.name-mapping.default")
    return metadata.current_snapshot_id, scan.resolved.schema.schema_id, mapping


def storage_level(name: str | None) -> StorageLevel:
    """A level by Spark's name, or the one of CACHE TABLE; ``InvalidInput`` where Spark has none of that name."""
    from pyspark import StorageLevel

    found = getattr(StorageLevel, (name or "MEMORY_AND_DISK_DESER").upper(), None)
    if not isinstance(found, StorageLevel):
        raise InvalidInput(f"cannot cache with the storage level {name!r}: Spark has MEMORY_AND_DISK, DISK_ONLY, …")
    return found


# ---------------------------------------------------------------- frames
#
# Frames of Spark: the rows of a scan or of a metadata table, and the small answers of statements.


def frame_of(rows: Rows, spark: SparkSession) -> DataFrame:
    """The rows, not read yet where they are a scan's."""
    if isinstance(rows, Scan):
        return _pruned(rows, spark)
    if isinstance(rows, ChangeScan):
        return changelog_frame(rows, spark)
    return arrow_frame(_metadata_rows(rows), spark)


def _pruned(scan: Scan, spark: SparkSession) -> DataFrame:
    """The rows of the files that the filter leaves. The query filters rows itself: once is enough, but for floats."""
    if scan.frames is None:
        return scan.to_spark(spark)  # says why there are none
    return scan.frames.frame(scan.spark_request(), _about_floats(scan.filter), spark)


def _about_floats(predicate: Bound) -> Bound:
    """The conditions on float columns: the query's own may not reach Spark's reader, and in Esker's form they may."""
    return all_of(part for part in conjuncts(predicate) if any(is_floating(term.field.type) for term in terms(part)))


def arrow_frame(table: pa.Table, spark: SparkSession) -> DataFrame:
    """A frame of rows that are here already. PySpark cannot take a map column without rows, so it gets one row."""
    import pyarrow as pa

    schema = pa.schema([_optional(field) for field in table.schema])
    if table.num_rows:
        return spark.createDataFrame(table.cast(schema))
    nulls = pa.table([pa.nulls(1, field.type) for field in schema], schema=schema)
    return spark.createDataFrame(nulls).where("false")


def _optional(field: pa.Field) -> pa.Field:
    """PySpark refuses a struct that is null where a member may not be."""
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
    """Spark's answer; each frame is known to this one statement only, by a name of its own."""

    def make(name: str, rows: Rows) -> DataFrame:
        if not isinstance(rows, Scan):
            return frame_of(rows, spark)
        if cached is not None and (kept := cached.find(rows, spark)) is not None:
            return kept
        return known.get(spark, rewritten.keys[name], lambda: frame_of(rows, spark))

    template = expanded(rewritten.template)
    if not rewritten.frames:
        found = spark.sql(template.replace("{{", "{").replace("}}", "}"))
    else:
        frames: dict[str, Any] = {name: make(name, rows) for name, rows in rewritten.frames.items()}
        found = spark.sql(template, **frames)
    if template != rewritten.template:
        check_types(found)
    return found


@dataclass(frozen=True, slots=True)
class Answer:
    """A few rows that are there already, no Spark needed; ``columns`` is DDL, and empty where there is no answer."""

    columns: str
    rows: Sequence[tuple[Any, ...]] = ()


NOTHING = Answer("")


def answer_frame(answer: Answer, spark: SparkSession) -> DataFrame:
    """The answer as Spark gives it: no rows of no columns where a statement has none."""
    from pyspark.sql.types import StructType

    return spark.createDataFrame(list(answer.rows), answer.columns or StructType([]))


def commit_answer(snapshot: Snapshot | None) -> Answer:
    """What a change of rows came to: one row, or none where nothing was to be changed."""
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
