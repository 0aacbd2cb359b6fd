"""Statistics maps of a manifest: single columns of them for pruning, or the maps whole.

The decoder picks single columns while it walks. A writer that did not mark its arrays as maps, or used native
maps with text keys, is read the long way round: whole, and picked apart here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa

from esker.errors import Corrupt
from esker.iceberg.column import Column
from esker.iceberg.found_columns import FoundColumns, as_type
from esker.iceberg.manifest_columns import METRICS, PICKED
from esker.model.arrow_arrays import arrow_array, null_mask, numbers_of
from esker.tree.manifest import ColumnMetrics

_PART = {
    "lower_bounds": "lower",
    "upper_bounds": "upper",
    "value_counts": "value_count",
    "null_counts": "null_count",
    "nan_counts": "nan_count",
}


def value_type(column: Column) -> pa.DataType:
    """What a map's values are in Arrow."""
    return pa.binary() if column.attribute.endswith("bounds") else pa.int64()


def picked_metrics(files: FoundColumns, wanted: Collection[int]) -> dict[int, ColumnMetrics]:
    """The statistics of the columns asked for, aligned by row; null is unknown."""
    parts: dict[int, dict[str, pa.Array]] = {id_: {} for id_ in wanted}
    for column in PICKED:
        for id_, values in _picked(files, column, wanted).items():
            parts[id_][_PART[column.attribute]] = values
    return {id_: ColumnMetrics(**found) for id_, found in parts.items()}


def whole_metrics(files: FoundColumns) -> Mapping[str, pa.Array]:
    """Every statistics map, by its attribute name."""
    return {column.attribute: _whole(files, column) for column in METRICS}


def _picked(files: FoundColumns, column: Column, wanted: Collection[int]) -> dict[int, pa.Array]:
    array = files.raw(column.id)
    type_ = value_type(column)
    if array is None or array.null_count == len(array):
        nulls = pa.nulls(files.rows, type_)
        return dict.fromkeys(wanted, nulls)
    what = f"field {column.id} ({column.name})"
    if pa.types.is_struct(array.type):
        names = {array.type.field(i).name: i for i in range(array.type.num_fields)}
        found = {id_: array.field(names[str(id_)]) for id_ in wanted}
    else:
        whole = _whole(files, column)
        found = {id_: _pick(whole, id_) for id_ in wanted}
    return {id_: _sane(as_type(files.file, values, type_, what)) for id_, values in found.items()}


def _sane(values: pa.Array) -> pa.Array:
    """Counts below zero say nothing: unknown."""
    if not pa.types.is_integer(values.type) or values.null_count == len(values):
        return values
    numbers = numbers_of(values, null=0)
    if numbers.min() >= 0:
        return values
    return arrow_array(numbers, null=null_mask(values) | (numbers < 0))


def _whole(files: FoundColumns, column: Column) -> pa.MapArray:
    array = files.raw(column.id)
    type_ = pa.map_(pa.int32(), value_type(column))
    if array is None:
        return pa.nulls(files.rows, type_)
    what = f"field {column.id} ({column.name})"
    if pa.types.is_map(array.type):
        keys, values = array.keys, array.items
    elif pa.types.is_list(array.type) and pa.types.is_struct(array.type.value_type):
        pairs = array.values
        if [field.name for field in array.type.value_type] != ["key", "value"]:
            raise Corrupt(files.file, f"{what} is {array.type} where a map belongs")
        keys, values = pairs.field(0), pairs.field(1)
    else:
        raise Corrupt(files.file, f"{what} is {array.type} where a map belongs")
    if keys.null_count:
        raise Corrupt(files.file, f"{what} has a null key")
    return pa.MapArray.from_arrays(
        _offsets(array), _int_keys(files.file, keys, what), as_type(files.file, values, value_type(column), what)
    )


def _int_keys(file: str, keys: pa.Array, what: str) -> pa.Array:
    if not pa.types.is_string(keys.type):
        return as_type(file, keys, pa.int32(), what)
    try:
        return keys.cast(pa.int32())
    except pa.ArrowInvalid:
        raise Corrupt(file, f"{what} has keys that are no field ids") from None


def _offsets(array: pa.Array) -> pa.Array:
    """Offsets that carry the null rows with them, as Arrow's constructors take them."""
    nulls = null_mask(array)
    offsets = numbers_of(array.offsets, null=0)
    return arrow_array(offsets.astype(np.int32, copy=False), null=np.append(nulls, False))


def _pick(maps: pa.MapArray, key: int) -> pa.Array:
    """One key's value in every row; of a repeated key the last counts."""
    offsets = numbers_of(maps.offsets, null=0)
    at = np.flatnonzero(numbers_of(maps.keys, null=0) == key)
    index = np.full(len(maps), -1, np.int64)
    index[np.searchsorted(offsets, at, side="right") - 1] = at
    return maps.items.take(arrow_array(index, null=index < 0))
