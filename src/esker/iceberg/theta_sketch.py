"""Theta sketches of Apache DataSketches: an estimate of how many distinct values a column has (checklist J2).

A sketch keeps the ``SIZE`` smallest distinct hashes of the values, and ``theta``, the next larger hash. Up to ``SIZE``
distinct values are counted exactly. The result depends only on the set of values, not on their order or on how they
were divided between sketches that are merged.

    preamble longs, 1 | serial version 3, 1 | family 3, 1 | 0, 2 | flags, 1 | seed hash, 2 LE |
    number of hashes, 4 LE | 1.0, 4 | [theta, 8 LE] | hash, 8 LE …
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from esker.errors import Corrupt

Hashes = npt.NDArray[np.uint64]

SIZE = 4096  # the default of DataSketches, which Iceberg's engines use
SEED = 9001  # the default of DataSketches
EVERYTHING = (1 << 63) - 1  # theta while no hash was left out

_SEED_HASH = 0x93CC  # of the default seed
_HEAD = struct.Struct("<BBBBBBH")
_COUNT = struct.Struct("<If")
_VERSION, _COMPACT_FAMILY = 3, 3
_READ_ONLY, _EMPTY, _COMPACT, _ORDERED, _SINGLE = 2, 4, 8, 16, 32
_FLAGS = _READ_ONLY | _COMPACT | _ORDERED
_CHUNK = 1 << 16  # hashes that are sorted at a time


@dataclass(frozen=True, slots=True, eq=False)
class ThetaSketch:
    """The smallest distinct hashes of a set of values, ascending, and the hash from which on others were left out."""

    hashes: Hashes
    theta: int = EVERYTHING

    @classmethod
    def of(cls, hashes: Hashes) -> ThetaSketch:
        """The sketch of values with these hashes, in any order and with repetitions."""
        return EMPTY.with_hashes(hashes)

    def with_hashes(self, hashes: Hashes) -> ThetaSketch:
        """The sketch with more values."""
        sketch = self
        for start in range(0, len(hashes), _CHUNK):
            part = hashes[start : start + _CHUNK]
            part = part[(part < np.uint64(sketch.theta)) & (part != 0)]
            if len(part):
                sketch = _smallest(np.concatenate((sketch.hashes, part)), sketch.theta)
        return sketch

    @property
    def estimate(self) -> int:
        """How many distinct values there are, as a whole number. Exact if theta is ``EVERYTHING``."""
        return int(len(self.hashes) * (float(EVERYTHING) / self.theta))

    def encode(self) -> bytes:
        """The compact, ordered form, byte for byte as the Java library writes it."""
        count, exact = len(self.hashes), self.theta == EVERYTHING
        if exact and count == 0:
            return _HEAD.pack(1, _VERSION, _COMPACT_FAMILY, 0, 0, _FLAGS | _EMPTY, 0)
        if exact and count == 1:
            head = _HEAD.pack(1, _VERSION, _COMPACT_FAMILY, 0, 0, _FLAGS | _SINGLE, _SEED_HASH)
        else:
            head = _HEAD.pack(2 if exact else 3, _VERSION, _COMPACT_FAMILY, 0, 0, _FLAGS, _SEED_HASH)
            head += _COUNT.pack(count, 1.0)
            head += b"" if exact else struct.pack("<Q", self.theta)
        return head + self.hashes.astype("<u8").tobytes()


EMPTY = ThetaSketch(np.empty(0, dtype=np.uint64))


def merged(sketches: Iterable[ThetaSketch]) -> ThetaSketch:
    """The sketch of the values of all of them."""
    parts = list(sketches)
    theta = min((part.theta for part in parts), default=EVERYTHING)
    hashes = np.concatenate([EMPTY.hashes, *(part.hashes for part in parts)])
    return _smallest(hashes[hashes < np.uint64(theta)], theta)


def decode_theta_sketch(file: str, content: bytes) -> ThetaSketch:
    """The sketch of a compact form of serial version 3. Raises `Corrupt` if it is not valid."""
    if len(content) < _HEAD.size:
        raise Corrupt(file, f"a theta sketch has at least {_HEAD.size} bytes, this one has {len(content)}")
    longs, version, family, _, _, flags, seed_hash = _HEAD.unpack_from(content)
    longs &= 0x3F  # the other bits are for sketches that are still updated
    if (version, family) != (_VERSION, _COMPACT_FAMILY) or longs not in (1, 2, 3):
        raise Corrupt(file, f"a theta sketch of version {version} and family {family} cannot be read")
    if flags & _EMPTY:
        return EMPTY
    if seed_hash != _SEED_HASH:
        raise Corrupt(file, f"a theta sketch has the seed hash {_SEED_HASH:#06x}, this one {seed_hash:#06x}")
    count, theta = 1, EVERYTHING
    if longs > 1 and len(content) >= longs * 8:
        count = _COUNT.unpack_from(content, _HEAD.size)[0]
    if longs == 3 and len(content) >= 24:
        theta = struct.unpack_from("<Q", content, 16)[0]
    if len(content) != (longs + count) * 8:
        raise Corrupt(file, f"a theta sketch of {count} hashes cannot have {len(content)} bytes")
    hashes = np.frombuffer(content, "<u8", offset=longs * 8).astype(np.uint64)
    if not 0 < theta <= EVERYTHING or (hashes >= theta).any() or not hashes.all():
        raise Corrupt(file, "a hash of the theta sketch is 0 or not below theta")
    return ThetaSketch(np.unique(hashes), theta)


def _smallest(hashes: Hashes, theta: int) -> ThetaSketch:
    found = np.unique(hashes)
    return ThetaSketch(found[:SIZE], int(found[SIZE])) if len(found) > SIZE else ThetaSketch(found, theta)


# ---------------------------------------------------------------- MurmurHash3, x64, 128 bits
#
# The hash of a value is the upper 63 bits of the first half. 64-bit arithmetic wraps around, as numpy's does. Many
# short values are hashed at a time, a block of each. A long value has too many blocks for this, so mmh3 hashes it in C.


try:
    from mmh3 import hash64 as _in_c
except ImportError:  # an executor has pyarrow and numpy, and the modules that were sent to it
    _in_c = None  # type: ignore[assignment]

_LONG = 1024  # bytes; below this, numpy is faster
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_EIGHT = np.uint64(8)


def hash_short(low: Hashes, high: Hashes | None, lengths: int | npt.NDArray[np.int64]) -> Hashes:
    """The hashes of values of at most 15 bytes: their first eight bytes, little-endian, the others, and the lengths."""
    h1, h2 = np.full(len(low), SEED, dtype=np.uint64), np.full(len(low), SEED, dtype=np.uint64)
    return _finished(h1 ^ _first(low), h2 if high is None else h2 ^ _second(high), lengths)


def hash_binary(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Hashes:
    """The hashes of byte strings: value ``i`` is ``data[offsets[i]:offsets[i + 1]]``."""
    lengths = np.diff(offsets)
    long = np.flatnonzero(lengths > _LONG) if _in_c is not None else np.empty(0, dtype=np.int64)
    if not len(long):
        return _hash_by_block(data, offsets[:-1], lengths)
    found = np.empty(len(lengths), dtype=np.uint64)
    short = np.flatnonzero(lengths <= _LONG)
    found[short] = _hash_by_block(data, offsets[:-1][short], lengths[short])
    for row in long.tolist():
        value = data[offsets[row] : offsets[row + 1]].tobytes()
        found[row] = _in_c(value, SEED, x64arch=True, signed=False)[0] >> 1
    return found


def _hash_by_block(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> Hashes:
    words = np.zeros(len(data) // 8 + 3, dtype=np.uint64)
    words.view(np.uint8)[: len(data)] = data
    h1, h2 = np.full(len(starts), SEED, dtype=np.uint64), np.full(len(starts), SEED, dtype=np.uint64)
    blocks = lengths >> 4
    rows = np.flatnonzero(blocks)
    done = 0
    while len(rows):
        at = starts[rows] + done * 16
        h1[rows], h2[rows] = _block(h1[rows], h2[rows], _word(words, at), _word(words, at + 8))
        done += 1
        rows = rows[blocks[rows] > done]
    at, left = starts + blocks * 16, lengths & 15
    h1 ^= _first(_word(words, at) & _mask(left))
    h2 ^= _second(_word(words, at + 8) & _mask(left - 8))
    return _finished(h1, h2, lengths)


def _word(words: Hashes, at: npt.NDArray[np.int64]) -> Hashes:
    """The eight bytes from each place on."""
    index, shift = at >> 3, ((at & 7) * 8).astype(np.uint64)
    return (words[index] >> shift) | ((words[index + 1] << np.uint64(1)) << (np.uint64(63) - shift))


def _mask(count: npt.NDArray[np.int64]) -> Hashes:
    """Keeps that many of eight bytes, from none to all."""
    kept = np.clip(count, 0, 8).astype(np.uint64) * _EIGHT
    return np.where(kept == 0, np.uint64(0), ~np.uint64(0) >> ((np.uint64(64) - kept) & np.uint64(63)))


def _rotated(words: Hashes, by: int) -> Hashes:
    return (words << np.uint64(by)) | (words >> np.uint64(64 - by))


def _first(words: Hashes) -> Hashes:
    return _rotated(words * _C1, 31) * _C2


def _second(words: Hashes) -> Hashes:
    return _rotated(words * _C2, 33) * _C1


def _block(h1: Hashes, h2: Hashes, low: Hashes, high: Hashes) -> tuple[Hashes, Hashes]:
    h1 = (_rotated(h1 ^ _first(low), 27) + h2) * np.uint64(5) + np.uint64(0x52DCE729)
    h2 = (_rotated(h2 ^ _second(high), 31) + h1) * np.uint64(5) + np.uint64(0x38495AB5)
    return h1, h2


def _finished(h1: Hashes, h2: Hashes, lengths: int | npt.NDArray[np.int64]) -> Hashes:
    length = np.asarray(lengths).astype(np.uint64)
    h1, h2 = h1 ^ length, h2 ^ length
    h1 = h1 + h2
    h2 = h2 + h1
    return (_scattered(h1) + _scattered(h2)) >> np.uint64(1)


def _scattered(words: Hashes) -> Hashes:
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return words ^ (words >> np.uint64(33))
