"""Merge the versions of rows that several files have of the same key.

Everything is done on whole columns: versions are sorted by key and order, so that the versions of a key are neighbours,
and the wanted version of each column is found by its position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.arrow_types import to_arrow, to_arrow_schema
from esker.arrow.read.file_columns import path_of, tip
from esker.arrow.read.filter import matches
from esker.arrow.read.row_metadata import METADATA_COLUMNS
from esker.errors import Unsupported
from esker.model.predicates.predicate import TRUE, terms
from esker.model.schema import Schema
from esker.model.types import Field
from esker.ports.engine import ReadRequest, ScanTask
from esker.ports.merge import (
    FIRST_VALUES,
    LIVE_KINDS,
    ROW_KIND,
    SEQUENCE,
    UPDATE_BEFORE,
    Aggregate,
    MergeEngine,
    MergeRule,
)

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_ALONE = "alone"  # a column beside those that are named by field ids
Read = Callable[[ReadRequest], Iterator[pa.RecordBatch]]


def read_merged(read: Read, request: ReadRequest, rule: MergeRule) -> Iterator[pa.RecordBatch]:
    """The merged rows of a request that pass its filter. ``read`` reads the files as they are."""
    refuse_metadata_columns(request)
    left = request.limit
    for tasks in grouped_tasks(request.tasks) if left != 0 else ():
        batches = _single(read, request, tasks[0], rule) if len(tasks) == 1 else _several(read, request, tasks, rule)
        for batch in batches:
            if left is not None and batch.num_rows >= left:
                yield batch.slice(0, left)
                return
            left = None if left is None else left - batch.num_rows
            if batch.num_rows:
                yield batch


def refuse_metadata_columns(request: ReadRequest) -> None:
    """Raise ``Unsupported`` for a column about a row's file: a merged row has several."""
    hidden = next((field.name for field in request.projection if field.id in METADATA_COLUMNS), None)
    if hidden is not None:
        raise Unsupported(
            f"cannot read the column {hidden}: rows of this table are merged from several files", feature=hidden
        )


def grouped_tasks(tasks: Iterable[ScanTask]) -> list[list[ScanTask]]:
    """The tasks by merge group, in the order of their first task."""
    found: dict[object, list[ScanTask]] = {}
    for task in tasks:
        group = task.data_file.merge_group
        found.setdefault(task.data_file.path if group is None else group, []).append(task)
    return list(found.values())


# ---------------------------------------------------------------- Files with keys of their own


def _single(read: Read, request: ReadRequest, task: ScanTask, rule: MergeRule) -> Iterator[pa.RecordBatch]:
    """The rows of a file whose keys no other file has. Its filter may skip parts of it."""
    fields = (*request.projection, ROW_KIND)
    own = replace(request, tasks=(task,), projection=Schema(fields=fields), merge=None, limit=None)
    for batch in read(own):
        kinds = _numbers(batch.column(len(fields) - 1))
        live = np.isin(kinds, LIVE_KINDS)
        _refuse_retractions(rule, kinds, task.data_file.path)
        rows = batch if live.all() else batch.filter(pa.array(live))
        yield _without_last(rows, request.projection)


def _without_last(batch: pa.RecordBatch, projection: Schema) -> pa.RecordBatch:
    if not projection.fields:
        return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), batch.num_rows, [None]))
    return pa.RecordBatch.from_arrays(batch.columns[:-1], schema=to_arrow_schema(projection))


# ---------------------------------------------------------------- Files with common keys


def _several(read: Read, request: ReadRequest, tasks: Sequence[ScanTask], rule: MergeRule) -> Iterator[pa.RecordBatch]:
    fields = merge_fields(request, rule)
    whole = [replace(task, residual=TRUE) for task in tasks]
    inner = Schema(fields=(*fields, SEQUENCE, ROW_KIND))
    batches = list(read(replace(request, tasks=whole, projection=inner, filter=TRUE, merge=None, limit=None)))
    names = [str(field.id) for field in inner]
    rows = pa.Table.from_batches([batch.rename_columns(names) for batch in batches]) if batches else None
    if rows is None or not rows.num_rows:
        return
    merged = merge_versions(rows.combine_chunks(), rule, [field.id for field in fields], tasks[0].data_file.path)
    kept = _filtered(merged, request, {field.id: field for field in fields})
    yield _shown(kept, request.projection, {field.id: field for field in fields})


