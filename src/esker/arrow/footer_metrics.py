"""Metrics of a Parquet file that others wrote, from its footer alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from esker.arrow.bounds import lower_bound, upper_bound
from esker.arrow.convert import convert
from esker.arrow.file_columns import FileColumn, LeafFinder
from esker.arrow.fit_values import plain_type
from esker.arrow.held import held_array
from esker.arrow.metrics import column_sizes, has_bounds, is_counted
from esker.arrow.metrics_mode import Keep, MetricsMode
from esker.errors import EskerError
from esker.model.schema import Schema
from esker.model.types import Type, is_floating
from esker.model.values import from_unscaled
from esker.tree.data_file import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a footer tells of a column over all row groups; None where some row group does not tell."""

    values: int
    nulls: int | None
    low: Any = None
    high: Any = None


def seen_columns(footer: pq.FileMetaData, columns: tuple[FileColumn, ...], schema: Schema) -> dict[int, Seen]:
    """By field id, for every column of one value per row that the file has."""
    found = {}
    leaves = LeafFinder(columns)
    for field, _ in schema.primitives():
        column = leaves.find(schema.path_by_id[field.id]) if is_counted(schema, field) else None
        if column is not None:
            found[field.id] = _seen(footer, column, field.type)
    return found


def footer_metrics(
    footer: pq.FileMetaData,
    leaf_ids: tuple[int | None, ...],
    seen: Mapping[int, Seen],
    schema: Schema,
    modes: Mapping[int, MetricsMode],
) -> Metrics:
    """The metrics as a manifest keeps them. A footer counts no NaN, so there are no counts of it."""
    kept = {id_: facts for id_, facts in seen.items() if modes[id_].keep is not Keep.NONE}
    bounded = {id_: f for id_, f in kept.items() if modes[id_].keep is Keep.BOUNDS and f.low is not None}
    lower, upper = {}, {}
    for id_, facts in bounded.items():
        type_, width = schema.by_id[id_].type, modes[id_].width
        lower[id_] = lower_bound(type_, facts.low, width)
        above = upper_bound(type_, facts.high, width)
        if above is not None:
            upper[id_] = above
    return Metrics(
        column_sizes=column_sizes(footer, leaf_ids, modes),
        value_counts={id_: facts.values for id_, facts in kept.items()},
        null_counts={id_: facts.nulls for id_, facts in kept.items() if facts.nulls is not None},
        lower_bounds=lower,
        upper_bounds=upper,
    )


def _seen(footer: pq.FileMetaData, column: FileColumn, type_: Type) -> Seen:
    chunks = [footer.row_group(at).column(column.first_leaf) for at in range(footer.num_row_groups)]
    chunks = [chunk for chunk in chunks if chunk.num_values]
    values = sum(chunk.num_values for chunk in chunks)
    facts = [chunk.statistics for chunk in chunks if chunk.is_stats_set and chunk.statistics.has_null_count]
    if len(facts) < len(chunks):
        return Seen(values=values, nulls=None)
    nulls = sum(fact.null_count for fact in facts)
    bounds = []
    for chunk, fact in zip(chunks, facts, strict=True):
        if fact.null_count == chunk.num_values:
            continue
        low, high = _held(fact, column, type_) if fact.has_min_max and has_bounds(type_) else (None, None)
        if low is None or high is None or low > high:
            return Seen(values=values, nulls=nulls)
        bounds.append((low, high))
    if not bounds:
        return Seen(values=values, nulls=nulls)
    return Seen(values=values, nulls=nulls, low=min(b[0] for b in bounds), high=max(b[1] for b in bounds))


def _held(facts: pq.Statistics, column: FileColumn, type_: Type) -> tuple[Any, Any]:
    """A row group's extremes as held values of the table's type; None for what makes no sense as such."""
    try:
        held = plain_type(column.type)
        raw = [_value(facts.min_raw, held), _value(facts.max_raw, held)]
        array = convert(pa.array(raw, held), type_, file="", column=column.name)
        low, high = held_array(array, type_).to_pylist()
    except (EskerError, ValueError, TypeError, OverflowError, ArithmeticError, pa.ArrowException):
        return None, None
    if is_floating(type_) and (math.isnan(low) or math.isnan(high)):
        return None, None
    return low, high


def _value(raw: Any, held: pa.DataType) -> Any:
    """A footer's physical value as pyarrow takes it for a column of that type."""
    kinds = pa.types
    if kinds.is_decimal(held):
        return from_unscaled(int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw, held.scale)
    if kinds.is_unsigned_integer(held):
        raise ValueError("the order of unsigned numbers is not that of their bits")
    return raw.decode() if isinstance(raw, bytes) and kinds.is_string(held) else raw
