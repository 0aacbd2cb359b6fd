"""The report as a page: one file, no script, plots as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from esker.demo.story import Story

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1c2733}
h1{font-size:1.6rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}td,th{padding:.3rem .6rem;border-bottom:1px solid #dde3e9;text-align:left}
td:last-child,th:last-child{text-align:right}.sum{padding:.8rem 1rem;border-left:4px solid #2e8b57;background:#f1f8f4}
.bad{border-color:#b3261e;background:#fdf0ef}pre{background:#f5f7f9;padding:1rem;overflow:auto}
svg text{font:11px system-ui,sans-serif;fill:#46535f}
"""
_WIDTH, _HEIGHT = 720, 180


def write_page(story: Story, path: Path) -> Path:
    """Write the page; where it is."""
    assert story.identity is not None
    good = "sum" if story.holds else "sum bad"
    same = " · ".join(f"{engine} {rows:,}" for engine, rows in story.counted_by.items())
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Esker: the demo</title>",
        f"<style>{_STYLE}</style><h1>Telemetry into Iceberg tables</h1>",
        f"<p class='{good}'>{escape(story.identity.text())}<br>same rows: {escape(same)}</p>",
        "<h2>Spans by day</h2>",
        columns_plot(story.rows_by_day),
        "<h2>The slowest operations, 99th percentile in ms</h2>",
        bars_plot([(f"{service}: {name}", round(ms), f"{ms:,.0f}") for service, name, ms in story.slowest]),
        "<h2>What one day's errors took</h2>",
        bars_plot(
            [(f"{level} opened", kept, f"{kept:,} of {total:,}") for level, kept, total in story.funnel],
            most=max((total for _, _, total in story.funnel), default=1),
        ),
        f"<pre>{escape(story.explained)}</pre>",
        "<h2>Step by step</h2><table><tr><th>step</th><th>found</th><th>s</th></tr>",
        *(
            f"<tr><td>{escape(step.what)}</td><td>{escape(step.found)}</td><td>{step.seconds:,.1f}</td></tr>"
            for step in story.steps
        ),
        f"<tr><th>in all</th><th></th><th>{story.seconds:,.1f}</th></tr></table></html>",
    ]
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def columns_plot(values: Sequence[tuple[str, int]]) -> str:
    """One column for each value, with a name below every few."""
    most = max((count for _, count in values), default=1) or 1
    step = _WIDTH / max(1, len(values))
    every = max(1, len(values) // 10)
    shapes = []
    for at, (name, count) in enumerate(values):
        tall = count / most * (_HEIGHT - 40)
        shapes.append(
            f"<rect x='{at * step + 1:.1f}' y='{_HEIGHT - 20 - tall:.1f}' width='{max(1.0, step - 2):.1f}' "
            f"height='{tall:.1f}' fill='#3b82c4'><title>{escape(name)}: {count:,}</title></rect>"
        )
        if at % every == 0:
            shapes.append(f"<text x='{at * step:.1f}' y='{_HEIGHT - 5}'>{escape(name)}</text>")
    shapes.append(f"<text x='0' y='12'>{most:,}</text>")
    return f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img'>{''.join(shapes)}</svg>"


def bars_plot(values: Sequence[tuple[str, int, str]], most: int | None = None) -> str:
    """One bar for each value, named on its left."""
    longest = most or max((count for _, count, _ in values), default=1) or 1
    shapes = []
    for at, (name, count, label) in enumerate(values):
        y, wide = at * 26, max(2.0, count / longest * (_WIDTH - 330))
        shapes.append(
            f"<text x='0' y='{y + 15}'>{escape(name)}</text>"
            f"<rect x='210' y='{y + 3}' width='{wide:.1f}' height='17' fill='#2e8b57'/>"
            f"<text x='{215 + wide:.1f}' y='{y + 15}'>{escape(label)}</text>"
        )
    return f"<svg viewBox='0 0 {_WIDTH} {max(1, len(values)) * 26}' role='img'>{''.join(shapes)}</svg>"
