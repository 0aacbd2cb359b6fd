"""Partition transforms over whole columns. The results equal those of ``model.transform.apply_transform``.

The result of a transform is *coded*: a number per row that means a distinct partition value, and these values in the
held form. Rows are grouped by the numbers, so Python handles each distinct value once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from esker.arrow.value_arrays import held_array
from esker.errors import InvalidInput
from esker.model.arrow_arrays import arrow_array, null_mask, numbers_of
from esker.model.transform import (
    BucketTransform,
    IdentityTransform,
    TimeTransform,
    TimeUnit,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    apply_transform,
    murmur3,
)
from esker.model.types import DateType, DoubleType, FloatType, IntType, LongType, TimestampType, TimeType, Type
from esker.model.values import decimal_to_bytes

# ---------------------------------------------------------------- Murmur3, the hash of the bucket transform


Hashes = npt.NDArray[np.uint32]

_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)


def hash_longs(numbers: npt.NDArray[np.int64]) -> Hashes:
    """The hash of each number's eight little-endian bytes, seed 0."""
    bits = numbers.view(np.uint64)
    with np.errstate(over="ignore"):  # 32-bit arithmetic wraps around
        found = _mixed(np.zeros(len(bits), dtype=np.uint32), (bits & np.uint64(0xFFFFFFFF)).astype(np.uint32))
        found = _mixed(found, (bits >> np.uint64(32)).astype(np.uint32))
        return _finished(found ^ np.uint32(8))


def hash_bytes(values: Iterable[bytes]) -> Hashes:
    """The hash of each byte string, seed 0."""
    return np.fromiter((murmur3(value) for value in values), dtype=np.uint32)


def _rotated(words: Hashes, by: int) -> Hashes:
    return (words << np.uint32(by)) | (words >> np.uint32(32 - by))


