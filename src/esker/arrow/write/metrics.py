"""Metrics of data files: which ones a table asks for, their bounds, and those of a Parquet footer."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from esker.arrow.convert import convert
from esker.arrow.input.fit_values import plain_type
from esker.arrow.read.file_columns import FileColumn, LeafFinder
from esker.arrow.value_arrays import held_array, leaf_array
from esker.errors import EskerError, InvalidInput
from esker.model.partition_and_sort import SortOrder
from esker.model.schema import Schema
from esker.model.transform import BucketTransform, UnknownTransform, VoidTransform
from esker.model.types import (
    BinaryType,
    DoubleType,
    Field,
    FloatType,
    GeographyType,
    GeometryType,
    StringType,
    Type,
    UnknownType,
    VariantType,
    children,
    is_floating,
    is_nested,
)
from esker.model.values import from_unscaled, to_bytes
from esker.tree.data_file import Metrics
from esker.write.properties import whole_number

# ---------------------------------------------------------------- Metrics modes
#
# None, counts, shortened bounds, or full bounds.


_DEFAULT = "write.metadata.metrics.default"
_COLUMN = "write.metadata.metrics.column."
_INFERRED = "write.metadata.metrics.max-inferred-column-defaults"
_TRUNCATE = re.compile(r"truncate\((\d{1,9})\)")


class Keep(Enum):
    """Which metrics of a column are recorded."""

    NONE = "none"
    COUNTS = "counts"
    BOUNDS = "bounds"


@dataclass(frozen=True, slots=True)
class MetricsMode:
    """The mode of one column. ``width`` is the length of shortened text and binary bounds. None: not shortened."""

    keep: Keep
    width: int | None = None


NONE, COUNTS, FULL, TRUNCATE_16 = (
    MetricsMode(Keep.NONE),
    MetricsMode(Keep.COUNTS),
    MetricsMode(Keep.BOUNDS),
    MetricsMode(Keep.BOUNDS, 16),
)


def metrics_modes(schema: Schema, order: SortOrder, properties: Mapping[str, str]) -> dict[int, MetricsMode]:
    """The mode of every field: the column's own property, else bounds if it is a sort column, else the default."""
    chosen = properties.get(_DEFAULT)
    default = TRUNCATE_16 if chosen is None else parse_mode(_DEFAULT, chosen)
    modes = dict.fromkeys(schema.by_id, default)
    if chosen is None:
        limit = whole_number(properties, _INFERRED, 100)
        for field in islice(_leaves_level_by_level(schema.fields), limit, None):
            modes[field.id] = NONE
    for key in order.fields:
        # A bucket has no order, so bounds of its source column do not help.
        if not isinstance(key.transform, BucketTransform | VoidTransform | UnknownTransform) and key.source_id in modes:
            mode = modes[key.source_id]
            modes[key.source_id] = mode if mode.keep is Keep.BOUNDS else TRUNCATE_16
    for name, value in properties.items():
        if name.startswith(_COLUMN):
            mode = parse_mode(name, value)
            field_id = schema.id_by_name.get(name.removeprefix(_COLUMN))
            if field_id is not None:  # a column that was dropped or renamed is ignored
                modes[field_id] = mode
    return modes


def parse_mode(name: str, text: str) -> MetricsMode:
    """``none``, ``counts``, ``truncate(n)`` or ``full``. Raises ``InvalidInput`` with the property for other text."""
    folded = text.strip().lower()
    if folded in ("none", "counts", "full"):
        return {"none": NONE, "counts": COUNTS, "full": FULL}[folded]
    match = _TRUNCATE.fullmatch(folded)
    if match is None or int(match[1]) == 0:
        raise InvalidInput(f"cannot use {name} = {text!r}: it takes none, counts, truncate(n) or full", property=name)
    return MetricsMode(Keep.BOUNDS, int(match[1]))


def _leaves_level_by_level(fields: tuple[Field, ...]) -> Iterator[Field]:
    """Leaves in the order in which they get metrics: those of a level, then those below each of its structs."""
    yield from (field for field in fields if not is_nested(field.type))
    for field in fields:
        yield from _leaves_level_by_level(children(field.type))


# ---------------------------------------------------------------- Bounds in single-value bytes
#
# Shortened bounds still include every value (checklist G1, G2).


_LAST_BEFORE_SURROGATES, _FIRST_AFTER_SURROGATES, _LAST = 0xD7FF, 0xE000, 0x10FFFF


def lower_bound(type_: Type, value: Any, width: int | None) -> bytes:
    """A bound at or below the smallest value."""
    match type_:
        case FloatType() | DoubleType() if value == 0:
            return to_bytes(type_, -0.0)  # +0.0 would be above a -0.0 that the column may have
        case StringType() | BinaryType() if width is not None:
            return to_bytes(type_, value[:width])
        case _:
            return to_bytes(type_, value)


def upper_bound(type_: Type, value: Any, width: int | None) -> bytes | None:
    """A bound at or above the largest value. None if a shortened one has no successor."""
    match type_:
        case FloatType() | DoubleType() if value == 0:
            return to_bytes(type_, 0.0)
        case StringType() if width is not None and len(value) > width:
            text = _next_text(value[:width])
            return None if text is None else text.encode()
        case BinaryType() if width is not None and len(value) > width:
            return _next_bytes(value[:width])
        case _:
            return to_bytes(type_, value)


def is_bound(type_: Type, value: Any) -> bool:
    """Whether a value may be a bound: NaN never is (checklist G3)."""
    return value is not None and not (isinstance(type_, FloatType | DoubleType) and math.isnan(value))


