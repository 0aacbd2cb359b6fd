"""Merges versions of rows in Spark: by a window over the key, or by aggregates of columns. No row leaves the JVM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from esker.arrow.read.file_columns import path_of
from esker.arrow.read.merge_rows import grouped_tasks, merge_fields, refuse_metadata_columns
from esker.model.predicates.predicate import TRUE, Bound
from esker.model.schema import Schema
from esker.model.types import Field, StructType
from esker.ports.engine import ReadRequest
from esker.ports.merge import LIVE_KINDS, ROW_KIND, SEQUENCE, UPDATE_BEFORE, Aggregate, MergeEngine, MergeRule
from esker.spark.expressions.column_expressions import condition
from esker.spark.expressions.types import shown_schema
from esker.spark.scan.select_columns import shown_column
from esker.spark.session.jvm import empty_frame

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_ORDER, _LIVE, _FIRST, _GIVES = "__esker_order", "__esker_live", "__esker_first", "__esker_gives"
_ALONE = "__esker_alone"


class PlainFrames(Protocol):
    """Makes frames of files, each by itself."""

    def frame(self, session: SparkSession, request: ReadRequest, predicate: Bound) -> DataFrame:
        """Return the rows of the files that pass the filter."""
        ...


def merged_frame(
    reader: PlainFrames, session: SparkSession, request: ReadRequest, predicate: Bound, rule: MergeRule
) -> DataFrame:
    """Return the merged rows that pass the filter. Only files with common keys are merged; the filter is pushed into
    the scan of the others."""
    refuse_metadata_columns(request)
    groups = grouped_tasks(request.tasks) if request.limit != 0 else []
    plain = replace(request, merge=None, limit=None, filter=TRUE)
    single = [tasks[0] for tasks in groups if len(tasks) == 1]
    several = [replace(task, residual=TRUE) for tasks in groups if len(tasks) > 1 for task in tasks]
    frames = []
    if single:
        wanted = Schema(fields=(*request.projection, ROW_KIND))
        rows = reader.frame(session, replace(plain, tasks=single, projection=wanted), predicate)
        frames.append(rows.filter(_is_live(F.col(ROW_KIND.name), rule)).drop(ROW_KIND.name))
    if several:
        fields = _fields(request, rule)
        inner = Schema(fields=(*fields, SEQUENCE, ROW_KIND))
        rows = reader.frame(session, replace(plain, tasks=several, projection=inner), TRUE)
        merged = _merged(rows.toDF(*(_name(field.id) for field in inner)), fields, request, rule)
        frames.append(_shown(merged, request, predicate, fields))
    if not frames:
        return empty_frame(session, shown_schema(request.projection))
    whole = reduce(lambda one, other: one.union(other), frames)
    return whole if request.limit is None else whole.limit(request.limit)


def _fields(request: ReadRequest, rule: MergeRule) -> tuple[Field, ...]:
    """Return the columns to read. The partition is a part of the key here, because all buckets are in one frame."""
    needed = merge_fields(request, rule)
    have = {field.id for field in needed}
    return (*needed, *(f for f in request.row_schema if f.id in _partition_ids(request) and f.id not in have))


def _partition_ids(request: ReadRequest) -> tuple[int, ...]:
    return tuple(part.source_id for part in request.metadata.spec.fields)


def _name(id_: int) -> str:
    return f"__esker_m{id_}"


def _col(id_: int) -> Column:
    return F.col(_name(id_))


def _is_live(kind: Column, rule: MergeRule) -> Column:
    """Return whether a version inserts or updates. Fails for a version that cannot be merged."""
    live = kind.isin(*LIVE_KINDS)
    merges = rule.engine in (MergeEngine.AGGREGATION, MergeEngine.PARTIAL_UPDATE)
    if rule.refuses_deletes:
        wrong = ~live
    elif merges and rule.deletes_whole_rows:
        wrong = kind == UPDATE_BEFORE
    else:
        return live
    return F.when(wrong, _refused(f"retract rows under {rule.engine.value}").cast("boolean")).otherwise(live)


def _refused(what: str) -> Column:
    return F.raise_error(F.lit(f"Esker cannot merge {what}"))


def _merged(rows: DataFrame, fields: Sequence[Field], request: ReadRequest, rule: MergeRule) -> DataFrame:
    keys = [_name(id_) for id_ in dict.fromkeys((*_partition_ids(request), *rule.keys))]
    live = _is_live(_col(ROW_KIND.id), rule)
    of_key = Window.partitionBy(*keys)
    order = F.struct(*(_col(id_) for id_ in (*rule.order, SEQUENCE.id)), live.cast("int").alias("live"))
    if rule.descending and rule.order and rule.engine is not MergeEngine.DEDUPLICATE:
        order = F.row_number().over(of_key.orderBy(*_columns_of_order(rule)))  # values cannot be turned in a struct
    rows = rows.withColumn(_LIVE, live).withColumn(_ORDER, order)
    if rule.engine is MergeEngine.PARTIAL_UPDATE and (rule.groups or rule.ignores_deletes):
        # a delete that comes first gives its values
        rows = rows.withColumn(_GIVES, F.col(_LIVE) | (F.min(_ORDER).over(of_key) == F.col(_ORDER)))
        rows = rows.withColumn(_ALONE, F.count(F.lit(1)).over(of_key) == 1) if rule.groups else rows
        rows = rows.filter(F.col(_GIVES)) if rule.ignores_deletes else rows
    elif rule.ignores_deletes:
        rows = rows.filter(F.col(_LIVE))
    elif rule.deletes_whole_rows:
        gone = F.max(F.when(~F.col(_LIVE), F.col(_ORDER))).over(of_key)
        last = F.max_by(_LIVE, _ORDER).over(of_key)
        rows = rows.withColumn(_FIRST, gone).withColumn(_GIVES, last)
        rows = rows.filter(F.col(_GIVES) & (F.col(_FIRST).isNull() | (F.col(_ORDER) >= F.col(_FIRST))))
    elif rule.refuses_deletes:
        rows = rows.filter(F.col(_LIVE))
    match rule.engine:
        case MergeEngine.DEDUPLICATE:
            return _version(rows, keys, rule, last=True).filter(F.col(_LIVE))
        case MergeEngine.FIRST_ROW:
            return _version(rows.filter(F.col(_LIVE)), keys, rule, last=False)
        case MergeEngine.PARTIAL_UPDATE:
            return _partial_update(rows, keys, fields, rule)
        case MergeEngine.AGGREGATION:
            wanted = [f for f in fields if _name(f.id) not in keys]
            # a count, because an aggregate of no columns is refused
            return rows.groupBy(*keys).agg(
                F.count(F.lit(1)).alias(_FIRST), *(_aggregate(rule, f.id).alias(_name(f.id)) for f in wanted)
            )


def _version(rows: DataFrame, keys: Sequence[str], rule: MergeRule, *, last: bool) -> DataFrame:
    """Return the last or the first version of each key. Spark keeps one version per key before it shuffles."""
    number = F.row_number().over(Window.partitionBy(*keys).orderBy(*_columns_of_order(rule, newest_first=last)))
    return rows.withColumn(_FIRST, number).filter(F.col(_FIRST) == 1)


def _columns_of_order(rule: MergeRule, *, newest_first: bool = False) -> list[Column]:
    """Return the order of a key's versions. Null is the oldest value, also if the smaller value is the newer one."""
    given = [(_col(id_), rule.descending) for id_ in rule.order]
    given += [(_col(SEQUENCE.id), False), (F.col(_LIVE), False)]
    if newest_first:
        return [column.asc_nulls_last() if turned else column.desc_nulls_last() for column, turned in given]
    return [column.desc_nulls_first() if turned else column.asc_nulls_first() for column, turned in given]


