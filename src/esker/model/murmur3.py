"""Murmur3, 32 bits, seed 0: Iceberg's hash. In C where mmh3 is there, which a Spark executor need not have."""

from __future__ import annotations

try:
    from mmh3 import hash as _in_c
except ImportError:  # an executor has pyarrow and numpy, and what was sent to it
    _in_c = None  # type: ignore[assignment]

_C1, _C2, _ALL = 0xCC9E2D51, 0x1B873593, 0xFFFFFFFF


def murmur3(data: bytes) -> int:
    """The hash as an unsigned number."""
    return _in_c(data, 0, signed=False) if _in_c is not None else murmur3_in_python(data)


def murmur3_in_python(data: bytes) -> int:
    """The same, by hand."""
    state = 0
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        state ^= _scrambled(int.from_bytes(data[start : start + 4], "little"))
        state = (_rotated(state, 13) * 5 + 0xE6546B64) & _ALL
    if whole < len(data):
        state ^= _scrambled(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & _ALL
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & _ALL
    return state ^ (state >> 16)


def _scrambled(word: int) -> int:
    return (_rotated((word * _C1) & _ALL, 15) * _C2) & _ALL


def _rotated(word: int, by: int) -> int:
    return ((word << by) | (word >> (32 - by))) & _ALL
