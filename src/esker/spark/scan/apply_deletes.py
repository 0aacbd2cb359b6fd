"""Removes deleted rows from a scan, in Spark: by position, and by equality of columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # noqa: N812

from esker.arrow.deletes.delete_store import EqualityRows
from esker.model.types import Field
from esker.ports.engine import ScanTask
from esker.spark.expressions.arrow_frames import frame_of_columns
from esker.spark.expressions.plan_arrays import MOST_BYTES, Int64s, has_plan_arrays, plan_array, plan_arrays
from esker.spark.scan.file_scan import NUMBER, POSITION
from esker.spark.scan.place_files import counted
from esker.tree.data_file import DataFile, FileContent

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
# There are two ways, and the number of rows in the files decides (``way_for``).
#
# Bitmaps in the plan: one bit for each row up to the last deleted one, in an array of longs for each file, which are a
# literal of the plan. A row finds its word by the number of its file and its position. Nothing is joined, and no job
# runs before the scan.
#
# Blocks: the plan must stay small, so for more rows the bitmaps are joined. A join on every deleted position takes
# three times as long as a plain scan. So positions are put into blocks of 4,096 rows, each a bitmap of 64 longs. Blocks
# without deletes are left out. A row finds its block by one long key, which is the same for thousands of rows, and
# checks its bit. This needs at most 512 bytes per deleted row, and at most one bit per row of a file whose blocks all
# have deletes.


BLOCK_BITS = 12  # rows in a block, as a power of two
_WORDS = 1 << (BLOCK_BITS - 6)
_FILE_BITS = 43 - BLOCK_BITS  # allows 2^43 rows per file and two million files with deletes
_BLOCK, _BITS = "__esker_block", "__esker_bits"
_BROADCAST_BYTES = 1 << 30
Positions = Iterable[tuple[int, Int64s]]
"""Positions of rows, by the number of their file."""


class Way(Enum):
    """How deleted rows are found."""

    ALONE = "a bitmap in the plan"  # of the only file
    IN_PLAN = "bitmaps in the plan"
    JOINED = "a join of bitmaps"


def way_for(session: SparkSession, files: Sequence[tuple[int, DataFile]]) -> Way:
    """Return the way for the files of a frame, which are given with their numbers."""
    size = sum(file.record_count >> 3 for _, file in files) + 8 * max((number for number, _ in files), default=0)
    if size > MOST_BYTES or not has_plan_arrays(session):
        return Way.JOINED
    return Way.ALONE if len(files) == 1 else Way.IN_PLAN


def deletes_in_one_line(session: SparkSession, tasks: Iterable[tuple[int, ScanTask]]) -> Iterator[str]:
    """Yield how Spark finds the deleted rows of numbered tasks: those by position, then those by equality."""
    deleted: dict[FileContent, list[tuple[int, DataFile]]] = defaultdict(list)
    for number, task in tasks:
        for content in {delete.content for delete in task.deletes}:
            deleted[content].append((number, task.data_file))
    if files := deleted[FileContent.POSITION_DELETES]:
        yield f"deleted positions of {counted(len(files))} by {way_for(session, files).value}"
    if files := deleted[FileContent.EQUALITY_DELETES]:
        yield f"equality deletes of {counted(len(files))} by joins"


def without_positions(session: SparkSession, frame: DataFrame, deleted: Positions, way: Way) -> DataFrame:
    """Return the frame, which has POSITION and, if need be, NUMBER, without the rows at these positions of these
    files."""
    if way is not Way.JOINED:
        bits = _bits(session, deleted, way)
        return frame if bits is None else frame.filter(~bits)
    blocks = _blocks(session, deleted)
    if blocks is None:
        return frame
    joined = frame.join(blocks, _here() == F.col(_BLOCK), "left")
    return joined.filter(f"{_BITS} IS NULL OR NOT {_IS_SET}").drop(_BLOCK, _BITS)


def only_positions(session: SparkSession, frame: DataFrame, taken: Positions, way: Way) -> DataFrame:
    """Return the rows of the frame at these positions of these files."""
    if way is not Way.JOINED:
        bits = _bits(session, taken, way)
        return frame.filter(F.lit(False) if bits is None else bits)
    blocks = _blocks(session, taken)
    if blocks is None:
        return frame.filter(F.lit(False))
    return frame.join(blocks, _here() == F.col(_BLOCK)).filter(_IS_SET).drop(_BLOCK, _BITS)


def _bits(session: SparkSession, positions: Positions, way: Way) -> Column | None:
    """Return whether a row's bit is set. Returns None if no bit is."""
    bitmaps = bitmaps_of(positions)
    if not bitmaps:
        return None
    if way is Way.ALONE:
        (only,) = bitmaps.values()
        words = plan_array(session, only)
    else:
        every = [bitmaps.get(number, np.empty(0, np.int64)) for number in range(max(bitmaps) + 1)]
        words = F.get(plan_arrays(session, every), F.expr(f"CAST({NUMBER} AS INT)"))
    word = F.get(words, F.expr(f"CAST(shiftright({POSITION}, 6) AS INT)"))  # null behind the end
    return F.coalesce(F.getbit(word, F.expr(f"CAST({POSITION} & 63 AS INT)")) == 1, F.lit(False))


def bitmaps_of(positions: Positions) -> dict[int, Int64s]:
    """Return the words of each file's bitmap, up to the last bit that is set. Files without one are left out."""
    by_file: dict[int, list[Int64s]] = defaultdict(list)
    for number, held in positions:
        if len(held):
            by_file[number].append(held)
    found = {}
    for number, parts in by_file.items():
        held = np.concatenate(parts)
        bits = np.zeros((int(held.max()) | 63) + 1, np.bool_)
        bits[held] = True
        found[number] = np.packbits(bits, bitorder="little").view(np.int64)
    return found


_WORD = f"{_BITS}[CAST(shiftright({POSITION}, 6) & {_WORDS - 1} AS INT)]"
_IS_SET = f"((shiftright({_WORD}, CAST({POSITION} & 63 AS INT)) & 1) = 1)"


def _here() -> Column:
    """Return the key of a row's block."""
    return F.expr(f"shiftleft({NUMBER}, {_FILE_BITS}) | shiftright({POSITION}, {BLOCK_BITS})")


def _blocks(session: SparkSession, positions: Positions) -> DataFrame | None:
    """Return the bitmaps by block. Returns None if there are no positions."""
    keys, words = blocks_of(positions)
    if not len(keys):
        return None
    bits = pa.FixedSizeListArray.from_arrays(pa.array(words), _WORDS).cast(pa.list_(pa.int64()))
    blocks = session.createDataFrame(pa.table({_BLOCK: pa.array(keys), _BITS: bits}))
    return F.broadcast(blocks) if words.nbytes < _BROADCAST_BYTES else blocks


def blocks_of(deleted: Positions) -> tuple[Int64s, Int64s]:
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
