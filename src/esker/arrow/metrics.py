"""Metrics of a data file as it is written: counts and bounds from the rows themselves, sizes from the footer.

Bounds come from the Arrow data and not from Parquet's statistics, which leave out long values and know no NaN.
Under a list or map a row has many values; there only sizes are kept (checklist G10).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from esker.arrow.bounds import is_bound, lower_bound, upper_bound
from esker.arrow.held import held_array, leaf_array
from esker.arrow.metrics_mode import NONE, Keep, MetricsMode
from esker.model.schema import Schema
from esker.model.types import (
    Field,
    GeographyType,
    GeometryType,
    Type,
    UnknownType,
    VariantType,
    is_floating,
    is_nested,
)
from esker.tree.data_file import Metrics


@dataclass(slots=True)
class Tally:
    """What has been seen of one column so far."""

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
        """Count some more values of the column."""
        self.values += len(array)
        self.nulls += array.null_count
        if is_floating(self.type):
            self.nans += pc.sum(pc.is_nan(array)).as_py() or 0
        if self.mode.keep is Keep.BOUNDS and has_bounds(self.type) and array.null_count < len(array):
            self._widen(array)

    def _widen(self, array: pa.Array) -> None:
        found = pc.min_max(held_array(array, self.type))
        low, high = found["min"].as_py(), found["max"].as_py()
        if is_bound(self.type, low) and is_bound(self.type, high):  # NaN for both where there is nothing else
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)


class MetricsCollector:
    """Gathers the metrics of one file, batch by batch."""

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
        """All that is known now. ``leaf_ids`` are the field ids of the file's leaves in their order."""
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
    """Whether a type's values are ordered; features on a map are not ordered by their bytes."""
    return not isinstance(type_, GeometryType | GeographyType | UnknownType | VariantType)


def column_sizes(
    footer: pq.FileMetaData, leaf_ids: tuple[int | None, ...], modes: Mapping[int, MetricsMode]
) -> dict[int, int]:
    """Compressed bytes per leaf, over all row groups."""
    sizes: dict[int, int] = {}
    for group in range(footer.num_row_groups):
        facts = footer.row_group(group)
        for leaf, field_id in enumerate(leaf_ids):
            if field_id is not None and modes.get(field_id, NONE).keep is not Keep.NONE:
                sizes[field_id] = sizes.get(field_id, 0) + facts.column(leaf).total_compressed_size
    return sizes


def split_offsets(footer: pq.FileMetaData) -> tuple[int, ...]:
    """Where each row group begins, where these ascend (checklist G9)."""
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
