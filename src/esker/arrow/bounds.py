"""Bounds of a column in single-value bytes, cut short where asked: always around every value (checklist G1, G2)."""

from __future__ import annotations

import math
from typing import Any

from esker.model.types import BinaryType, DoubleType, FloatType, StringType, Type
from esker.model.values import to_bytes

_LAST_BEFORE_SURROGATES, _FIRST_AFTER_SURROGATES, _LAST = 0xD7FF, 0xE000, 0x10FFFF


def lower_bound(type_: Type, value: Any, width: int | None) -> bytes:
    """A bound at or below the smallest value."""
    match type_:
        case FloatType() | DoubleType() if value == 0:
            return to_bytes(type_, -0.0)  # +0.0 would lie above a -0.0 that the column may hold
        case StringType() | BinaryType() if width is not None:
            return to_bytes(type_, value[:width])
        case _:
            return to_bytes(type_, value)


def upper_bound(type_: Type, value: Any, width: int | None) -> bytes | None:
    """A bound at or above the largest value; None where a cut one has no successor."""
    match type_:
        case FloatType() | DoubleType() if value == 0:
            return to_bytes(type_, 0.0)
        case StringType() if width is not None and len(value) > width:
            text = _next_text(value[:width])
            return None if text is None else text.encode()
        case BinaryType() if width is not None and len(value) > width:
            return _next_bytes(value[:width])
        case _:
            return to_bytes(type_, value)


def is_bound(type_: Type, value: Any) -> bool:
    """Whether a value may be a bound at all: NaN never is (checklist G3)."""
    return value is not None and not (isinstance(type_, FloatType | DoubleType) and math.isnan(value))


def _next_text(text: str) -> str | None:
    """The smallest text of at most that many characters above every text that begins with it."""
    for at in range(len(text) - 1, -1, -1):
        point = ord(text[at])
        if point < _LAST:
            following = _FIRST_AFTER_SURROGATES if point == _LAST_BEFORE_SURROGATES else point + 1
            return text[:at] + chr(following)
    return None


def _next_bytes(data: bytes) -> bytes | None:
    kept = data.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,)) if kept else None
