"""Planning over 100,000 files in 1,000 manifests with 20 columns of statistics, beside PyIceberg.

The tables have the Avro blocks that each writer makes. Both sides plan a small table first, so that imports are not
measured. A cold plan has no decoded manifests; the files themselves are in the memory of the operating system.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks.measure import Comparison, Measured, measure
from benchmarks.synthesise import REGION, synthesise

PREDICATE_SQL = "c0 >= 500000 AND c0 < 600000"
PEER = "PyIceberg 0.12"
RUNS = 3


@dataclass(frozen=True, slots=True)
class Table:
    """A table, a small one beside it, and a folder for decoded manifests."""

    metadata: Path
    small: Path
    cache: Path

    def ours(self, work: str, *, cold: bool = True, environ: Mapping[str, str] | None = None) -> Measured:
        """Esker's measure in a process of its own. A cold one begins with an empty folder."""
        if cold:
            shutil.rmtree(self.cache, ignore_errors=True)
        setup = (
            "from esker.wiring import open_table\n"
            f"open_table({str(self.small)!r}).scan({PREDICATE_SQL!r}).plan().funnel\n"
            f"table = open_table({str(self.metadata)!r})"
        )
        return measure(setup, work, environ={"ESKER_MANIFEST_CACHE": str(self.cache), **(environ or {})})

    def theirs(self, work: str) -> Measured:
        """PyIceberg's measure in a process of its own."""
        setup = (
            "from pyiceberg.table import StaticTable\n"
            f"list(StaticTable.from_metadata('file://{self.small}').scan({PREDICATE_SQL!r}).plan_files())\n"
            f"table = StaticTable.from_metadata('file://{self.metadata}')"
        )
        return measure(setup, work)


def compare(scratch: Path, *, manifests: int = 1000, files: int = 100) -> Iterator[Comparison]:
    """Plans of each writer's layout: cold, again, and in a new process. Then one by partition, a full one, and one
    of ten times the files."""
    small = synthesise(scratch / "planning-small", manifests=2, files=2)
    for layout in ("pyiceberg", "java", "esker"):
        place = scratch / f"planning-{layout}-{manifests}x{files}"
        metadata = synthesise(place, manifests=manifests, files=files, layout=layout)
        yield from _of_layout(Table(metadata, small, scratch / "planning-cache"), layout, f"{manifests * files:,}")
    parted = synthesise(
        scratch / f"planning-parted-{manifests}x{files}",
        manifests=manifests,
        files=files,
        layout="pyiceberg",
        partitioned=True,
    )
    yield _by_partition(Table(parted, small, scratch / "planning-cache"), manifests)
    yield from _full(Table(metadata, small, scratch / "planning-cache"), f"{manifests * files:,}")
    large = synthesise(
        scratch / f"planning-large-{manifests}x{files}", manifests=manifests, files=files, layout="pyiceberg", copies=10
    )
    usual = synthesise(scratch / f"planning-pyiceberg-{manifests}x{files}")
    yield from _one_by_one(Table(usual, small, scratch / "planning-cache"), large, manifests * files)


def _of_layout(table: Table, layout: str, files: str) -> Iterator[Comparison]:
    plan = f"answer = table.scan({PREDICATE_SQL!r}).plan().funnel.files_kept"
    cold, later, peer = [], [], []
    for _ in range(RUNS):
        peer.append(table.theirs(f"answer = len(list(table.scan({PREDICATE_SQL!r}).plan_files()))"))
        cold.append(table.ours(plan))
        later.append(table.ours(plan, cold=False))
    again = [table.ours(f"{plan}\n{_AGAIN}", cold=False) for _ in range(RUNS)]
    kept = {run.answer for run in (*cold, *later, *peer)}
    if len(kept) != 1:
        raise RuntimeError(f"the plans differ: {kept} files")
    what = f"plan of {files} files on a column predicate, blocks as {layout} writes them"
    yield _faster(f"cold {what}", cold, peer, 12)
    yield _faster(f"the same again in the process ({layout})", [_second(run) for run in again], peer, 100)
    yield _faster(f"the same in a new process ({layout})", later, peer, 40)


