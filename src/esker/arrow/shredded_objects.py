"""Objects made of columns, one for each member: those with the same members and the same dictionary at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from esker.model.variant_layout import metadata_of, object_head, object_value
from esker.model.variant_parts import object_members

_WORTHWHILE = 16  # objects that are alike; fewer are sooner made one by one

Places = npt.NDArray[np.int64]
Members = list[tuple[bytes, pa.Array]]  # keys in their order, and values as bytes, null where a row has none


@dataclass(slots=True)
class Keys:
    """The dictionary of some rows, which may lack a key of a column, and then grows by it."""

    metadata: bytes
    keys: list[bytes]
    places: dict[bytes, int] = field(default_factory=dict)

    def place(self, key: bytes) -> int:
        """Where a key is."""
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
    """For each row its dictionary."""

    known: list[Keys]
    codes: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, at: int) -> Keys:
        return self.known[self.codes[at]]

    def repeated(self, times: Sequence[int]) -> Rows:
        """Each row so many times."""
        return Rows(self.known, np.repeat(self.codes, times))


def objects(typed: pa.StructArray, members: Members, beside: pa.Array, rows: Rows) -> pa.Array:
    """Each row's object, with what of it lies in bytes; those bytes themselves where it is no object in columns."""
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
    """Rows of objects with the same members, dictionary and width of offsets, and that width."""
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
    """An object's members from columns and from bytes, in the order of their keys; columns win."""
    by_place = {**dict(object_members(beside)), **dict(own)}
    if any(place >= len(keys.keys) for place in by_place):
        raise ValueError("a key is not in its metadata")
    return sorted(by_place.items(), key=lambda member: keys.keys[member[0]])
