"""The report of TPC-H beside Iceberg's runtime: one line for each query, and the geometric means of the ratios."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PAGE = Path("docs/benchmarks.md")
BEGIN, END = "<!-- bench-jvm-tpch: begin -->", "<!-- bench-jvm-tpch: end -->"
SCALE = "Scale "
MOST_BESIDE_JAVA, MOST_BESIDE_PLAIN = 1.0, 1.05
HEADER = (
    "| query | Esker | Iceberg's runtime | plain Parquet | Esker / Iceberg's runtime | Esker / plain Parquet |\n"
    "|---|--:|--:|--:|--:|--:|"
)
_SPREAD = re.compile(r"([\d.]+) s \(([\d.]+)–([\d.]+)\)")


@dataclass(frozen=True, slots=True)
class Spread:
    """Seconds: the median of the runs, the fastest and the slowest."""

    typical: float
    least: float
    most: float

    def text(self) -> str:
        """As a cell of the table."""
        return f"{self.typical:.3f} s ({self.least:.3f}–{self.most:.3f})"


@dataclass(frozen=True, slots=True)
class Line:
    """The times of one query."""

    name: str
    ours: Spread
    java: Spread
    plain: Spread

    @property
    def ratios(self) -> tuple[float, float]:
        """Esker's median over that of Iceberg's runtime, and over that of plain Parquet."""
        return self.ours.typical / self.java.typical, self.ours.typical / self.plain.typical

    def text(self) -> str:
        """As a row of the table."""
        spreads = (side.text() for side in (self.ours, self.java, self.plain))
        return f"| {' | '.join((self.name, *spreads, *(f'{ratio:.2f}' for ratio in self.ratios)))} |"

    @classmethod
    def parse(cls, text: str) -> Line | None:
        """Return the line that a row of the table shows, or None if it is not one of a query."""
        found = [Spread(*map(float, match)) for match in _SPREAD.findall(text)]
        return cls(text.split("|")[1].strip(), *found) if len(found) == 3 else None


@dataclass(frozen=True, slots=True)
class Summary:
    """Of several queries: the sums of the medians, and the geometric means of the ratios."""

    count: int
    seconds: tuple[float, float, float]
    ratios: tuple[float, float]

    @property
    def met(self) -> bool:
        """Whether the means are at most what is required."""
        return self.ratios[0] <= MOST_BESIDE_JAVA and self.ratios[1] <= MOST_BESIDE_PLAIN

    def rows(self) -> list[str]:
        """The last rows of the table."""
        sums = " | ".join(f"{seconds:.2f} s" for seconds in self.seconds)
        means = " | ".join(f"{ratio:.2f}" for ratio in self.ratios)
        return [
            f"| {self.count} queries: sum, geometric mean of the ratios | {sums} | {means} |",
            f"| required | | | | at most {MOST_BESIDE_JAVA:g} | at most {MOST_BESIDE_PLAIN:g} |",
        ]


def summary(lines: Sequence[Line]) -> Summary:
    """Return the sums and means of one or more queries."""
    sides = [(line.ours.typical, line.java.typical, line.plain.typical) for line in lines]
    first, second, third = (sum(side) for side in zip(*sides, strict=True))
    beside_java, beside_plain = (
        math.exp(sum(math.log(line.ratios[at]) for line in lines) / len(lines)) for at in (0, 1)
    )
    return Summary(len(lines), (first, second, third), (beside_java, beside_plain))


def table(lines: Sequence[Line]) -> str:
    """Return the whole table."""
    return "\n".join([HEADER, *(line.text() for line in lines), *summary(lines).rows()])


def store(page: Path, lines: Sequence[Line], command: str, scale: float) -> None:
    """Replace the report between the marks of the page. A query of the same scale that was not measured now keeps its
    line. ``RuntimeError`` if the page does not have the marks."""
    before, _, rest = page.read_text().partition(BEGIN)
    old, _, after = rest.partition(END)
    if not after:
        raise RuntimeError(f"{page} does not have the marks {BEGIN} and {END}")
    title = f"{SCALE}{scale:g}. Last command:"
    known = {line.name: line for text in old.splitlines() if (line := Line.parse(text))} if title in old else {}
    known |= {line.name: line for line in lines}
    report = table([known[name] for name in sorted(known)])
    page.write_text(f"{before}{BEGIN}\n{title}\n`{command}`\n\n{report}\n{END}{after}")
