"""One verdict algebra: of each file, may some row match, must every row match?

Inclusive pruning asks ``some``; a metadata-only delete asks ``every``; manifests ask ``some`` of their partition
summaries; a residual drops each conjunct of which ``every`` holds. One evaluation serves all four.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from esker.model.predicate import Bound, all_of, conjuncts
from esker.model.statistics import Statistics

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
    """The verdict on each conjunct, kept apart so that residuals and explanations can be told from it."""

    conjuncts: tuple[Bound, ...]
    verdicts: tuple[Verdict, ...]
    verdict: Verdict  # on the whole

    def residuals(self) -> tuple[Int64s, tuple[Bound, ...]]:
        """What is left to check per row: an index per row, and the few predicates it points into."""
        rows = len(self.verdict.some)
        if not self.verdicts or not rows:
            return np.zeros(rows, dtype=np.int64), (all_of(self.conjuncts),)
        settled = np.stack([verdict.every for verdict in self.verdicts], axis=1)
        patterns, index = np.unique(settled, axis=0, return_inverse=True)
        left = tuple(
            all_of(part for part, done in zip(self.conjuncts, pattern, strict=True) if not done) for pattern in patterns
        )
        return index.reshape(-1).astype(np.int64), left

    def rejections(self) -> tuple[tuple[Bound, int], ...]:
        """Each conjunct with how many rows it alone rejects."""
        return tuple(
            (part, int(np.count_nonzero(~verdict.some)))
            for part, verdict in zip(self.conjuncts, self.verdicts, strict=True)
        )


def judge(bound: Bound, statistics: Statistics) -> Verdict:
    """The verdict on every row of the statistics. Never raises: evidence that makes no sense is no evidence."""
    return examine(bound, statistics).verdict


def examine(bound: Bound, statistics: Statistics) -> Examination:
    """The verdict on every row, and on each conjunct."""
    parts = conjuncts(bound)
    verdicts = tuple(_verdict(part, statistics) for part in parts)
    rows = statistics.rows
    some, every = np.ones(rows, dtype=bool), np.ones(rows, dtype=bool)
    for verdict in verdicts:
        some &= verdict.some
        every &= verdict.every
    return Examination(parts, verdicts, Verdict(some, every))


def _verdict(bound: Bound, statistics: Statistics) -> Verdict:
    rows = statistics.rows
    return Verdict(np.ones(rows, dtype=bool), np.zeros(rows, dtype=bool))