def _partial_update(rows: DataFrame, keys: Sequence[str], fields: Sequence[Field], rule: MergeRule) -> DataFrame:
    group_of = {id_: group for group in rule.groups for id_ in (*group.order, *group.columns)}
    gives = F.col(_GIVES) if _GIVES in rows.columns else F.lit(True)
    made = []
    for field in fields:
        if _name(field.id) in keys:
            continue
        column, group = _col(field.id), group_of.get(field.id)
        if group is None:
            value = F.max_by(column, F.when(column.isNotNull() & gives, F.col(_ORDER)))
        else:
            known = reduce(or_, (_col(id_).isNotNull() for id_ in group.order))
            place = F.when(known, F.struct(*(_col(id_) for id_ in group.order), F.col(_ORDER)))
            # a version that deletes and wins empties the columns of its group, but not those that order it
            whole = rule.ignores_deletes or field.id in group.order
            kept = column if whole else F.when(F.col(_LIVE), column)
            # the only version of a key is not merged: it keeps the columns of a group whose order is null
            first = F.max_by(column, F.when(gives & (~F.col(_LIVE) | F.col(_ALONE)), F.col(_ORDER)))
            value = F.when(F.max(place).isNotNull(), F.max_by(kept, place)).otherwise(first)
        made.append(value.alias(_name(field.id)))
    return rows.groupBy(*keys).agg(F.max(_LIVE).alias(_LIVE), *made).filter(F.col(_LIVE))


