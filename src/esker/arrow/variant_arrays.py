"""Variants in Arrow: a struct of two binaries, of which only the whole can be null.

In data from a user, the outermost value of each row is checked, for all rows at once: its header must be valid and its
recorded size must be inside its bytes. Metadata is checked completely, once for all rows that share it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.arrow_types import to_arrow
from esker.model.types import VARIANT
from esker.model.variant import Dictionary
from esker.model.variant_layout import EMPTY_METADATA, NULL_VALUE, SIZES, Basic, Kind

TYPE = to_arrow(VARIANT)

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

# By the header of a primitive: how many bytes follow. -1: the length is recorded after it. -2: no such kind.
_FOLLOWING = np.full(64, -2, dtype=np.int64)
for _kind, _size in SIZES.items():
    _FOLLOWING[_kind] = _size
_FOLLOWING[[Kind.BINARY, Kind.TEXT]] = -1


def variant_array(metadata: pa.Array, value: pa.Array, is_null: pa.Array | None) -> pa.Array:
    """The two binaries as variants. Below a null they are replaced by valid bytes."""
    parts = [
        _filled(metadata.cast(pa.binary()), is_null, EMPTY_METADATA),
        _filled(value.cast(pa.binary()), is_null, NULL_VALUE),
    ]
    return pa.StructArray.from_arrays(parts, fields=list(TYPE), mask=is_null)


def whole(array: pa.Array, *, nulls: bool = True) -> pa.Array:
    """An array of variants for Parquet's writer. Without ``nulls``, its null marks are removed."""
    is_null = array.is_null() if array.null_count and nulls else None
    return variant_array(array.field(0), array.field(1), is_null)


def _filled(array: pa.Array, is_null: pa.Array | None, what: bytes) -> pa.Array:
    filler = pa.scalar(what, pa.binary())
    seen = array if is_null is None else pc.if_else(is_null, filler, array)
    return pc.fill_null(seen, filler) if seen.null_count else seen


def first_unsound(metadata: pa.Array, value: pa.Array) -> tuple[int, str] | None:
    """The first row whose bytes cannot be a variant, and the reason. Neither array has nulls."""
    found = [each for each in (_first_bad_metadata(metadata), _first_bad_value(value)) if each is not None]
    return min(found, default=None)


def _first_bad_metadata(array: pa.Array) -> tuple[int, str] | None:
    encoded = array.dictionary_encode()
    for code, metadata in enumerate(encoded.dictionary.to_pylist()):
        why = _metadata_fault(metadata)
        if why is not None:
            return int(pc.index(encoded.indices, pa.scalar(code, encoded.indices.type)).as_py()), why
    return None


def _metadata_fault(metadata: bytes) -> str | None:
    try:
        for key in Dictionary(metadata).all_keys():
            key.decode()
    except UnicodeDecodeError:
        return "one of its keys is not UTF-8"
    except ValueError as error:
        return str(error)
    return None


def _first_bad_value(array: pa.Array) -> tuple[int, str] | None:
    data, starts, sizes = _spans(array)
    ends = starts + sizes
    needed = _announced(data, starts, ends)
    bad = np.flatnonzero((sizes == 0) | (needed < 0) | (needed > sizes))
    if not len(bad):
        return None
    at = int(bad[0])
    kind = int(data[starts[at]]) >> 2 if sizes[at] else 0
    return at, f"there is no primitive of kind {kind}" if sizes[at] and needed[at] == -1 else "it ends too early"


def _spans(array: pa.Array) -> tuple[Bytes, Ints, Ints]:
    """All bytes, and where each value starts and how long it is."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    held = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return np.concatenate((held, np.zeros(1, np.uint8))) if not len(held) else held, ends[:-1], np.diff(ends)


def _announced(data: Bytes, starts: Ints, ends: Ints) -> Ints:
    """The recorded length of each value. -1 for an unknown kind. Bytes after the end of a value are read as zero."""
    header = _numbers(data, starts, 1, ends)
    basic, more = header & 3, header >> 2
    following = _FOLLOWING[more]
    sized = following == -1
    primitive = np.where(sized, 4 + _numbers(data, starts + 1, 4, ends), following)
    primitive = np.where(following == -2, -2, primitive)
    is_object = basic == Basic.OBJECT
    width = (more & 3) + 1
    id_width = np.where(is_object, (more >> 2 & 3) + 1, 0)
    count_width = np.where(np.where(is_object, more >> 4, more >> 2) & 1 == 1, 4, 1)
    count = _numbers(data, starts + 1, count_width, ends)
    offsets = 1 + count_width + count * id_width
    total = _numbers(data, starts + offsets + count * width, width, ends)
    nested = offsets + (count + 1) * width - 1 + total
    return 1 + np.select([basic == Basic.PRIMITIVE, basic == Basic.SHORT_TEXT], [primitive, more], nested)


def _numbers(data: Bytes, at: Ints, width: Any, ends: Ints) -> Ints:
    """Little-endian numbers of up to four bytes each."""
    found = np.zeros(len(at), dtype=np.int64)
    for place in range(4):
        where = at + place
        byte = data[np.minimum(where, len(data) - 1)].astype(np.int64)
        found |= np.where((place < width) & (where < ends), byte, 0) << 8 * place
    return found
