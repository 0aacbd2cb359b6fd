"""Chunks of one column, from one or many files, to one Arrow array."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import CDLL, c_void_p, cast
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from esker.arrow.flat._parquet import decode, dictionary, use_zstd
from esker.arrow.flat.flat_layout import FlatColumn

Bools = npt.NDArray[np.bool_]
Chunk = tuple[Any, int, int, int, int]  # the bytes, start and length in them, values, codec
_CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}


def decoded(
    column: FlatColumn, chunks: Sequence[Chunk], rows: int, mask: Bools | None, kept: int, *, first: int = 0
) -> pa.Array:
    """The values of the ``kept`` rows for which ``mask`` is true, of ``rows`` rows from the ``first`` on.

    Raises ``ValueError`` or pyarrow's errors if only pyarrow can read the pages, or nobody can.
    """
    parts = _parts(chunks)
    values = pa.allocate_buffer((kept + 1) * (column.width or 4))
    valid = pa.allocate_buffer(kept // 8 + 1)
    nulls, data, used = decode(
        parts,
        column.kind,
        int(column.optional),
        column.stored,
        column.width,
        first,
        rows,
        kept,
        mask,
        values,
        valid,
        pa.allocate_buffer,
        None,
    )
    if column.is_boolean:
        values = pa.py_buffer(np.packbits(np.frombuffer(values, np.uint8, kept), bitorder="little"))
    buffers = [valid if nulls else None, values]
    if data is not None:
        buffers.append(data.slice(0, used))
    return pa.Array.from_buffers(column.type, kept, buffers, nulls)


def dictionary_of(column: FlatColumn, chunk: Chunk) -> pa.Array:
    """The distinct values of a chunk. Raises ``ValueError`` if it has no dictionary."""
    count, values, ends = dictionary(_parts([chunk]), column.kind, column.stored, column.width)
    buffers = [None, pa.py_buffer(values)] if column.width else [None, pa.py_buffer(ends), pa.py_buffer(values)]
    return pa.Array.from_buffers(column.type, count, buffers, 0)


def truths(column: FlatColumn, chunk: Chunk, rows: int, truth: bytes, *, first: int = 0) -> Bools:
    """For each of ``rows`` rows from the ``first`` on, the byte of ``truth`` for its value in the dictionary, 0 for
    null.

    Raises ``ValueError`` if some pages do not use the dictionary.
    """
    found = np.empty(rows + 1, bool)
    valid = np.empty(rows // 8 + 1, np.uint8)
    decode(
        _parts([chunk]),
        column.kind,
        int(column.optional),
        column.stored,
        column.width,
        first,
        rows,
        rows,
        None,
        found,
        valid,
        pa.allocate_buffer,
        truth,
    )
    return found[:rows]


def _parts(chunks: Sequence[Chunk]) -> list[tuple[Any, int, int, int, int, Any]]:
    """The chunks, each with the function that unpacks its pages."""
    unpack = {codec: _unpack(codec) for codec in {chunk[4] for chunk in chunks}}  # not shared: gzip's has a state
    return [(data, start, length, values, codec, unpack[codec]) for data, start, length, values, codec in chunks]


def _unpack(codec: int) -> Any:
    """The function that unpacks a page. None if pages are stored as they are."""
    if codec == 0:
        return None
    if codec not in _CODECS:
        raise ValueError(f"a codec that only pyarrow knows: {codec}")
    return pa.Codec(_CODECS[codec]).decompress


def load_zstd() -> Any:
    """Let the compiled code call libzstd, if this machine has it: pyarrow makes a new context for every page.

    Returns the library, which must stay loaded.
    """
    for name in ("libzstd.so.1", "libzstd.1.dylib"):
        try:
            library = CDLL(name)
            functions = (library.ZSTD_createDCtx, library.ZSTD_freeDCtx, library.ZSTD_decompressDCtx)
        except (OSError, AttributeError):
            continue
        use_zstd(*(cast(function, c_void_p).value or 0 for function in functions))
        return library
    return None


ZSTD = load_zstd()
