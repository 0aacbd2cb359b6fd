"""Shredded variants put together again.

A writer may take a variant's values out of its bytes and into columns of their own: ``typed_value`` beside ``value``,
at every depth. Of the two the one that is there is the value; an object may have some members here and some there;
a member that is neither here nor there is absent. Plain columns become values for all rows at once, objects and
arrays are put together row by row.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.convert import plain
from esker.arrow.lists import values_inside
from esker.arrow.variant_arrays import variant_array
from esker.arrow.variant_values import encoded
from esker.model.variant import Dictionary
from esker.model.variant_layout import NULL_VALUE, array_value, metadata_of, object_value
from esker.model.variant_parts import object_members

Values = list[bytes | None]  # None: absent


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


def rebuilt(array: pa.StructArray) -> pa.Array:
    """The variants as two binaries; ``ValueError`` says what makes no sense in them."""
    parts = _parts(array)
    coded = plain(parts["metadata"]).cast(pa.binary()).fill_null(b"\x01\0\0").dictionary_encode()
    known = [_keys(metadata) for metadata in coded.dictionary.to_pylist()]
    rows = [known[code] for code in coded.indices.to_pylist()]
    values = [NULL_VALUE if value is None else value for value in _values(parts, rows)]
    metadata = pa.array([keys.written() for keys in known], pa.binary()).take(coded.indices)
    return variant_array(metadata, pa.array(values, pa.binary()), array.is_null() if array.null_count else None)


def _keys(metadata: bytes) -> Keys:
    keys = Dictionary(metadata).all_keys()
    return Keys(metadata, keys, {key: place for place, key in reversed(list(enumerate(keys)))})


def _parts(array: pa.StructArray) -> dict[str, pa.Array]:
    """The members by name, null where the struct is."""
    names = [array.type.field(at).name for at in range(array.type.num_fields)]
    return {name: pc.struct_field(array, [at]) for at, name in enumerate(names)}


def _values(parts: dict[str, pa.Array], rows: list[Keys]) -> Values:
    """Each row's value, from what lies in bytes and what lies in a column."""
    value, typed = parts.get("value"), parts.get("typed_value")
    plainly: Values = [None] * len(rows) if value is None else plain(value).cast(pa.binary()).to_pylist()
    if typed is None:
        return plainly
    typed = plain(typed)
    if pa.types.is_struct(typed.type):
        return _objects(typed, plainly, rows)
    if pa.types.is_list(typed.type) or pa.types.is_large_list(typed.type):
        return _arrays(typed, plainly, rows)
    return [there if here is None else here for here, there in zip(encoded(typed).to_pylist(), plainly, strict=True)]


def _arrays(typed: pa.Array, plainly: Values, rows: list[Keys]) -> Values:
    is_list = typed.is_valid().to_pylist()
    lengths = [length or 0 for length in pc.list_value_length(typed).to_pylist()]
    owners = [rows[at] for at in np.repeat(np.arange(len(rows)), lengths).tolist()]
    inside = plain(values_inside(typed))
    if not pa.types.is_struct(inside.type):
        raise ValueError("an array's items are no groups of value and typed_value")
    items = [NULL_VALUE if item is None else item for item in _values(_parts(inside), owners)]
    found: Values = []
    start = 0
    for there, length, otherwise in zip(is_list, lengths, plainly, strict=True):
        found.append(array_value(items[start : start + length]) if there else otherwise)
        start += length
    return found


def _objects(typed: pa.StructArray, plainly: Values, rows: list[Keys]) -> Values:
    members: list[tuple[bytes, Values]] = []
    for name, inner in sorted(_parts(typed).items(), key=lambda each: each[0].encode()):
        if not pa.types.is_struct(inner.type):
            raise ValueError(f"the member {name!r} is no group of value and typed_value")
        members.append((name.encode(), _values(_parts(plain(inner)), rows)))
    found: Values = []
    for at, (there, keys, beside) in enumerate(zip(typed.is_valid().to_pylist(), rows, plainly, strict=True)):
        if not there:
            found.append(beside)
            continue
        own = [(keys.place(name), value) for name, values in members if (value := values[at]) is not None]
        found.append(object_value(own if beside is None else _merged(own, beside, keys)))
    return found


def _merged(own: list[tuple[int, bytes]], beside: bytes, keys: Keys) -> list[tuple[int, bytes]]:
    """An object's members from columns and from bytes, in the order of their keys; columns win."""
    by_place = {**dict(object_members(beside)), **dict(own)}
    if any(place >= len(keys.keys) for place in by_place):
        raise ValueError("a key is not in its metadata")
    return sorted(by_place.items(), key=lambda member: keys.keys[member[0]])
