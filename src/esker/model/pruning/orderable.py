"""Held values as numpy arrays that order as the values do: one form for bounds, partition values and literals.

=========================================  ==================================================================
type                                       orderable form
=========================================  ==================================================================
boolean, int, long, date, time, timestamps  int64
float, double                              float64
decimal                                    its unscaled number: int64, or Python ints where they are longer
string                                     its UTF-8 bytes, whose order is that of the code points
uuid, fixed, binary                        bytes
=========================================  ==================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from esker.model.arrow_arrays import null_mask, numbers_of
from esker.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntType,
    LongType,
    StringType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
)
from esker.model.values import from_unscaled, unscaled

if TYPE_CHECKING:
    import numpy.typing as npt

    Bools = npt.NDArray[np.bool_]
    Ints = npt.NDArray[np.int64]

_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Orderable:
    """The values of one column, and where they are known. Other places have a filler."""

    values: npt.NDArray[Any]
    known: Bools

    def only(self, where: Bools) -> Orderable:
        """The same values, known in fewer places."""
        return Orderable(self.values, self.known & where)


def orderable_literal(type_: Type, value: Any) -> Any:
    """One held value in its orderable form."""
    match type_:
        case DecimalType(scale=scale):
            return unscaled(value, scale)
        case StringType():
            return value.encode()
        case BooleanType():
            return int(value)
        case _:
            return value


def is_orderable(type_: Type) -> bool:
    """Whether the type has an order."""
    return isinstance(
        type_,
        BooleanType | IntType | LongType | FloatType | DoubleType | DecimalType | DateType | TimeType | TimestampType
        | StringType | UuidType | FixedType | BinaryType,
    )  # fmt: skip


# ---------------------------------------------------------------- Single-value bytes


def decode(type_: Type, column: pa.Array) -> Orderable:
    """Decode single-value bytes by their length. Bytes that cannot be of the type are unknown."""
    raw = _Raw.of(column)
    match type_:
        case BooleanType():
            known = raw.valid & (raw.lengths == 1)
            return Orderable(_spread(known, raw.take(known, 1)[:, 0] != 0, np.int64), known)
        case FloatType() | DoubleType():
            return _decode_floats(raw)
        case IntType() | LongType() | DateType() | TimeType():
            return _decode_integers(raw)
        case TimestampType():
            return _decode_timestamps(raw, 86_400 * type_.ticks_per_second)
        case DecimalType():
            return _decode_decimals(raw)
        case StringType():
            return Orderable(raw.objects(), raw.valid & _valid_utf8(column))
        case UuidType():
            return Orderable(raw.objects(), raw.valid & (raw.lengths == 16))
        case FixedType(length=length):
            return Orderable(raw.objects(), raw.valid & (raw.lengths == length))
        case BinaryType():
            return Orderable(raw.objects(), raw.valid)
        case _:
            raise ValueError(f"a {type_} has no single-value form")


@dataclass(frozen=True, slots=True)
class _Raw:
    """The parts of a binary array."""

    column: pa.Array
    data: npt.NDArray[np.uint8]
    starts: Ints
    lengths: Ints
    valid: Bools

    @classmethod
    def of(cls, column: pa.Array) -> _Raw:
        column = column.cast(pa.large_binary())
        valid = ~null_mask(column)
        _, offset_buffer, data_buffer = column.buffers()
        offsets = np.zeros(len(column) + 1, dtype=np.int64)
        if offset_buffer is not None and len(column):
            offsets = np.frombuffer(offset_buffer, dtype=np.int64)[column.offset : column.offset + len(column) + 1]
        data = np.frombuffer(data_buffer or b"", dtype=np.uint8)
        return cls(column, data, offsets[:-1], np.diff(offsets), valid)

    def take(self, where: Bools, width: int) -> npt.NDArray[np.uint8]:
        """The bytes of the selected values, all of one width, one row each."""
        return self.data[self.starts[where][:, None] + np.arange(width)]

    def objects(self) -> npt.NDArray[np.object_]:
        """The values as Python bytes. Nulls are empty."""
        return self.column.fill_null(b"").to_numpy(zero_copy_only=False)


def _spread(where: Bools, values: Any, dtype: Any) -> npt.NDArray[Any]:
    spread = np.zeros(len(where), dtype=dtype)
    spread[where] = values
    return spread


def _decode_integers(raw: _Raw) -> Orderable:
    """Eight bytes are a long, four an int. A promoted column has both, and some writers widen."""
    short, long = raw.valid & (raw.lengths == 4), raw.valid & (raw.lengths == 8)
    values = _spread(short, raw.take(short, 4).view("<i4")[:, 0], np.int64)
    values[long] = raw.take(long, 8).view("<i8")[:, 0]
    return Orderable(values, short | long)


def _decode_timestamps(raw: _Raw, ticks_per_day: int) -> Orderable:
    """Four bytes are a date, from before the column was promoted."""
    whole = _decode_integers(raw)
    dates = raw.valid & (raw.lengths == 4)
    fits = np.abs(whole.values) <= _INT64_MAX // ticks_per_day
    values = np.where(dates & fits, whole.values * np.where(dates & fits, ticks_per_day, 1), whole.values)
    return Orderable(values, whole.known & (~dates | fits))


def _decode_floats(raw: _Raw) -> Orderable:
    """NaN is never a bound (G3), so a NaN is unknown."""
    short, long = raw.valid & (raw.lengths == 4), raw.valid & (raw.lengths == 8)
    values = _spread(short, raw.take(short, 4).view("<f4")[:, 0], np.float64)
    values[long] = raw.take(long, 8).view("<f8")[:, 0]
    return Orderable(values, (short | long) & ~np.isnan(values))


def _decode_decimals(raw: _Raw) -> Orderable:
    """Unscaled big-endian numbers of one to seventeen bytes."""
    known = raw.valid & (raw.lengths >= 1) & (raw.lengths <= 17)
    if (raw.lengths[known] <= 8).all():
        values = np.zeros(len(known), dtype=np.int64)
        for width in range(1, 9):
            where = known & (raw.lengths == width)
            if where.any():
                values[where] = _sign_extended(raw.take(where, width))
        return Orderable(values, known)
    numbers = np.zeros(len(known), dtype=object)
    for at in np.flatnonzero(known):
        numbers[at] = int.from_bytes(raw.column[int(at)].as_py(), "big", signed=True)
    return Orderable(numbers, known)


def _sign_extended(rows: npt.NDArray[np.uint8]) -> Ints:
    wide = np.repeat(np.where(rows[:, :1] & 0x80, np.uint8(0xFF), np.uint8(0)), 8, axis=1)
    wide[:, 8 - rows.shape[1] :] = rows
    return wide.view(">i8")[:, 0].astype(np.int64)


def _valid_utf8(column: pa.Array) -> Bools:
    """Where the bytes are valid UTF-8. A bound that was cut inside a character may not be rounded correctly."""
    try:
        column.cast(pa.large_binary()).cast(pa.large_string())
        return np.ones(len(column), dtype=bool)
    except pa.ArrowInvalid:
        return np.array([_is_utf8(value.as_py()) for value in column], dtype=bool)


def _is_utf8(data: bytes | None) -> bool:
    try:
        return data is None or data.decode() is not None
    except UnicodeDecodeError:
        return False


# ---------------------------------------------------------------- Partition values


def from_values(type_: Type, column: pa.Array) -> Orderable:
    """Partition values in the held form. Date, time and timestamp arrays are used as their numbers."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    valid = ~null_mask(column)
    match type_:
        case BooleanType() | IntType() | LongType() | DateType() | TimeType() | TimestampType():
            return Orderable(_integers(type_, column), valid)
        case FloatType() | DoubleType():
            return Orderable(numbers_of(column.cast(pa.float64()), null=0.0), valid)
        case DecimalType(scale=scale):
            return Orderable(_unscaled_numbers(column, scale), valid)
        case _:
            if not decode(type_, column).known[valid].all():
                raise ValueError(f"a partition value is not a valid {type_}")
            return Orderable(_Raw.of(column).objects(), valid)