def _next_text(text: str) -> str | None:
    """The smallest text of at most that many characters above every text that starts with it."""
    for at in range(len(text) - 1, -1, -1):
        point = ord(text[at])
        if point < _LAST:
            following = _FIRST_AFTER_SURROGATES if point == _LAST_BEFORE_SURROGATES else point + 1
            return text[:at] + chr(following)
    return None


def _next_bytes(data: bytes) -> bytes | None:
    kept = data.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,)) if kept else None


# ---------------------------------------------------------------- Metrics of a new file
#
# Bounds come from the Arrow data, not from Parquet's statistics, which omit long values and do not handle NaN. Inside a
# list or map a row has many values; there only sizes are recorded (checklist G10).


@dataclass(slots=True)
class Tally:
    """The counts and bounds of one column so far."""

    path: tuple[Field, ...]
    mode: MetricsMode
    values: int = 0
    nulls: int = 0
    nans: int = 0
    low: Any = None
    high: Any = None

    @property
    def type(self) -> Type:
        """The column's type."""
        return self.path[-1].type

    def add(self, array: pa.Array) -> None:
        """Count more values of the column."""
        self.values += len(array)
        self.nulls += array.null_count
        if is_floating(self.type):
            self.nans += pc.sum(pc.is_nan(array)).as_py() or 0
        if self.mode.keep is Keep.BOUNDS and has_bounds(self.type) and array.null_count < len(array):
            self._widen(array)

    def _widen(self, array: pa.Array) -> None:
        found = pc.min_max(held_array(array, self.type))
        low, high = found["min"].as_py(), found["max"].as_py()
        if is_bound(self.type, low) and is_bound(self.type, high):  # both are NaN if there is nothing else
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)


class MetricsCollector:
    """Collects the metrics of one file, batch by batch."""

    def __init__(self, schema: Schema, modes: Mapping[int, MetricsMode]) -> None:
        self._modes = modes
        self._tallies = [
            Tally(schema.path_by_id[field.id], modes[field.id])
            for field, _ in schema.primitives()
            if modes[field.id].keep is not Keep.NONE and is_counted(schema, field)
        ]

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch."""
        for tally in self._tallies:
            tally.add(leaf_array(batch, tally.path))

    def metrics(self, footer: pq.FileMetaData, leaf_ids: tuple[int | None, ...]) -> Metrics:
        """The metrics so far. ``leaf_ids`` are the field ids of the file's leaves in order."""
        lower = {t.path[-1].id: lower_bound(t.type, t.low, t.mode.width) for t in self._tallies if t.low is not None}
        upper = {t.path[-1].id: upper_bound(t.type, t.high, t.mode.width) for t in self._tallies if t.high is not None}
        return Metrics(
            column_sizes=column_sizes(footer, leaf_ids, self._modes),
            value_counts={t.path[-1].id: t.values for t in self._tallies},
            null_counts={t.path[-1].id: t.nulls for t in self._tallies},
            nan_counts={t.path[-1].id: t.nans for t in self._tallies if is_floating(t.type)},
            lower_bounds=lower,
            upper_bounds={id_: bound for id_, bound in upper.items() if bound is not None},
        )


def is_counted(schema: Schema, field: Field) -> bool:
    """Whether a field has one value per row and a column in the file."""
    return not (is_nested(field.type) or isinstance(field.type, UnknownType) or schema.in_repeated(field.id))


def has_bounds(type_: Type) -> bool:
    """Whether the values of a type have an order. The bytes of geometries have no useful order."""
    return not isinstance(type_, GeometryType | GeographyType | UnknownType | VariantType)


def column_sizes(
    footer: pq.FileMetaData, leaf_ids: tuple[int | None, ...], modes: Mapping[int, MetricsMode]
) -> dict[int, int]:
    """The compressed bytes per leaf, over all row groups."""
    sizes: dict[int, int] = {}
    for group in range(footer.num_row_groups):
        facts = footer.row_group(group)
        for leaf, field_id in enumerate(leaf_ids):
            if field_id is not None and modes.get(field_id, NONE).keep is not Keep.NONE:
                sizes[field_id] = sizes.get(field_id, 0) + facts.column(leaf).total_compressed_size
    return sizes


def split_offsets(footer: pq.FileMetaData) -> tuple[int, ...]:
    """Where each row group starts, if these offsets ascend (checklist G9)."""
    offsets = []
    for group in range(footer.num_row_groups):
        if not footer.num_columns:
            return ()
        first = footer.row_group(group).column(0)
        places = [first.data_page_offset]
        if first.has_dictionary_page and first.dictionary_page_offset:
            places.append(first.dictionary_page_offset)
        offsets.append(min(places))
    return tuple(offsets) if offsets == sorted(set(offsets)) else ()


# ---------------------------------------------------------------- Metrics of an existing file, from its footer


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a footer records about a column over all row groups. None if a row group does not record it."""

    values: int
    nulls: int | None
    low: Any = None
    high: Any = None


def seen_columns(footer: pq.FileMetaData, columns: tuple[FileColumn, ...], schema: Schema) -> dict[int, Seen]:
    """By field id, for every column of the file with one value per row."""
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
    """The metrics for a manifest. A footer does not count NaN, so there are no NaN counts."""
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
    """The minimum and maximum of a row group as held values. None for a value that makes no sense."""
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
    """A footer's physical value in the form that pyarrow needs for a column of that type."""
    kinds = pa.types
    if kinds.is_decimal(held):
        return from_unscaled(int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw, held.scale)
    if kinds.is_unsigned_integer(held):
        raise ValueError("the order of unsigned numbers is not that of their bits")
    return raw.decode() if isinstance(raw, bytes) and kinds.is_string(held) else raw
