"""Removes deleted rows from a scan, in Spark: by position, and by equality of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # noqa: N812

from esker.arrow.deletes.delete_store import EqualityRows
from esker.model.types import Field
from esker.spark.expressions.arrow_frames import frame_of_columns
from esker.spark.scan.file_scan import NUMBER, POSITION

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


_BROADCAST_KEYS = 4_000_000  # with more keys, Spark decides how to join


def without_keys(
    session: SparkSession,
    frame: DataFrame,
    deletes: Sequence[EqualityRows],
    column_at: Callable[[Sequence[Field]], Column],
) -> DataFrame:
    """Return the frame without the rows that equality deletes remove, by one null-safe anti-join per set of columns
    (H3)."""
    for rows in deletes:
        names = [f"__esker_key_{at}" for at in range(len(rows.paths))]
        types = [path[-1].type for path in rows.paths]
        keys = frame_of_columns(session, list(zip(names, types, rows.columns, strict=True))).distinct()
        if len(rows.columns[0]) < _BROADCAST_KEYS:
            keys = F.broadcast(keys)
        matches = [column_at(path).eqNullSafe(F.col(name)) for path, name in zip(rows.paths, names, strict=True)]
        frame = frame.join(keys, reduce(and_, matches), "left_anti")
    return frame


# ---------------------------------------------------------------- position deletes
#
# A join on every deleted position takes three times as long as a plain scan. So positions are put into blocks of 4,096
# rows, each a bitmap of 64 longs. Blocks without deletes are left out. A row finds its block by one long key, which is
# the same for thousands of rows, and checks its bit. This needs at most 512 bytes per deleted row, and at most one bit
# per row of a file whose blocks all have deletes.


Int64s = npt.NDArray[np.int64]
BLOCK_BITS = 12  # rows in a block, as a power of two
_WORDS = 1 << (BLOCK_BITS - 6)
_FILE_BITS = 43 - BLOCK_BITS  # allows 2^43 rows per file and two million files with deletes
_BLOCK, _BITS = "__esker_block", "__esker_bits"
_BROADCAST_BYTES = 1 << 30


def without_positions(session: SparkSession, frame: DataFrame, deleted: Iterable[tuple[int, Int64s]]) -> DataFrame:
    """Return the frame, which has NUMBER and POSITION, without the rows at these positions of these files."""
    blocks = _blocks(session, deleted)
    if blocks is None:
        return frame
    joined = frame.join(blocks, _here() == F.col(_BLOCK), "left")
    return joined.filter(f"{_BITS} IS NULL OR NOT {_IS_SET}").drop(_BLOCK, _BITS)


def only_positions(session: SparkSession, frame: DataFrame, taken: Iterable[tuple[int, Int64s]]) -> DataFrame:
    """Return the rows of the frame, which has NUMBER and POSITION, at these positions of these files."""
    blocks = _blocks(session, taken)
    if blocks is None:
        return frame.filter(F.lit(False))
    return frame.join(blocks, _here() == F.col(_BLOCK)).filter(_IS_SET).drop(_BLOCK, _BITS)


_WORD = f"{_BITS}[CAST(shiftright({POSITION}, 6) & {_WORDS - 1} AS INT)]"
_IS_SET = f"((shiftright({_WORD}, CAST({POSITION} & 63 AS INT)) & 1) = 1)"


def _here() -> Column:
    """Return the key of a row's block."""
    return F.expr(f"shiftleft({NUMBER}, {_FILE_BITS}) | shiftright({POSITION}, {BLOCK_BITS})")


def _blocks(session: SparkSession, positions: Iterable[tuple[int, Int64s]]) -> DataFrame | None:
    """Return the bitmaps by block. Returns None if there are no positions."""
    keys, words = blocks_of(positions)
    if not len(keys):
        return None
    bits = pa.FixedSizeListArray.from_arrays(pa.array(words), _WORDS).cast(pa.list_(pa.int64()))
    blocks = session.createDataFrame(pa.table({_BLOCK: pa.array(keys), _BITS: bits}))
    return F.broadcast(blocks) if words.nbytes < _BROADCAST_BYTES else blocks


def blocks_of(deleted: Iterable[tuple[int, Int64s]]) -> tuple[Int64s, Int64s]:
    """Return the key of each block that has deletes, and the words of all bitmaps, one after the other."""
    keys: list[Int64s] = [np.empty(0, np.int64)]
    words: list[Int64s] = [np.empty(0, np.int64)]
    for number, positions in deleted:
        blocks, place = np.unique(positions >> BLOCK_BITS, return_inverse=True)
        bits = np.zeros(len(blocks) * _WORDS, dtype=np.uint64)
        within = positions & ((1 << BLOCK_BITS) - 1)
        np.bitwise_or.at(bits, place * _WORDS + (within >> 6), np.uint64(1) << (within & 63).astype(np.uint64))
        keys.append((np.int64(number) << _FILE_BITS) | blocks)
        words.append(bits.view(np.int64))
    return np.concatenate(keys), np.concatenate(words)
