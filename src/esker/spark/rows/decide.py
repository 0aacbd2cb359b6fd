"""Step *decide* of a row change on Spark: ``ResolvedOnSpark`` and the files of a view → ``DecidedOnSpark``.

The deciding query runs once. If rows are to be written, its rows are kept, and all later looks see these rows, so that
a source or a condition that gives another answer the second time cannot split a change. A change that only deletes
needs its places alone, which are read here once. Nothing is written to the table's files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from esker.errors import InvalidInput
from esker.ports.engine import SparkFrames
from esker.ports.row_changes import DeleteRow, InsertRow, RowCounts, RowDecisions, RowView, Side, UpdateRow
from esker.spark.expressions.plan_arrays import Int64s
from esker.spark.rows.resolve import CLAUSE, ResolvedOnSpark
from esker.spark.rows.resolve_source import HERE
from esker.spark.rows.row_keeper import RowKeeper
from esker.spark.rows.target_rows import TargetRows
from esker.spark.scan.file_scan import NUMBER, POSITION
from esker.spark.scan.stored_columns import quoted
from esker.spark.session.jobs import named_jobs
from esker.spark.write.local_rows import rows_at_once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedOnSpark(RowDecisions):
    """The rows to write, kept, and the places of all rows that change in the files of the view."""

    resolved: ResolvedOnSpark
    target: TargetRows
    changes: DataFrame | None  # a row for each row that goes, changes or comes, kept; None where none is to be written
    places: Places
    fetched: pa.Table | None = None  # the rows of ``changes``, if these are in this process and not kept
    parts: tuple[DataFrame, ...] = ()  # what ``changes`` was made of: kept rows are removed with their frames

    @property
    def rewritten(self) -> list[int]:
        """The numbers of the files that lose rows and are written again without them."""
        return [n for n in self.places.gone if self.view.rewrites(self.view.tasks[n].data_file.path)]

    @property
    def counts(self) -> RowCounts:
        """How many rows each kind of clause applied to."""
        found = RowCounts()
        for at, rows in self.places.by_clause.items():
            clause = self.resolved.change.clauses[at]
            by_source = rows if clause.side is Side.NOT_MATCHED_BY_SOURCE else 0
            match clause.action:
                case DeleteRow():
                    found += RowCounts(deleted=rows, deleted_by_source=by_source)
                case UpdateRow():
                    found += RowCounts(updated=rows, updated_by_source=by_source)
                case InsertRow():
                    found += RowCounts(inserted=rows)
        return found


def decide(view: RowView, resolved: ResolvedOnSpark, frames: SparkFrames, keeper: RowKeeper) -> DecidedOnSpark:
    """Compute which rows change. ``InvalidInput`` where two rows of the source match one row of the table, or a key of
    an upsert occurs twice."""
    change, session = resolved.change, resolved.session
    target = TargetRows(frames=frames, session=session, view=view, hidden=resolved.hidden)
    if not view.tasks and not change.has(Side.NOT_MATCHED):
        return DecidedOnSpark(view=view, resolved=resolved, target=target, changes=None, places=Places({}, {}))
    rows = target.matching(view.predicate)
    what = f"the rows that change in a {change.label}"
    kept: DataFrame | None = None
    parts: tuple[DataFrame, ...] = ()
    if (found := _decided_at_once(view, resolved, target, rows)) is not None:
        return found
    if resolved.query.in_two_steps:
        parts = _kept_in_two_steps(resolved, rows, partial(keeper.keep, metadata=view.metadata, what=what))
        decided = kept = parts[0].where(f"{CLAUSE} IS NOT NULL").drop(HERE).union(parts[1])
    elif resolved.query.writing:
        decided = kept = keeper.keep(resolved.decided(rows), view.metadata, what)
    else:
        decided = resolved.decided(rows)
    with named_jobs(session, f"find the places of rows that change in a {change.label}"):
        places = Places.of(decided, _most_rows(view, resolved))
    if change.deletes_every_match is not None:
        places = places.once(change.deletes_every_match)
    elif places.first_twice is not None:
        raise _matched_twice(target, resolved, *places.first_twice)
    if change.key and places.has_new and kept is not None:
        with named_jobs(session, "look for keys that are there twice"):
            _check_unique(kept.where(f"{NUMBER} IS NULL"), change.key)
    return DecidedOnSpark(view=view, resolved=resolved, target=target, changes=kept, places=places, parts=parts)


def _decided_at_once(
    view: RowView, resolved: ResolvedOnSpark, target: TargetRows, rows: DataFrame
) -> DecidedOnSpark | None:
    """The decision of an update that changes a few rows and rewrites no file, by one job. None for any other change."""
    if resolved.change.source is not None or not resolved.query.writing:
        return None
    if any(view.rewrites(task.data_file.path) for task in view.tasks):
        return None
    size = sum(task.data_file.file_size for task in view.tasks)
    decided = resolved.decided(rows)
    fetched = rows_at_once(decided, len(view.tasks) + size // _SPLIT)
    if fetched is None:
        return None
    places = Places.plain(fetched)
    return DecidedOnSpark(view=view, resolved=resolved, target=target, changes=decided, places=places, fetched=fetched)


def _kept_in_two_steps(
    resolved: ResolvedOnSpark, target: DataFrame, keep: Callable[[DataFrame], DataFrame]
) -> tuple[DataFrame, DataFrame]:
    """The rows that change, where the source is broadcast: all pairs that match, and the rows that come."""
    pairs = keep(resolved.matched(target))
    return pairs, keep(resolved.unmatched(target, pairs))


def _most_rows(view: RowView, resolved: ResolvedOnSpark) -> int | None:
    """How many rows can change at most, if no row matches twice; None where the rows of a source were not counted."""
    rows = sum(task.data_file.record_count for task in view.tasks)
    if resolved.change.source is None:
        return rows
    return None if resolved.source_rows is None else rows + resolved.source_rows


def _check_unique(new: DataFrame, key: tuple[str, ...]) -> None:
    """Of the rows that come; two that would change one row are known by its place."""
    names = [quoted(name) for name in key]
    twice = new.groupBy(*names).count().where("count > 1").select(*names).head(1)
    if twice:
        shown = ", ".join(f"{name} = {value}" for name, value in zip(key, twice[0], strict=True))
        raise InvalidInput(f"cannot upsert: the key {shown} occurs twice in the rows given")


def _matched_twice(target: TargetRows, resolved: ResolvedOnSpark, number: int, position: int) -> InvalidInput:
    path = target.view.tasks[number].data_file.path
    shown = ""
    if resolved.keys:
        names = [key.field.name for key in resolved.keys]
        found = target.without([number], {number: np.empty(0, np.int64)}).where(f"{POSITION} = {position}")
        values = found.select(*map(quoted, names)).head(1)[0]
        shown = " where " + ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
    return InvalidInput(
        f"cannot {resolved.change.label}: several rows of the source match one row of the table{shown} "
        f"(row {position} of {path}); which of them should win? Make the source's rows unique by what ON compares",
        file=path,
        row=position,
    )


# ---------------------------------------------------------------- positions
#
# Which positions of which files go. If few rows can change, each comes as three numbers, by one stage of tasks that
# read and filter. Otherwise positions come in blocks, a short number for each row, which takes a shuffle.


_BITS = 16
_SPLIT = 32 << 20  # bytes of a file that one task reads at least
MOST_PLAIN = 8_000_000  # rows, each of 20 bytes


@dataclass(frozen=True, slots=True)
class Places:
    """Where the rows of a change were."""

    gone: dict[int, Int64s]  # by the number of a file, in order; a position that occurs twice is there twice
    by_clause: Mapping[int, int]  # how many rows each clause applied to, those that were nowhere among them

    @classmethod
    def of(cls, changes: DataFrame, most_rows: int | None) -> Places:
        """One job brings the positions, at most so many. None: any number."""
        if most_rows is not None and most_rows <= MOST_PLAIN:
            return cls.plain(changes.select(CLAUSE, NUMBER, POSITION).toArrow())
        return cls._in_blocks(changes)

    @classmethod
    def plain(cls, changes: pa.Table) -> Places:
        """The places of rows that are in this process."""
        rows = changes.select([CLAUSE, NUMBER, POSITION]).combine_chunks()
        clauses, counts = np.unique(rows.column(CLAUSE).to_numpy(), return_counts=True)
        there = rows.filter(rows.column(NUMBER).is_valid())
        numbers, positions = (there.column(name).to_numpy().astype(np.int64) for name in (NUMBER, POSITION))
        return cls(_sorted(numbers, positions), dict(zip(clauses.tolist(), counts.tolist(), strict=True)))

    @classmethod
    def _in_blocks(cls, changes: DataFrame) -> Places:
        from pyspark.sql import functions as F  # noqa: N812

        blocks = (
            changes.groupBy(
                F.col(CLAUSE).alias("clause"),
                F.col(NUMBER).alias("n"),
                F.expr(f"shiftright({POSITION}, {_BITS})").alias("block"),
            )
            .agg(
                F.count(F.lit(1)).alias("rows"),
                F.collect_list(F.expr(f"CAST({POSITION} & {(1 << _BITS) - 1} AS INT)")).alias("low"),
            )
            .toArrow()
            .combine_chunks()
        )
        by_clause: Counter[int] = Counter()
        for clause, rows in zip(blocks.column("clause").to_pylist(), blocks.column("rows").to_pylist(), strict=True):
            by_clause[clause] += rows
        return cls(_by_file(blocks.filter(blocks.column("n").is_valid()).combine_chunks()), by_clause)

    @property
    def rows(self) -> int:
        """Of the change, those that were nowhere among them."""
        return sum(self.by_clause.values())

    @property
    def has_new(self) -> bool:
        """Whether some of the rows were nowhere."""
        return self.rows > sum(map(len, self.gone.values()))

    def once(self, clause: int) -> Places:
        """The same where each position counts once; only that clause may have named one twice."""
        gone = {number: np.unique(held) for number, held in self.gone.items()}
        twice = sum(map(len, self.gone.values())) - sum(map(len, gone.values()))
        return Places(gone, {**self.by_clause, clause: self.by_clause.get(clause, 0) - twice})

    @property
    def first_twice(self) -> tuple[int, int] | None:
        """A file's number and a position that is there twice, if there is one."""
        for number, held in self.gone.items():
            twice = np.flatnonzero(held[1:] == held[:-1])
            if len(twice):
                return number, int(held[twice[0]])
        return None


def _by_file(blocks: pa.Table) -> dict[int, Int64s]:
    if not blocks.num_rows:
        return {}
    low = blocks.column("low").combine_chunks()
    lengths = low.value_lengths().to_numpy(zero_copy_only=False)
    numbers = np.repeat(blocks.column("n").to_numpy(), lengths)
    starts = np.repeat(blocks.column("block").to_numpy().astype(np.int64) << _BITS, lengths)
    return _sorted(numbers, starts + low.flatten().to_numpy(zero_copy_only=False))


def _sorted(numbers: Int64s, positions: Int64s) -> dict[int, Int64s]:
    """By file, in order."""
    if not len(numbers):
        return {}
    order = np.lexsort((positions, numbers))
    numbers, positions = numbers[order], positions[order]
    files, first = np.unique(numbers, return_index=True)
    return {int(n): part for n, part in zip(files, np.split(positions, first[1:]), strict=True)}
