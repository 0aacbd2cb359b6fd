"""Rewrites JSON values as protobuf, like ``_walk_json.h`` and ``_walk_request.h``."""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from esker.otlp.protocol._values_py import KINDS, Tally
from esker.otlp.protocol.walk import DEEP, INDEX, LENGTH, MAX_NESTED, RANGE, TEXT, VALUE, Op
from esker.otlp.protocol.wire import FIXED32, FIXED64, VARINT, Malformed, sized, varint

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?", re.ASCII)
_HEX = re.compile(r"[0-9a-fA-F]*", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*", re.ASCII)
_ODD = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_INT64, _UINT64 = range(-(1 << 63), 1 << 63), (1 << 64) - 1
_INT32, _UINT32, _NATURAL = range(-(1 << 31), 1 << 31), range(1 << 32), range(1 << 63)
_VALUES = {f"{kind}Value": number for number, kind in enumerate(KINDS) if kind}


class Number(str):
    """A number as it is written in the text."""

    __slots__ = ()


class Pairs(list[tuple[str, Any]]):
    """The members of an object in their order, with duplicates."""

    __slots__ = ()


def put_column(node: Any, value: Any, strict: bool, tally: Tally) -> bytes:
    """A field of a message."""
    put: Callable[[Any], bytes]
    match node.op:
        case Op.MESSAGE:
            return _message(node, value, strict, tally)
        case Op.LIST:
            put = partial(_message, node, strict=strict, tally=tally)
        case Op.ATTRIBUTES:
            put = partial(_pair, node.number, tally=tally, depth=0)
        case Op.ANY:
            return _any(node.number, value, tally, 0)
        case Op.STRINGS:
            put = partial(_text_field, node.number)
        case Op.STRING:
            return _text_field(node.number, value)
        case Op.ID:
            return _id(node, value, strict)
        case Op.INT32 | Op.SINT32:
            return _enum(node, value, strict)
        case Op.FIXED64S | Op.UINT64S | Op.DOUBLES:
            put = partial(_number, node)
        case _:
            return _number(node, value)
    return _each(value, put)


def _message(node: Any, value: Any, strict: bool, tally: Tally) -> bytes:
    kids = {child.name: child for child in node.children}
    parts = []
    for key, member in _members(value):
        if member is None:
            continue
        if key in kids:
            parts.append(put_column(kids[key], member, strict, tally))
        else:
            tally.unknown += 1
    return sized(node.number, b"".join(parts))


def _members(value: Any) -> Pairs:
    if not isinstance(value, Pairs):
        raise Malformed(VALUE)
    for key, _ in value:
        _encoded(key)
    return value


def _each(value: Any, put: Callable[[Any], bytes]) -> bytes:
    if not isinstance(value, list) or isinstance(value, Pairs):
        raise Malformed(VALUE)
    return b"".join(map(put, value))


def _encoded(value: Any) -> bytes:
    if not isinstance(value, str) or isinstance(value, Number):
        raise Malformed(VALUE)
    try:
        return value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        raise Malformed(TEXT) from None


def _text_field(number: int, value: Any) -> bytes:
    return sized(number, _encoded(value))


# ---- numbers ----


def _integer(value: Any, allowed: range) -> int:
    """A whole number; 1e3 is one."""
    if isinstance(value, str) and not isinstance(value, Number):
        _encoded(value)
    if not isinstance(value, str) or not (found := _NUMBER.fullmatch(value)):
        raise Malformed(VALUE)
    if found[2] is None and found[3] is None:
        number = int(value) if len(value) < 25 else (1 << 64)
    else:
        real = float(value)
        if math.isinf(real):
            raise Malformed(RANGE)
        if not real.is_integer():
            raise Malformed(VALUE)
        number = int(real)
        if number not in range(-(1 << 63) + 1, 1 << 63):
            raise Malformed(RANGE)
    if number not in allowed:
        raise Malformed(RANGE)
    return number


def _double(value: Any) -> bytes:
    if isinstance(value, str) and not isinstance(value, Number):
        _encoded(value)
    if not isinstance(value, str):
        raise Malformed(VALUE)
    if not isinstance(value, Number) and value in _ODD:
        return struct.pack("<d", _ODD[value])
    if not _NUMBER.fullmatch(value):
        raise Malformed(VALUE)
    number = float(value)
    if math.isinf(number):
        raise Malformed(RANGE)
    return struct.pack("<d", number)


def _bool(value: Any) -> bytes:
    if not isinstance(value, bool):
        raise Malformed(VALUE)
    return varint(value)


def _number(node: Any, value: Any) -> bytes:
    match node.op:
        case Op.DOUBLE | Op.DOUBLES:
            return _tag(node.number, FIXED64) + _double(value)
        case Op.SFIXED64:
            return _tag(node.number, FIXED64) + struct.pack("<q", _integer(value, _INT64))
        case Op.FIXED64 | Op.FIXED64S:
            return _tag(node.number, FIXED64) + struct.pack("<q", _integer(value, _NATURAL))
        case Op.UINT64S:
            return _tag(node.number, VARINT) + varint(_integer(value, _NATURAL))
        case Op.BOOL:
            return _tag(node.number, VARINT) + _bool(value)
        case Op.FIXED32:
            return _tag(node.number, FIXED32) + struct.pack("<I", _integer(value, _UINT32))
        case _:
            return _tag(node.number, VARINT) + varint(_integer(value, _UINT32))


def _tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def _enum(node: Any, value: Any, strict: bool) -> bytes:
    if not node.members or isinstance(value, Number) or not isinstance(value, str):
        number = _integer(value, _INT32)
        return _tag(node.number, VARINT) + varint(
            (number << 1 ^ number >> 31 if node.op is Op.SINT32 else number) & _UINT64
        )
    _encoded(value)
    if strict or value not in node.members:
        raise Malformed(VALUE)
    return _tag(node.number, VARINT) + varint(node.members[value])


# ---- bytes ----


def _unbase64(text: str) -> bytes:
    """Decode either alphabet; padding may be missing."""
    if len(text) % 4 == 0:
        text = text[:-2] + text[-2:].removesuffix("=").removesuffix("=") if text.endswith("=") else text
    if len(text) % 4 == 1 or not _BASE64.fullmatch(text):
        raise Malformed(VALUE)
    return base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4))


