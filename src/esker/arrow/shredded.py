"""Shredded variants put together again.

A writer may take a variant's values out of its bytes and into columns of their own: ``typed_value`` beside ``value``,
at every depth. Of the two the one that is there is the value; an object may have some members here and some there;
a member that is neither here nor there is absent. A column's values are made for all rows at once, and so are objects
that have the same members (``shredded_objects``); arrays, and objects that few others are like, row by row.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.convert import plain
from esker.arrow.lists import values_inside
from esker.arrow.shredded_objects import Keys, Members, Rows, objects
from esker.arrow.variant_arrays import variant_array
from esker.arrow.variant_values import encoded
from esker.model.variant import Dictionary
from esker.model.variant_layout import EMPTY_METADATA, NULL_VALUE, array_value


def rebuilt(array: pa.StructArray) -> pa.Array:
    """The variants as two binaries; ``ValueError`` says what makes no sense in them."""
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
    """The members by name, null where the struct is."""
    names = [array.type.field(at).name for at in range(array.type.num_fields)]
    return {name: pc.struct_field(array, [at]) for at, name in enumerate(names)}


def _values(parts: dict[str, pa.Array], rows: Rows) -> pa.Array:
    """Each row's value, from what lies in bytes and what lies in a column; null where there is none."""
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
    """An object's members in the order of their keys."""
    found: Members = []
    for name, inner in sorted(_parts(typed).items(), key=lambda each: each[0].encode()):
        if not pa.types.is_struct(inner.type):
            raise ValueError(f"the member {name!r} is no group of value and typed_value")
        found.append((name.encode(), _values(_parts(plain(inner)), rows)))
    return found


def _arrays(typed: pa.Array, beside: pa.Array, rows: Rows) -> pa.Array:
    lengths = [length or 0 for length in pc.list_value_length(typed).to_pylist()]
    inside = plain(values_inside(typed))
    if not pa.types.is_struct(inside.type):
        raise ValueError("an array's items are no groups of value and typed_value")
    inner = _values(_parts(inside), rows.repeated(lengths))
    items = pc.fill_null(inner, pa.scalar(NULL_VALUE, pa.binary())).to_pylist()
    found: list[bytes | None] = []
    start = 0
    for there, length in zip(typed.is_valid().to_pylist(), lengths, strict=True):
        found.append(array_value(items[start : start + length]) if there else None)
        start += length
    return pc.coalesce(pa.array(found, pa.binary()), beside)
