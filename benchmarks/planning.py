"""Planning over 100,000 files in 1,000 manifests with 20 columns of statistics, beside PyIceberg."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Comparison, measure
from benchmarks.synthesise import synthesise

PREDICATE_SQL = "c0 >= 500000 AND c0 < 600000"


def compare(scratch: Path, *, manifests: int = 1000, files: int = 100) -> Iterator[Comparison]:
    """A cold plan on a column predicate, then the memory of a full one."""
    metadata = synthesise(scratch / f"planning-{manifests}x{files}", manifests=manifests, files=files)
    ours = measure(
        f"import esker\nfrom esker.wiring import open_table\ntable = open_table({str(metadata)!r})",
        f"plan = table.scan({PREDICATE_SQL!r}).plan()\nanswer = plan.funnel.files_kept",
        runs=3,
    )
    peer_setup = (
        f"from pyiceberg.table import StaticTable\ntable = StaticTable.from_metadata('file://' + {str(metadata)!r})"
    )
    theirs = measure(peer_setup, f"answer = len(list(table.scan({PREDICATE_SQL!r}).plan_files()))")
    if ours.answer != theirs.answer:
        raise RuntimeError(f"the plans differ: {ours.answer} files and {theirs.answer}")
    ratio = theirs.seconds / ours.seconds
    yield Comparison(
        f"cold plan of {manifests * files:,} files on a column predicate ({ours.answer:,} kept), PyIceberg 0.12",
        f"{ours.seconds:.2f} s",
        f"{theirs.seconds:.2f} s",
        ratio,
        "at least 8 times as fast",
        ratio >= 8,
    )
    full = measure(
        f"import esker\nfrom esker.wiring import open_table\ntable = open_table({str(metadata)!r})",
        "plan = table.scan().plan()\nanswer = len(plan.tasks)",
    )
    full_theirs = measure(peer_setup, "kept = list(table.scan().plan_files())\nanswer = len(kept)")
    share = full_theirs.peak_bytes / full.peak_bytes
    yield Comparison(
        f"peak memory of a full plan of {manifests * files:,} files, PyIceberg 0.12",
        f"{full.peak_bytes / 1e6:.0f} MB",
        f"{full_theirs.peak_bytes / 1e6:.0f} MB",
        share,
        "below half",
        share > 2,
    )
    ratio = full_theirs.seconds / full.seconds
    yield Comparison(
        f"full plan of {manifests * files:,} files, PyIceberg 0.12",
        f"{full.seconds:.2f} s",
        f"{full_theirs.seconds:.2f} s",
        ratio,
        "-",
        True,
    )
