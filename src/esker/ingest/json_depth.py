"""How deep a stream of JSON is nested, found before a parser sees it: native parsers recurse, and end the process."""

from __future__ import annotations

from typing import Protocol

import numpy as np

MOST_LEVELS = 64  # objects and lists within each other
_BLOCK = 1 << 20
_OTHER = bytes(set(range(256)) - set(b'"[]{}'))
_STEP = np.zeros(256, np.int64)
_STEP[list(b"[{")] = 1
_STEP[list(b"]}")] = -1


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def is_too_deep(stream: _Readable, *, most: int = MOST_LEVELS) -> bool:
    """Whether any value is nested deeper than ``most`` levels. Brackets in strings do not count."""
    depth, is_text, kept = 0, False, b""
    while block := stream.read(_BLOCK):
        block = kept + bytes(block)
        kept = b"\\" if (len(block) - len(block.rstrip(b"\\"))) % 2 else b""
        plain = block.removesuffix(kept) if kept else block
        signs = plain.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _OTHER)
        parts = signs.split(b'"')
        outside = b"".join(parts[int(is_text) :: 2])
        is_text ^= len(parts) % 2 == 0
        if outside:
            levels = depth + np.cumsum(_STEP[np.frombuffer(outside, np.uint8)])
            if int(levels.max()) > most:
                return True
            depth = max(0, int(levels[-1]))
    return False
