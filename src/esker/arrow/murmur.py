"""Murmur3 over whole columns: Iceberg's bucket hash, as ``model.transform.bucket_hash`` gives it for one value."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from esker.model.murmur3 import murmur3

Hashes = npt.NDArray[np.uint32]

_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)


def hash_longs(numbers: npt.NDArray[np.int64]) -> Hashes:
    """The hash of each number's eight little-endian bytes, seed 0."""
    bits = numbers.view(np.uint64)
    with np.errstate(over="ignore"):  # 32-bit arithmetic is meant to wrap
        found = _mixed(np.zeros(len(bits), dtype=np.uint32), (bits & np.uint64(0xFFFFFFFF)).astype(np.uint32))
        found = _mixed(found, (bits >> np.uint64(32)).astype(np.uint32))
        return _finished(found ^ np.uint32(8))


def hash_bytes(values: Iterable[bytes]) -> Hashes:
    """The hash of each byte string, seed 0."""
    return np.fromiter((murmur3(value) for value in values), dtype=np.uint32)


def _rotated(words: Hashes, by: int) -> Hashes:
    return (words << np.uint32(by)) | (words >> np.uint32(32 - by))


def _mixed(state: Hashes, words: Hashes) -> Hashes:
    state = state ^ (_rotated(words * _C1, 15) * _C2)
    return _rotated(state, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finished(state: Hashes) -> Hashes:
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return state ^ (state >> np.uint32(16))
