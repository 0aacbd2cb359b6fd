"""Paimon's binary rows: partitions, keys and statistics in manifests.

A row is its number of fields (big-endian int32) and a body (little-endian): a header with the null bits, a slot of
8 bytes for each field, then the values that do not fit a slot. Offsets count from the start of the body.

Rows are decoded and encoded as columns: a manifest has a hundred thousand of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from esker.errors import Corrupt, Unsupported
from esker.model.arrow_arrays import arrow_array
from esker.model.values import unscaled
from esker.paimon.metadata.types import DataType

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_WIDTHS = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "DATE": 4, "TIME": 4, "FLOAT": 4}
_TEXTS = ("CHAR", "VARCHAR")
_BYTES = ("BINARY", "VARBINARY")
NO_FIELDS = b"\0" * 12  # the row of no fields: the key of an append table, the partition of an unpartitioned one


def header_size(arity: int) -> int:
    """The bytes before the first slot: the row kind and the null bits, in whole words."""
    return (arity + 63 + 8) // 64 * 8


def is_wide(type_: DataType) -> bool:
    """Whether the value is outside its slot, and keeps its place there also if it is null."""
    return (type_.root == "DECIMAL" and type_.digits > 18) or (type_.is_time_point and type_.digits > 3)


# ---------------------------------------------------------------- Decoding


class BinaryRows:
    """Many binary rows. ``column`` decodes one field of all. Null rows, and rows with fewer fields, give null."""

    def __init__(self, rows: pa.Array, file: str) -> None:
        self._file = file
        self._data, starts, ends, self._null = _flat(rows)
        self._length = ends - starts
        if ((self._length < 12) & ~self._null).any():
            raise Corrupt(file, "a binary row is shorter than its header")
        safe = np.where(self._null, 0, starts)
        if len(self._data) < 12:
            self._data = np.zeros(16, np.uint8)  # every row is null
        self._arity = _gather(self._data, safe, 4).view(">i4").ravel().astype(np.int64)
        self._arity[self._null] = 0
        self._body = safe + 4
        self._size = self._length - 4

    def __len__(self) -> int:
        return len(self._null)

    def column(self, at: int, type_: DataType) -> pa.Array:
        """Field ``at`` of every row, in the held form: whole numbers and times as int64, floats as float64, decimals
        as decimal128(38, scale), texts as string, the rest as binary."""
        present = self._arity > at
        header = (self._arity + 71) // 64 * 8
        slot_at = header + 8 * at
        if (present & (slot_at + 8 > self._size)).any():
            raise Corrupt(self._file, f"a binary row ends before its field {at}")
        where = np.where(present, self._body, 0)
        bit = at + 8
        null = ~present | (((self._data[where + bit // 8] >> (bit % 8)) & 1) == 1)
        slots = _gather(self._data, np.where(null, 0, self._body + slot_at), 8)
        return self._values(type_, slots, null)

    def _values(self, type_: DataType, slots: Bytes, null: Bools) -> pa.Array:
        match type_.root:
            case "BOOLEAN":
                return arrow_array(slots[:, 0] != 0, null=null)
            case "TINYINT" | "SMALLINT" | "INT" | "DATE":
                width = _WIDTHS[type_.root]
                return arrow_array(_view(slots, f"<i{width}"), null=null)
            case "TIME":
                return arrow_array(_view(slots, "<i4") * 1000, null=null)
            case "BIGINT":
                return arrow_array(_view(slots, "<i8"), null=null)
            case "FLOAT" | "DOUBLE":
                width = 4 if type_.root == "FLOAT" else 8
                return arrow_array(_view(slots, f"<f{width}").astype(np.float64), null=null)
            case "DECIMAL":
                return self._decimals(type_, slots, null)
            case "TIMESTAMP" | "TIMESTAMP_LTZ":
                return arrow_array(self._times(type_, slots, null), null=null)
            case root if root in _TEXTS or root in _BYTES:
                return self._strings(slots, null, pa.string() if root in _TEXTS else pa.binary())
            case root:
                raise Unsupported(f"cannot read a binary row with a {root}", feature=f"binary rows with {root}")

    def _times(self, type_: DataType, slots: Bytes, null: Bools) -> Int64s:
        scale = 1_000_000 if type_.digits > 6 else 1_000
        if type_.digits <= 3:
            return _view(slots, "<i8") * scale
        nanos = _view(slots, "<i4")
        offset = np.where(null, 0, _view(slots[:, 4:], "<i4"))
        millis = _gather(self._data, self._outside(offset, np.full(len(offset), 8), null), 8).view("<i8").ravel()
        return np.where(null, 0, millis * scale + nanos // (1_000_000 // scale)).astype(np.int64)

    def _outside(self, offset: Int64s, length: Int64s, null: Bools) -> Int64s:
        """Where values outside the slots start. Raises ``Corrupt`` if one is not inside its row."""
        wrong = ~null & ((offset < 0) | (length < 0) | (offset + length > self._size))
        if wrong.any():
            raise Corrupt(self._file, "a binary row has a value outside of it")
        return np.where(null, 0, self._body + offset)

    def _decimals(self, type_: DataType, slots: Bytes, null: Bools) -> pa.Array:
        wide = np.zeros((len(slots), 16), np.uint8)
        if type_.digits <= 18:
            wide[:, :8] = slots
            wide[:, 8:] = np.where(slots[:, 7:8] >= 0x80, 0xFF, 0)
        else:
            length = np.where(null, 0, _view(slots, "<i4"))
            start = self._outside(np.where(null, 0, _view(slots[:, 4:], "<i4")), length, null)
            if (length > 16).any():
                raise Corrupt(self._file, "a binary row has a decimal of more than 16 bytes")
            for size in np.unique(length[~null]):
                at = np.flatnonzero(~null & (length == size))
                raw = _gather(self._data, start[at], int(size))
                wide[at] = np.where(raw[:, :1] >= 0x80, 0xFF, 0) if size else 0
                wide[at[:, None], np.arange(size)] = raw[:, ::-1]
        wide[null] = 0
        valid = pa.py_buffer(np.packbits(~null, bitorder="little"))
        return pa.Array.from_buffers(
            pa.decimal128(38, type_.scale or 0), len(wide), [valid, pa.py_buffer(wide.tobytes())]
        )

    def _strings(self, slots: Bytes, null: Bools, type_: pa.DataType) -> pa.Array:
        inline = slots[:, 7] >= 0x80
        length = np.where(inline, slots[:, 7] & 0x7F, _view(slots, "<i4"))
        length = np.where(null, 0, length).astype(np.int64)
        if (inline & (length > 7) & ~null).any():
            raise Corrupt(self._file, "a binary row has a short text of more than 7 bytes")
        outside = ~inline & ~null
        start = self._outside(np.where(outside, _view(slots[:, 4:], "<i4"), 0), np.where(outside, length, 0), ~outside)
        ends = np.cumsum(length)
        if len(ends) and ends[-1] > 2**31 - 1:
            raise Corrupt(self._file, "its binary rows have more than 2 GiB of text")
        pool = np.concatenate([self._data, slots.ravel()])
        first = np.where(inline, len(self._data) + 8 * np.arange(len(slots)), start)
        out = pool[_ragged(first, length)]
        offsets = np.concatenate([np.zeros(1, np.int64), ends]).astype(np.int32)
        valid = pa.py_buffer(np.packbits(~null, bitorder="little"))
        made = pa.Array.from_buffers(type_, len(slots), [valid, pa.py_buffer(offsets), pa.py_buffer(out.tobytes())])
        try:
            made.validate(full=True)
        except pa.ArrowInvalid:
            raise Corrupt(self._file, "a text in a binary row is not UTF-8") from None
        return made


def decode_row(data: bytes, types: Sequence[DataType], file: str = "a binary row") -> tuple[Any, ...]:
    """The values of one row, in the held form."""
    rows = BinaryRows(pa.array([data], pa.binary()), file)
    return tuple(rows.column(at, type_)[0].as_py() for at, type_ in enumerate(types))


def _flat(rows: pa.Array) -> tuple[Bytes, Int64s, Int64s, Bools]:
    if isinstance(rows, pa.ChunkedArray):
        rows = rows.combine_chunks()
    validity, offsets, data = rows.buffers()
    ends = np.frombuffer(offsets, np.int32)[rows.offset : rows.offset + len(rows) + 1].astype(np.int64)
    null = np.zeros(len(rows), np.bool_)
    if rows.null_count and validity is not None:
        bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")
        null = bits[rows.offset : rows.offset + len(rows)] == 0
    return np.frombuffer(data or b"", np.uint8), ends[:-1], ends[1:], null


def _gather(data: Bytes, starts: Int64s, width: int) -> Bytes:
    return np.ascontiguousarray(data[starts[:, None] + np.arange(width)])


def _view(slots: Bytes, dtype: str) -> Int64s:
    width = np.dtype(dtype).itemsize
    found = np.ascontiguousarray(slots[:, :width]).view(dtype).ravel()
    return found if dtype.startswith("<f") else found.astype(np.int64)


def _ragged(starts: Int64s, lengths: Int64s) -> Int64s:
    """The positions of many pieces, one after the other."""
    if not len(starts):
        return np.zeros(0, np.int64)
    ends = np.cumsum(lengths)
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1])


# ---------------------------------------------------------------- Encoding one row


def encode_row(types: Sequence[DataType], values: Sequence[Any]) -> bytes:
    """One row of values in the held form, as Java writes it: a wide value keeps its place if it is null."""
    header = header_size(len(types))
    fixed = bytearray(header + 8 * len(types))
    rest = bytearray()
    for at, (type_, value) in enumerate(zip(types, values, strict=True)):
        slot = header + 8 * at
        if value is None:
            fixed[(at + 8) // 8] |= 1 << (at % 8)
        end = len(fixed) + len(rest)
        encoded, outside = _encoded(type_, value, end)
        fixed[slot : slot + len(encoded)] = encoded
        rest += outside
    return len(types).to_bytes(4, "big") + bytes(fixed) + bytes(rest)


def _encoded(type_: DataType, value: Any, end: int) -> tuple[bytes, bytes]:
    """The bytes of a slot, and those after the slots."""
    if value is None:
        return ((end << 32).to_bytes(8, "little"), b"\0" * _reserved(type_)) if is_wide(type_) else (b"", b"")
    match type_.root:
        case "BOOLEAN":
            return bytes([bool(value)]), b""
        case "TINYINT" | "SMALLINT" | "INT" | "DATE":
            return int(value).to_bytes(_WIDTHS[type_.root], "little", signed=True), b""
        case "TIME":
            return (int(value) // 1000).to_bytes(4, "little", signed=True), b""
        case "BIGINT":
            return int(value).to_bytes(8, "little", signed=True), b""
        case "FLOAT":
            return np.float32(value).tobytes(), b""
        case "DOUBLE":
            return np.float64(value).tobytes(), b""
        case "DECIMAL":
            number = unscaled(Decimal(value), type_.scale or 0)
            if type_.digits <= 18:
                return number.to_bytes(8, "little", signed=True), b""
            digits = (number if number >= 0 else ~number).bit_length() // 8 + 1
            return (end << 32 | digits).to_bytes(8, "little"), number.to_bytes(digits, "big", signed=True).ljust(
                16, b"\0"
            )
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            scale = 1_000_000 if type_.digits > 6 else 1_000
            millis, part = divmod(int(value), scale)
            stored = millis.to_bytes(8, "little", signed=True)
            nanos = part * (1_000_000 // scale)
            return (stored, b"") if type_.digits <= 3 else ((end << 32 | nanos).to_bytes(8, "little"), stored)
        case root if root in _TEXTS or root in _BYTES:
            text = value.encode() if isinstance(value, str) else bytes(value)
            if len(text) <= 7:
                return text.ljust(7, b"\0") + bytes([0x80 | len(text)]), b""
            return (end << 32 | len(text)).to_bytes(8, "little"), text + b"\0" * (-len(text) % 8)
        case root:
            raise Unsupported(f"cannot write a binary row with a {root}", feature=f"binary rows with {root}")


def _reserved(type_: DataType) -> int:
    return 16 if type_.root == "DECIMAL" else 8


# ---------------------------------------------------------------- Encoding columns


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """The bodies of many binary rows, one after the other. Row ``i`` is between ``starts[i]`` and ``starts[i + 1]``."""

    arity: int
    data: Bytes
    starts: Int64s

    def to_arrow(self) -> pa.Array:
        """Whole rows, with the number of their fields before each body."""
        sizes = np.diff(self.starts)
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes + 4)])
        out = np.empty(int(starts[-1]), np.uint8)
        out[_ragged(starts[:-1], np.full(len(sizes), 4))] = np.tile(
            np.frombuffer(self.arity.to_bytes(4, "big"), np.uint8), len(sizes)
        )
        out[_ragged(starts[:-1] + 4, sizes)] = self.data
        return pa.Array.from_buffers(
            pa.binary(), len(sizes), [None, pa.py_buffer(starts.astype(np.int32)), pa.py_buffer(out.tobytes())]
        )


def encode_rows(types: Sequence[DataType], columns: Sequence[pa.Array]) -> EncodedRows:
    """The rows of Arrow columns, in the columns' natural Arrow types."""
    rows = len(columns[0]) if columns else 0
    parts = [_column(type_, column) for type_, column in zip(types, columns, strict=True)]
    header = header_size(len(types))
    fixed = np.zeros((rows, header + 8 * len(types)), np.uint8)
    ends = np.full(rows, fixed.shape[1], np.int64)
    places: list[Int64s] = []
    for at, part in enumerate(parts):
        fixed[:, (at + 8) // 8] |= (part.null.astype(np.uint8)) << (at % 8)
        slot = header + 8 * at
        fixed[:, slot : slot + 8] = part.slots
        places.append(ends.copy())
        outside = part.padded > 0
        if outside.any():
            offset = np.ascontiguousarray(ends.astype("<i4")).view(np.uint8).reshape(rows, 4)
            fixed[outside, slot + 4 : slot + 8] = offset[outside]
            ends += part.padded
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(ends)])
    data = np.zeros(int(starts[-1]), np.uint8)
    data[_ragged(starts[:-1], np.full(rows, fixed.shape[1]))] = fixed.ravel()
    for part, place in zip(parts, places, strict=True):
        if part.data is not None:
            data[_ragged(starts[:-1] + place, part.lengths)] = part.data[_ragged(part.starts, part.lengths)]
    return EncodedRows(len(types), data, starts)