# The first plan loads what is stored; the figure is the median of nine after it.
_AGAIN = f"""
import statistics
found = []
for _ in range(9):
    began, cpu = time.perf_counter(), time.process_time()
    table.scan({PREDICATE_SQL!r}).plan().funnel
    found.append((time.perf_counter() - began, time.process_time() - cpu))
answer = [statistics.median(side) for side in zip(*found)]
"""


def _second(run: Measured) -> Measured:
    assert isinstance(run.answer, list)
    return Measured(seconds=run.answer[0], cpu=run.answer[1], peak_bytes=run.peak_bytes, answer=None)


def _by_partition(table: Table, manifests: int) -> Comparison:
    where = f"region = {manifests // REGION // 2}"
    ours, peer = [], []
    for _ in range(RUNS):
        peer.append(table.theirs(f"answer = len(list(table.scan({where!r}).plan_files()))"))
        ours.append(table.ours(f"answer = table.scan({where!r}).plan().funnel.files_kept"))
    if {run.answer for run in ours} != {run.answer for run in peer}:
        raise RuntimeError(f"the plans differ: {ours} and {peer}")
    return _faster(f"cold plan that keeps {REGION} of {manifests:,} manifests by partition", ours, peer, 20)


def _full(table: Table, files: str) -> Iterator[Comparison]:
    ours = table.ours("plan = table.scan().plan()\nanswer = len(plan.tasks)")
    peer = table.theirs("kept = list(table.scan().plan_files())\nanswer = len(kept)")
    share = peer.peak_bytes / ours.peak_bytes
    yield Comparison(
        f"peak memory of a full plan of {files} files, {PEER}",
        f"{ours.peak_bytes / 1e6:.0f} MB",
        f"{peer.peak_bytes / 1e6:.0f} MB",
        share,
        "below half",
        share > 2,
    )
    yield _faster(f"full plan of {files} files", [ours], [peer], 0)


def _one_by_one(table: Table, large: Path, files: int) -> Iterator[Comparison]:
    """The tasks of ten times the files, counted and not kept, with the cache of manifests and without. The peer is the
    smaller table."""
    for environ, how in (({}, "with the cache of manifests"), ({"ESKER_MANIFEST_CACHE_MEMORY_MB": "0"}, "without it")):
        few = table.ours(_COUNTED, environ=environ)
        many = replace(table, metadata=large).ours(_COUNTED, environ=environ)
        if (few.answer, many.answer) != (files, files * 10):
            raise RuntimeError(f"there are {few.answer} and {many.answer} tasks, not {files} and {files * 10}")
        peak = many.peak_bytes / 1e6
        yield Comparison(
            f"{files * 10:,} tasks one by one, {how}, beside {files:,}: peak memory",
            f"{peak:.0f} MB in {many.seconds:.1f} s, CPU {many.cpu:.1f} s",
            f"{few.peak_bytes / 1e6:.0f} MB in {few.seconds:.1f} s, CPU {few.cpu:.1f} s",
            many.peak_bytes / few.peak_bytes,
            "below 400 MB",
            peak < 400,
        )


_COUNTED = "answer = sum(1 for _ in table.scan().tasks())"


def _faster(what: str, ours: list[Measured], theirs: list[Measured], times: int) -> Comparison:
    """Medians on the clock, with CPU time beside them: other work on the machine disturbs that less."""

    def shown(runs: list[Measured]) -> str:
        return f"{_wall(runs):.3f} s, CPU {median(run.cpu for run in runs):.3f} s"

    ratio = _wall(theirs) / _wall(ours)
    asked = f"at least {times} times as fast" if times else "-"
    return Comparison(f"{what}, {PEER}", shown(ours), shown(theirs), ratio, asked, ratio >= times)


def _wall(runs: list[Measured]) -> float:
    return median(run.seconds for run in runs)
