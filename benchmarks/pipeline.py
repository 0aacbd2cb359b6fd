"""The pipeline on Spark beside the process without a JVM: spans a CPU-second, and what a second worker brings.

All read the same files, and commit to tables of a SQLite catalog; in turns, each in a process tree of its own, after a
first ingest. CPU-seconds are those of the whole tree: driver, JVM, planner and Python workers.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import Comparison
from benchmarks.otlp import _json, _write, generated
from benchmarks.turns import say

SPANS = 60_000  # of one file; the others are copies of it
BYTES = 2e9  # at scale 1
_TURNS = 2
_Run = dict[str, Any]


def compare(scratch: Path, *, scale: float = 1) -> Iterator[Comparison]:
    """Protobuf, with one worker and two, and JSON."""
    requests = list(generated(SPANS))
    for what, texts in (
        ("protobuf", [request.SerializeToString() for request in requests]),
        ("JSON", [_json(request) for request in requests]),
    ):
        folder = scratch / "pipeline" / what
        files = _fill(folder, texts, int(scale * BYTES))
        masters = ("arrow", "local[2]", "local[1]") if what == "protobuf" else ("arrow", "local[2]")
        runs: dict[str, list[_Run]] = {master: [] for master in masters}
        for _ in range(_TURNS):
            for master in masters:
                runs[master].append(_measured(master, folder, scratch))
                say(f"{what} {master}: {json.dumps(runs[master][-1])}")
                assert runs[master][-1]["rows"] == files * SPANS
        yield _rates(what, files, runs["arrow"], runs["local[2]"])
        if "local[1]" in runs:
            yield _scaling(runs["local[1]"], runs["local[2]"])
        shutil.rmtree(folder)


def _fill(folder: Path, requests: list[bytes], size: int) -> int:
    """Files of so many bytes in all, and two to be warmed up with; how many there are."""
    for name in ("all", "first"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    first = folder / "all" / "0.otlp"
    _write(first, requests)
    count = max(2, round(size / first.stat().st_size))
    for number in range(1, count):
        shutil.copyfile(first, folder / "all" / f"{number}.otlp")
    for number in range(4):
        shutil.copyfile(first, folder / "first" / f"{number}.otlp")
    return count


def _measured(master: str, folder: Path, scratch: Path) -> _Run:
    place = scratch / "pipeline" / "lake"
    place.mkdir()
    try:
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.pipeline_run", master]
        places = [str(folder / "all"), str(folder / "first"), str(place)]
        done = subprocess.run([*command, *places], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"a measurement failed:\n{done.stderr}")
        return dict(json.loads(done.stdout.strip().splitlines()[-1]))
    finally:
        shutil.rmtree(place)


def _rates(what: str, files: int, here: list[_Run], spark: list[_Run]) -> Comparison:
    """The best of some turns each: a busy machine only ever makes it slower."""
    ours, theirs = (max(run["rows"] / run["cpu"] for run in runs) for runs in (spark, here))
    return Comparison(
        f"ingesting {files * SPANS:,} spans in {what} by the pipeline on Spark; by the process without a JVM",
        f"{ours / 1e3:,.0f} k spans/CPU-s",
        f"{theirs / 1e3:,.0f} k",
        ours / theirs,
        "at least 0.8 times as many",
        ours >= 0.8 * theirs,
    )


def _scaling(one: list[_Run], two: list[_Run]) -> Comparison:
    """Seconds, so it says something on a machine with two cores free and nothing else."""
    alone, both = (min(run["seconds"] for run in runs) for runs in (one, two))
    return Comparison(
        "the same in protobuf by two workers of Spark's; by one",
        f"{both:.1f} s",
        f"{alone:.1f} s",
        alone / both,
        "at least 1.7 times as fast",
        alone / both >= 1.7,
    )
