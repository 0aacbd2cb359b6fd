"""Rebuild shredded variants: typed columns become the bytes of variants, for all rows at once.

A writer may store a variant's values in columns of their own: ``typed_value`` beside ``value``, at every depth. The one
that is not null is the value. An object may have some fields in columns and some in bytes. A field in neither is
absent. Columns, and objects with the same fields, are built for all rows at once; arrays and rare objects row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.convert import plain, values_inside
from esker.arrow.variant_arrays import variant_array
from esker.errors import Unsupported
from esker.model.variant import Dictionary
from esker.model.variant_layout import (
    EMPTY_METADATA,
    LONGEST_SHORT,
    NULL_VALUE,
    Basic,
    Kind,
    array_value,
    metadata_of,
    object_head,
    object_members,
    object_value,
)

# ---------------------------------------------------------------- Values of plain columns as variant bytes


_FIXED = {
    pa.int8(): Kind.INT8,
    pa.int16(): Kind.INT16,
    pa.int32(): Kind.INT32,
    pa.int64(): Kind.INT64,
    pa.float32(): Kind.FLOAT,
    pa.float64(): Kind.DOUBLE,
    pa.date32(): Kind.DATE,
    pa.time64("us"): Kind.TIME,
    pa.binary(16): Kind.UUID,
}
_TIMESTAMPS = {
    ("us", True): Kind.TIMESTAMPTZ,
    ("us", False): Kind.TIMESTAMP,
    ("ns", True): Kind.TIMESTAMPTZ_NANOS,
    ("ns", False): Kind.TIMESTAMP_NANOS,
}
_DECIMALS = ((9, Kind.DECIMAL4, 4), (18, Kind.DECIMAL8, 8), (38, Kind.DECIMAL16, 16))


def encoded(array: pa.Array) -> pa.Array:
    """The values as bytes. Null stays null. Raises ``Unsupported`` for a type that shredded values do not have."""
    kinds, type_ = pa.types, array.type
    if kinds.is_boolean(type_):
        true, false = (pa.scalar(bytes((kind << 2,)), pa.binary()) for kind in (Kind.TRUE, Kind.FALSE))
        return pc.if_else(array, true, false)
    if kinds.is_string(type_) or kinds.is_large_string(type_):
        return _texts(array.cast(pa.binary()))
    if kinds.is_binary(type_) or kinds.is_large_binary(type_):
        return _long(array.cast(pa.binary()), Kind.BINARY)
    if kinds.is_timestamp(type_) and (kind := _TIMESTAMPS.get((type_.unit, type_.tz is not None))) is not None:
        return _fixed(array, bytes((kind << 2,)), 8, 8)
    if kinds.is_decimal128(type_) and 0 <= type_.scale <= 38:
        _, kind, width = next(each for each in _DECIMALS if type_.precision <= each[0])
        return _fixed(array, bytes((kind << 2, type_.scale)), 16, width)
    if type_ in _FIXED:
        return _fixed(array, bytes((_FIXED[type_] << 2,)), type_.bit_width // 8, type_.bit_width // 8)
    raise Unsupported(
        f"cannot read a variant shredded as {type_}: variants have no such type", feature=f"variant shredded as {type_}"
    )


def _fixed(array: pa.Array, header: bytes, held: int, width: int) -> pa.Array:
    """A header, and the first bytes of each value in memory."""
    made = np.empty((len(array), len(header) + width), dtype=np.uint8)
    made[:, : len(header)] = np.frombuffer(header, np.uint8)
    if len(array):
        data = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * held : (array.offset + len(array)) * held]
        made[:, len(header) :] = data.reshape(-1, held)[:, :width]
    valid = array.is_valid().buffers()[1] if array.null_count else None
    type_ = pa.binary(made.shape[1])
    return pa.Array.from_buffers(type_, len(array), [valid, pa.py_buffer(made)]).cast(pa.binary())


def _texts(array: pa.Array) -> pa.Array:
    lengths = pc.binary_length(array).cast(pa.int64())
    short = pc.less_equal(lengths, LONGEST_SHORT)
    headers = pa.array([bytes((size << 2 | Basic.SHORT_TEXT,)) for size in range(LONGEST_SHORT + 1)], pa.binary())
    header = headers.take(pc.min_element_wise(lengths, pa.scalar(LONGEST_SHORT)))
    joined = pc.binary_join_element_wise(header, array, pa.scalar(b"", pa.binary()))
    return joined if pc.all(short).as_py() in (True, None) else pc.if_else(short, joined, _long(array, Kind.TEXT))


def _long(array: pa.Array, kind: Kind) -> pa.Array:
    header = _fixed(pc.binary_length(array).cast(pa.int32()), bytes((kind << 2,)), 4, 4)
    return pc.binary_join_element_wise(header, array, pa.scalar(b"", pa.binary()))


# ---------------------------------------------------------------- Objects of columns, built together if they have the
# same fields and dictionary


_WORTHWHILE = 16  # fewer equal objects are built faster one by one

Places = npt.NDArray[np.int64]
Members = list[tuple[bytes, pa.Array]]  # sorted keys, and values as bytes; null where a row has none


@dataclass(slots=True)
class Keys:
    """The dictionary of some rows. A key that is missing is added."""

    metadata: bytes
    keys: list[bytes]
    places: dict[bytes, int] = field(default_factory=dict)

    def place(self, key: bytes) -> int:
        """The index of a key. Adds the key if it is missing."""
        found = self.places.get(key)
        if found is None:
            found = self.places[key] = len(self.keys)
            self.keys.append(key)
            self.metadata = b""
        return found

    def written(self) -> bytes:
        """The metadata of the rows."""
        return self.metadata or metadata_of(self.keys)


@dataclass(frozen=True, slots=True)
class Rows:
    """The dictionary of each row."""

    known: list[Keys]
    codes: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, at: int) -> Keys:
        return self.known[self.codes[at]]

    def repeated(self, times: Sequence[int]) -> Rows:
        """Each row repeated ``times`` times."""
        return Rows(self.known, np.repeat(self.codes, times))


def objects(typed: pa.StructArray, members: Members, beside: pa.Array, rows: Rows) -> pa.Array:
    """The object of each row, with its fields from bytes. The bytes themselves if the row is no object in columns."""
    there = np.asarray(typed.is_valid())
    alone = there & np.asarray(beside.is_null())
    order: list[Places] = [np.flatnonzero(~there)]
    made = [beside.take(pa.array(order[0]))]
    for chosen, width in _alike(members, rows, np.flatnonzero(alone)):
        if len(chosen) < _WORTHWHILE:
            made.append(_one_by_one(members, beside, rows, chosen))
        else:
            made.append(_at_once(members, rows[int(chosen[0])], chosen, width))
        order.append(chosen)
    order.append(np.flatnonzero(there & ~alone))
    made.append(_one_by_one(members, beside, rows, order[-1]))
    return pa.concat_arrays(made).take(pa.array(np.argsort(np.concatenate(order))))


def _alike(members: Members, rows: Rows, chosen: Places) -> Iterator[tuple[Places, int]]:
    """Rows of objects with the same fields, dictionary and width of offsets, and that width."""
    if not len(chosen):
        return
    taken = [array.take(pa.array(chosen)) for _, array in members]
    sizes = sum((_lengths(array) for array in taken), start=np.zeros(len(chosen), np.int64))
    widths = np.digitize(sizes, (1 << 8, 1 << 16, 1 << 24)).astype(np.uint8) + 1
    has = [np.asarray(array.is_valid()) for array in taken]
    pattern = np.packbits(np.stack(has, axis=1), axis=1) if has else np.zeros((len(chosen), 0), np.uint8)
    codes = rows.codes[chosen].astype("<i4").view(np.uint8).reshape(-1, 4)
    marks = np.ascontiguousarray(np.concatenate((pattern, codes, widths[:, None]), axis=1))
    held = pa.Array.from_buffers(pa.binary(marks.shape[1]), len(chosen), [None, pa.py_buffer(marks)])
    kinds = np.asarray(held.dictionary_encode().indices)
    ordered = np.argsort(kinds, kind="stable")
    for group in np.split(ordered, np.flatnonzero(np.diff(kinds[ordered])) + 1):
        yield chosen[group], int(widths[group[0]])


def _lengths(array: pa.Array) -> npt.NDArray[Any]:
    return np.asarray(pc.fill_null(pc.binary_length(array), 0)).astype(np.int64)


def _at_once(members: Members, keys: Keys, chosen: Places, width: int) -> pa.Array:
    """Objects that are alike: the same head, then offsets, then values."""
    places = pa.array(chosen)
    present = [(keys.place(name), array.take(places)) for name, array in members if array[int(chosen[0])].is_valid]
    head = np.frombuffer(object_head([place for place, _ in present], width), np.uint8)
    offsets = np.zeros((len(chosen), len(present) + 1), dtype="<u4")
    if present:
        np.cumsum(np.stack([_lengths(array) for _, array in present], axis=1), axis=1, out=offsets[:, 1:])
    narrow = offsets.view(np.uint8).reshape(len(chosen), -1, 4)[:, :, :width].reshape(len(chosen), -1)
    start = np.concatenate((np.broadcast_to(head, (len(chosen), len(head))), narrow), axis=1)
    buffer = pa.py_buffer(np.ascontiguousarray(start))
    first = pa.Array.from_buffers(pa.binary(start.shape[1]), len(chosen), [None, buffer]).cast(pa.binary())
    return pc.binary_join_element_wise(first, *(array for _, array in present), pa.scalar(b"", pa.binary()))


def _one_by_one(members: Members, beside: pa.Array, rows: Rows, chosen: Places) -> pa.Array:
    places = pa.array(chosen)
    columns = [(name, array.take(places).to_pylist()) for name, array in members]
    found = []
    for at, (row, rest) in enumerate(zip(chosen.tolist(), beside.take(places).to_pylist(), strict=True)):
        keys = rows[row]
        own = [(keys.place(name), value) for name, values in columns if (value := values[at]) is not None]
        found.append(object_value(own if rest is None else _merged(own, rest, keys)))
    return pa.array(found, pa.binary())


def _merged(own: list[tuple[int, bytes]], beside: bytes, keys: Keys) -> list[tuple[int, bytes]]:
    """The fields of an object from columns and from bytes, in the order of their keys. Columns are preferred."""
    by_place = {**dict(object_members(beside)), **dict(own)}
    if any(place >= len(keys.keys) for place in by_place):
        raise ValueError("a key is not in its metadata")
    return sorted(by_place.items(), key=lambda member: keys.keys[member[0]])


# ---------------------------------------------------------------- The whole variant


def rebuilt(array: pa.StructArray) -> pa.Array:
    """The variants as two binaries. Raises ``ValueError`` if they make no sense."""
    parts = _parts(array)
    coded = plain(parts["metadata"]).cast(pa.binary()).fill_null(EMPTY_METADATA).dictionary_encode()
    known = [_keys(metadata) for metadata in coded.dictionary.to_pylist()]
    value = _values(parts, Rows(known, coded.indices.to_numpy()))
    metadata = pa.array([keys.written() for keys in known], pa.binary()).take(coded.indices)
    return variant_array(metadata, value, array.is_null() if array.null_count else None)


def _keys(metadata: bytes) -> Keys:
    keys = Dictionary(metadata).all_keys()
    return Keys(metadata, keys, {key: place for place, key in reversed(list(enumerate(keys)))})


def _parts(array: pa.StructArray) -> dict[str, pa.Array]:
    """The fields by name. Null where the struct is null."""
    names = [array.type.field(at).name for at in range(array.type.num_fields)]
    return {name: pc.struct_field(array, [at]) for at, name in enumerate(names)}


def _values(parts: dict[str, pa.Array], rows: Rows) -> pa.Array:
    """The value of each row, from bytes or from a column. Null if there is none."""
    value, typed = parts.get("value"), parts.get("typed_value")
    beside = pa.nulls(len(rows), pa.binary()) if value is None else plain(value).cast(pa.binary())
    if typed is None:
        return beside
    typed = plain(typed)
    if pa.types.is_struct(typed.type):
        return objects(typed, _members(typed, rows), beside, rows)
    if pa.types.is_list(typed.type) or pa.types.is_large_list(typed.type):
        return _arrays(typed, beside, rows)
    return pc.coalesce(encoded(typed), beside)


def _members(typed: pa.StructArray, rows: Rows) -> Members:
    """The fields of an object in the order of their keys."""
    found: Members = []
    for name, inner in sorted(_parts(typed).items(), key=lambda each: each[0].encode()):
        if not pa.types.is_struct(inner.type):
            raise ValueError(f"the field {name!r} is not a group of value and typed_value")
        found.append((name.encode(), _values(_parts(plain(inner)), rows)))
    return found


def _arrays(typed: pa.Array, beside: pa.Array, rows: Rows) -> pa.Array:
    lengths = [length or 0 for length in pc.list_value_length(typed).to_pylist()]
    inside = plain(values_inside(typed))
    if not pa.types.is_struct(inside.type):
        raise ValueError("the items of an array are not groups of value and typed_value")
    inner = _values(_parts(inside), rows.repeated(lengths))
    items = pc.fill_null(inner, pa.scalar(NULL_VALUE, pa.binary())).to_pylist()
    found: list[bytes | None] = []
    start = 0
    for there, length in zip(typed.is_valid().to_pylist(), lengths, strict=True):
        found.append(array_value(items[start : start + length]) if there else None)
        start += length
    return pc.coalesce(pa.array(found, pa.binary()), beside)
