"""Quotes the reports of ``docs/benchmarks.md`` in other pages, so that each figure has one source."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from benchmarks.jvm import tpch_report

REPORTS = Path("docs/benchmarks.md")
BEGIN, END = "<!-- bench-jvm figures: begin -->", "<!-- bench-jvm figures: end -->"
HEADER = "| the same SQL on the same Spark | Iceberg's Spark runtime | Esker | ratio |\n|---|--:|--:|--:|"
TPCH = "tpch"
# README is short: what people do most, and what is furthest ahead or behind. The other page has every row.
PAGES: dict[Path, Collection[str]] = {
    Path("README.md"): (
        *(TPCH, "insert", "aggregate", "count", "delete_mor", "scan_mor", "update_mor", "merge_mor"),
        *("inserts", "compact", "compact_sort"),
    ),
    Path("docs/comparison.md"): (),
}


@dataclass(frozen=True, slots=True)
class Quote:
    """One line of a report: times as its cells show them, without the spread."""

    name: str
    what: str
    ours: str
    theirs: str
    ratio: str

    def text(self) -> str:
        """As a row of the table."""
        return f"| {self.what} | {self.theirs} | {self.ours} | {self.ratio} |"


def quotes(reports: str) -> list[Quote]:
    """Return what the two reports of the page have: the mean of TPC-H, then the rows of ``make bench-jvm``."""
    found = []
    tpch = _between(reports, tpch_report.BEGIN, tpch_report.END)
    scale = tpch.partition(tpch_report.SCALE)[2].partition(". ")[0]
    for cells in _rows(tpch):
        if cells[0].endswith("geometric mean of the ratios"):
            what = f"{cells[0].partition(' ')[0]} queries of TPC-H at scale {scale}; geometric mean of the ratios"
            found.append(Quote(TPCH, what, *cells[1:3], cells[4]))
    for cells in _rows(_between(reports, "<!-- bench-jvm: begin -->", "<!-- bench-jvm: end -->")):
        if len(cells) >= 6 and " s (" in cells[2]:
            ours, theirs = (cell.partition(" (")[0] for cell in cells[2:4])
            found.append(Quote(cells[0], cells[1], ours, theirs, cells[4]))
    return found


def quoted(page: str, found: list[Quote], names: Collection[str]) -> str:
    """Return the page with the quotes of these names, all if there are none, between its marks. ``RuntimeError`` if the
    page does not have the marks."""
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise RuntimeError(f"the page does not have the marks {BEGIN} and {END}")
    rows = [quote.text() for quote in found if not names or quote.name in names]
    return "\n".join((f"{before}{BEGIN}", HEADER, *rows, f"{END}{after}"))


def quote_reports(root: Path = Path()) -> None:
    """Write the figures of the reports to the pages that quote them."""
    found = quotes((root / REPORTS).read_text())
    for path, names in PAGES.items():
        page = root / path
        page.write_text(quoted(page.read_text(), found, names))


def _between(text: str, begin: str, end: str) -> str:
    return text.partition(begin)[2].partition(end)[0]


def _rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
