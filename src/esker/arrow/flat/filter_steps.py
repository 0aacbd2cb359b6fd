"""A filter in steps: each step decodes its columns only for the rows that the steps before left.

The parts of an AND are one step for each column. A step that leaves few rows makes the steps after it, and the columns
of the answer, cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from esker.arrow.arrow_types import to_arrow
from esker.arrow.flat.decode_columns import Bools, Chunk, dictionary_of, truths
from esker.arrow.flat.flat_layout import FlatColumn
from esker.arrow.read.filter import matches
from esker.model.arrow_arrays import flags_of
from esker.model.predicates.predicate import And, Bound, all_of, terms
from esker.model.types import BinaryType, Field, StringType

FEW = 4  # rows for each distinct value, at least


@dataclass(frozen=True, slots=True)
class Left:
    """The rows that are left, and the columns that are decoded for exactly these rows."""

    mask: Bools | None  # of all rows; None: all of them
    kept: int
    held: Mapping[int, pa.Array] = field(default_factory=dict)  # by field id

    @classmethod
    def of(cls, mask: Bools | None, rows: int) -> Left:
        """The rows for which the mask is true."""
        kept = rows if mask is None else int(np.count_nonzero(mask))
        return cls(None if kept == rows else mask, kept)

    def only(self, passed: pa.BooleanArray, later: Collection[int]) -> Left:
        """Those that passed, with the columns that are needed later."""
        kept = passed.true_count
        if kept == self.kept:
            return self
        within = flags_of(passed)
        mask = within if self.mask is None else _within(self.mask, self.kept, within)
        return Left(mask, kept, {id_: array.filter(passed) for id_, array in self.held.items() if id_ in later})


def _within(mask: Bools, kept: int, within: Bools) -> Bools:
    """Of the ``kept`` rows that the mask leaves, those for which ``within`` is true."""
    if 2 * kept > len(mask):
        found = mask.copy()
        found[mask] = within
    else:  # for few rows their numbers are faster
        found = np.zeros(len(mask), bool)
        found[np.flatnonzero(mask)[within]] = True
    return found


def filtered(
    residual: Bound,
    left: Left,
    test: Callable[[Bound], Bools | None],
    read: Callable[[Field, Left], pa.Array],
    *,
    later: Collection[int],
) -> Left:
    """The rows for which the filter is TRUE. ``read`` decodes a column for the rows that are left.

    ``test`` answers for all rows without decoding them, if it can. ``later`` are the columns of the answer: those that
    a step decoded are kept.
    """
    ahead = []
    for step in steps_of(residual):  # first by what is the same for many rows
        passed = test(step) if left.kept else None
        if passed is None:
            ahead.append(step)
        else:
            left = Left.of(passed if left.mask is None else left.mask & passed, len(passed))
    while ahead and left.kept:
        step = ahead.pop(0)
        needed = fields_of(step)
        held = {wanted.id: left.held[wanted.id] if wanted.id in left.held else read(wanted, left) for wanted in needed}
        left = Left(left.mask, left.kept, {**left.held, **held})
        needed_later = {*later, *(wanted.id for other in ahead for wanted in fields_of(other))}
        left = left.only(matches(step, left.held, left.kept), needed_later)
    return left


def by_dictionary(step: Bound, column: FlatColumn, chunk: Chunk, rows: int, *, first: int = 0) -> Bools | None:
    """For which of ``rows`` rows of a chunk from the ``first`` on a filter on its column is TRUE, decided once for each
    distinct value.

    None if that does not pay, or if the filter is TRUE for null. Raises ``ValueError`` if pages have no dictionary.
    """
    [wanted] = fields_of(step)
    if matches(step, {wanted.id: pa.nulls(1, to_arrow(wanted.type))}, 1).true_count:
        return None
    values = column.typed(dictionary_of(column, chunk), wanted.type)
    if len(values) > rows // FEW:
        return None
    truth = flags_of(matches(step, {wanted.id: values}, len(values)))
    return truths(column, chunk, rows, truth.tobytes(), first=first)


def steps_of(residual: Bound) -> list[Bound]:
    """Filters that are all TRUE where ``residual`` is. Those that are likely to leave few rows for little are first."""
    grouped: dict[frozenset[int], list[Bound]] = {}
    for part in residual.parts if isinstance(residual, And) else (residual,):
        grouped.setdefault(frozenset(wanted.id for wanted in fields_of(part)), []).append(part)
    return sorted((all_of(parts) for parts in grouped.values()), key=_cost)


def _cost(step: Bound) -> tuple[int, int, int]:
    """Columns of fixed length before texts, one column before several, two limits before one."""
    fields = fields_of(step)
    texts = sum(isinstance(wanted.type, StringType | BinaryType) for wanted in fields)
    return texts, len(fields), -sum(1 for _ in terms(step))


def fields_of(residual: Bound) -> Collection[Field]:
    """The fields that a filter compares."""
    return {term.field.id: term.field for term in terms(residual)}.values()
