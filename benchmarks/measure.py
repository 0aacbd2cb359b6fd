"""One measurement in a process of its own: cold caches of the program, its own peak memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of the work itself, without start-up and imports; the peak above what these took, in bytes."""

    seconds: float
    peak_bytes: int
    answer: object
    cpu: float  # of all threads, in seconds


_FRAME = """
import json, resource, sys, threading, time
{setup}

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

before, peak, going = resident(), [resident()], [True]

def watch():
    while going[0]:
        peak[0] = max(peak[0], resident())
        time.sleep(0.002)

thread = threading.Thread(target=watch, daemon=True)
thread.start()
began, cpu = time.perf_counter(), time.process_time()
{work}
seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
peak[0] = max(peak[0], resident())
going[0] = False
print(json.dumps([seconds, peak[0] - before, answer, cpu]))
"""


def measure(setup: str, work: str, *, runs: int = 1, environ: Mapping[str, str] | None = None) -> Measured:
    """The best of several cold runs; ``work`` must leave its result in ``answer``. ``environ`` adds variables. Decoded
    manifests of other runs are not used unless it names a folder."""
    results, around = [], {**os.environ, "ESKER_MANIFEST_CACHE": "off"}
    for _ in range(runs):
        script = _FRAME.format(setup=setup, work=work)
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=False,
            env=around | dict(environ or {}),
        )
        if done.returncode:
            raise RuntimeError(f"a measurement failed:\n{done.stderr}")
        seconds, peak, answer, cpu = json.loads(done.stdout.strip().splitlines()[-1])
        results.append(Measured(seconds, peak, answer, cpu))
    return min(results, key=lambda result: result.seconds)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ours beside a peer's, with what was asked of it."""

    what: str
    ours: str
    theirs: str
    ratio: float
    asked: str
    met: bool

    def row(self) -> str:
        """A line of the report."""
        cells = (self.what, self.ours, self.theirs, f"{self.ratio:.2f}", self.asked, "yes" if self.met else "NO")
        return f"| {' | '.join(cells)} |"


HEADER = "| what | Esker | peer | ratio | asked | met |\n|---|--:|--:|--:|---|---|"
