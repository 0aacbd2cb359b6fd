"""Statistics of the columns that a filter uses, over many files with different schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from esker.model.arrow_arrays import arrow_array, null_mask, numbers_of
from esker.model.types import DecimalType, DoubleType, FloatType, IntType, LongType, Type
from esker.paimon.manifests.statistics import WITHOUT_BOUNDS, as_bounds
from esker.paimon.metadata.table_schema import TableSchema
from esker.paimon.metadata.types import DataField, model_type
from esker.paimon.rows.binary_row import BinaryRows
from esker.tree.manifest import ColumnMetrics

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def column_metrics(
    rows: pa.Table, field: DataField, schemas: Mapping[int, TableSchema], trusted: Bools, file: str
) -> ColumnMetrics:
    """The statistics of one column of the current schema, one row per file; null where they prove nothing.

    ``trusted`` are the files whose values may decide. Keys may always: all versions of a row have the same key.
    """
    stats, key_stats = rows["_FILE._VALUE_STATS"].combine_chunks(), rows["_FILE._KEY_STATS"].combine_chunks()
    parts: list[tuple[Int64s, pa.Array | None, tuple[int, DataField] | None]] = []
    for at, schema_id, columns in _kinds(rows):
        schema = schemas.get(schema_id)
        own = None if schema is None else schema.by_id.get(field.id)
        if schema is None or own is None or not _comparable(own, field):
            parts.append((at, None, None))
        elif own in schema.key_fields:
            number = schema.key_fields.index(own)
            parts.append((at, _with_key_range(rows, key_stats, number, own), (number, own)))
        else:
            names = [column.name for column in schema.fields] if columns is None else columns
            place = (names.index(own.name), own) if own.name in names else None
            parts.append((at[trusted[at]], stats, place))
            parts.append((at[~trusted[at]], None, None))
    return _joined([_part(at, given, place, file) for at, given, place in parts if len(at)], rows)


def _with_key_range(rows: pa.Table, stats: pa.StructArray, number: int, field: DataField) -> pa.StructArray:
    """The statistics of keys. Where a writer left them out, the first and the last key bound the first column."""
    if number or field.type.root in ("FLOAT", "DOUBLE"):
        return stats
    bounds = []
    for mine, range_ in (("_MIN_VALUES", "_FILE._MIN_KEY"), ("_MAX_VALUES", "_FILE._MAX_KEY")):
        given = stats.field(mine)
        is_empty = pc.starts_with(given, b"\0\0\0\0")  # no fields
        bounds.append(pc.if_else(is_empty, rows[range_].combine_chunks(), given))
    return pa.StructArray.from_arrays([*bounds, stats.field("_NULL_COUNTS")], fields=list(stats.type))


def _kinds(rows: pa.Table) -> list[tuple[Int64s, int, Sequence[str] | None]]:
    """The files by schema and by the columns that their statistics have."""
    schema_ids = numbers_of(rows["_FILE._SCHEMA_ID"].combine_chunks(), null=0).astype(np.int64)
    named = rows["_FILE._VALUE_STATS_COLS"].combine_chunks()
    codes = np.zeros(len(named), np.int64)
    lists: list[tuple[str, ...] | None] = [None]
    if named.null_count < len(named):
        found = [None if one is None else tuple(one) for one in named.to_pylist()]
        lists = list(dict.fromkeys(found))
        numbers = {one: number for number, one in enumerate(lists)}
        codes = np.fromiter((numbers[one] for one in found), np.int64, len(found))
    kinds: list[tuple[Int64s, int, Sequence[str] | None]] = []
    for schema_id in np.unique(schema_ids):
        for number, columns in enumerate(lists):
            at = np.flatnonzero((schema_ids == schema_id) & (codes == number))
            if len(at):
                kinds.append((at, int(schema_id), columns))
    return kinds


def _comparable(written: DataField, now: DataField) -> bool:
    """Whether bounds of the file's type are bounds in the current type."""
    one, other = _plain(written), _plain(now)
    if one is None or other is None:
        return False
    if isinstance(one, DecimalType) and isinstance(other, DecimalType):
        return one.scale == other.scale
    return one == other or (type(one), type(other)) in ((IntType, LongType), (FloatType, DoubleType))


def _plain(field: DataField) -> Type | None:
    nested = field.type.root in ("ARRAY", "MAP", "MULTISET", "ROW")
    return None if nested else model_type(field.type, field.id)


Part = tuple[Int64s, pa.Array, pa.Array, pa.Array]


def _part(at: Int64s, stats: pa.Array | None, place: tuple[int, DataField] | None, file: str) -> Part:
    nothing = pa.nulls(len(at), pa.binary())
    if stats is None or place is None:
        return at, nothing, nothing, pa.nulls(len(at), pa.int64())
    number, field = place
    chosen = stats if len(at) == len(stats) else stats.take(arrow_array(at))
    if field.type.root in WITHOUT_BOUNDS:
        low = high = nothing
    else:
        low, high = (
            as_bounds(BinaryRows(chosen.field(name), file).column(number, field.type))
            for name in ("_MIN_VALUES", "_MAX_VALUES")
        )
    return at, low, high, _counts(chosen.field("_NULL_COUNTS"), number)


def _counts(lists: pa.ListArray, at: int) -> pa.Array:
    """Element ``at`` of every list; null where there is none."""
    ends = numbers_of(lists.offsets, null=0).astype(np.int64)
    starts, lengths = ends[:-1], np.diff(ends)
    there = (lengths > at) & ~null_mask(lists)
    return lists.values.take(arrow_array(np.where(there, starts + at, 0), null=~there))


def _joined(parts: Sequence[Part], rows: pa.Table) -> ColumnMetrics:
    place = np.concatenate([part[0] for part in parts]) if parts else np.zeros(0, np.int64)
    back = np.empty(len(place), np.int64)
    back[place] = np.arange(len(place))
    index = arrow_array(back)
    low, high, nulls = (
        pa.concat_arrays([part[number] for part in parts]).take(index) if parts else pa.nulls(0, type_)
        for number, type_ in ((1, pa.binary()), (2, pa.binary()), (3, pa.int64()))
    )
    return ColumnMetrics(
        lower=low,
        upper=high,
        value_count=rows["_FILE._ROW_COUNT"].combine_chunks(),
        null_count=nulls,
        nan_count=pa.nulls(len(place), pa.int64()),
    )
