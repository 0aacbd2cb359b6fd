"""Attributes in the forms that tables may have: maps of text, JSON text, variants.

The decoder makes columns in the map profile: a map of texts, and beside it a map of the types of those that are not
strings. The other profiles are made from these two, so that one decoder serves every profile.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from esker.errors import InvalidInput
from esker.model.variant import encode
from esker.otlp.schemas import TEXT, Profile, types_name

# ---------------------------------------------------------------- profile ``variant``: one object with types for each
# row
#
# Texts are decoded by their kind: an int in decimal, bytes in base64, arrays and kvlists as JSON, in which ``{"$bytes":
# …}`` and ``{"$double": …}`` replace values that JSON does not have. The compiled ``_variants.c`` handles plain rows.
# The code here handles the others, or all rows if nothing was compiled, and writes the same bytes.


VARIANT = pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)])
_DOUBLES = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def as_variants(values: pa.Array, kinds: pa.Array) -> pa.Array:
    """One object for each row, from ``map<string, string>`` and the kinds of the entries that are not text; null for
    null."""
    try:
        from esker.otlp._variants import encode_rows
    except ImportError:
        encode_rows = None  # type: ignore[assignment]
    is_null = values.is_null()
    if encode_rows is None or not len(values):
        return _variants(*_row_by_row(values, kinds), is_null)
    rows = len(values)
    metadata, metadata_bytes, data, data_bytes, left = encode_rows(_buffers(values), _buffers(kinds), rows, _alone)
    keys, objects = _binary(rows, metadata, metadata_bytes), _binary(rows, data, data_bytes)
    places = np.flatnonzero(np.frombuffer(left, np.uint8))
    if len(places):
        given, mask = pa.array(places), pa.array(np.frombuffer(left, np.bool_))
        more_keys, more_objects = _row_by_row(values.take(given), kinds.take(given))
        keys, objects = pc.replace_with_mask(keys, mask, more_keys), pc.replace_with_mask(objects, mask, more_objects)
    return _variants(keys, objects, is_null)


def _variants(metadata: pa.Array, value: pa.Array, is_null: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([metadata, value], fields=list(VARIANT), mask=is_null)


def _buffers(maps: pa.Array) -> tuple[pa.Buffer | None, ...]:
    """Validity and offsets of the rows; validity, offsets and bytes of the keys and of the items. All begin at 0."""
    if maps.offset or maps.keys.offset or maps.items.offset:
        maps = pa.concat_arrays([maps])  # a copy of only this slice
    keys, items = maps.keys, maps.items
    if keys.offset or items.offset:
        keys, items = pa.concat_arrays([keys]), pa.concat_arrays([items])
    return (*maps.buffers()[:2], *keys.buffers(), *items.buffers())


def _binary(rows: int, offsets: bytes, data: bytes | None) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data or b"")])


def _alone(text: bytes) -> bytes | None:
    """The encoded value of an array or a kvlist without keys; None if it has keys, which belong in the row's
    dictionary."""
    try:
        value = value_of(text.decode(), "array")
    except InvalidInput:
        return None  # the code for whole rows reports the error
    return None if _has_objects(value) else encode(value)[1]


def _has_objects(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_has_objects, value)))


def _row_by_row(values: pa.Array, kinds: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Metadata and value of each row. Equal rows are encoded once."""
    made: list[tuple[bytes, bytes]] = []
    seen: dict[Any, tuple[bytes, bytes]] = {}
    for row, told in zip(values.to_pylist(), kinds.to_pylist(), strict=True):
        if row is None:
            made.append((b"", b""))
            continue
        place = (tuple(row), tuple(told or ()))
        found = seen.get(place)
        if found is None:
            of = dict(told or ())
            found = seen[place] = encode({key: value_of(text, of.get(key, "string")) for key, text in row})
        made.append(found)
    return pa.array([each[0] for each in made], pa.binary()), pa.array([each[1] for each in made], pa.binary())


