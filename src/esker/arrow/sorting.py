"""Rows in a table's sort order, as the spec compares values: NaN above every number, -0.0 below +0.0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.held import held_array, leaf_array
from esker.arrow.transforms import transformed
from esker.errors import InvalidInput
from esker.model.schema import Schema
from esker.model.sort_order import SortField, SortOrder
from esker.model.transform import IdentityTransform, UnknownTransform, VoidTransform, accepts
from esker.model.types import BooleanType, DoubleType, FloatType, Type


def check_sort_order(schema: Schema, order: SortOrder) -> None:
    """``InvalidInput`` says why rows of the schema cannot be sorted so."""
    for key in order.fields:
        source = schema.by_id.get(key.source_id)
        if isinstance(key.transform, UnknownTransform) or key.other_sources:
            why = f"the transform {key.transform} is not known here"
        elif source is None:
            why = "the column is gone"
        elif schema.in_repeated(key.source_id) or not accepts(key.transform, source.type):
            why = f"{key.transform} of a {source.type} is no value to sort by"
        else:
            continue
        name = schema.name_by_id.get(key.source_id, f"id {key.source_id}")
        raise InvalidInput(f"cannot write with the sort order's key {name!r}: {why}", column=name)


def sorted_batch(batch: pa.RecordBatch, schema: Schema, order: SortOrder) -> pa.RecordBatch:
    """The rows in order; equal ones stay as they came."""
    places = _places(batch, schema, order)
    return batch if places is None else batch.take(places)


def _places(batch: pa.RecordBatch, schema: Schema, order: SortOrder) -> pa.Array | None:
    columns: dict[str, pa.Array] = {}
    keys: list[tuple[str, str]] = []
    for at, field in enumerate(order.fields):
        if isinstance(field.transform, VoidTransform):
            continue
        path = schema.path_by_id[field.source_id]
        key = _key(field, path[-1].type, leaf_array(batch, path), schema.name_by_id[field.source_id])
        if key.null_count:  # a key of its own, because Arrow has one place for the nulls of all keys
            columns[f"null{at}"] = key.is_null().cast(pa.int8())
            keys.append((f"null{at}", "ascending" if field.nulls_last else "descending"))
        columns[f"key{at}"] = key
        keys.append((f"key{at}", "descending" if field.descending else "ascending"))
    if not keys:
        return None
    return pc.sort_indices(pa.table(columns), sort_keys=keys)


def _key(field: SortField, type_: Type, array: pa.Array, name: str) -> pa.Array:
    if not isinstance(field.transform, IdentityTransform):
        return _ranked(*_transformed(field, type_, array, name))
    held = held_array(array, type_)
    match type_:
        case FloatType() | DoubleType():
            return _total_order(held)
        case BooleanType():
            return held.cast(pa.int8())
        case _:
            return held


def _transformed(field: SortField, type_: Type, array: pa.Array, name: str) -> tuple[Any, tuple[Any, ...]]:
    coded = transformed(field.transform, type_, array, name)
    return coded.codes, coded.values


def _ranked(codes: Any, values: tuple[Any, ...]) -> pa.Array:
    """The place of each row's value among the distinct ones."""
    ranks = {value: rank for rank, value in enumerate(sorted(value for value in values if value is not None))}
    by_code = np.array([-1 if value is None else ranks[value] for value in values], dtype=np.int64)
    found = by_code[codes]
    return pa.array(found, mask=found < 0)


def _total_order(array: pa.Array) -> pa.Array:
    """Floats as integers that compare as the spec orders floats."""
    wide = array.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False).copy()
    wide[np.isnan(wide)] = np.nan
    bits = wide.view(np.int64)
    flipped = np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
    return pa.array(flipped, mask=array.is_null().to_numpy(zero_copy_only=False))
