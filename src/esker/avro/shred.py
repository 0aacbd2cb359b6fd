"""The walk over rows: the compiled one where it was built, else its twin in Python.

A program is a tree of nodes in pre-order, each ``FIELDS`` numbers of 64 bits:

    op        what is here (``Op``)
    union     PLAIN, or which union wraps it: null first, null last, or a union of one
    slot      where its values go, -1 to walk over it
    nullable  whether the slot keeps validity bits
    arg       FIXED: bytes; ENUM: symbols; PICK: keys
    key       the map key a kept child of PICK stands for
    next      the node after its subtree

The children of ARRAY are its item; of MAP its key and value; of UNION (walked over only) its branches; of
PICK the key, the value walked over, and then the value kept once per key, keys ascending.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

FIELDS = 7
PLAIN, NULL_FIRST, NULL_LAST, SINGLE = -1, 0, 1, 2
MAX_BYTES = (1 << 31) - 1

Data = bytes | bytearray | memoryview
SlotBuffers = tuple[int, int, bytes, bytes, bytes]  # length, nulls, validity, values or offsets, data


class Op(IntEnum):
    """What a node is, by Avro's own names; PICK is a map of which only some keys are kept."""

    NULL = 0
    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    FIXED = 8
    ENUM = 9
    RECORD = 10
    ARRAY = 11
    MAP = 12
    UNION = 13
    PICK = 14


class Shredder(Protocol):
    """Both walks: rows go in block by block, buffers come out. ``ValueError`` says what is wrong with a row."""

    def feed(self, data: Data, at: int, rows: int, soft: int, /) -> tuple[int, int, int]:
        """Walk rows from ``at`` until all are done or the buffers pass ``soft`` bytes.

        Returns where it stopped, after how many rows, and the bytes of all buffers.
        """

    def finish(self) -> list[SlotBuffers]:
        """The buffers of every slot; the next batch begins empty."""


def shredder(code: bytes, slots: int, limit: int = MAX_BYTES) -> Shredder:
    """A walk for this program, refusing rows past ``limit`` bytes of buffers."""
    try:
        from esker.avro._shred import Shredder as Walk
    except ImportError:
        from esker.avro._shred_py import Shredder as Walk  # type: ignore[assignment]
    return Walk(code, slots, limit)
