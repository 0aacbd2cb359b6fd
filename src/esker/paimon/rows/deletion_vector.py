"""Deletion vectors: index files with the positions of deleted rows, one vector for each data file.

    index file: version, 1 byte | vectors
    vector:     length of the payload, 4 BE | payload | CRC-32 of the payload, 4 BE
    payload:    magic | Roaring bitmap of 32 or 64 bits

The magic says which bitmap it is. A range in an index manifest has the place of the length, and the length of the
payload; for 64-bit vectors the length of all three parts.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from esker.errors import Corrupt, InvalidInput
from esker.model.roaring import check_roaring_32, check_roaring_64, positions_of

if TYPE_CHECKING:
    from pyroaring import BitMap64

FILE_VERSION = 1
MAGIC_32 = (1581511376).to_bytes(4, "big")
MAGIC_64 = (1681511377).to_bytes(4, "little")
FRAME = 4 + 4  # the length before, the CRC after


@dataclass(frozen=True, slots=True)
class VectorRange:
    """Where the vector of one data file is. ``length`` is the one that the manifest records."""

    data_file: str
    offset: int
    length: int
    cardinality: int | None = None


def decode_vector(file: str, blob: bytes, *, cardinality: int | None = None) -> BitMap64:
    """The deleted positions. ``blob`` starts at the length; bytes after the vector are ignored."""
    from pyroaring import BitMap64

    return BitMap64.deserialize(_bitmap_64(file, blob, cardinality))


def decode_vector_positions(file: str, blob: bytes, *, cardinality: int | None = None) -> npt.NDArray[np.int64]:
    """The deleted positions, ascending, without a bitmap library."""
    return positions_of(_bitmap_64(file, blob, cardinality))


def _bitmap_64(file: str, blob: bytes, cardinality: int | None) -> bytes:
    """The bitmap inside as one of 64 bits, checked."""
    size = int.from_bytes(blob[:4], "big") if len(blob) >= FRAME + 4 else -1
    if not 4 <= size <= len(blob) - FRAME:
        raise Corrupt(file, f"a deletion vector of {len(blob)} bytes records a payload of {size}")
    payload = blob[4 : 4 + size]
    stored, computed = int.from_bytes(blob[4 + size : 8 + size], "big"), zlib.crc32(payload)
    if stored != computed:
        raise Corrupt(file, f"the deletion vector's CRC-32 is {computed:08x}, stored is {stored:08x}")
    magic, bitmap = payload[:4], payload[4:]
    if magic == MAGIC_32:
        held = check_roaring_32(file, bitmap)
        whole = (1).to_bytes(8, "little") + bytes(4) + bitmap
    elif magic == MAGIC_64:
        held, whole = check_roaring_64(file, bitmap), bitmap
    else:
        raise Corrupt(file, f"a deletion vector has the unknown magic {magic.hex()}")
    if cardinality is not None and held != cardinality:
        raise Corrupt(file, f"the deletion vector holds {held} positions, its manifest counts {cardinality}")
    return bytes(whole)


def encode_vector_file(
    vectors: Mapping[str, Iterable[int]], *, wide: bool = False
) -> tuple[bytes, tuple[VectorRange, ...]]:
    """An index file of vectors by data file, and where each vector is. ``wide`` writes bitmaps of 64 bits."""
    from pyroaring import BitMap, BitMap64

    parts, ranges, at = [bytes([FILE_VERSION])], [], 1
    for name, positions in vectors.items():
        try:
            bitmap = BitMap64(positions) if wide else BitMap(positions)
        except (OverflowError, TypeError, ValueError) as error:
            raise InvalidInput(f"cannot write a deletion vector of {name}: {error}") from None
        payload = (MAGIC_64 if wide else MAGIC_32) + bitmap.serialize()
        parts += [len(payload).to_bytes(4, "big"), payload, zlib.crc32(payload).to_bytes(4, "big")]
        ranges.append(VectorRange(name, at, len(payload) + (FRAME if wide else 0), len(bitmap)))
        at += len(payload) + FRAME
    return b"".join(parts), tuple(ranges)