def merge_fields(request: ReadRequest, rule: MergeRule) -> tuple[Field, ...]:
    """The columns that a merge reads: those of the projection, of the filter and of the rule."""
    needed = {field.id for field in request.projection} | rule.used
    whole = set(rule.used)
    for term in terms(request.filter):
        top = (path_of(term.field.id, request.row_schema) or (term.field,))[0].id
        needed.add(top)
        whole.add(top)
    narrow = {field.id: field for field in request.projection if field.id not in whole}
    return tuple(narrow.get(field.id, field) for field in request.row_schema if field.id in needed)


def _filtered(rows: pa.Table, request: ReadRequest, fields: dict[int, Field]) -> pa.Table:
    if request.filter == TRUE or not rows.num_rows:
        return rows
    columns = {}
    for term in terms(request.filter):
        path = path_of(term.field.id, request.row_schema) or (term.field,)
        columns[term.field.id] = tip(_array(rows, path[0].id), (fields[path[0].id], *path[1:]))
    return rows.filter(matches(request.filter, columns, rows.num_rows).fill_null(False))


def _shown(rows: pa.Table, projection: Schema, fields: dict[int, Field]) -> pa.RecordBatch:
    if not projection.fields:
        return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows.num_rows, [None]))
    arrays = []
    for field in projection:
        array = _array(rows, field.id)
        arrays.append(array if fields[field.id].type == field.type else array.cast(to_arrow(field.type)))
    return pa.RecordBatch.from_arrays(arrays, schema=to_arrow_schema(projection))


# ---------------------------------------------------------------- The versions of keys


@dataclass(frozen=True)
class Versions:
    """Versions sorted by key and order. The versions of key ``i`` are from ``starts[i]`` to ``ends[i]``."""

    rows: pa.Table
    starts: Int64s
    ends: Int64s

    @cached_property
    def key_of(self) -> Int64s:
        """The number of each version's key."""
        return np.repeat(np.arange(len(self.starts)), self.ends - self.starts + 1)

    @cached_property
    def kinds(self) -> npt.NDArray[np.integer]:
        """What each version does."""
        return _numbers(_array(self.rows, ROW_KIND.id))

    @cached_property
    def is_live(self) -> Bools:
        """Which versions insert or update."""
        return np.isin(self.kinds, LIVE_KINDS)

    @cached_property
    def is_alone(self) -> Bools:
        """Which versions are the only ones of their key."""
        return (self.starts == self.ends)[self.key_of]

    @cached_property
    def is_first(self) -> Bools:
        """Which versions are the first of their key."""
        found = np.zeros(self.rows.num_rows, np.bool_)
        found[self.starts] = True
        return found

    def last(self, valid: Bools) -> Int64s:
        """The last valid version of each key, or -1."""
        found = np.maximum.accumulate(np.where(valid, np.arange(len(valid)), -1))[self.ends]
        return np.where(found >= self.starts, found, -1)

    def first(self, valid: Bools) -> Int64s:
        """The first valid version of each key, or -1."""
        count = len(valid)
        found = np.minimum.accumulate(np.where(valid, np.arange(count), count)[::-1])[::-1][self.starts]
        return np.where(found <= self.ends, found, -1)

    def keep(self, wanted: Bools) -> Versions:
        """Only some versions; keys without any are gone."""
        keys = self.key_of[wanted]
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        return Versions(self.rows.filter(pa.array(wanted)), first, np.append(first[1:], len(keys))[: len(first)] - 1)