def _mixed(state: Hashes, words: Hashes) -> Hashes:
    state = state ^ (_rotated(words * _C1, 15) * _C2)
    return _rotated(state, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finished(state: Hashes) -> Hashes:
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return state ^ (state >> np.uint32(16))


# ---------------------------------------------------------------- Transforms


Int64s = npt.NDArray[np.int64]

_INT_RANGE = (-(2**31), 2**31 - 1)
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Coded:
    """Per row the index of its partition value in ``values``."""

    codes: Int64s
    values: tuple[Any, ...]


def transformed(transform: Transform, source: Type, array: pa.Array, column: str) -> Coded:
    """The partition value of every row. Raises ``InvalidInput`` with the column if it cannot be computed."""
    held = held_array(array, source)
    match transform:
        case VoidTransform():
            return Coded(np.zeros(len(array), dtype=np.int64), (None,))
        case UnknownTransform(text):
            raise InvalidInput(
                f"cannot write with the partition transform {text!r} on {column!r}: the transform is unknown",
                transform=text,
                column=column,
            )
        case IdentityTransform() if isinstance(source, FloatType | DoubleType):
            return _floats(held, source)
        case IdentityTransform():
            return _coded(held)
        case BucketTransform(buckets) if isinstance(source, IntType | LongType | DateType | TimeType | TimestampType):
            return _by_numbers(held, lambda numbers: _bucket_of_longs(numbers, source, buckets))
        case BucketTransform(buckets):
            return _by_values(held, lambda values: _buckets_of(values, source, buckets))
        case TruncateTransform(width) if isinstance(source, IntType | LongType):
            return _by_numbers(held, lambda numbers: _floored(numbers, width, source, column))
        case TimeTransform(unit):
            return _by_numbers(held, lambda numbers: _ordinals(numbers, unit, source, column))
        case TruncateTransform():
            return _by_values(held, lambda values: [apply_transform(transform, source, value) for value in values])


def _coded(array: pa.Array) -> Coded:
    """A code per distinct value, including null."""
    encoded = array.dictionary_encode()
    codes = numbers_of(encoded.indices, null=len(encoded.dictionary)).astype(np.int64)
    values = tuple(encoded.dictionary.to_pylist())
    return Coded(codes, (*values, None) if array.null_count else values)


def _floats(array: pa.Array, source: Type) -> Coded:
    """Floats are compared by their bits, so the two zeros are two values. Every NaN is one value (checklist F10)."""
    kind, bits = (np.float32, np.uint32) if isinstance(source, FloatType) else (np.float64, np.uint64)
    numbers = numbers_of(array, null=0).astype(kind, copy=True)
    numbers[np.isnan(numbers)] = np.nan
    coded = _coded(arrow_array(numbers.view(bits), null=null_mask(array)))
    values = tuple(None if value is None else float(bits(value).view(kind)) for value in coded.values)
    return Coded(coded.codes, values)


def _by_numbers(array: pa.Array, make: Callable[[Int64s], Int64s]) -> Coded:
    made = make(numbers_of(array, null=0).astype(np.int64))
    return _coded(arrow_array(made, null=null_mask(array) if array.null_count else None))


def _by_values(array: pa.Array, make: Callable[[list[Any]], list[Any]]) -> Coded:
    """Computed in Python, each distinct value once."""
    source = _coded(array)
    present = [value for value in source.values if value is not None]
    made = make(present)
    places = {value: at for at, value in enumerate(dict.fromkeys(made))}
    remap = np.array([*(places[value] for value in made), len(places)], dtype=np.int64)
    values = tuple(places)
    return Coded(remap[source.codes], (*values, None) if array.null_count else values)


def _bucket_of_longs(numbers: Int64s, source: Type, buckets: int) -> Int64s:
    if isinstance(source, TimestampType) and source.nanos:
        numbers = np.floor_divide(numbers, 1000)  # nanoseconds are hashed as microseconds, rounded down
    return (hash_longs(np.ascontiguousarray(numbers)) & np.uint32(0x7FFFFFFF)).astype(np.int64) % buckets


def _buckets_of(values: list[Any], source: Type, buckets: int) -> list[int]:
    hashes = hash_bytes(_hashed_bytes(value, source) for value in values)
    return [int(number) for number in (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64) % buckets]


def _hashed_bytes(value: Any, source: Type) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return value if isinstance(value, bytes) else decimal_to_bytes(value, source.scale)  # type: ignore[union-attr]


def _floored(numbers: Int64s, width: int, source: Type, column: str) -> Int64s:
    low = _INT_RANGE[0] if isinstance(source, IntType) else -(2**63)
    if width >= 2**63:  # no number is so large: positive ones round down to 0, the others are outside of the type
        if numbers.size and int(numbers.min()) < 0:
            raise _leaves_type(int(numbers.min()), f"truncate[{width}]", column)
        return np.zeros_like(numbers)
    rest = np.mod(numbers, np.int64(width))
    least = int(numbers.min()) if numbers.size else 0
    if least < low + width and np.any(numbers < np.int64(low) + rest):
        raise _leaves_type(least, f"truncate[{width}]", column)
    return numbers - rest


def _ordinals(numbers: Int64s, unit: TimeUnit, source: Type, column: str) -> Int64s:
    if isinstance(source, TimestampType):
        span = 3600 if unit is TimeUnit.HOUR else _DAY
        numbers = np.floor_divide(numbers, span * source.ticks_per_second)
    if unit in (TimeUnit.MONTH, TimeUnit.YEAR):
        letter = "M" if unit is TimeUnit.MONTH else "Y"
        numbers = numbers.astype("datetime64[D]").astype(f"datetime64[{letter}]").astype(np.int64)
    elif unit is TimeUnit.HOUR and numbers.size:
        for extreme in (int(numbers.min()), int(numbers.max())):
            if not _INT_RANGE[0] <= extreme <= _INT_RANGE[1]:
                raise _leaves_type(extreme, "hour", column)
    return numbers


def _leaves_type(value: int, transform: str, column: str) -> InvalidInput:
    return InvalidInput(
        f"cannot partition column {column!r} by {transform}: near {value} the result is outside of its type",
        column=column,
    )
