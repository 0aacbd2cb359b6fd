"""Convert values of an Arrow type to a table's primitive type, without losing or changing a value."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pyarrow as pa

from esker.arrow.arrow_types import to_arrow
from esker.arrow.convert import plain
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

Convert = Callable[[pa.Array], pa.Array]


class Misfit(Exception):
    """Values that do not fit: the reason, the index in the array if it is known, and the path inside the column."""

    def __init__(self, why: str, at: int | None = None, inside: tuple[str, ...] = ()) -> None:
        super().__init__(why)
        self.why = why
        self.at = at
        self.inside = inside


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type without extension, dictionary, run ends, views and large offsets."""
    kinds = pa.types
    if isinstance(type_, pa.BaseExtensionType):
        return plain_type(type_.storage_type)
    if kinds.is_dictionary(type_) or kinds.is_run_end_encoded(type_):
        return plain_type(type_.value_type)
    if kinds.is_large_string(type_) or kinds.is_string_view(type_):
        return pa.string()
    if kinds.is_large_binary(type_) or kinds.is_binary_view(type_):
        return pa.binary()
    return type_


def value_converter(source: pa.DataType, type_: Type, *, whole_floats: bool, round_floats: bool) -> Convert | None:
    """The conversion from ``source`` arrays to the table's type. None if the types do not fit."""
    held, wanted = plain_type(source), to_arrow(type_)
    if pa.types.is_null(held) or isinstance(type_, UnknownType):
        return _checked(lambda array: _only_nulls(array, wanted))
    if not _fits(held, source, type_, whole_floats=whole_floats, round_floats=round_floats):
        return None
    if isinstance(type_, UuidType):
        return _checked(_uuids)
    if isinstance(type_, DecimalType) and pa.types.is_integer(held):
        return _checked(lambda array: _decimals(array, type_))
    if isinstance(type_, TimestampType):
        return _checked(lambda array: array.cast(pa.timestamp(wanted.unit, tz=held.tz)).cast(wanted))
    return _checked(lambda array: array if array.type == wanted else array.cast(wanted))


def _fits(held: pa.DataType, source: pa.DataType, type_: Type, *, whole_floats: bool, round_floats: bool) -> bool:
    """Whether the types fit. The conversion checks each value."""
    kinds = pa.types
    match type_:
        case BooleanType():
            return kinds.is_boolean(held)
        case IntType() | LongType():
            return kinds.is_integer(held) or (whole_floats and kinds.is_floating(held))
        case FloatType():
            narrow = held in (pa.float16(), pa.float32())
            return narrow or kinds.is_integer(held) or (round_floats and kinds.is_floating(held))
        case DoubleType():
            return kinds.is_floating(held) or kinds.is_integer(held)
        case DecimalType():
            return kinds.is_decimal(held) or kinds.is_integer(held)
        case DateType():
            return kinds.is_date(held)
        case TimeType():
            return kinds.is_time(held)
        case TimestampType(zoned=zoned):
            return kinds.is_timestamp(held) and (held.tz is not None) == zoned
        case StringType():
            return held == pa.string()
        case UuidType():
            return held in (pa.string(), pa.binary()) or (kinds.is_fixed_size_binary(held) and held.byte_width == 16)
        case FixedType(length):
            return held == pa.binary() or (kinds.is_fixed_size_binary(held) and held.byte_width == length)
        case BinaryType():
            # The bytes of a uuid would fit, but a uuid is not meant as binary.
            return (held == pa.binary() or kinds.is_fixed_size_binary(held)) and source != pa.uuid()
        case GeometryType() | GeographyType():
            return held == pa.binary()
        case _:
            return False


def _checked(convert: Convert) -> Convert:
    """The conversion. If it fails, it finds the first value that does not fit."""

    def run(array: pa.Array) -> pa.Array:
        array = plain(array)
        try:
            return convert(array)
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise _first_misfit(convert, array, error) from None

    return run


def _first_misfit(convert: Convert, array: pa.Array, error: Exception) -> Misfit:
    start, length = 0, len(array)
    while length > 1:
        half = length // 2
        failure = _failure(convert, array.slice(start, half))
        if failure is None:
            start, length = start + half, length - half
            failure = _failure(convert, array.slice(start, length))
        else:
            length = half
        error = failure or error
    return Misfit((str(error).strip() or type(error).__name__).splitlines()[0], start)


def _failure(convert: Convert, array: pa.Array) -> Exception | None:
    try:
        convert(array)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        return error
    return None


def _only_nulls(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if array.null_count < len(array) and not pa.types.is_null(array.type):
        raise ValueError("a column of type unknown can only be null")
    return pa.nulls(len(array), wanted)


def _uuids(array: pa.Array) -> pa.Array:
    if array.type == pa.string():
        encoded = array.dictionary_encode()
        parsed = pa.array([UUID(text).bytes for text in encoded.dictionary.to_pylist()], pa.binary(16))
        array = parsed.take(encoded.indices)
    return pa.ExtensionArray.from_storage(pa.uuid(), array.cast(pa.binary(16)))


def _decimals(array: pa.Array, type_: DecimalType) -> pa.Array:
    """Integers as decimals. Arrow needs space for every value of the integer type."""
    return array.cast(pa.decimal256(76, type_.scale)).cast(to_arrow(type_))
