"""``make demo``, ``esker demo``: a small lake from nothing to a report, with no JVM and nothing to set up."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import esker

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

DAYS = 60
ROWS_A_DAY = 5_000
FIRST_DAY = datetime(2026, 9, 1, tzinfo=UTC)
REGIONS = ("north", "south", "east", "west")


@dataclass(slots=True)
class Story:
    """The tour as it is told: each step with the time it took."""

    console: Console
    steps: list[tuple[str, str, float]] = field(default_factory=list)

    @contextmanager
    def step(self, what: str) -> Iterator[list[str]]:
        """Run one step; what it appends to the list is the finding."""
        found: list[str] = []
        began = time.perf_counter()
        yield found
        taken = time.perf_counter() - began
        self.steps.append((what, "; ".join(found), taken))
        self.console.print(f"  [green]✓[/] {what}  [dim]{taken * 1000:,.0f} ms[/]")


def main() -> None:
    """``python -m esker.demo``."""
    tell()


def tell() -> None:
    """Take the tour and show it as it goes, the report at its end."""
    from rich.console import Console

    console = Console()
    console.print("\n[bold]Esker[/]: Iceberg tables in plain Python\n")
    story = Story(console)
    _take(story)
    report(story)


def run_silently() -> Story:
    """Take the tour and show nothing; the story holds what was found."""
    from rich.console import Console

    story = Story(Console(quiet=True))
    _take(story)
    return story


def _take(story: Story) -> None:
    with tempfile.TemporaryDirectory(prefix="esker-demo-") as folder:
        tour(story, Path(folder))


def tour(story: Story, folder: Path) -> None:
    """Make a table, feed it, ask it, change it, look back."""
    with story.step("connect: a SQLite catalog and local files") as found:
        lake = esker.connect(f"sqlite:///{folder}/catalog.db")
        lake.create_namespace("shop")
        found.append("no server, no JVM")
    with story.step("create a table partitioned by day") as found:
        columns = "id bigint not null, region string, amount decimal(12,2), ts timestamp"
        orders = lake.create_table("shop.orders", columns, partition_by=["day(ts)"])
        found.append(str(orders.spec.fields[0].name))
    with story.step(f"append {DAYS} days, one atomic snapshot each") as found:
        for day in range(DAYS):
            orders.append(sales_of(day))
        found.append(f"{orders.scan().count():,} rows in {len(orders.snapshots)} snapshots")
    _ask(story, orders)
    _change(story, orders)
    _others(story, orders, folder / "catalog.db")


def _ask(story: Story, orders: esker.Table) -> None:
    with story.step("plan one week: manifests left out are not opened") as found:
        week = orders.scan("ts >= '2026-10-01' AND ts < '2026-10-08'")
        funnel = week.plan().funnel
        found.append(f"{funnel.manifests_read} of {funnel.manifests_total} manifests opened")
        found.append(f"{funnel.files_kept} of {funnel.files_total} files to read")
    with story.step("read it") as found:
        found.append(f"{week.to_arrow().num_rows:,} rows")
    story.console.print(f"\n[dim]{week.explain()}[/]\n", highlight=False)


def _change(story: Story, orders: esker.Table) -> None:
    before = orders.current_snapshot
    assert before is not None
    with story.step("delete a region: files that hold others are rewritten") as found:
        orders.delete("region = 'west' AND ts < '2026-09-08'")
        found.append(f"{orders.scan().count():,} rows left")
    with story.step("evolve: a new column, and buckets from now on; nothing is rewritten") as found:
        with orders.alter() as change:
            change.add_column("channel", "string")
            change.add_partition("bucket(4, id)")
        orders.append(sales_of(DAYS))
        found.append(f"partition specs in use: {len(orders.metadata.specs)}")
    with story.step("travel back to before the delete") as found:
        found.append(f"{orders.scan(snapshot_id=before.snapshot_id).count():,} rows then")


def _others(story: Story, orders: esker.Table, database: Path) -> None:
    with story.step("look inside: Iceberg's 16 metadata tables") as found:
        files = orders.inspect.files()
        found.append(f"{files.num_rows} files")
    try:
        from pyiceberg.catalog.sql import SqlCatalog
    except ImportError:
        return
    with story.step("let PyIceberg read the same table") as found:
        theirs = SqlCatalog("default", uri=f"sqlite:///{database}").load_table(orders.name).scan().to_arrow().num_rows
        found.append(f"{theirs:,} rows" + (", as we count" if theirs == orders.scan().count() else ""))


def sales_of(day: int) -> pa.Table:
    """One day's orders."""
    import numpy as np
    import pyarrow as pa

    numbers = np.arange(day * ROWS_A_DAY, (day + 1) * ROWS_A_DAY)
    start = FIRST_DAY + timedelta(days=day)
    seconds = np.linspace(0, 86_399, ROWS_A_DAY).astype("int64")
    micros = int(start.timestamp()) * 1_000_000 + seconds * 1_000_000
    return pa.table(
        {
            "id": numbers,
            "region": pa.array([REGIONS[number % 4] for number in numbers.tolist()]),
            "amount": pa.array(numbers * 37 % 10_000, pa.int64()).cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2)),
            "ts": pa.array(micros).cast(pa.timestamp("us", "UTC")),
        }
    )


def report(story: Story) -> None:
    """What was done, what came of it, and how long it took."""
    from rich.table import Table

    shown = Table(title="\nThe tour", title_justify="left", title_style="bold", show_edge=False)
    shown.add_column("step")
    shown.add_column("found", style="cyan")
    shown.add_column("ms", justify="right")
    for what, found, taken in story.steps:
        shown.add_row(what, found, f"{taken * 1000:,.0f}")
    shown.add_section()
    shown.add_row("[bold]in all[/]", "", f"{sum(taken for _, _, taken in story.steps) * 1000:,.0f}")
    story.console.print(shown)
    story.console.print("\nNext: [bold]esker --help[/], docs/guide.md, or your own table: [bold]esker info PATH[/]\n")


if __name__ == "__main__":
    main()
