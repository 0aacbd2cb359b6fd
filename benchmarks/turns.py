"""Two ways of doing the same in one warm session, taken in turns so that neither has the calmer machine."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Turns:
    """The seconds of each way, run by run."""

    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    our_cpu: float  # the least that a run took, of this process and Spark's; other programs disturb it less
    their_cpu: float

    @property
    def typical(self) -> tuple[float, float]:
        """The median of each: on a busy machine the best run is a matter of luck."""
        return median(self.ours), median(self.theirs)

    @property
    def ratio(self) -> float:
        """Ours over theirs, of the medians."""
        ours, theirs = self.typical
        return ours / theirs


def take_turns(ours: Callable[[], object], theirs: Callable[[], object], runs: int) -> Turns:
    """Both ways, so many times each; whoever wants them warm has run them before."""
    taken = [(_cost(theirs), _cost(ours)) for _ in range(runs)]
    their, our = ([pair[side] for pair in taken] for side in (0, 1))
    return Turns(
        ours=tuple(wall for wall, _ in our),
        theirs=tuple(wall for wall, _ in their),
        our_cpu=min(cpu for _, cpu in our),
        their_cpu=min(cpu for _, cpu in their),
    )


def _cost(work: Callable[[], object]) -> tuple[float, float]:
    before = cpu_seconds()
    wall = seconds(work)
    return wall, cpu_seconds() - before


def cpu_seconds() -> float:
    """Of this process and all below it, Spark's JVM and its workers among them, where /proc tells."""
    return sum(processes().values()) / os.sysconf("SC_CLK_TCK")


def processes(root: int | None = None) -> dict[int, int]:
    """A process, by default this one, and all below it, each with the ticks that it and its ended children used."""
    parents, used = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            parents[int(stat.parent.name)], used[int(stat.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    ours, grown = {os.getpid() if root is None else root}, True
    while grown:
        below = {pid for pid, parent in parents.items() if parent in ours} - ours
        ours, grown = ours | below, bool(below)
    return {pid: used.get(pid, 0) for pid in ours}


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
    from esker.spark.session.spark_session import start_session

    spark = start_session()
    try:
        yield spark
    finally:
        spark.stop()
