"""Portable Roaring bitmaps: checked before a native library reads them, and decoded with numpy alone."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from esker.errors import Corrupt

#
# CRoaring trusts the order and the counts inside containers, so hostile bytes could break it. Here every container is
# checked first: counts, lengths, offsets, order.
#
#     64-bit: number of bitmaps, 8 LE | (upper half, 4 LE | 32-bit bitmap) …
#     32-bit: cookie | [run flags] | (key, cardinality - 1) … | [offsets] | containers
#
# A container is an array of 16-bit values (up to 4096), a bitset of 8192 bytes, or runs (start, length - 1).


COOKIE_NO_RUNS = 12346
COOKIE_RUNS = 12347
_OFFSETS_FROM = 4  # with the run cookie, offsets are written if there are at least this many containers
_LARGEST_ARRAY = 4096
_BITSET_BYTES = 8192
_SMALLEST_BITMAP = 12  # key, cookie, number of containers: an empty bitmap
_MOST_BITMAPS = 1 << 16  # 2^48 rows; no data file has so many, and a loop over 2^31 keys would not end
_LARGEST_KEY = (1 << 31) - 1  # the top bit of a position is 0: a row number is never negative

_U16 = np.dtype("<u2")
_U32 = np.dtype("<u4")


def check_roaring_64(file: str, content: bytes | memoryview) -> int:
    """Check that ``content`` is one portable 64-bit bitmap and nothing else. Returns its cardinality; raises
    `Corrupt`."""
    view = memoryview(content)
    walk = _Walk(file, view)
    count = walk.number("<Q", "number of bitmaps")
    if count > _MOST_BITMAPS or count * _SMALLEST_BITMAP > len(view):
        raise walk.corrupt(f"{count} bitmaps cannot be in {len(view)} bytes")
    cardinality, last_key = 0, -1
    for _ in range(count):
        key = walk.number("<I", "key of a bitmap")
        if key <= last_key:
            raise walk.corrupt(f"keys must ascend, {key} follows {last_key}")
        if key > _LARGEST_KEY:
            raise walk.corrupt(f"key {key} means negative positions")
        last_key = key
        cardinality += _check_bitmap(walk)
    if walk.at != len(view):
        raise walk.corrupt(f"{len(view) - walk.at} bytes follow the last bitmap")
    return cardinality


def check_roaring_32(file: str, content: bytes | memoryview) -> int:
    """Check that ``content`` is one portable 32-bit bitmap and nothing else. Returns its cardinality; raises
    `Corrupt`."""
    walk = _Walk(file, memoryview(content))
    cardinality = _check_bitmap(walk)
    if walk.at != len(walk.view):
        raise walk.corrupt(f"{len(walk.view) - walk.at} bytes follow the bitmap")
    return cardinality


def positions_of(content: bytes | memoryview) -> npt.NDArray[np.int64]:
    """The positions of a checked bitmap, ascending. For processes with numpy but without a bitmap library."""
    walk = _Walk("", memoryview(content))
    found: list[npt.NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    for _ in range(walk.number("<Q", "number of bitmaps")):
        above = walk.number("<I", "key of a bitmap") << 32
        count, runs, has_offsets = _header(walk)
        described = walk.array(_U16, 2 * count, "container keys and cardinalities").reshape(count, 2).astype(np.int64)
        walk.array(_U32, count if has_offsets else 0, "container offsets")
        for number, (key, least) in enumerate(described.tolist()):
            values = _values(walk, least + 1, is_runs=runs is not None and bool(runs[number]))
            found.append(values.astype(np.int64) + (above | key << 16))
    return np.concatenate(found)


def _values(walk: _Walk, cardinality: int, *, is_runs: bool) -> npt.NDArray[np.integer]:
    """The low halves of the values of one container."""
    if is_runs:
        count = walk.number("<H", "number of runs")
        pairs = walk.array(_U16, 2 * count, "run container").reshape(count, 2).tolist()
        return np.concatenate([np.arange(start, start + more + 1) for start, more in pairs])
    if cardinality <= _LARGEST_ARRAY:
        return walk.array(_U16, cardinality, "array container")
    words = walk.array(np.dtype("<u8"), _BITSET_BYTES // 8, "bitset container")
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))


class _Walk:
    """A position in the bytes, with reads that stay inside them."""

    __slots__ = ("at", "file", "view")

    def __init__(self, file: str, view: memoryview) -> None:
        self.file = file
        self.view = view
        self.at = 0

    def corrupt(self, reason: str) -> Corrupt:
        return Corrupt(self.file, f"broken Roaring bitmap near byte {self.at}: {reason}")

    def number(self, form: str, what: str) -> int:
        start = self.take(struct.calcsize(form), what)
        value: int = struct.unpack_from(form, self.view, start)[0]
        return value

    def array(self, kind: np.dtype[np.unsignedinteger], count: int, what: str) -> npt.NDArray[np.unsignedinteger]:
        start = self.take(count * kind.itemsize, what)
        return np.frombuffer(self.view, kind, count, start)

    def take(self, length: int, what: str) -> int:
        """Skip ``length`` bytes. Returns where they start."""
        start = self.at
        if start + length > len(self.view):
            raise self.corrupt(f"{what} needs {length} bytes, {len(self.view) - start} are left")
        self.at = start + length
        return start


def _check_bitmap(walk: _Walk) -> int:
    """Skip one 32-bit bitmap. Returns its cardinality."""
    origin = walk.at
    count, runs, has_offsets = _header(walk)
    described = walk.array(_U16, 2 * count, "container keys and cardinalities").reshape(count, 2)
    if not _ascend(described[:, 0]):
        raise walk.corrupt("container keys must ascend")
    cardinalities = (described[:, 1].astype(np.int64) + 1).tolist()
    offsets = walk.array(_U32, count, "container offsets").tolist() if has_offsets else None
    for number, cardinality in enumerate(cardinalities):
        if offsets is not None and offsets[number] != walk.at - origin:
            raise walk.corrupt(f"container {number} is not at its offset {offsets[number]}")
        if runs is not None and runs[number]:
            _check_runs(walk, cardinality)
        elif cardinality <= _LARGEST_ARRAY:
            if not _ascend(walk.array(_U16, cardinality, "array container")):
                raise walk.corrupt("the values of an array container must ascend")
        else:
            _check_bitset(walk, cardinality)
    return sum(cardinalities)


def _header(walk: _Walk) -> tuple[int, npt.NDArray[np.bool_] | None, bool]:
    """The number of containers, which of them are runs (None: none), and whether offsets follow."""
    cookie = walk.number("<I", "cookie")
    if cookie == COOKIE_NO_RUNS:
        count = walk.number("<I", "number of containers")
        if count > 1 << 16:
            raise walk.corrupt(f"a bitmap has at most 65536 containers, not {count}")
        return count, None, True
    if cookie & 0xFFFF != COOKIE_RUNS:
        raise walk.corrupt(f"unknown cookie {cookie & 0xFFFF}, expected {COOKIE_NO_RUNS} or {COOKIE_RUNS}")
    count = (cookie >> 16) + 1
    flags = walk.array(np.dtype("u1"), (count + 7) // 8, "run flags")
    runs = np.unpackbits(flags.astype(np.uint8), count=count, bitorder="little").astype(np.bool_)
    return count, runs, count >= _OFFSETS_FROM


def _check_runs(walk: _Walk, cardinality: int) -> None:
    count = walk.number("<H", "number of runs")
    runs = walk.array(_U16, 2 * count, "run container").reshape(count, 2).astype(np.int64)
    starts, ends = runs[:, 0], runs[:, 0] + runs[:, 1]
    if count == 0 or ends[-1] > 0xFFFF or not bool((starts[1:] > ends[:-1]).all()):
        raise walk.corrupt("runs must ascend without overlap and end below 65536")
    if int(runs[:, 1].sum()) + count != cardinality:
        raise walk.corrupt(f"a run container does not hold its {cardinality} values")


def _check_bitset(walk: _Walk, cardinality: int) -> None:
    words = walk.array(np.dtype("<u8"), _BITSET_BYTES // 8, "bitset container")
    held = int(np.unpackbits(words.view(np.uint8)).sum())
    if held != cardinality:
        raise walk.corrupt(f"a bitset container holds {held} values, not {cardinality}")


def _ascend(values: npt.NDArray[np.unsignedinteger]) -> bool:
    return bool((values[1:] > values[:-1]).all())
