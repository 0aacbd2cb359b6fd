"""Two ways of doing the same in one warm session, taken in turns so that neither has the calmer machine."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Turns:
    """The seconds of each way, run by run."""

    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    @property
    def best(self) -> tuple[float, float]:
        """The best of each."""
        return min(self.ours), min(self.theirs)

    @property
    def ratio(self) -> float:
        """Ours over theirs, of the best."""
        ours, theirs = self.best
        return ours / theirs


def take_turns(ours: Callable[[], object], theirs: Callable[[], object], runs: int) -> Turns:
    """Both ways, so many times each; whoever wants them warm has run them before."""
    taken = [(seconds(theirs), seconds(ours)) for _ in range(runs)]
    return Turns(tuple(pair[1] for pair in taken), tuple(pair[0] for pair in taken))


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def say(text: str) -> None:
    """Progress, beside the report."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def spark_session() -> Iterator[Any]:
    """A local session with Esker's own settings, for the time of a suite."""
    from esker.spark.session import start_session

    spark = start_session()
    try:
        yield spark
    finally:
        spark.stop()