def value_of(text: str | None, kind: str) -> Any:
    """The value of a text of that kind. Raises ``InvalidInput`` if the text does not fit the kind."""
    if text is None:
        return None
    try:
        match kind:
            case "string":
                return text
            case "int":
                return int(text)
            case "double":
                return float(text)
            case "bool":
                return {"true": True, "false": False}[text]
            case "bytes":
                return base64.b64decode(text, validate=True)
            case "array" | "kvlist":
                return _nested(json.loads(text))
    except (ValueError, KeyError, RecursionError):
        raise InvalidInput(f"cannot read the attribute {text[:100]!r} as a value of kind {kind}") from None
    raise InvalidInput(f"cannot read an attribute as a value of kind {kind!r}: OTLP has no such kind")


def _nested(value: Any) -> Any:
    match value:
        case list():
            return [_nested(item) for item in value]
        case {"$bytes": str(text)} if len(value) == 1:
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error:  # a kvlist that happens to have this key
                return value
        case {"$double": str(text)} if len(value) == 1 and text in _DOUBLES:
            return _DOUBLES[text]
        case dict():
            return {key: _nested(inner) for key, inner in value.items()}
        case _:
            return value


# ---------------------------------------------------------------- profile ``flat``: JSON text
#
# JSON itself distinguishes strings, integers, booleans and null. A double always has a fraction or an exponent. Bytes,
# and doubles that JSON has no numbers for, are objects: ``{"$bytes": "aGk="}`` and ``{"$double": "NaN"}``. So no type
# is lost.


_NO_NUMBERS = pa.array(["NaN", "Infinity", "-Infinity"])
_NEEDS_ESCAPE = r'["\\\x00-\x1f]'


def formed(columns: dict[str, pa.Array], profile: Profile) -> dict[str, pa.Array]:
    """Columns of the map profile converted to another profile."""
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

    return as_variants(values, kinds)


def as_json(values: pa.MapArray, kinds: pa.MapArray) -> pa.Array:
    """Maps as texts of JSON objects, members in the order of the map; null for null."""
    offsets, keys, texts = _entries(values)
    named = keys.dictionary_encode()  # there are few keys, and rows repeat them
    members = pc.binary_join_element_wise(
        _quoted(named.dictionary).take(named.indices), _values(texts, _kinds(values, kinds)), ":"
    )
    inner = pc.binary_join(pa.ListArray.from_arrays(offsets, members), ",")
    objects = pc.binary_join_element_wise("{", inner, "}", "")
    return pc.if_else(values.is_valid(), objects, pa.scalar(None, TEXT))


def _entries(maps: pa.MapArray) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Offsets that begin at 0, keys and items. For a slice of an array, only the slice's own."""
    offsets = maps.offsets
    start, end = offsets[0].as_py(), offsets[-1].as_py()
    keys, items = maps.keys.slice(start, end - start), maps.items.slice(start, end - start)
    return pc.subtract(offsets, offsets[0]), keys, items


def _kinds(values: pa.MapArray, kinds: pa.MapArray) -> pa.Array:
    """The kind of each entry of the first maps; null for strings. ``kinds`` may have the keys of a row in any order."""
    offsets, keys, words = _entries(kinds)
    known = keys.unique()
    told = _places(offsets, keys, known)
    return words.take(pc.index_in(_places(*_entries(values)[:2], known), value_set=told))


def _places(offsets: pa.Array, keys: pa.Array, known: pa.Array) -> pa.Array:
    """A number for each row and key; null for keys that have no kind in any row."""
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
    """Texts as JSON strings. Few texts need more than quotes; each distinct one of them is escaped once."""
    plain = pc.binary_join_element_wise('"', texts, '"', "")
    if not _may_need_escape(texts):
        return plain
    chosen = pc.fill_null(pc.match_substring_regex(texts, _NEEDS_ESCAPE), False)
    encoded = texts.filter(chosen).dictionary_encode()
    words = pa.array([json.dumps(word, ensure_ascii=False) for word in encoded.dictionary.to_pylist()], TEXT)
    return pc.replace_with_mask(plain, chosen, words.take(encoded.indices))


def _may_need_escape(texts: pa.Array) -> bool:
    """Whether some text has a character that must be escaped in JSON. All texts are searched as one."""
    data = texts.buffers()[2]
    signs = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return bool(((signs < 0x20) | (signs == ord('"')) | (signs == ord("\\"))).any())