def _id(node: Any, value: Any, strict: bool) -> bytes:
    size = len(_encoded(value))
    if not size:
        return b""
    if size == node.arg * 2:
        if not _HEX.fullmatch(value):
            raise Malformed(LENGTH)
        return sized(node.number, bytes.fromhex(value))
    if strict or size != (node.arg + 2) // 3 * 4:
        raise Malformed(LENGTH)
    try:
        found = _unbase64(value)
    except Malformed:
        raise Malformed(LENGTH) from None
    if len(found) != node.arg:
        raise Malformed(LENGTH)
    return sized(node.number, found)


# ---- attributes ----


def _pair(number: int, value: Any, *, tally: Tally, depth: int) -> bytes:
    parts = []
    for key, member in _members(value):
        if key == "keyStrindex":
            raise Malformed(INDEX)
        if member is None:
            continue
        if key == "key":
            parts.append(_text_field(1, member))
        elif key == "value":
            parts.append(_any(2, member, tally, depth))
        else:
            tally.unknown += 1
    return sized(number, b"".join(parts))


def _any(number: int, value: Any, tally: Tally, depth: int) -> bytes:
    if depth > MAX_NESTED:
        raise Malformed(DEEP)
    parts = []
    for key, member in _members(value):
        if key == "stringValueStrindex":
            raise Malformed(INDEX)
        if member is None:
            continue
        if key in _VALUES:
            parts.append(_member(_VALUES[key], member, tally, depth))
        else:
            tally.unknown += 1
    return sized(number, b"".join(parts))


def _member(kind: int, value: Any, tally: Tally, depth: int) -> bytes:
    match KINDS[kind]:
        case "string":
            return _text_field(kind, value)
        case "bool":
            return _tag(kind, VARINT) + _bool(value)
        case "int":
            return _tag(kind, VARINT) + varint(_integer(value, _INT64) & _UINT64)
        case "double":
            return _tag(kind, FIXED64) + _double(value)
        case "bytes":
            _encoded(value)
            return sized(kind, _unbase64(value))
        case _:
            return _values(kind, value, tally, depth + 1)


def _values(kind: int, value: Any, tally: Tally, depth: int) -> bytes:
    parts = []
    for key, member in _members(value):
        if member is None:
            continue
        if key == "values":
            one = partial(_pair, 1, tally=tally, depth=depth)
            each = partial(_any, 1, tally=tally, depth=depth)
            parts.append(_each(member, each if KINDS[kind] == "array" else one))
        else:
            tally.unknown += 1
    return sized(kind, b"".join(parts))
