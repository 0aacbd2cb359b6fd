"""Timestamps of 96 bits as nanoseconds. Arrow wraps those that a number of 64 bits cannot hold, so they are checked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from esker.errors import Unsupported


def int96_leaves(file: pq.ParquetFile) -> frozenset[int]:
    """The numbers of the columns of 96 bits."""
    schema = file.schema
    return frozenset(at for at in range(len(schema)) if schema.column(at).physical_type == "INT96")


def check_nanoseconds(nanos: pa.RecordBatch, micros: pa.RecordBatch, file: str) -> None:
    """Raise ``Unsupported`` if a timestamp in nanoseconds is not the same timestamp in microseconds."""
    for exact, rounded in zip(nanos.columns, micros.columns, strict=True):
        for one, other in zip(_leaves(exact), _leaves(rounded), strict=True):
            if one.type != other.type and not np.array_equal(_numbers(one) // 1000, _numbers(other)):
                raise Unsupported(
                    f"cannot read {file}: it has a timestamp with more than 6 digits before 1678 or after 2261, where "
                    "Arrow's nanoseconds end, or one before 1970 that Paimon's Java library wrote, which Arrow cannot "
                    "tell from those; give the column 6 digits, and let Paimon compact the table fully",
                    feature="timestamps in nanoseconds outside of 64 bits",
                    file=file,
                )


def _leaves(array: pa.Array) -> Iterator[pa.Array]:
    """The values inside of lists, maps and structs, without those below a null."""
    if pa.types.is_map(array.type):
        yield from _leaves(array.keys)
        yield from _leaves(array.items)
    elif pa.types.is_struct(array.type):
        for member in array.flatten():
            yield from _leaves(member)
    elif pa.types.is_nested(array.type):
        yield from _leaves(array.flatten())
    else:
        yield array


def _numbers(array: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(array.cast(pa.int64()).drop_null())
