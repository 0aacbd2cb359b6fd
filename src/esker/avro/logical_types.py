"""Avro's leaf types as Arrow types. Logical types are applied if the caller asks for them.

A logical type that does not fit its type is ignored, as Avro's specification asks.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from esker.avro.schema import Enum, Fixed, Logical, Node, Primitive

_PLAIN = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_TEMPORAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_UNITS = {"timestamp-millis": "ms", "timestamp-micros": "us", "timestamp-nanos": "ns"}
_UUID = pa.binary(16)


@dataclass(frozen=True, slots=True)
class Conversion:
    """A conversion of a type that is read as ``stored`` and is another type in Arrow. ``symbols`` are those of an
    enum."""

    stored: pa.DataType
    symbols: tuple[str, ...] = ()


def arrow_type(node: Node, *, logical: bool) -> tuple[pa.DataType, Conversion | None]:
    """The Arrow type of a leaf, and the conversion to it if its bytes are not in Arrow's form."""
    match node:
        case Enum(_, symbols):
            return pa.string(), Conversion(pa.int32(), symbols)
        case Fixed(_, size, annotation):
            stored = pa.binary(size)
            decimal = _decimal_type(annotation) if logical else None
            return (decimal, Conversion(stored)) if decimal is not None else (stored, None)
        case Primitive(kind, annotation) if logical and annotation is not None:
            return _annotated(kind, annotation)
        case Primitive(kind):
            return _PLAIN[kind], None
        case _:
            raise AssertionError(f"not a leaf: {node}")


def _annotated(kind: str, annotation: Logical) -> tuple[pa.DataType, Conversion | None]:
    stored = _PLAIN[kind]
    if kind == "long" and annotation.name in _UNITS:
        return pa.timestamp(_UNITS[annotation.name], tz="UTC" if annotation.adjust_to_utc else None), None
    if kind == "string" and annotation.name == "uuid":
        return _UUID, Conversion(stored)
    decimal = _decimal_type(annotation) if kind == "bytes" else None
    if decimal is not None:
        return decimal, Conversion(stored)
    return _TEMPORAL.get((kind, annotation.name), stored), None


def _decimal_type(annotation: Logical | None) -> pa.DataType | None:
    if annotation is None or annotation.name != "decimal" or annotation.precision is None:
        return None
    precision, scale = annotation.precision, annotation.scale
    if not (1 <= precision <= 76 and 0 <= scale <= precision):
        return None
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def convert(array: pa.Array, conversion: Conversion, type_: pa.DataType) -> pa.Array:
    """The array as ``type_``. Raises ``ValueError`` if a value does not fit."""
    if pa.types.is_decimal(type_):
        return _decimals(array, type_)
    if pa.types.is_string(type_):
        return pa.DictionaryArray.from_arrays(array, pa.array(conversion.symbols, pa.string())).dictionary_decode()
    try:
        return pa.array([None if text is None else uuid.UUID(text).bytes for text in array.to_pylist()], _UUID)
    except ValueError:
        raise ValueError("the text of a uuid is not valid") from None


def _decimals(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Convert big-endian two's complement of any length to Arrow's little-endian of a fixed length."""
    width = type_.bit_width // 8
    out = np.zeros((len(array), width), np.uint8)
    validity, *rest = array.buffers()
    if pa.types.is_fixed_size_binary(array.type):
        size = array.type.byte_width
        rows = np.frombuffer(rest[0] or b"", np.uint8, count=len(array) * size).reshape(len(array), size)
        out[:] = _little_endian(rows, width)
    else:
        offsets = np.frombuffer(rest[0], np.int32, count=len(array) + 1)
        data = np.frombuffer(rest[1] or b"", np.uint8)
        sizes = np.diff(offsets)
        for size in np.unique(sizes):  # few: the values of a column have similar lengths
            at = np.flatnonzero(sizes == size)
            out[at] = _little_endian(data[offsets[at, None] + np.arange(size)], width)
    decimals = pa.Array.from_buffers(type_, len(array), [validity, pa.py_buffer(out.tobytes())], array.null_count)
    try:
        decimals.validate(full=True)
    except pa.ArrowInvalid:
        raise ValueError(f"a decimal has more than {type_.precision} digits") from None
    return decimals


def _little_endian(rows: npt.NDArray[np.uint8], width: int) -> npt.NDArray[np.uint8]:
    size = rows.shape[1]
    if not size:
        return np.zeros((rows.shape[0], width), np.uint8)
    sign = np.where(rows[:, :1] & 0x80, 0xFF, 0).astype(np.uint8)
    if size > width:
        lost, rows = rows[:, : size - width], rows[:, size - width :]
        if (lost != sign).any() or ((rows[:, :1] ^ sign) & 0x80).any():
            raise ValueError(f"a decimal does not fit {8 * width} bits")
    out = np.repeat(sign, width, axis=1)
    out[:, : rows.shape[1]] = rows[:, ::-1]
    return out
