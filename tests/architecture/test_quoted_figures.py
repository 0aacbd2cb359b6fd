"""Figures of the reports in docs/benchmarks.md that other pages quote are those of the reports."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.jvm.quotes import BEGIN, END, PAGES, REPORTS, quoted, quotes
from benchmarks.jvm.rows import ROWS
from benchmarks.jvm.tpch_report import BEGIN as TPCH_BEGIN
from benchmarks.jvm.tpch_report import END as TPCH_END
from benchmarks.jvm.tpch_report import Line, Spread, store, table
from documentation import ROOT

REPORT = f"""
{TPCH_BEGIN}
Scale 0.1. Last command:
`make bench-jvm-tpch SCALE=0.1`

{table([Line("q01", Spread(2, 1, 3), Spread(4, 3, 5), Spread(1, 1, 1))])}
{TPCH_END}
<!-- bench-jvm: begin -->
| row | what | Esker | Iceberg's runtime | ratio | required | CPU time: Esker | CPU time: Iceberg's runtime |
|---|---|--:|--:|--:|---|--:|--:|
| count | `SELECT count(*)` | 0.04 s (0.03–0.05) | 0.15 s (0.14–0.19) | 0.24 | at most 0.3 | 0.05 s | 0.09 s |
| compact_z | z-order | 3.63 s (3.05–3.86) | 6.92 s (6.51–7.01) | 0.53 | at most 1 | 3.14 s | 12.81 s |
<!-- bench-jvm: end -->
"""


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_a_page_quotes_the_reports_as_they_are(path: Path) -> None:
    page = (ROOT / path).read_text()
    assert page == quoted(page, quotes((ROOT / REPORTS).read_text()), PAGES[path]), (
        "run: python -c 'from benchmarks.jvm.quotes import quote_reports; quote_reports()'"
    )


def test_a_page_quotes_rows_that_exist() -> None:
    assert {name for names in PAGES.values() for name in names} <= {"tpch", *ROWS}


def test_a_quote_has_the_medians_and_the_ratio() -> None:
    page = quoted(f"before\n{BEGIN}\nold\n{END}\nafter\n", quotes(REPORT), ("tpch", "count"))
    assert page.splitlines()[4:] == [
        "| 1 queries of TPC-H at scale 0.1; geometric mean of the ratios | 4.00 s | 2.00 s | 0.50 |",
        "| `SELECT count(*)` | 0.15 s | 0.04 s | 0.24 |",
        END,
        "after",
    ]
    assert "old" not in page


def test_all_rows_are_quoted_if_none_is_named() -> None:
    assert "| z-order | 6.92 s | 3.63 s | 0.53 |" in quoted(f"{BEGIN}\n{END}", quotes(REPORT), ())


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(RuntimeError, match="does not have the marks"):
        quoted("no marks", [], ())


def test_queries_that_were_not_measured_again_keep_their_lines(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before {TPCH_BEGIN}{TPCH_END} after")
    first, second = (Line(name, Spread(2, 1, 3), Spread(4, 3, 5), Spread(1, 1, 1)) for name in ("q01", "q02"))
    store(page, [second], "one", 1)
    store(page, [first], "two", 1)
    assert page.read_text().count("2.000 s (1.000–3.000)") == 2
    assert (
        "| 2 queries: sum, geometric mean of the ratios | 4.00 s | 8.00 s | 2.00 s | 0.50 | 2.00 |" in page.read_text()
    )
    store(page, [first], "three", 0.1)  # another scale is another report
    assert "q02" not in page.read_text()
    assert page.read_text().startswith("before ")
    assert page.read_text().endswith(" after")
