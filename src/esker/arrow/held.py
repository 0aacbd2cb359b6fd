"""Columns as the model holds their values: dates and times as numbers, uuids as bytes; and leaves out of structs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from esker.model.types import (
    DateType,
    Field,
    StructType,
    TimestampType,
    TimeType,
    Type,
)


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


def held_value(array: pa.Array, type_: Type, at: int) -> Any:
    """One value in held form; None where it is null."""
    return held_array(array.slice(at, 1), type_).to_pylist()[0]


def leaf_array(batch: pa.RecordBatch, path: tuple[Field, ...]) -> pa.Array:
    """The column at the end of a way through structs, null wherever a struct on the way is null."""
    array = batch.column(path[0].name)
    for above, field in pairwise(path):
        assert isinstance(above.type, StructType), f"one row may have many values below {above.name}"
        array = pc.struct_field(array, [[f.name for f in above.type].index(field.name)])
    return array
