"""Attributes as variants: a row of texts and their kinds becomes one object with its types (profile ``variant``).

The texts are those of the ``map`` profile, so that one decoder serves every profile: an int in decimal, bytes in
base64, arrays and kvlists as JSON in which ``{"$bytes": …}`` and ``{"$double": …}`` stand for what JSON has no form of.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

import pyarrow as pa

from esker.errors import InvalidInput
from esker.model.variant import encode

VARIANT = pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)])
_DOUBLES = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def as_variants(values: pa.Array, kinds: pa.Array) -> pa.Array:
    """One object a row, of ``map<string, string>`` and the kinds of those entries that are no text; null where null."""
    metadata: list[bytes] = []
    encoded: list[bytes] = []
    absent: list[bool] = []
    seen: dict[Any, tuple[bytes, bytes]] = {}
    for row, told in zip(values.to_pylist(), kinds.to_pylist(), strict=True):
        absent.append(row is None)
        if row is None:
            metadata.append(b"")
            encoded.append(b"")
            continue
        place = (tuple(row), tuple(told or ()))
        found = seen.get(place)
        if found is None:
            found = seen[place] = _row(row, dict(told or ()))
        metadata.append(found[0])
        encoded.append(found[1])
    parts = [pa.array(metadata, pa.binary()), pa.array(encoded, pa.binary())]
    return pa.StructArray.from_arrays(parts, fields=list(VARIANT), mask=pa.array(absent, pa.bool_()))


def _row(row: list[tuple[str, str | None]], kinds: dict[str, str]) -> tuple[bytes, bytes]:
    return encode({key: value_of(text, kinds.get(key, "string")) for key, text in row})


def value_of(text: str | None, kind: str) -> Any:
    """The value that a text of that kind stands for; ``InvalidInput`` where it is no text of the kind."""
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
        raise InvalidInput(f"cannot take the attribute {text[:100]!r} for a value of kind {kind}") from None
    raise InvalidInput(f"cannot take an attribute for a value of kind {kind!r}: OTLP has none")


def _nested(value: Any) -> Any:
    match value:
        case list():
            return [_nested(item) for item in value]
        case {"$bytes": str(text)} if len(value) == 1:
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error:  # a kvlist that happens to have such a key
                return value
        case {"$double": str(text)} if len(value) == 1 and text in _DOUBLES:
            return _DOUBLES[text]
        case dict():
            return {key: _nested(inner) for key, inner in value.items()}
        case _:
            return value
