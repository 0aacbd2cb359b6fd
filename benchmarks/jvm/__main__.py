"""``make bench-jvm``: run the rows asked for by both sides in turns, compare their answers, report medians."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.jvm.quotes import quote_reports
from benchmarks.jvm.rows import CHANGES, ROWS, SOURCE, TABLES, Row
from benchmarks.jvm.sides import EskerSide, JavaSide, Side, both_sides, compacting_on_spark
from benchmarks.synthesise import synthesise
from benchmarks.turns import say

PAGE = Path("docs/benchmarks.md")
BEGIN, END = "<!-- bench-jvm: begin -->", "<!-- bench-jvm: end -->"
HEADER = (
    "| row | what | Esker | Iceberg's runtime | ratio | required | CPU time: Esker | CPU time: Iceberg's runtime |\n"
    "|---|---|--:|--:|--:|---|--:|--:|"
)


@dataclass(frozen=True, slots=True)
class Measured:
    """The times of one row, run by run."""

    name: str
    row: Row
    ours: Sequence[tuple[float, float]]  # wall-clock and CPU seconds
    theirs: Sequence[tuple[float, float]]

    @property
    def ratio(self) -> float:
        """Esker's median over the peer's."""
        return median(wall for wall, _ in self.ours) / median(wall for wall, _ in self.theirs)

    def line(self) -> str:
        """The row of the report."""
        walls = [_spread(wall for wall, _ in side) for side in (self.ours, self.theirs)]
        cpus = [f"{median(cpu for _, cpu in side):.2f} s" for side in (self.ours, self.theirs)]
        cells = (self.name, self.row.what, *walls, f"{self.ratio:.2f}", f"at most {self.row.most:g}", *cpus)
        return f"| {' | '.join(cells)} |"


def _spread(walls: Iterable[float]) -> str:
    held = sorted(walls)
    return f"{median(held):.2f} s ({held[0]:.2f}–{held[-1]:.2f})"


def main() -> int:
    """Report the rows asked for; 1 if one of them took longer than required."""
    parser = argparse.ArgumentParser(prog="make bench-jvm", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--size", type=int, default=3_000_000, help="rows of each table; 3000000 by default")
    parser.add_argument("--runs", type=int, default=5, help="measured runs of each side; 5 by default")
    parser.add_argument("--warm", type=int, default=2, help="runs before them that are not measured; 2 by default")
    parser.add_argument("--write", action="store_true", help=f"store the report in {PAGE}")
    parser.add_argument("--environment", type=Path, default=Path(".venv-jvm"), help="has the jars and PySpark")
    chosen = parser.parse_args()
    if unknown := set(chosen.rows) - ROWS.keys():
        parser.error(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    with tempfile.TemporaryDirectory(prefix="esker-bench-jvm-") as scratch:
        lines, met = [HEADER], True
        print(HEADER, flush=True)
        with both_sides(Path(scratch), chosen.environment.resolve()) as (ours, theirs):
            for measured in compare(ours, theirs, Path(scratch), chosen):
                print(measured.line(), flush=True)
                lines.append(measured.line())
                met &= measured.ratio <= measured.row.most
    if chosen.write:
        store(PAGE, lines, _command(chosen))
        quote_reports()
    return 0 if met else 1


def compare(ours: EskerSide, theirs: JavaSide, scratch: Path, chosen: argparse.Namespace) -> Iterator[Measured]:
    """Return each row as it is measured. ``RuntimeError`` if the two sides give different answers."""
    sides: tuple[Side, Side] = (ours, theirs)
    made = scratch / "source"
    ours.spark.sql(SOURCE.format(rows=chosen.size)).repartition(4).sortWithinPartitions("id").write.parquet(str(made))
    for side in sides:
        side.view("source", f"SELECT * FROM parquet.`{made}`")
        side.view("changes", CHANGES.format(changed=chosen.size // 20))
    first: dict[str, tuple[int, int]] = {}
    for name in chosen.rows or ROWS:
        row = ROWS[name]
        if row.table == "planned" and not ours.planned:
            ours.planned = theirs.planned = str(synthesise(scratch / "esker" / "planned", layout="pyiceberg"))
        if row.table not in first:
            for text in TABLES[row.table]:
                _both(sides, text)
            has_rows = len(TABLES[row.table]) > 1
            first[row.table] = (ours.snapshot(row.table), theirs.snapshot(row.table)) if has_rows else (0, 0)
        if row.after:
            _roll_back(sides, row, first)
        for text in row.after:
            _both(sides, text)
        with compacting_on_spark() if row.on_spark else nullcontext():
            measured = _measured(name, row, sides, first, chosen)
        yield measured


def _measured(
    name: str, row: Row, sides: tuple[Side, Side], first: dict[str, tuple[int, int]], chosen: argparse.Namespace
) -> Measured:
    taken: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
    for run in range(chosen.warm + chosen.runs):
        if row.rolls_back:
            _roll_back(sides, row, first)
        for text in row.again:
            _both(sides, text)
        answers: dict[int, Any] = {}
        for at in (0, 1) if run % 2 else (1, 0):
            if row.forgets:
                sides[at].forget()
            cost, answers[at] = _cost(sides[at], [text.replace("{run}", str(run)) for text in row.work])
            if run >= chosen.warm:
                taken[at].append(cost)
        if row.check:
            answers = dict(enumerate(side.sql(row.check) for side in sides))
        if answers[0] != answers[1]:
            raise RuntimeError(f"{name}: the answers differ: {str(answers[0])[:500]} and {str(answers[1])[:500]}")
        say(f"{name}, run {run}: {[part[-1] if part else None for part in taken]}")
    return Measured(name, row, *taken)


def _cost(side: Side, work: Sequence[str]) -> tuple[tuple[float, float], Any]:
    cpu = side.cpu_seconds()
    took = [side.timed(text) for text in work]
    return (sum(seconds for seconds, _ in took), side.cpu_seconds() - cpu), [rows for _, rows in took]


def _both(sides: Iterable[Side], text: str) -> None:
    for side in sides:
        side.sql(text)


def _roll_back(sides: Sequence[Side], row: Row, first: dict[str, tuple[int, int]]) -> None:
    for side, snapshot_id in zip(sides, first[row.table], strict=True):
        side.roll_back(row.table, snapshot_id)


def _command(chosen: argparse.Namespace) -> str:
    return f"make bench-jvm ROWS='{' '.join(chosen.rows)}' SIZE={chosen.size} RUNS={chosen.runs} WRITE=1"


def store(page: Path, lines: Sequence[str], command: str) -> None:
    """Replace the report between the marks of the page. A row that was not measured now keeps its line."""
    before, _, rest = page.read_text().partition(BEGIN)
    old, _, after = rest.partition(END)
    if not after:
        raise RuntimeError(f"{page} does not have the marks {BEGIN} and {END}")
    known = {_name(line): line for line in old.splitlines() if _name(line) in ROWS}
    known |= {_name(line): line for line in lines if _name(line) in ROWS}
    table = "\n".join([HEADER, *(known[name] for name in ROWS if name in known)])
    page.write_text(f"{before}{BEGIN}\nLast command:\n`{command}`\n\n{table}\n{END}{after}")


def _name(line: str) -> str:
    return line.split("|")[1].strip() if line.count("|") > 2 else ""


if __name__ == "__main__":
    sys.exit(main())
