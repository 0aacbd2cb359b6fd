"""``make bench-jvm-tpch``: TPC-H's queries by Esker, Iceberg's runtime and plain Parquet, in turns, on the same files.

Iceberg's runtime writes the tables. Esker reads them through the same catalog, plain Parquet reads their data files.
Each side has a process and a Spark of its own.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from jvm_peer import Peer

import esker
from benchmarks.jvm.quotes import quote_reports
from benchmarks.jvm.sides import CpuClock, esker_session, java_peer, spark_peer
from benchmarks.jvm.tpch_report import PAGE, Line, Spread, store, summary, table
from benchmarks.tpch_data import TABLES, generate, queries
from benchmarks.turns import say

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Reader:
    """One side: what runs a query and returns the seconds until its rows are in Python, and its CPU time so far."""

    run: Callable[[str], tuple[float, Rows]]
    clock: CpuClock


def main() -> int:
    """Report the queries asked for; 1 if their mean is above what is required."""
    texts = queries(1)
    parser = argparse.ArgumentParser(prog="make bench-jvm-tpch", description=__doc__)
    parser.add_argument("queries", nargs="*", metavar="QUERY", help="q01 to q22; all by default")
    parser.add_argument("--scale", type=float, default=1, help="of TPC-H's tables; 1 by default")
    parser.add_argument("--runs", type=int, default=5, help="measured runs of each side; 5 by default")
    parser.add_argument("--warm", type=int, default=2, help="runs of all queries before them; 2 by default")
    parser.add_argument("--write", action="store_true", help=f"store the report in {PAGE}")
    parser.add_argument("--scratch", type=Path, help="where to make the tables; kept if given")
    parser.add_argument("--environment", type=Path, default=Path(".venv-jvm"), help="has the jars and PySpark")
    chosen = parser.parse_args()
    if unknown := set(chosen.queries) - texts.keys():
        parser.error(f"no such query: {', '.join(sorted(unknown))}; there are {', '.join(texts)}")
    with tempfile.TemporaryDirectory(prefix="esker-tpch-") as temporary:
        folder = (chosen.scratch or Path(temporary)).resolve() / f"tpch-{chosen.scale:g}"
        with readers(folder, chosen.environment.resolve(), chosen.scale) as sides:
            lines = []
            for line in compare(sides, chosen):
                lines.append(line)
                if chosen.write:  # at once: a run takes long, and may be ended
                    store(PAGE, [line], _command(chosen), chosen.scale)
                    quote_reports()
    print(table(lines))
    return 0 if summary(lines).met else 1


@contextmanager
def readers(folder: Path, environment: Path, scale: float) -> Iterator[tuple[Reader, Reader, Reader]]:
    """Start Esker, Iceberg's runtime and plain Parquet, on tables that the runtime has written."""
    files = generate(folder / "generated", scale)
    with ExitStack() as opened:
        java = opened.enter_context(java_peer(folder, environment))
        java.run("CREATE NAMESPACE IF NOT EXISTS java.tpch", "USE java.tpch")
        for name in TABLES:
            generated = Path(files[name][0]).parent
            java.sql(f"CREATE TABLE IF NOT EXISTS {name} USING iceberg AS SELECT * FROM parquet.`{generated}`")
        plain = opened.enter_context(spark_peer(folder / "plain", environment, {"spark.sql.extensions": ""}))
        for name in TABLES:
            data = folder / "java" / "tpch" / name / "data"
            plain.sql(f"CREATE TEMPORARY VIEW {name} USING parquet OPTIONS (path '{data}')")
        spark = opened.enter_context(esker_session(java.version))
        lake = esker.connect(
            f"sqlite:///{folder}/java.db?catalog_name=java", warehouse=str(folder / "java"), spark=spark
        )
        lake.sql("USE tpch")
        ours = Reader(lambda text: _by_esker(lake, text), CpuClock(without=(java.pid, plain.pid)))
        yield ours, _of_peer(java), _of_peer(plain)


def _by_esker(lake: esker.Lake, text: str) -> tuple[float, Rows]:
    began = time.perf_counter()
    found = lake.sql(text).collect()
    return time.perf_counter() - began, [tuple(row) for row in found]


def _of_peer(peer: Peer) -> Reader:
    def run(text: str) -> tuple[float, Rows]:
        answer = peer.sql(text)
        return answer.seconds, answer.rows

    return Reader(run, CpuClock(peer.pid))


def compare(sides: Sequence[Reader], chosen: argparse.Namespace) -> Iterator[Line]:
    """Return the times of each query. ``RuntimeError`` if the sides give different answers."""
    texts = {name: text for name, text in queries(chosen.scale).items() if name in (chosen.queries or [name])}
    for warm in range(chosen.warm):
        say(f"warm run {warm + 1} of {chosen.warm}")
        for name, text in texts.items():
            _turn(name, text, sides, warm)
    for name, text in texts.items():
        turns = [_turn(name, text, sides, run) for run in range(chosen.runs)]
        walls, cpus = ([[cost[at] for cost in side] for side in zip(*turns, strict=True)] for at in (0, 1))
        line = Line(name, *(Spread(median(held), min(held), max(held)) for held in walls))
        say(f"{line.text()} CPU: {', '.join(f'{median(held):.2f} s' for held in cpus)}")
        yield line


def _turn(name: str, text: str, sides: Sequence[Reader], first: int) -> list[tuple[float, float]]:
    """Return wall-clock and CPU seconds of each side. Another side is the first each time."""
    costs: list[tuple[float, float]] = [(0, 0)] * len(sides)
    answers: list[Counter[tuple[Any, ...]]] = []
    for step in range(len(sides)):
        at = (first + step) % len(sides)
        cpu = sides[at].clock.seconds()
        wall, rows = sides[at].run(text)
        costs[at] = (wall, sides[at].clock.seconds() - cpu)
        answers.append(Counter(rows))
    if any(answer != answers[0] for answer in answers):
        raise RuntimeError(f"{name}: the answers differ: {[str(answer)[:500] for answer in answers]}")
    return costs


def _command(chosen: argparse.Namespace) -> str:
    asked = f"QUERIES='{' '.join(chosen.queries)}' " if chosen.queries else ""
    return f"make bench-jvm-tpch {asked}SCALE={chosen.scale:g} RUNS={chosen.runs} WRITE=1"


if __name__ == "__main__":
    sys.exit(main())
