"""A change feed as a Spark DataFrame. Changed files are read as in any scan, then rows that did not change are removed.

Net changes, and updates (recognised by keys), are computed here too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache, partial, reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # noqa: N812
from pyspark.sql.window import Window

from esker.arrow.deletes.delete_store import DeleteStore, takers_of
from esker.errors import Unsupported
from esker.model.predicates.predicate import Bound
from esker.model.schema import Schema
from esker.model.types import (
    DoubleType,
    Field,
    FloatType,
    ListType,
    MapType,
    StructType,
    Type,
    UnknownType,
    VariantType,
)
from esker.ports.engine import (
    CHANGE_COLUMNS,
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    ChangeGroup,
    ChangeRequest,
    ReadRequest,
    ScanTask,
)
from esker.spark.expressions.column_expressions import each
from esker.spark.expressions.types import comment_of, shown_schema
from esker.spark.scan.arrow_scan import frame_through_arrow
from esker.spark.scan.spark_reader import SparkReader
from esker.spark.session.jvm import empty_frame
from esker.spark.workers.arrow_read_worker import output_name, shown_batch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


# ---------------------------------------------------------------- rows that did not change
#
# Equal rows that one commit deleted and inserted cancel out one by one. Inserted rows count as one, deleted rows as
# minus one, and the rows that remain are returned. This needs no sort.


KIND, ORDINAL, SNAPSHOT = _FEED = tuple(field.name for field in CHANGE_COLUMNS)
_DELETED, _INSERTED, _NET = "__esker_deleted", "__esker_inserted", "__esker_net"
_NUMBER, _LEFT, _FIRST = "__esker_number", "__esker_left", "__esker_first"


def without_moved(frame: DataFrame, schema: Schema) -> DataFrame:
    """Return the frame, which has the columns of the schema and of the feed, without rows that were deleted and
    inserted."""
    keys, values, shown = [F.col(ORDINAL), F.col(SNAPSHOT)], [], []
    for field in schema:
        column, name = F.col(_name(field)), f"{_name(field)}_one"
        if isinstance(field.type, UnknownType):
            shown.append(F.lit(None).alias(field.name))
            continue
        if differs(field.type):  # counted in another form; the value itself is returned
            keys.append(_comparable(column, field.type).alias(f"{name}_key"))
            values.append(F.first(column).alias(name))
        else:
            keys.append(column.alias(name))
        shown.append(F.col(name).alias(field.name, metadata=comment_of(field)))
    one = F.when(F.col(KIND) == INSERT, F.lit(1)).otherwise(F.lit(-1))
    counted = _numbered(frame, schema).groupBy(*keys).agg(F.sum(one).alias(_NET), *values).filter(F.col(_NET) != 0)
    kind = F.when(F.col(_NET) > 0, F.lit(INSERT)).otherwise(F.lit(DELETE)).alias(KIND)
    each = counted.withColumn(_DELETED, F.explode(F.array_repeat(F.lit(1), F.abs(F.col(_NET)).cast("int"))))
    return each.select(*shown, kind, F.col(ORDINAL), F.col(SNAPSHOT))


def net_rows(frame: DataFrame, schema: Schema) -> DataFrame:
    """Return the frame, which has the columns of the schema and of the feed, without rows that were inserted and
    deleted.

    As in Iceberg, a remaining row is reported at the first change after which no earlier one cancels it.
    """
    keys = [_comparable(F.col(_name(f)), f.type) for f in schema if not isinstance(f.type, UnknownType)]
    alike = Window.partitionBy(*keys)
    in_order = alike.orderBy(ORDINAL)
    feed = [F.col(name) for name in _FEED]
    one = F.when(F.col(KIND) == INSERT, F.lit(1)).otherwise(F.lit(-1))
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    numbered = _numbered(frame, schema)
    counted = numbered.withColumns({_NET: F.sum(one).over(so_far), _NUMBER: F.row_number().over(in_order)})
    begins = F.when(F.col(_NET) == one, F.struct(F.col(_NUMBER), *feed))
    told = counted.withColumns({_LEFT: F.abs(F.sum(one).over(alike)), _FIRST: F.max(begins).over(alike)})
    first = [F.col(_FIRST).getField(name).alias(name) for name in _FEED]
    return told.filter(F.col(_NUMBER) <= F.col(_LEFT)).select(*_shown(schema), *first)


def with_updates(frame: DataFrame, schema: Schema, keys: Sequence[Field]) -> DataFrame:
    """Return the frame with pairs of a deleted and an inserted row with the same key reported as updates."""
    names = ", ".join(field.name for field in keys)
    by_key = [F.col(ORDINAL), *(_comparable(F.col(_name(f)), f.type) for f in keys)]
    counted = _counted(_numbered(frame, schema), by_key)
    several = F.raise_error(
        f"cannot compute updates by {names}: several rows that one snapshot changed have the same key; choose other "
        "columns"
    )
    pair = F.when(F.col(KIND) == DELETE, F.lit(UPDATE_BEFORE)).otherwise(F.lit(UPDATE_AFTER))
    both = (F.col(_DELETED) > 0) & (F.col(_INSERTED) > 0)
    kind = F.when(~both, F.col(KIND)).when(F.col(_DELETED) + F.col(_INSERTED) == 2, pair).otherwise(several)
    return counted.withColumn(KIND, kind).select(*_shown(schema), *_FEED)


def chosen(frame: DataFrame, schema: Schema, projection: Schema) -> DataFrame:
    """Return the columns of the projection and of the feed."""
    return _numbered(frame, schema).select(*_shown(projection), *_FEED)


def _numbered(frame: DataFrame, schema: Schema) -> DataFrame:
    """Return the frame with columns named by their ids. Real names may differ only by case, which Spark ignores."""
    return frame.toDF(*map(_name, schema), *_FEED)


def _name(field: Field) -> str:
    return f"__esker_{field.id}"


def _shown(schema: Schema) -> list[Column]:
    """Return the columns of a numbered frame under their own names."""
    return [F.col(_name(field)).alias(field.name, metadata=comment_of(field)) for field in schema]


def _counted(frame: DataFrame, keys: Sequence[Column]) -> DataFrame:
    """Add to each row how many deleted and inserted rows have these values."""
    alike = Window.partitionBy(*keys)
    sides = ((_DELETED, DELETE), (_INSERTED, INSERT))
    counts = {name: F.count(F.when(F.col(KIND) == kind, 1)).over(alike) for name, kind in sides}
    return frame.withColumns(counts)


def _comparable(column: Column, type_: Type) -> Column:
    """Return the value in a form that Spark can group by. Two forms are equal only if the values are."""
    match type_:
        case FloatType() | DoubleType():  # as numbers the two zeros are equal, so their text is added
            return F.struct(column.alias("n"), F.when(column == 0, column.cast("string")).alias("zero"))
        case VariantType():
            return F.concat_ws(" ", F.schema_of_variant(column), F.to_json(column))
        case StructType(fields):
            members = [
                _comparable(column.getField(f.name), f.type).alias(f"m{f.id}")
                for f in fields
                if not isinstance(f.type, UnknownType)
            ]
            return F.when(column.isNotNull(), F.struct(*members) if members else F.lit(True))
        case ListType():
            return each(column, lambda item: _comparable(item, type_.element)) if differs(type_) else column
        case MapType():
            return F.transform(
                F.map_entries(column),
                lambda entry: F.struct(
                    _comparable(entry.getField("key"), type_.key).alias("key"),
                    _comparable(entry.getField("value"), type_.value).alias("value"),
                ),
            )
        case _:
            return column


def differs(type_: Type) -> bool:
    """Return whether Spark cannot group by the type, or treats different values as equal."""
    match type_:
        case FloatType() | DoubleType() | VariantType() | MapType():
            return True
        case StructType(fields):
            return any(differs(f.type) for f in fields)
        case ListType():
            return differs(type_.element)
        case _:
            return False


# ---------------------------------------------------------------- reading
#
# One scan can read the files of many commits, because the commit is a constant of each file. A file that several
# commits touched is in several scans, because Spark identifies a file by its path.


MOST_SCANS = 4  # scans of one file; further changes of it are read with Arrow


def change_frame(reader: SparkReader, session: SparkSession, request: ChangeRequest, predicate: Bound) -> DataFrame:
    """Return the changed rows, without those that a commit only moved."""
    if request.net:
        return _net_frame(reader, session, request, predicate)
    commits = [replace(c, groups=tuple(_needed(reader, request, group) for group in c.groups)) for c in request.commits]
    groups = [group for commit in commits for group in commit.groups]
    plain = [task for group in groups if not group.is_mixed for task in group.tasks]
    mixed = [task for group in groups if group.is_mixed for task in group.tasks]
    frames = list(_frames(reader, session, _read(request, plain, request.projection), predicate))
    if mixed and not _is_shown(request.row_schema):
        both = [replace(c, groups=tuple(group for group in c.groups if group.is_mixed)) for c in commits]
        frames.append(_compared_here(reader, session, replace(request, commits=both)))
    elif mixed:
        rows = _union(_frames(reader, session, _read(request, mixed, request.row_schema), predicate))
        changed = without_moved(rows, request.row_schema)
        if request.keys:
            changed = with_updates(changed, request.row_schema, request.keys)
        frames.append(chosen(changed, request.row_schema, request.projection))
    if not frames:
        return empty_frame(session, shown_schema((*request.projection, *CHANGE_COLUMNS)))
    return _union(frames)


def _net_frame(reader: SparkReader, session: SparkSession, request: ChangeRequest, predicate: Bound) -> DataFrame:
    if not _is_shown(request.row_schema):
        return _compared_here(reader, session, request)
    whole = replace(request, projection=request.row_schema, net=False)
    rows = net_rows(change_frame(reader, session, whole, predicate), request.row_schema)
    return chosen(rows, request.row_schema, request.projection)


def _is_shown(schema: Schema) -> bool:
    """Return whether Spark has a type for every column.

    Rows are compared by all columns, also those that are not wanted.
    """
    try:
        shown_schema(schema)
    except Unsupported:
        return False
    return True


def _compared_here(reader: SparkReader, session: SparkSession, request: ChangeRequest) -> DataFrame:
    """Return the changed rows, compared in this process."""
    fields = (*request.projection, *CHANGE_COLUMNS)
    batches = [shown_batch(batch, fields) for batch in reader.engine.read_changes(request)]
    numbered = shown_schema([replace(f, name=output_name(at)) for at, f in enumerate(fields)])
    if not batches:
        return empty_frame(session, shown_schema(fields))
    rows = session.createDataFrame(pa.Table.from_batches(batches), numbered)
    return rows.select(*(F.col(output_name(at)).alias(f.name) for at, f in enumerate(fields)))


def _read(request: ChangeRequest, tasks: Sequence[ScanTask], projection: Schema) -> ReadRequest:
    return ReadRequest(
        metadata=request.metadata,
        tasks=tasks,
        row_schema=request.row_schema,
        projection=Schema(fields=(*projection, *CHANGE_COLUMNS)),
    )


def _needed(reader: SparkReader, request: ChangeRequest, group: ChangeGroup) -> ChangeGroup:
    """Return the group without tasks that have no rows: a deletion vector that replaces another may remove none."""
    told = _read(request, (), request.row_schema)
    store = DeleteStore(
        reader.storage, request.metadata, request.row_schema, cache(partial(reader.engine.name_mapping, told))
    )

    def means_some(task: ScanTask) -> bool:
        takers = takers_of(task, store)
        return takers is None or not takers.are_none

    return ChangeGroup(
        deleted=tuple(filter(means_some, group.deleted)), inserted=tuple(filter(means_some, group.inserted))
    )


def _frames(reader: SparkReader, session: SparkSession, request: ReadRequest, predicate: Bound) -> Iterable[DataFrame]:
    layers: dict[int, list[ScanTask]] = defaultdict(list)
    seen: Counter[str] = Counter()
    for task in request.tasks:
        layers[min(seen[task.data_file.path], MOST_SCANS)].append(task)
        seen[task.data_file.path] += 1
    for layer, tasks in layers.items():
        if layer < MOST_SCANS:
            yield reader.frame(session, replace(request, tasks=tasks), predicate)
        else:
            yield frame_through_arrow(session, reader.engine, request, tasks)


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.union(other), frames)