def merge_versions(rows: pa.Table, rule: MergeRule, wanted: Sequence[int], file: str) -> pa.Table:
    """The merged rows. Columns are named by their field ids."""
    versions = sorted_versions(rows, rule)
    _refuse_retractions(rule, versions.kinds, file)
    if rule.groups:
        versions = replace(versions, rows=versions.rows.append_column(_ALONE, pa.array(versions.is_alone)))
    if rule.ignores_deletes:
        merges = rule.engine is MergeEngine.PARTIAL_UPDATE
        versions = versions.keep(versions.is_live | versions.is_first if merges else versions.is_live)
    elif rule.deletes_whole_rows:
        gone = versions.last(~versions.is_live)
        left = versions.is_live[versions.ends][versions.key_of]
        versions = versions.keep(left & (np.arange(versions.rows.num_rows) >= gone[versions.key_of]))
    if not len(versions.starts):
        return rows.slice(0, 0).select([str(id_) for id_ in wanted])
    match rule.engine:
        case MergeEngine.DEDUPLICATE:
            chosen = versions.ends[versions.is_live[versions.ends]]
            return versions.rows.take(pa.array(chosen)).select([str(id_) for id_ in wanted])
        case MergeEngine.FIRST_ROW:
            first = versions.first(versions.is_live)
            return versions.rows.take(pa.array(first[first >= 0])).select([str(id_) for id_ in wanted])
        case MergeEngine.PARTIAL_UPDATE:
            return _partial_update(versions, rule, wanted)
        case MergeEngine.AGGREGATION:
            return pa.table({str(id_): _aggregated(versions, rule, id_, file) for id_ in wanted})


def sorted_versions(rows: pa.Table, rule: MergeRule) -> Versions:
    """The versions of each key together, in order."""
    live = np.isin(_numbers(_array(rows, ROW_KIND.id)), LIVE_KINDS)
    order = [_array(rows, id_) for id_ in (*rule.keys, *rule.order, SEQUENCE.id)]
    turned = range(len(rule.keys), len(rule.keys) + len(rule.order)) if rule.descending else ()
    done = rows.take(pa.array(sorted_places([*order, pa.array(live.astype(np.int8))], turned)))
    changes = np.zeros(done.num_rows, np.bool_)
    changes[0] = True
    for id_ in rule.keys:
        changes[1:] |= _differ(_array(done, id_))
    starts = np.flatnonzero(changes)
    return Versions(done, starts, np.append(starts[1:], done.num_rows) - 1)


def sorted_places(columns: Sequence[pa.Array], descending: Sequence[int] = ()) -> Int64s:
    """The places of the rows in order of some columns: ascending except those at ``descending``. Null comes first."""
    keys: list[tuple[pa.Array, str]] = []
    for at, column in enumerate(columns):
        keys += [(column.is_valid(), "ascending")] if column.null_count else []
        keys.append((column, "descending" if at in descending else "ascending"))
    plain = [key.cast(pa.int8()) if pa.types.is_boolean(key.type) else key for key, _ in keys]
    by = pa.table(plain, names=[str(at) for at in range(len(plain))])
    found = pc.sort_indices(by, sort_keys=[(str(at), how) for at, (_, how) in enumerate(keys)])
    return np.asarray(found.to_numpy()).astype(np.int64)


def _differ(column: pa.Array) -> Bools:
    """Where a value is not that of the row before."""
    one, other = column.slice(1), column.slice(0, len(column) - 1)
    differs = pc.not_equal(one, other).fill_null(False).to_numpy(zero_copy_only=False).astype(bool)
    null = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    differs &= ~null[1:]  # NaN is one key
    return np.asarray(differs | (null[1:] != null[:-1]))


def _partial_update(versions: Versions, rule: MergeRule, wanted: Sequence[int]) -> pa.Table:
    live = versions.is_live
    gives = live | versions.is_first  # a delete that comes first gives its values
    base = np.where(live[versions.starts], -1, versions.starts)
    if rule.groups:  # the only version of a key is not merged: it keeps the columns of a group whose order is null
        alone = _array(versions.rows, _ALONE).to_numpy(zero_copy_only=False)[versions.starts]
        base = np.where(alone, versions.starts, base)
    winners = {id_: _winner(versions, group.order) for group in rule.groups for id_ in (*group.order, *group.columns)}
    ordering = {id_ for group in rule.groups for id_ in group.order}
    columns = {}
    for id_ in wanted:
        column = _array(versions.rows, id_)
        if id_ in winners:
            won = winners[id_]
            at = np.where(won >= 0, won, base)
            if id_ not in ordering and not rule.ignores_deletes:  # a delete that wins empties the columns of its group
                at = np.where((won >= 0) & ~live[won], -1, at)
        elif id_ in rule.keys:
            at = versions.ends
        else:
            at = versions.last(_valid(column) & gives)
        columns[str(id_)] = _taken(column, at)
    has_insert = versions.first(live) >= 0
    made = pa.table(columns) if columns else pa.table({"": has_insert}).select([])
    return made if has_insert.all() else made.filter(pa.array(has_insert))


