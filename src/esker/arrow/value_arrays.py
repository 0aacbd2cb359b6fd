"""Convert between Arrow columns and the held values of `esker.model`.

In the held form, dates and times are numbers and uuids are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.arrow_types import to_arrow
from esker.model.types import (
    DateType,
    Field,
    ListType,
    MapType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
)

# ---------------------------------------------------------------- Held values as Arrow arrays
#
# Defaults, partition values, literals.


def repeated(type_: Type, value: Any, length: int) -> pa.Array:
    """One held value, ``length`` times."""
    if value is None or isinstance(type_, UnknownType):
        return pa.nulls(length, to_arrow(type_))
    return array_of(type_, (value,)).take(pa.array(np.zeros(length, dtype=np.int32)))


def array_of(type_: Type, values: Sequence[Any]) -> pa.Array:
    """Held values as an array of the type's Arrow type.

    A struct's value is pairs of field id and value. Missing fields get their own defaults, so ``()`` is a struct of
    defaults (checklist E5). A map's value is pairs of key and value.
    """
    match type_:
        case StructType(fields):
            held = [None if value is None else dict(value) for value in values]
            members = [array_of(f.type, [_member(f, value) for value in held]) for f in fields]
            return struct_array(type_, members, pa.array([value is None for value in values], pa.bool_()))
        case ListType():
            inner = array_of(type_.element, [item for value in values for item in value or ()])
            return _lists(type_, values, inner)
        case MapType():
            keys = array_of(type_.key, [key for value in values for key, _ in value or ()])
            items = array_of(type_.value, [item for value in values for _, item in value or ()])
            entries = pa.StructArray.from_arrays([keys, items], fields=list(to_arrow(type_).field(0).type))
            return _lists(type_, values, entries)
        case DateType():
            return pa.array(values, pa.int32()).cast(to_arrow(type_))
        case TimeType() | TimestampType():
            return pa.array(values, pa.int64()).cast(to_arrow(type_))
        case UuidType():
            return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))
        case _:
            return pa.array(values, to_arrow(type_))


def struct_array(type_: StructType, members: Sequence[pa.Array], is_null: pa.Array | None) -> pa.Array:
    """A struct array of these fields with the type's names. ``is_null`` marks where the struct itself is null."""
    if not members:  # from_arrays would not know the length
        absent = [] if is_null is None else is_null.to_pylist()
        return pa.array([None if null else {} for null in absent], to_arrow(type_))
    return pa.StructArray.from_arrays(list(members), fields=list(to_arrow(type_)), mask=is_null)


def _member(field: Field, value: Mapping[int, Any] | None) -> Any:
    return None if value is None else value.get(field.id, field.initial_default)


def _lists(type_: Type, values: Sequence[Any], inner: pa.Array) -> pa.Array:
    ends = np.cumsum([0, *(len(value or ()) for value in values)], dtype=np.int32)
    valid = pa.array([value is not None for value in values], pa.bool_())
    return pa.Array.from_buffers(
        to_arrow(type_), len(values), [valid.buffers()[1], pa.py_buffer(ends.tobytes())], children=[inner]
    )


# ---------------------------------------------------------------- Columns as held values


def held_array(array: pa.Array, type_: Type) -> pa.Array:
    """The same values in an array whose Python form is the held form."""
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    match type_:
        case DateType():
            return array.view(pa.int32())
        case TimeType() | TimestampType():
            return array.view(pa.int64())
        case _:
            return array


def leaf_array(batch: pa.RecordBatch, path: tuple[Field, ...]) -> pa.Array:
    """The column at the end of a path through structs. Null where a struct on the path is null."""
    array = batch.column(path[0].name)
    for above, field in pairwise(path):
        assert isinstance(above.type, StructType), f"one row may have many values below {above.name}"
        array = pc.struct_field(array, [[f.name for f in above.type].index(field.name)])
    return array
