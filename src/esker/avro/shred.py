"""The walk over rows: the compiled one if it was built, else the same one in Python.

A program is a tree of nodes in pre-order. Each node has ``FIELDS`` numbers of 64 bits:

    op        the kind of node (``Op``)
    union     PLAIN, or the union around it: null first, null last, or a union of one
    slot      where its values go, -1 to skip it
    nullable  whether the slot has validity bits
    arg       FIXED: bytes; ENUM: symbols; PICK: keys
    key       the map key of a kept child of PICK
    next      the node after its subtree

The child of ARRAY is its item. The children of MAP are its key and value. The children of UNION, which is only skipped,
are its branches. The children of PICK are the key, the skipped value, and then the kept value once per key, keys
ascending.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol, runtime_checkable

FIELDS = 7
PLAIN, NULL_FIRST, NULL_LAST, SINGLE = -1, 0, 1, 2
MAX_BYTES = (1 << 31) - 1

Data = bytes | bytearray | memoryview
SlotBuffers = tuple[int, int, bytes, bytes, bytes]  # length, nulls, validity, values or offsets, data


class Op(IntEnum):
    """The kinds of nodes, by Avro's names. PICK is a map of which only some keys are kept."""

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
    """The protocol of both walks: blocks of rows in, buffers out. Raises ``ValueError`` with what is wrong with a
    row."""

    def feed(self, data: Data, at: int, rows: int, soft: int, /) -> tuple[int, int, int]:
        """Read rows from ``at`` until all are read or the buffers have more than ``soft`` bytes.

        Returns where it stopped, after how many rows, and the bytes of all buffers.
        """

    def finish(self) -> list[SlotBuffers]:
        """The buffers of every slot. The next batch starts empty."""


@runtime_checkable
class BlockShredder(Shredder, Protocol):
    """A walk that takes whole blocks of a container, without the interpreter lock: the compiled one."""

    def feed_blocks(
        self,
        data: Data,
        at: int,
        sync: bytes,
        deflated: bool,
        limits: tuple[int, int],
        growth: tuple[int, int, int],
        /,
    ) -> tuple[int, int, int, int, int]:
        """Inflate and read blocks from ``at`` until the end, or before a block that is not plainly right.

        ``limits`` are the bytes of a block and of the container. ``growth`` limits the buffers to ``growth[0] +
        growth[1] * fed``; ``growth[2]`` bytes were fed before. Returns where it stopped, the blocks, the rows, their
        inflated bytes, and the bytes of all buffers. Raises ``ValueError`` with what is wrong and the block's number.
        """


def shredder(code: bytes, slots: int, limit: int = MAX_BYTES) -> Shredder:
    """A walk for this program. It refuses rows that need more than ``limit`` bytes of buffers."""
    try:
        from esker.avro._shred import Shredder as Walk
    except ImportError:
        from esker.avro._shred_py import Shredder as Walk  # type: ignore[assignment]
    return Walk(code, slots, limit)