def _winner(versions: Versions, order: Sequence[int]) -> Int64s:
    """The version of each key with the largest values of some columns; of equal ones the last."""
    columns = [_array(versions.rows, id_) for id_ in order]
    last = pa.array(np.arange(versions.rows.num_rows))
    place = sorted_places([pa.array(versions.key_of), *columns, last])
    known = np.logical_or.reduce([_valid(column) for column in columns])[place]
    at = versions.last(known)  # keys have the same bounds in this order
    return np.where(at >= 0, place[at], -1)


def _aggregated(versions: Versions, rule: MergeRule, id_: int, file: str) -> pa.Array:
    column = _array(versions.rows, id_)
    everything = np.ones(len(column), np.bool_)
    if id_ in rule.keys:
        return _taken(column, versions.ends)
    function = rule.functions.get(id_, Aggregate.LAST_NOT_NULL)
    if function in FIRST_VALUES and not versions.is_live.all():
        raise _cannot_merge(f"{function.value} after rows that delete", file)  # depends on what was there before
    match function:
        case Aggregate.LAST:
            return _taken(column, versions.last(everything))
        case Aggregate.LAST_NOT_NULL:
            return _taken(column, versions.last(_valid(column)))
        case Aggregate.FIRST:
            return _taken(column, versions.first(everything))
        case Aggregate.FIRST_NOT_NULL:
            return _taken(column, versions.first(_valid(column)))
        case Aggregate.MAX | Aggregate.ANY:
            return _taken(column, _extreme(versions, column, largest=True))
        case Aggregate.MIN | Aggregate.ALL:
            return _taken(column, _extreme(versions, column, largest=False))
        case Aggregate.SUM:
            return _sum(versions, column, rule.sum_bits.get(id_), file)


def _extreme(versions: Versions, column: pa.Array, *, largest: bool) -> Int64s:
    """The version of each key with the largest or smallest value that is not null."""
    place = sorted_places([pa.array(versions.key_of), column])
    valid = _valid(column)[place]
    at = versions.last(valid) if largest else versions.first(valid)
    return np.where(at >= 0, place[at], -1)


def _sum(versions: Versions, column: pa.Array, bits: int | None, file: str) -> pa.Array:
    table = pa.table({"key": pa.array(versions.key_of), "value": column})
    options = pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)
    found = table.group_by("key", use_threads=False).aggregate([("value", "sum", options)])["value_sum"]
    if bits is not None:
        found = pc.shift_right(pc.shift_left(found, 64 - bits), 64 - bits)
    try:
        return found.combine_chunks().cast(column.type, safe=pa.types.is_decimal(column.type))
    except pa.ArrowInvalid:
        raise _cannot_merge(f"a sum of {column.type} that has more digits", file) from None


def _refuse_retractions(rule: MergeRule, kinds: npt.NDArray[np.integer], file: str) -> None:
    """Raise if versions that delete cannot be merged."""
    merges = rule.engine in (MergeEngine.AGGREGATION, MergeEngine.PARTIAL_UPDATE)
    whole = merges and rule.deletes_whole_rows and bool((kinds == UPDATE_BEFORE).any())
    if whole or (rule.refuses_deletes and not np.isin(kinds, LIVE_KINDS).all()):
        raise Unsupported(
            f"cannot read {file}: it has rows that delete, which the merge engine {rule.engine.value} cannot merge",
            feature=f"retract rows under {rule.engine.value}",
            file=file,
        )


def _cannot_merge(what: str, file: str) -> Unsupported:
    return Unsupported(f"cannot read {file}: Esker cannot merge {what}", feature=what, file=file)


def _taken(column: pa.Array, at: Int64s) -> pa.Array:
    return column.take(pa.array(at, mask=at < 0))


def _valid(column: pa.Array) -> Bools:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False)).astype(bool)


def _numbers(column: pa.Array) -> npt.NDArray[np.integer]:
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _array(rows: pa.Table, id_: int | str) -> pa.Array:
    column = rows[str(id_)]
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