@dataclass(frozen=True, slots=True)
class _Column:
    """One column: its slots, and what is outside of them."""

    slots: Bytes
    null: Bools
    padded: Int64s  # bytes that a row needs outside its slot
    lengths: Int64s  # bytes that a row has there
    starts: Int64s
    data: Bytes | None = None


def _column(type_: DataType, given: pa.Array) -> _Column:
    array = given.combine_chunks() if isinstance(given, pa.ChunkedArray) else given
    rows = len(array)
    null = np.asarray(array.is_null().to_numpy(zero_copy_only=False))
    none = np.zeros(rows, np.int64)
    if type_.root in _TEXTS or type_.root in _BYTES:
        return _texts(array.cast(pa.binary()), null)
    if type_.root == "DECIMAL" or (type_.is_time_point and type_.digits > 3):
        encoded = [_encoded(type_, _held(type_, value), 0) for value in array]
        slots = np.frombuffer(b"".join(slot.ljust(8, b"\0") for slot, _ in encoded), np.uint8).reshape(rows, 8).copy()
        sizes = np.fromiter((len(outside) for _, outside in encoded), np.int64, rows)
        data = np.frombuffer(b"".join(outside for _, outside in encoded), np.uint8)
        return _Column(slots, null, sizes, sizes, np.cumsum(sizes) - sizes, data if len(data) else None)
    numbers = _numbers(type_, array)
    slots = np.zeros((rows, 8), np.uint8)
    width = numbers.dtype.itemsize
    slots[:, :width] = np.ascontiguousarray(numbers).view(np.uint8).reshape(rows, width)
    slots[null] = 0
    return _Column(slots, null, none, none, none)


