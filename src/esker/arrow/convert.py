"""Convert columns: primitive values to the table's current type, and lists and maps rebuilt with new values."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from esker.arrow.arrow_types import to_arrow
from esker.errors import Corrupt
from esker.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntType,
    LongType,
    StringType,
    TimestampType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
)

# ---------------------------------------------------------------- Primitive values
#
# Covers the spec's promotions (checklist T15: int to long, float to double, wider decimals, date to timestamp), and
# differences between writers: INT96, missing UTF8 marks, dictionaries, large offsets, nanoseconds instead of
# microseconds, a UTC flag that contradicts the table (E10: the table's type is used, the number is the same).
# Everything else is refused, because a guess could return wrong rows.


_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = 86_400


def convert(array: pa.Array, type_: Type, *, file: str, column: str) -> pa.Array:
    """The array in the table's type. Raises ``Corrupt`` with file and column if it cannot be converted."""
    array = plain(array)
    if pa.types.is_null(array.type) or isinstance(type_, UnknownType):
        return pa.nulls(len(array), to_arrow(type_))
    try:
        found = _convert(array, type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError) as error:
        raise Corrupt(file, f"column {column!r} cannot be read as {type_}: {error}") from None
    if found is None:
        raise Corrupt(file, f"column {column!r} is {array.type}, which cannot be read as {type_}")
    return found


def plain(array: pa.Array) -> pa.Array:
    """The values without extension type, dictionary, views or 64-bit offsets."""
    kinds = pa.types
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array.type, pa.BaseExtensionType):
        return plain(array.storage)
    if kinds.is_dictionary(array.type):
        return plain(array.dictionary_decode())
    if kinds.is_large_string(array.type) or kinds.is_string_view(array.type):
        return array.cast(pa.string())
    if kinds.is_large_binary(array.type) or kinds.is_binary_view(array.type):
        return array.cast(pa.binary())
    return array


def _convert(array: pa.Array, type_: Type) -> pa.Array | None:
    kinds, held = pa.types, array.type
    match type_:
        case BooleanType():
            return array if kinds.is_boolean(held) else None
        case IntType() | LongType():
            return array.cast(to_arrow(type_)) if kinds.is_integer(held) else None
        case FloatType():
            return array.cast(pa.float32()) if held in (pa.float16(), pa.float32()) else None
        case DoubleType():
            return array.cast(pa.float64()) if kinds.is_floating(held) else None
        case DecimalType():
            return array.cast(to_arrow(type_)) if kinds.is_decimal(held) else None
        case DateType():
            return array.cast(pa.date32()) if kinds.is_date(held) or held == pa.int32() else None
        case TimeType():
            return _time(array)
        case TimestampType():
            return _timestamp(array, type_)
        case StringType() | BinaryType() | GeometryType() | GeographyType():
            return array.cast(to_arrow(type_)) if _is_bytes(held) else None
        case UuidType():
            return pa.ExtensionArray.from_storage(pa.uuid(), array.cast(pa.binary(16))) if _is_bytes(held) else None
        case FixedType(length):
            return array.cast(pa.binary(length)) if _is_bytes(held) else None
        case _:
            return None


def _is_bytes(type_: pa.DataType) -> bool:
    return type_ in (pa.string(), pa.binary()) or pa.types.is_fixed_size_binary(type_)


def _time(array: pa.Array) -> pa.Array | None:
    if pa.types.is_time(array.type):
        return array.cast(pa.time64("us"), safe=False)  # never negative, so cutting rounds down
    if array.type == pa.int32():  # milliseconds, in ORC files of Paimon
        return array.cast(pa.time32("ms")).cast(pa.time64("us"))
    return array.cast(pa.time64("us")) if array.type == pa.int64() else None  # ORC stores times as plain longs


def _timestamp(array: pa.Array, type_: TimestampType) -> pa.Array | None:
    held = array.type
    if pa.types.is_timestamp(held):
        ticks = _rescaled(array.view(pa.int64()), _PER_SECOND[held.unit], type_.ticks_per_second)
    elif pa.types.is_date(held) and not type_.zoned:
        days = array.cast(pa.date32()).view(pa.int32()).cast(pa.int64())
        ticks = _times(days, _DAY * type_.ticks_per_second)
    elif held == pa.int64():
        ticks = array
    else:
        return None
    return ticks.view(to_arrow(type_))


def _rescaled(ticks: pa.Array, held: int, wanted: int) -> pa.Array:
    if held == wanted:
        return ticks
    if held < wanted:
        return _times(ticks, wanted // held)
    # Finer than the table's unit: round down, so that a time before 1970 stays in its microsecond.
    floored = np.floor_divide(ticks.fill_null(0).to_numpy(zero_copy_only=False), held // wanted)
    return pa.array(floored, pa.int64(), mask=ticks.is_null().to_numpy(zero_copy_only=False))


def _times(numbers: pa.Array, factor: int) -> pa.Array:
    import pyarrow.compute as pc

    return pc.multiply_checked(numbers, pa.scalar(factor, pa.int64()))


# ---------------------------------------------------------------- Lists and maps, rebuilt by their offsets
#
# Arrow's kernels do not support maps or lists of extension types, and handle slices of list views wrongly.


Int64s = npt.NDArray[np.int64]


def values_inside(array: pa.Array) -> pa.Array:
    """The values of all lists in order, or of all maps as structs of key and value. Values below null are left out."""
    starts, lengths = _spans(array)
    total = int(lengths.sum())
    values = _raw_values(array)
    held = lengths > 0
    firsts, sizes = starts[held], lengths[held]
    if not total or np.array_equal(firsts[1:], firsts[:-1] + sizes[:-1]):
        return values.slice(int(firsts[0]) if total else 0, total)
    before = np.cumsum(sizes) - sizes
    return values.take(pa.array(np.repeat(firsts - before, sizes) + np.arange(total)))


def over(array: pa.Array, type_: pa.DataType, inner: pa.Array, *, nulls: bool = True) -> pa.Array:
    """Lists or maps of the same lengths with other values. Null where ``array`` is null, unless ``nulls`` is false."""
    ends = np.zeros(len(array) + 1, dtype=np.int32)
    np.cumsum(_spans(array)[1], out=ends[1:], dtype=np.int32)
    valid = array.is_valid().buffers()[1] if array.null_count and nulls else None
    return pa.Array.from_buffers(type_, len(array), [valid, pa.py_buffer(ends)], children=[inner])


def _spans(array: pa.Array) -> tuple[Int64s, Int64s]:
    """Where each list starts in the raw values, and its length. A null list has length 0."""
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        starts = (array.offset + np.arange(len(array), dtype=np.int64)) * size
        lengths = np.full(len(array), size, dtype=np.int64)
    elif pa.types.is_list_view(array.type) or pa.types.is_large_list_view(array.type):
        starts = array.offsets.to_numpy().astype(np.int64)
        lengths = array.sizes.to_numpy().astype(np.int64)
    else:
        ends = array.offsets.to_numpy().astype(np.int64)
        starts, lengths = ends[:-1], np.diff(ends)
    if array.null_count:
        lengths = np.where(array.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    return starts, lengths


def _raw_values(array: pa.Array) -> pa.Array:
    if pa.types.is_map(array.type):
        return pa.StructArray.from_arrays([array.keys, array.items], fields=list(array.type.field(0).type))
    return array.values
