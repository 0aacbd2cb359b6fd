"""The report of the tour: on a terminal, and as one HTML file without scripts.

Plots are HTML, so that their text wraps on a phone and none of it is cut.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

from esker.demo.story import Batch, Story

# ---------------------------------------------------------------- the page


_STYLE = """
:root{color-scheme:light dark;--ink:#1c2733;--dim:#5a6773;--paper:#fff;--line:#dde3e9;--block:#f5f7f9;
--good:#2e8b57;--good-paper:#f1f8f4;--bad:#b3261e;--bad-paper:#fdf0ef;--bar:#3b82c4;--second:#2e8b57}
@media (prefers-color-scheme:dark){:root{--ink:#e4e9ee;--dim:#9aa7b4;--paper:#12181e;--line:#2c3742;--block:#1a222a;
--good:#4fbf83;--good-paper:#15271e;--bad:#ff8a80;--bad-paper:#2d1716;--bar:#5aa2e6;--second:#4fbf83}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:0 auto;padding:1.5rem 1rem 3rem;
color:var(--ink);background:var(--paper);overflow-wrap:anywhere}
h1{font-size:1.7rem;line-height:1.2;margin:.5rem 0}h2{font-size:1.15rem;margin:2.2rem 0 .6rem}
p,ol,figure{margin:.6rem 0}.dim,figcaption{color:var(--dim);font-size:.9rem}
.sum{padding:.8rem 1rem;border-left:4px solid var(--good);background:var(--good-paper)}
.bad{border-color:var(--bad);background:var(--bad-paper)}
pre{background:var(--block);padding:.8rem 1rem;overflow:auto;font-size:.85rem;overflow-wrap:normal}
.columns{display:flex;align-items:flex-end;gap:2px;height:9rem;border-bottom:1px solid var(--line)}
.columns i{flex:1;min-width:1px;background:var(--bar)}.columns .second{background:var(--second)}
.ends{display:flex;justify-content:space-between;color:var(--dim);font-size:.85rem}
.bars{display:grid;grid-template-columns:minmax(7rem,max-content) 1fr max-content;gap:.3rem .7rem;align-items:center}
.bars b{display:block;height:1rem;background:var(--second)}.bars span{min-width:0}
table{border-collapse:collapse;width:100%}td,th{padding:.35rem .5rem;border-bottom:1px solid var(--line);
text-align:left;vertical-align:top}
td:last-child,th:last-child{text-align:right;white-space:nowrap}
@media (max-width:34rem){.bars{grid-template-columns:1fr max-content}.bars span{grid-column:1/-1}
td,th{padding:.35rem .25rem}}
"""


def write_page(story: Story, path: Path) -> Path:
    """Write the page and return its path."""
    assert story.identity is not None  # the tour is over
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width,initial-scale=1'>",
        f"<title>Esker: {escape(story.headline().lower())}</title><style>{_STYLE}</style></head><body>",
        *_lead(story),
        *_deployment(story),
        "<h2>Batches of the streaming query</h2>",
        batches_plot(story.batches),
        "<h2>Spans by day</h2>",
        columns_plot(story.rows_by_day, "spans"),
        "<h2>Requests by service, from the rollup that the query kept</h2>",
        bars_plot([(name, count, f"{count:,}, {errors / count:.1%} errors") for name, count, errors in story.services]),
        "<h2>The slowest operations, 99th percentile</h2>",
        bars_plot([(f"{service}: {name}", round(ms), f"{ms:,.0f} ms") for service, name, ms in story.slowest]),
        "<h2>What a search for one day's errors had to read</h2>",
        bars_plot(
            [(f"{level} opened", kept, f"{kept:,} of {total:,}") for level, kept, total in story.funnel],
            most=max((total for _, _, total in story.funnel), default=1),
        ),
        f"<pre>{escape(story.explained)}</pre>",
        *_steps(story),
        *_next(story, path.parent),
        "</body></html>",
    ]
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def _lead(story: Story) -> list[str]:
    """The beginning: what was killed, the sum, and what its words mean."""
    assert story.identity is not None  # as above
    same = " · ".join(f"{engine} {rows:,}" for engine, rows in story.counted_by.items())
    return [
        f"<h1>{escape(story.headline())}</h1>",
        "<p>Telemetry of the OpenTelemetry SDK was loaded from files and over HTTP by a streaming query "
        f"on Spark into Iceberg tables. Meanwhile {escape(_listed(story.killed))} were killed by SIGKILL. "
        "The query was started again and continued. Then everything that was sent was compared with "
        "everything in the tables:</p>",
        f"<p class='{'sum' if story.holds else 'sum bad'}'>{escape(story.identity.text())}</p>",
        f"<p class='dim'>{escape(story.identity.resent_text())} Records that cannot be decoded are dead letters: kept, "
        "with the reason.</p>",
        f"<p>The same rows for every engine: {escape(same)}.</p>",
    ]


def _deployment(story: Story) -> list[str]:
    """The parts and their addresses, if the tour had a deployment."""
    if not story.parts:
        return []
    rows = [f"<tr><td>{escape(name)}</td><td>{escape(address)}</td></tr>" for name, address in story.parts]
    return [
        "<h2>The deployment</h2><table><tr><th>part</th><th>address</th></tr>",
        *rows,
        "</table><p class='dim'>Each part was a program of its own. Spark's workers wrote the data files to S3. Each "
        "commit went through the catalog server, which keeps its pointers in PostgreSQL. The readers asked the catalog "
        "server, with a token that may only read.</p>",
    ]


def _steps(story: Story) -> list[str]:
    return [
        "<h2>Step by step</h2><table><tr><th>step</th><th>found</th><th>s</th></tr>",
        *(
            f"<tr><td>{escape(step.what)}</td><td>{escape(step.found)}</td><td>{step.seconds:,.1f}</td></tr>"
            for step in story.steps
        ),
        f"<tr><th>in all</th><th></th><th>{story.seconds:,.1f}</th></tr></table>",
    ]


def _next(story: Story, folder: Path) -> list[str]:
    versions = " · ".join(f"{name} {version}" for name, version in story.versions.items())
    commands = "\n".join(next_commands(story, folder))
    return [
        "<h2>Look further</h2>",
        f"<pre>{escape(commands)}</pre>",
        f"<p class='dim'>Made by {escape(versions)}. Spark is as it comes from PyPI, with no jar.</p>",
    ]


def next_commands(story: Story, folder: Path) -> list[str]:
    """The commands to try after the tour. The parts of a deployment are gone, so that these start real ones."""
    beside = Path(sys.executable).with_name("esker")  # of an environment that is not active
    esker = "esker" if shutil.which("esker") or not beside.exists() else str(beside)
    if story.parts:
        catalog = "--catalog postgresql://USER@HOST/DATABASE --warehouse s3://BUCKET/warehouse"
        return [
            f"{esker} {catalog} serve --token-file FILE",
            f"{esker} --catalog http://127.0.0.1:8181 ingest otlp --follow",
        ]
    catalog = f"sqlite:///{folder}/catalog.db"
    return [
        f"{esker} --catalog {catalog} ls",
        f'{esker} --catalog {catalog} sql "SELECT ServiceName, count(*) FROM otel.spans GROUP BY ServiceName"',
    ]


def batches_plot(batches: Sequence[Batch]) -> str:
    """A column for each batch, in two colours: before and after the driver was killed."""
    most = max((batch.received for batch in batches), default=1) or 1
    shapes = [
        f"<i class='{'second' if batch.driver > 1 else 'first'}' style='height:{100 * batch.received / most:.1f}%' "
        f"title='{escape(batch.text())}'></i>"
        for batch in batches
    ]
    first = sum(batch.driver == 1 for batch in batches)
    told = (
        f"Records by batch, {most:,} at most. {first} batches were taken in by the driver that was killed, "
        f"{len(batches) - first} by the one after it."
    )
    return f"<figure><div class='columns'>{''.join(shapes)}</div><figcaption>{told}</figcaption></figure>"


def columns_plot(values: Sequence[tuple[str, int]], what: str) -> str:
    """One column for each value; the first and the last have their names."""
    most = max((count for _, count in values), default=1) or 1
    shapes = [
        f"<i style='height:{100 * count / most:.1f}%' title='{escape(name)}: {count:,}'></i>" for name, count in values
    ]
    ends = "".join(f"<span>{escape(name)}</span>" for name, _ in (values[0], values[-1])) if values else ""
    return (
        f"<figure><div class='columns'>{''.join(shapes)}</div><div class='ends'>{ends}</div>"
        f"<figcaption>{most:,} {escape(what)} at most</figcaption></figure>"
    )


def bars_plot(values: Sequence[tuple[str, int, str]], most: int | None = None) -> str:
    """One bar for each value, with its name before it and its number after it."""
    longest = most or max((count for _, count, _ in values), default=1) or 1
    rows = [
        f"<span>{escape(name)}</span><b style='width:{max(1.0, 100 * count / longest):.1f}%'></b>"
        f"<em>{escape(label)}</em>"
        for name, count, label in values
    ]
    return f"<figure class='bars'>{''.join(rows)}</figure>"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


# ---------------------------------------------------------------- the terminal


def report(story: Story, folder: Path, page: Path) -> None:
    """Print the steps, their results and times."""
    from rich.panel import Panel
    from rich.table import Table

    console = story.console
    console.print(f"\n[dim]{story.explained}[/]\n", highlight=False)
    shown = Table(show_edge=False, pad_edge=False)
    shown.add_column("step")
    shown.add_column("found", style="cyan")
    shown.add_column("s", justify="right")
    for step in story.steps:
        shown.add_row(step.what, step.found, f"{step.seconds:,.1f}")
    shown.add_section()
    shown.add_row("[bold]in all[/]", "", f"{story.seconds:,.1f}")
    console.print(shown)
    for name, address in story.parts:
        console.print(f"  [bold]{name}[/]  [dim]{address}[/]", highlight=False)
    assert story.identity is not None
    same = " · ".join(f"{engine} {rows:,}" for engine, rows in story.counted_by.items())
    lines = [story.identity.text(), f"same rows: {same}", "", f"[dim]{story.identity.resent_text()}[/]"]
    console.print(Panel("\n".join(lines), title=story.headline(), border_style="green" if story.holds else "red"))
    console.print(
        f"[dim]{' · '.join(f'{name} {version}' for name, version in story.versions.items())}[/]", highlight=False
    )
    console.print(f"\nopen: {page}", highlight=False, soft_wrap=True)
    for command in next_commands(story, folder):
        console.print(f"next: [bold]{command}[/]", highlight=False, soft_wrap=True)
    console.print()