def _numbers(type_: DataType, array: pa.Array) -> npt.NDArray[Any]:
    root = type_.root
    if root == "BOOLEAN":
        return np.asarray(array.fill_null(False).to_numpy(zero_copy_only=False)).astype("u1")
    if root in ("FLOAT", "DOUBLE"):
        wanted = pa.float32() if root == "FLOAT" else pa.float64()
        return array.cast(wanted).fill_null(0.0).to_numpy(zero_copy_only=False)
    if root == "DATE":
        array = array.cast(pa.date32()).cast(pa.int32())
    elif root == "TIME":
        array = array.cast(pa.time32("ms"), safe=False).cast(pa.int32())
    elif type_.is_time_point:
        array = array.cast(pa.timestamp("ms", tz=array.type.tz), safe=False).cast(pa.int64())
    width = _WIDTHS.get(root, 8)
    return array.fill_null(0).to_numpy(zero_copy_only=False).astype(f"<i{width}")


def _texts(array: pa.Array, null: Bools) -> _Column:
    data, starts, ends, _ = _flat(array)
    length = np.where(null, 0, ends - starts)
    inline = length <= 7
    slots = np.zeros((len(array), 8), np.uint8)
    short = np.where(inline & ~null, length, 0)
    at = np.repeat(np.arange(len(array)), short)
    within = np.arange(len(at)) - np.repeat(np.cumsum(short) - short, short)
    slots[at, within] = data[_ragged(starts, short)]
    slots[:, 7] = np.where(inline & ~null, 0x80 | length, 0).astype(np.uint8)
    size = np.ascontiguousarray(length.astype("<i4")).view(np.uint8).reshape(len(array), 4)
    slots[~inline, :4] = size[~inline]
    outside = np.where(inline, 0, length)
    return _Column(slots, null, (outside + 7) // 8 * 8, outside, starts, data)


def _held(type_: DataType, value: pa.Scalar) -> Any:
    if not value.is_valid:
        return None
    if type_.root == "DECIMAL":
        return value.as_py()
    unit = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[value.type.unit]
    nanos = value.value * unit
    return nanos if type_.digits > 6 else nanos // 1_000
