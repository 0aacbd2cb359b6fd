"""Deletion vectors: the positions of a data file's deleted rows, as a Puffin blob (checklist T11, H9, H12).

length of magic + vector, 4 BE | magic | 64-bit portable Roaring bitmap | CRC-32 of magic + vector, 4 BE
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from esker.errors import Corrupt, InvalidInput, Unsupported
from esker.iceberg.portable_roaring import check_roaring_64, positions_of

# Imported late: workers of Spark read vectors by numpy alone where they have no library of bitmaps.
if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from pyroaring import BitMap64

    from esker.iceberg.write_puffin import NewBlob

BLOB_TYPE = "deletion-vector-v1"
MAGIC = bytes.fromhex("d1d33964")
MOST_POSITIONS = 1 << 26
_FRAME = 4 + 4  # the length before, the CRC behind


def decode_deletion_vector(file: str, blob: bytes, *, cardinality: int | None = None) -> BitMap64:
    """The deleted positions; ``cardinality`` is what the manifest counts, checked where given."""
    from pyroaring import BitMap64

    return BitMap64.deserialize(bytes(_checked(file, blob, cardinality)))


def decode_positions(file: str, blob: bytes, *, cardinality: int) -> npt.NDArray[np.int64]:
    """The same in ascending order, each by itself; a few bytes of runs may stand for more than memory holds."""
    if cardinality > MOST_POSITIONS:
        raise Unsupported(
            f"cannot read the deletion vector in {file}: it holds {cardinality} positions, and {MOST_POSITIONS} are "
            "the most without pyroaring, which is not installed here",
            feature="deletion vectors",
        )
    return positions_of(_checked(file, blob, cardinality))


def _checked(file: str, blob: bytes, cardinality: int | None) -> memoryview:
    """The bitmap inside, sound and of the right size."""
    if len(blob) < _FRAME + len(MAGIC):
        raise Corrupt(file, f"a deletion vector has at least {_FRAME + len(MAGIC)} bytes, this one has {len(blob)}")
    length = int.from_bytes(blob[:4], "big")
    if length != len(blob) - _FRAME:
        raise Corrupt(file, f"a deletion vector of {len(blob)} bytes says that {length} + {_FRAME} are there")
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
    """The blob that holds ``positions``."""
    bitmap = _bitmap(positions)
    bitmap.run_optimize()
    content = MAGIC + bitmap.serialize()
    return len(content).to_bytes(4, "big") + content + zlib.crc32(content).to_bytes(4, "big")


def deletion_vector_blob(positions: BitMap64 | Iterable[int], *, data_file: str) -> NewBlob:
    """The blob with the footer entry that the spec asks for: ids inherited, stored plain, two properties."""
    from esker.iceberg.write_puffin import NewBlob

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
        raise InvalidInput(f"a deleted position is a row number from 0 on: {error}") from None
    if bitmap and bitmap.max() >= 1 << 63:
        raise InvalidInput(f"a deleted position is below 2^63, not {bitmap.max()}")
    return bitmap
