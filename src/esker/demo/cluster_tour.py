"""The tour on a whole deployment: PostgreSQL, S3, ``esker serve`` and a Spark cluster. Run as ``python -m
esker.demo.cluster_tour``."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import esker
from esker.demo.deployment import Deployment, check_parts, deployed
from esker.demo.feed_lake import feed, go_on
from esker.demo.other_readers import counted_by_others
from esker.demo.places import Places
from esker.demo.story import Story
from esker.demo.telemetry import Size, check_sdk
from esker.demo.tour import SPANS, account, ask, maintain, rolled_up, stop_spark, versions


def tell(size: Size | None = None) -> int:
    """Run the tour, show each step and then the report. Returns the exit status: 0 if the sums are right."""
    from rich.console import Console

    from esker.demo.report import report, write_page

    console = Console()
    console.print(
        "\n[bold]Esker[/]: telemetry into Iceberg tables on S3, through a catalog server and a Spark cluster\n"
    )
    folder = Path(tempfile.mkdtemp(prefix="esker-demo-"))
    story = take(Story(console), folder, size or Size())
    report(story, folder, write_page(story, folder / "report.html"))
    return 0 if story.holds else 1


def take(story: Story, folder: Path, size: Size) -> Story:
    """Start the deployment, run all steps on it, and end it. Spark must not run in this process.

    Raises ``Unsupported`` if a package or Java is missing.
    """
    check_sdk()
    check_parts()
    with deployed(folder, story) as deployment, _session_on(deployment.master):
        story.parts = deployment.parts()
        places = Places(folder, deployment.server.address)
        sent = feed(story, places, size, deployment.master, deployment)
        lake = esker.connect(places.catalog)
        go_on(story, places, lake, sent)
        story.versions = versions(lake)
        account(story, lake, sent)
        rolled_up(story, lake)
        ask(story, lake, sent)
        maintain(story, lake)
        _others(story, lake, deployment)
    return story


@contextmanager
def _session_on(master: str) -> Iterator[None]:
    """Let this process start its Spark session on a master, and stop it at the end."""
    settings = {"ESKER_SPARK_MASTER": master, "ESKER_SPARK_MEMORY": "1g"}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        stop_spark()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


def _others(story: Story, lake: esker.Lake, deployment: Deployment) -> None:
    with story.step("count the same table through the catalog server, with a token that may only read") as found:
        table = lake.table(SPANS)
        story.counted_by["Esker"] = table.scan().to_arrow().num_rows
        story.counted_by["Spark"] = table.scan().to_spark().count()
        story.counted_by.update(counted_by_others(deployment.server.address, deployment.reader, SPANS))
        found.append(" · ".join(f"{engine} {rows:,}" for engine, rows in story.counted_by.items()))
    with story.step("what the catalog server did since its second start") as found:
        requests = deployment.server.requests()
        found.append(f"{sum(requests.values()):,} requests")
        found.append(", ".join(f"{what}: {number:,}" for what, number in sorted(requests.items())))


if __name__ == "__main__":
    sys.exit(tell())