def _aggregate(rule: MergeRule, id_: int) -> Column:
    column, order = _col(id_), F.col(_ORDER)
    function = rule.functions.get(id_, Aggregate.LAST_NOT_NULL)
    match function:
        case Aggregate.SUM:
            return _sum(column, rule.sum_bits.get(id_))
        case Aggregate.MAX:
            return F.max(column)
        case Aggregate.MIN:
            return F.min(column)
        case Aggregate.ANY:
            return F.bool_or(column)
        case Aggregate.ALL:
            return F.bool_and(column)
        case Aggregate.FIRST:
            value = F.min_by(column, order)
        case Aggregate.FIRST_NOT_NULL:
            value = F.min_by(column, F.when(column.isNotNull(), order))
        case Aggregate.LAST:
            return F.max_by(column, order)
        case Aggregate.LAST_NOT_NULL:
            return F.max_by(column, F.when(column.isNotNull(), order))
    if not rule.deletes_whole_rows:
        return value
    after_delete = _refused(f"{function.value} after rows that delete")
    return F.when(~F.min(_LIVE), after_delete).otherwise(value)


def _sum(column: Column, bits: int | None) -> Column:
    total = F.sum(column)
    return total if bits is None else F.shiftright(F.shiftleft(total, 64 - bits), 64 - bits)


def _shown(rows: DataFrame, request: ReadRequest, predicate: Bound, fields: Sequence[Field]) -> DataFrame:
    """Return the rows that pass the filter, in the columns of the projection and in their types."""
    types = {f.id: t.dataType for f, t in zip(request.projection, shown_schema(request.projection), strict=True)}
    known = {field.id: field for field in fields}
    if predicate != TRUE:
        rows = rows.filter(condition(predicate, lambda field: _at(request, field, known)))
    columns = []
    for f in request.projection:  # a sum has a wider type than its column
        column = _col(f.id).cast(types[f.id]) if known[f.id].type == f.type else _col(f.id)
        columns.append(shown_column(column, known[f.id].type, f))
    return rows.select(*columns)


def _at(request: ReadRequest, field: Field, known: dict[int, Field]) -> Column:
    path = path_of(field.id, request.row_schema) or (field,)
    column, here = _col(path[0].id), known[path[0].id]
    for part in path[1:]:
        assert isinstance(here.type, StructType)
        here = next(inner for inner in here.type if inner.id == part.id)
        column = column.getField(here.name)
    return column
