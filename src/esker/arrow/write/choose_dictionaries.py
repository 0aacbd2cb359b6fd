"""Which columns of a new Parquet file get a dictionary: those whose first rows repeat values enough to gain by it.

Iceberg's Java library decides in the same way, by its first page. pyarrow would keep a dictionary until it is full. For
a column of different values that takes half of the time to write a file, and the file is larger.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.value_arrays import leaf_array
from esker.arrow.write.metrics import is_counted
from esker.model.schema import Schema
from esker.model.types import VariantType

SAMPLE = 20_000
"""Rows that decide: as many as a page has. Fewer rows are no evidence, and a dictionary of them costs little."""


def columns_without_dictionary(schema: Schema, batches: Sequence[pa.RecordBatch]) -> frozenset[int]:
    """Return the field ids of columns whose values would need more bytes with a dictionary than without one.

    Columns inside lists and maps are not examined: they keep their dictionary.
    """
    sample = _first_rows(batches)
    if sample is None or sample.num_rows < SAMPLE:
        return frozenset()
    return frozenset(
        field.id
        for field, _ in schema.primitives()
        if is_counted(schema, field)
        and not isinstance(field.type, VariantType)
        and not _repeats(leaf_array(sample, schema.path_by_id[field.id]))
    )


def _first_rows(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch | None:
    taken, rows = [], 0
    for batch in batches:
        taken.append(batch.slice(0, SAMPLE - rows))
        rows += taken[-1].num_rows
        if rows >= SAMPLE:
            break
    return pa.concat_batches(taken) if taken else None


def _repeats(array: pa.Array) -> bool:
    """Whether a dictionary makes the values smaller."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    values = len(array) - array.null_count
    distinct = pc.unique(array).drop_null()
    if not values or pa.types.is_boolean(array.type):
        return True
    numbers = values * max(1, (len(distinct) - 1).bit_length()) / 8
    return _plain_bytes(distinct) + numbers < _plain_bytes(array)


def _plain_bytes(array: pa.Array) -> float:
    """The size of the values in Parquet's plain encoding."""
    type_ = array.type
    values = len(array) - array.null_count
    if pa.types.is_decimal(type_):
        return values * (4 if type_.precision <= 9 else 8 if type_.precision <= 18 else 16)
    if pa.types.is_primitive(type_) or pa.types.is_fixed_size_binary(type_):
        return values * max(4, type_.bit_width // 8)
    return 4 * values + (pc.sum(pc.binary_length(array)).as_py() or 0)
