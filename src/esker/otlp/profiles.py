"""Attributes in the forms that tables may have them in: maps of text, JSON text, variants.

Columns come in the map profile, a map of texts and beside it one of the kinds of those that are no strings. JSON tells
strings, integers, booleans and null apart by itself; a double always has a fraction or an exponent; bytes and doubles
that JSON has no numbers for are objects, ``{"$bytes": "aGk="}`` and ``{"$double": "NaN"}``: nothing is lost.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from esker.otlp.schemas import TEXT, Profile, types_name

_NO_NUMBERS = pa.array(["NaN", "Infinity", "-Infinity"])
_NEEDS_ESCAPE = r'["\\\x00-\x1f]'


def formed(columns: dict[str, pa.Array], profile: Profile) -> dict[str, pa.Array]:
    """Columns of the map profile as another has them."""
    if profile is Profile.MAP:
        return columns
    attributes = [name for name in columns if types_name(name) in columns]
    kinds = {types_name(name) for name in attributes}
    made = {name: column for name, column in columns.items() if name not in kinds}
    for name in attributes:
        made[name] = _formed(columns[name], columns[types_name(name)], profile)
    return made


def _formed(values: pa.MapArray, kinds: pa.MapArray, profile: Profile) -> pa.Array:
    if profile is Profile.FLAT:
        return as_json(values, kinds)
    from esker.otlp.variants import as_variants

    return as_variants(values, kinds)


def as_json(values: pa.MapArray, kinds: pa.MapArray) -> pa.Array:
    """Maps as texts of JSON objects, members in the maps' order; a null for a null."""
    offsets, keys, texts = _entries(values)
    named = keys.dictionary_encode()  # few, and the same in row after row
    members = pc.binary_join_element_wise(
        _quoted(named.dictionary).take(named.indices), _values(texts, _kinds(values, kinds)), ":"
    )
    inner = pc.binary_join(pa.ListArray.from_arrays(offsets, members), ",")
    objects = pc.binary_join_element_wise("{", inner, "}", "")
    return pc.if_else(values.is_valid(), objects, pa.scalar(None, TEXT))


def _entries(maps: pa.MapArray) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Offsets from 0 on, keys and items; of an array that is a slice of another, its own alone."""
    offsets = maps.offsets
    start, end = offsets[0].as_py(), offsets[-1].as_py()
    keys, items = maps.keys.slice(start, end - start), maps.items.slice(start, end - start)
    return pc.subtract(offsets, offsets[0]), keys, items


def _kinds(values: pa.MapArray, kinds: pa.MapArray) -> pa.Array:
    """The kind of each entry of the first maps; null for strings. Kinds are told by row and key, in any order."""
    offsets, keys, words = _entries(kinds)
    known = keys.unique()
    told = _places(offsets, keys, known)
    return words.take(pc.index_in(_places(*_entries(values)[:2], known), value_set=told))


def _places(offsets: pa.Array, keys: pa.Array, known: pa.Array) -> pa.Array:
    """A number for each row and key; null for keys of which no kind is told."""
    rows = pc.list_parent_indices(pa.ListArray.from_arrays(offsets, keys)).cast(pa.int64())
    return pc.add(pc.multiply(rows, len(known)), pc.index_in(keys, value_set=known))


def _values(texts: pa.Array, kinds: pa.Array) -> pa.Array:
    """Texts of the map profile as JSON."""
    strings = _quoted(pc.if_else(kinds.is_null(), texts, pa.scalar(None, TEXT)))
    made = pc.coalesce(strings, texts)
    for chosen, name in (
        (pc.equal(kinds, "bytes"), "$bytes"),
        (pc.and_(pc.equal(kinds, "double"), pc.is_in(texts, value_set=_NO_NUMBERS)), "$double"),
    ):
        if pc.any(chosen).as_py():
            objects = pc.binary_join_element_wise(f'{{"{name}":"', texts, '"}', "")
            made = pc.if_else(pc.fill_null(chosen, False), objects, made)
    return pc.fill_null(made, "null")


def _quoted(texts: pa.Array) -> pa.Array:
    """Texts as JSON strings. Few need more than quotes, and of these each is looked at once."""
    plain = pc.binary_join_element_wise('"', texts, '"', "")
    if not _may_need_escape(texts):
        return plain
    chosen = pc.fill_null(pc.match_substring_regex(texts, _NEEDS_ESCAPE), False)
    encoded = texts.filter(chosen).dictionary_encode()
    words = pa.array([json.dumps(word, ensure_ascii=False) for word in encoded.dictionary.to_pylist()], TEXT)
    return pc.replace_with_mask(plain, chosen, words.take(encoded.indices))


def _may_need_escape(texts: pa.Array) -> bool:
    """Whether some text has a sign that a string of JSON cannot have as it is: all are looked at as one."""
    data = texts.buffers()[2]
    signs = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return bool(((signs < 0x20) | (signs == ord('"')) | (signs == ord("\\"))).any())
