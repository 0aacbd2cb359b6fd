"""The verdict on each file: may some row match, and must every row match?

Pruning uses ``some``. A metadata-only delete uses ``every``. Manifests use ``some`` with their partition summaries. A
residual drops each part for which ``every`` is true. One evaluation is enough for all four.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from esker.model.predicates.predicate import (
    Always,
    And,
    Bound,
    Compare,
    IsNaN,
    IsNull,
    OneOf,
    Op,
    Or,
    Term,
    all_of,
    conjuncts,
)
from esker.model.pruning.evidence import Evidence, Statistics, evidence_of, recorded_as_empty
from esker.model.pruning.possibility import negation, possible

if TYPE_CHECKING:
    import numpy.typing as npt

    Bools = npt.NDArray[np.bool_]
    Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Per row of the statistics: *some* of its rows may match, *every* one of its rows must match."""

    some: Bools
    every: Bools


@dataclass(frozen=True, slots=True)
class Examination:
    """The verdict on each part of the predicate, for residuals and explanations."""

    conjuncts: tuple[Bound, ...]
    verdicts: tuple[Verdict, ...]
    verdict: Verdict  # on the whole predicate

    def residuals(self) -> tuple[Int64s, tuple[Bound, ...]]:
        """What is left to check: an index per row, and the few predicates that the indices mean."""
        rows = len(self.verdict.some)
        if not self.verdicts or not rows:
            return np.zeros(rows, dtype=np.int64), (all_of(self.conjuncts),)
        index, firsts = _grouped([verdict.every for verdict in self.verdicts])
        left = tuple(
            all_of(
                part for part, verdict in zip(self.conjuncts, self.verdicts, strict=True) if not verdict.every[first]
            )
            for first in firsts
        )
        return index, left

    def rejections(self) -> tuple[tuple[Bound, int], ...]:
        """Each part of the predicate, and how many rows it rejects alone."""
        return tuple(
            (part, int(np.count_nonzero(~verdict.some)))
            for part, verdict in zip(self.conjuncts, self.verdicts, strict=True)
        )


def _grouped(columns: list[Bools]) -> tuple[Int64s, Int64s]:
    """Numbers that are equal for rows that agree in every column, and for each number its first row."""
    index = np.zeros(len(columns[0]), dtype=np.int64)
    firsts = np.zeros(1, dtype=np.int64)
    for column in columns:  # numbers stay below the count of distinct rows, for any number of columns
        if column.all() or not column.any():
            continue
        _, firsts, index = np.unique(index * 2 + column, return_index=True, return_inverse=True)
    return index.reshape(-1), firsts


def judge(bound: Bound, statistics: Statistics) -> Verdict:
    """The verdict on every row of the statistics. Never raises: statistics that make no sense are ignored."""
    return examine(bound, statistics).verdict


def examine(bound: Bound, statistics: Statistics) -> Examination:
    """The verdict on every row, and on each part of the predicate."""
    judging = _Judging(statistics)
    parts = conjuncts(bound)
    verdicts = tuple(judging.verdict(part) for part in parts)
    return Examination(parts, verdicts, judging.all_of(verdicts))


class _Judging:
    """One evaluation: the statistics, and the evidence so far per column."""

    def __init__(self, statistics: Statistics) -> None:
        self.statistics = statistics
        self.gathered: dict[int, Evidence] = {}
        self.empty = recorded_as_empty(statistics)

    def verdict(self, bound: Bound) -> Verdict:
        match bound:
            case Always(value):
                return Verdict(np.full(self.statistics.rows, value), np.full(self.statistics.rows, value))
            case And(parts):
                return self.all_of(self.verdict(part) for part in parts)
            case Or(parts):
                return self.any_of(self.verdict(part) for part in parts)
            case _:
                found = judge_term(bound, self._evidence(bound))
                return Verdict(found.some & ~self.empty, found.every)

    def all_of(self, verdicts: Iterable[Verdict]) -> Verdict:
        some, every = np.ones(self.statistics.rows, dtype=bool), np.ones(self.statistics.rows, dtype=bool)
        for verdict in verdicts:
            some &= verdict.some
            every &= verdict.every
        return Verdict(some, every)

    def any_of(self, verdicts: Iterable[Verdict]) -> Verdict:
        some, every = np.zeros(self.statistics.rows, dtype=bool), np.zeros(self.statistics.rows, dtype=bool)
        for verdict in verdicts:
            some |= verdict.some
            every |= verdict.every
        return Verdict(some, every)

    def _evidence(self, term: Term) -> Evidence:
        evidence = self.gathered.get(term.field.id)
        if evidence is None:
            evidence = self.gathered[term.field.id] = evidence_of(term.field, self.statistics)
        return evidence


def judge_term(term: Term, evidence: Evidence) -> Verdict:
    """The rule: each kind of value that may occur either satisfies the term or does not."""
    if _has_nan_literal(term):  # binding makes a term of its own for NaN; a term made otherwise is not evaluated
        return Verdict(np.ones(evidence.rows, dtype=bool), np.zeros(evidence.rows, dtype=bool))
    on_null, on_nan = _holds_for_null(term), _holds_for_nan(term)
    some = evidence.may_value & possible(term, evidence)
    every = ~evidence.may_value | ~possible(negation(term), evidence)
    if on_null:
        # A required column has no nulls to find. Whether every row matches is decided by counts alone (N1).
        some = some if evidence.forbids_null else some | evidence.may_null
    else:
        every = every & ~evidence.may_null
    if on_nan:
        some = some | evidence.may_nan
    else:
        every = every & ~evidence.may_nan
    return Verdict(some, every)


def _holds_for_null(term: Term) -> bool:
    """Whether the term is TRUE for null. Only the two tests for null are (N2)."""
    match term:
        case IsNull(_, negated):
            return not negated
        case IsNaN(_, negated):
            return negated
        case _:
            return False


def _holds_for_nan(term: Term) -> bool:
    """Whether the term is TRUE for NaN, which is larger than any number and equal to none (N3)."""
    match term:
        case Compare(_, op, _):
            return op in (Op.GT, Op.GE, Op.NE)
        case OneOf(_, _, negated) | IsNull(_, negated):
            return negated
        case IsNaN(_, negated):
            return not negated
        case _:
            return False


def _has_nan_literal(term: Term) -> bool:
    match term:
        case Compare(_, _, literal):
            return bool(literal != literal)
        case OneOf(_, values, _):
            return any(value != value for value in values)
        case _:
            return False
