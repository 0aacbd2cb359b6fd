"""Statistics of columns in manifests: bounds as binary rows, and bounds in the model's form for pruning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from esker.model.arrow_arrays import null_mask, numbers_of
from esker.paimon.manifests.manifest_list import SimpleStats
from esker.paimon.metadata.types import DataType
from esker.paimon.rows.binary_row import encode_row

LONGEST = 16  # characters of a text in bounds, as Java's default metadata.stats-mode=truncate(16)
WITHOUT_BOUNDS = frozenset(("ARRAY", "MAP", "MULTISET", "ROW", "BINARY", "VARBINARY"))
"""Bounds of binary columns were wrong in some writers, and nested columns have none."""


# ---------------------------------------------------------------- Writing


def simple_stats(
    types: Sequence[DataType], minima: Sequence[Any], maxima: Sequence[Any], null_counts: Sequence[int | None]
) -> SimpleStats:
    """The statistics of some columns, from values in the held form. Texts must be shortened before."""
    able = [type_ if type_.root not in WITHOUT_BOUNDS else DataType(root="INT") for type_ in types]
    known = [type_.root not in WITHOUT_BOUNDS for type_ in types]
    return SimpleStats(
        min_values=encode_row(able, [low if ok else None for low, ok in zip(minima, known, strict=True)]),
        max_values=encode_row(able, [high if ok else None for high, ok in zip(maxima, known, strict=True)]),
        null_counts=tuple(null_counts),
    )


def shortened_minimum(text: str) -> str:
    """A text of at most 16 characters that is not larger."""
    return text[:LONGEST]


def shortened_maximum(text: str) -> str | None:
    """A text of at most 16 characters that is not smaller. None if there is none."""
    if len(text) <= LONGEST:
        return text
    for at in range(LONGEST - 1, -1, -1):
        code = ord(text[at]) + 1
        code = 0xE000 if 0xD800 <= code <= 0xDFFF else code  # no surrogates
        if code <= 0x10FFFF:
            return text[:at] + chr(code)
    return None


# ---------------------------------------------------------------- Reading


def as_bounds(values: pa.Array) -> pa.Array:
    """Values in the held form as the bytes of bounds in the model's single-value form."""
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        return values.cast(pa.binary())
    null = null_mask(values)
    if pa.types.is_decimal(values.type):
        raw = np.frombuffer(values.buffers()[1], np.uint8)[values.offset * 16 : (values.offset + len(values)) * 16]
        data = np.ascontiguousarray(raw.reshape(len(values), 16)[:, ::-1])
    elif pa.types.is_boolean(values.type):
        bits = np.unpackbits(np.frombuffer(values.buffers()[1], np.uint8), bitorder="little")
        data = bits[values.offset : values.offset + len(values)].reshape(-1, 1)
    else:
        numbers = numbers_of(values, null=0)
        data = np.ascontiguousarray(numbers).view(np.uint8).reshape(len(values), 8)
    width = data.shape[1]
    offsets = pa.py_buffer(np.arange(0, width * (len(values) + 1), width, dtype=np.int32))
    valid = pa.py_buffer(np.packbits(~null, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), len(values), [valid, offsets, pa.py_buffer(data.tobytes())])
