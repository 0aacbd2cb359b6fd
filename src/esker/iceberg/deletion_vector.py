"""Deletion vectors: the positions of a data file's deleted rows as a Roaring bitmap in a Puffin blob (T11, H9, H12).

Every bitmap is checked before a native library reads it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from esker.errors import Corrupt, InvalidInput, Unsupported
from esker.model.roaring import check_roaring_64, positions_of

if TYPE_CHECKING:
    from pyroaring import BitMap64

    from esker.iceberg.puffin import NewBlob


# ---------------------------------------------------------------- Deletion vectors (checklist T11, H9, H12)
#
#     length of magic + vector, 4 BE | magic | 64-bit portable Roaring bitmap | CRC-32 of magic + vector, 4 BE


# Imported late: Spark workers without a bitmap library read vectors with numpy alone.

BLOB_TYPE = "deletion-vector-v1"
MAGIC = bytes.fromhex("d1d33964")
MOST_POSITIONS = 1 << 26
_FRAME = 4 + 4  # the length before, the CRC after


def decode_deletion_vector(file: str, blob: bytes, *, cardinality: int | None = None) -> BitMap64:
    """The deleted positions. ``cardinality`` is the count in the manifest, which is checked if given."""
    from pyroaring import BitMap64

    return BitMap64.deserialize(bytes(_checked(file, blob, cardinality)))


def decode_positions(file: str, blob: bytes, *, cardinality: int) -> npt.NDArray[np.int64]:
    """The deleted positions as an ascending array. Raises `Unsupported` if they are too many: a few bytes may mean
    billions."""
    if cardinality > MOST_POSITIONS:
        raise Unsupported(
            f"cannot read the deletion vector in {file}: it has {cardinality} positions, and {MOST_POSITIONS} are "
            "the most without pyroaring, which is not installed here; install it",
            feature="deletion vectors",
        )
    return positions_of(_checked(file, blob, cardinality))


def _checked(file: str, blob: bytes, cardinality: int | None) -> memoryview:
    """The bitmap inside, checked."""
    if len(blob) < _FRAME + len(MAGIC):
        raise Corrupt(file, f"a deletion vector has at least {_FRAME + len(MAGIC)} bytes, this one has {len(blob)}")
    length = int.from_bytes(blob[:4], "big")
    if length != len(blob) - _FRAME:
        raise Corrupt(file, f"a deletion vector of {len(blob)} bytes records a size of {length} + {_FRAME}")
    content = memoryview(blob)[4:-4]
    if content[: len(MAGIC)] != MAGIC:
        raise Corrupt(file, f"a deletion vector has magic {MAGIC.hex()}, this one {bytes(content[: len(MAGIC)]).hex()}")
    stored, computed = int.from_bytes(blob[-4:], "big"), zlib.crc32(content)
    if stored != computed:
        raise Corrupt(file, f"the deletion vector's CRC-32 is {computed:08x}, stored is {stored:08x}")
    vector = content[len(MAGIC) :]
    held = check_roaring_64(file, vector)
    if cardinality is not None and held != cardinality:
        raise Corrupt(file, f"the deletion vector holds {held} positions, its manifest entry counts {cardinality}")
    return vector


def encode_deletion_vector(positions: BitMap64 | Iterable[int]) -> bytes:
    """The blob of ``positions``."""
    bitmap = _bitmap(positions)
    bitmap.run_optimize()
    content = MAGIC + bitmap.serialize()
    return len(content).to_bytes(4, "big") + content + zlib.crc32(content).to_bytes(4, "big")


def deletion_vector_blob(positions: BitMap64 | Iterable[int], *, data_file: str) -> NewBlob:
    """The blob with the footer entry that the spec asks for: inherited ids, no compression, two properties."""
    from esker.iceberg.puffin import NewBlob

    bitmap = _bitmap(positions)
    return NewBlob(
        type=BLOB_TYPE,
        content=encode_deletion_vector(bitmap),
        properties={"referenced-data-file": data_file, "cardinality": str(len(bitmap))},
    )


def _bitmap(positions: BitMap64 | Iterable[int]) -> BitMap64:
    from pyroaring import BitMap64

    try:
        bitmap = BitMap64(positions)
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidInput(f"cannot write a deletion vector: a position must be a row number from 0: {error}") from None
    if bitmap and bitmap.max() >= 1 << 63:
        raise InvalidInput(f"cannot write a deletion vector: a position must be below 2^63, not {bitmap.max()}")
    return bitmap
