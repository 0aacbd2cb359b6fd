"""Columns in held form, brought to the types that rows are read in.

Partition values arrive as Esker holds them (days, ticks, bytes); beside a table's rows they should look like them.
"""

from __future__ import annotations

import pyarrow as pa


def from_held(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """The column as ``type_``: whole numbers become dates and times, bytes become uuids and fixed."""
    if array.type.equals(type_):
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), type_)
    if isinstance(type_, pa.BaseExtensionType):
        return type_.wrap_array(from_held(array, type_.storage_type))
    if pa.types.is_temporal(type_) and pa.types.is_integer(array.type):
        return array.cast(pa.int32() if type_.bit_width == 32 else pa.int64()).cast(type_)
    try:
        return array.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(array), type_)  # a writer held something else: show nothing rather than nonsense