def held_values(type_: Type, column: pa.Array) -> list[Any]:
    """The values of a column without nulls in the held form."""
    values = from_values(type_, column).values.tolist()
    match type_:
        case DecimalType(scale=scale):
            return [from_unscaled(value, scale) for value in values]
        case StringType():
            return [value.decode() for value in values]
        case BooleanType():
            return [bool(value) for value in values]
        case _:
            return values


def _integers(type_: Type, column: pa.Array) -> Ints:
    if pa.types.is_timestamp(column.type) and isinstance(type_, TimestampType):
        column = column.cast(pa.timestamp("ns" if type_.nanos else "us")).cast(pa.int64())
    elif pa.types.is_time(column.type):
        column = column.cast(pa.time64("us")).cast(pa.int64())
    elif pa.types.is_date(column.type):
        column = column.cast(pa.date32()).cast(pa.int32())
    return numbers_of(column.cast(pa.int64()), null=0)


def _unscaled_numbers(column: pa.Array, scale: int) -> npt.NDArray[Any]:
    if not pa.types.is_decimal(column.type) or column.type.scale != scale:
        raise ValueError(f"{column.type} values under a decimal of scale {scale}")
    numbers = [0 if value is None else unscaled(value, scale) for value in column.to_pylist()]
    small = all(-_INT64_MAX <= number <= _INT64_MAX for number in numbers)
    return np.array(numbers, dtype=np.int64 if small else object)
