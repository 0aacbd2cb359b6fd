"""The tour: telemetry is loaded while programs are killed; then it is queried, changed, and read as it was before."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

import esker
from esker.demo.feed_lake import feed, go_on
from esker.demo.places import SERVICE_DAYS, Places
from esker.demo.processes import home_of_spark
from esker.demo.story import Identity, Story
from esker.demo.telemetry import Size, check_sdk
from esker.otlp.schemas import TABLES
from esker.version import VERSION

if TYPE_CHECKING:
    from esker.demo.feed_lake import Sent

SPANS = "otel.spans"
CLUSTER = "local-cluster[2,1,1024]"  # two executors of one core and 1 GiB, each a process


def tell(size: Size | None = None) -> int:
    """Run the tour, show each step and then the report. Returns the exit status: 0 if the sums are right."""
    from rich.console import Console

    from esker.demo.report import report, write_page

    console = Console()
    console.print("\n[bold]Esker[/]: telemetry into Iceberg tables, by a streaming query on plain PySpark\n")
    folder = Path(tempfile.mkdtemp(prefix="esker-demo-"))
    with _cluster() as master:
        story = take(Story(console), folder, size or Size(), master=master)
    page = write_page(story, folder / "report.html")
    report(story, folder, page)
    return 0 if story.holds else 1


def run_silently(size: Size | None = None) -> Story:
    """Run the tour without output. Returns the story with the results."""
    from rich.console import Console

    with tempfile.TemporaryDirectory(prefix="esker-demo-") as folder, _cluster() as master:
        return take(Story(Console(quiet=True)), Path(folder), size or Size(), master=master)


def take(story: Story, folder: Path, size: Size, *, master: str) -> Story:
    """Run all steps in order, on a new lake. The first driver is a program that is killed. The second is this process,
    with its Spark session, which is started if there is none."""
    check_sdk()
    places = Places.with_sqlite(folder)
    sent = feed(story, places, size, master)
    lake = esker.connect(places.catalog)
    go_on(story, places, lake, sent)
    story.versions = versions(lake)
    account(story, lake, sent)
    rolled_up(story, lake)
    ask(story, lake, sent)
    _change(story, lake)
    maintain(story, lake)
    _others(story, lake, folder / "catalog.db")
    return story


@contextmanager
def _cluster() -> Iterator[str]:
    """The master of both drivers: a cluster of two executors on this machine, unless the user names another. Its files
    and the Spark session are removed at the end."""
    home = home_of_spark()
    # Executors write their logs where Spark is installed. They end if they cannot write there.
    otherwise = CLUSTER if os.access(home, os.W_OK) else "local[2]"
    before = set(home.glob("work/app-*"))
    master = os.environ.setdefault("ESKER_SPARK_MASTER", otherwise)
    try:
        yield master
    finally:
        stop_spark()
        for folder in set(home.glob("work/app-*")) - before:
            rmtree(folder, ignore_errors=True)


def stop_spark() -> None:
    """Stop the Spark session of this process, if there is one."""
    from esker.spark.session.spark_session import running_session

    session = running_session()
    if session is not None:
        session.stop()


def versions(lake: esker.Lake) -> dict[str, str]:
    """The versions of the software that the tour uses."""
    spark = lake.spark
    java = spark.sparkContext._jvm.java.lang.System.getProperty("java.version")
    return {"Esker": VERSION, "PySpark": spark.version, "Java": str(java), "Python": platform.python_version()}


def account(story: Story, lake: esker.Lake, sent: Sent) -> None:
    """Compare what was sent with what is in the tables."""
    with story.step("compare what was sent with what is in the tables") as found:
        tables = {name: lake.table(f"otel.{name}").scan().count() for name in TABLES}
        letters = tables.pop("dead_letter", 0)
        ids = lake.table(SPANS).scan(columns=["TraceId", "SpanId"]).to_arrow()
        distinct = ids.group_by(["TraceId", "SpanId"]).aggregate([]).num_rows
        story.identity = Identity(
            sent=sent.records + sent.corrupt,
            resent=sent.resent,
            in_tables=sum(tables.values()),
            dead_letters=letters,
            pending=sent.pending,
            distinct_spans=distinct,
            spans=sent.spans - sent.resent,
        )
        found.append(", ".join(f"{name} {rows:,}" for name, rows in sorted(tables.items())))
        found.append(f"dead letters {letters:,}")


def rolled_up(story: Story, lake: esker.Lake) -> None:
    """Show the rollup, and compare it with the table that it is made from."""
    with story.step("the rollup that the query updates: requests and errors by service and day") as found:
        rows = lake.sql(
            f"SELECT ServiceName, sum(Requests), sum(Errors) FROM {SERVICE_DAYS} GROUP BY ServiceName ORDER BY 1"
        ).collect()
        story.services = [(row[0], int(row[1]), int(row[2])) for row in rows]
        rolled, spans = sum(requests for _, requests, _ in story.services), lake.table(SPANS).scan().count()
        found.append(f"{rolled:,} requests of {len(rows)} services, as many as there are spans")
        if rolled != spans:
            raise AssertionError(f"the rollup has {rolled} requests where there are {spans} spans")


def ask(story: Story, lake: esker.Lake, sent: Sent) -> None:
    """Plan a search, and run two queries."""
    spans = lake.table(SPANS)
    with story.step("plan a search for one day's errors: files that cannot have them are not read") as found:
        first, after = sent.busy_day
        where = f"Timestamp >= '{first}' AND Timestamp < '{after}' AND StatusCode = 'STATUS_CODE_ERROR'"
        scan = spans.scan(where)
        funnel = scan.plan().funnel
        story.funnel = [
            ("manifests", funnel.manifests_read, funnel.manifests_total),
            ("files", funnel.files_kept, funnel.files_total),
        ]
        story.explained = str(scan.explain())
        found.append(f"files {funnel.files_total:,} → {funnel.files_kept:,}")
        found.append(f"{scan.count():,} spans")
    with story.step("query in SQL: the slowest operations") as found:
        rows = lake.sql(
            f"SELECT ServiceName, SpanName, percentile(Duration, 0.99) / 1e6 AS ms FROM {SPANS} "
            "GROUP BY ServiceName, SpanName ORDER BY ms DESC LIMIT 5"
        ).collect()
        story.slowest = [(row[0], row[1], float(row[2])) for row in rows]
        found.append(f"{rows[0][1]} in {rows[0][0]}: {rows[0][2]:,.0f} ms at the 99th percentile")
        days = lake.sql(
            f"SELECT date_format(Timestamp, 'MM-dd') AS day, count(*) FROM {SPANS} GROUP BY day ORDER BY min(Timestamp)"
        )
        story.rows_by_day = [(row[0], int(row[1])) for row in days.collect()]


def _change(story: Story, lake: esker.Lake) -> None:
    spans = lake.table(SPANS)
    before = spans.current_snapshot
    assert before is not None
    then = spans.scan().count()
    with story.step("MERGE: a table of services, created and updated") as found:
        lake.sql("CREATE TABLE otel.services (name string, spans bigint, errors bigint)")
        merge = (
            "MERGE INTO otel.services t USING (SELECT ServiceName AS name, count(*) AS spans, "
            f"count_if(StatusCode = 'STATUS_CODE_ERROR') AS errors FROM {SPANS} GROUP BY ServiceName) s "
            "ON t.name = s.name WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        lake.sql(merge)
        lake.sql(merge)
        found.append(f"{lake.table('otel.services').scan().count()} services, after two merges")
    with story.step("DELETE: a customer asks to be forgotten") as found:
        lake.sql(f"DELETE FROM {SPANS} WHERE SpanAttributes['user.id'] = 'u-17'")
        left = spans.refresh().scan().count()
        found.append(f"{then - left:,} spans gone, {left:,} left")
    with story.step("time travel: the table as it was before") as found:
        count = spans.scan(snapshot_id=before.snapshot_id).count()
        found.append(f"{count:,} spans then")
        if count != then:
            raise AssertionError(f"time travel shows {count} rows where there were {then}")


def maintain(story: Story, lake: esker.Lake) -> None:
    """Compact, expire and verify the table of spans."""
    spans = lake.table(SPANS)
    rows = spans.scan().count()
    with story.step("compact: many small files become few") as found:
        report = spans.compact(min_input_files=2)
        found.append(f"files {report.before.data_files} → {report.after.data_files}")
    with story.step("expire: old snapshots go, with the files that only they reached") as found:
        expiry = spans.expire_snapshots(older_than=timedelta(0), retain_last=2)
        found.append(f"snapshots {expiry.snapshots_before:,} → {expiry.snapshots_after:,}")
        found.append(f"{expiry.files_total:,} files deleted")
    with story.step("verify: every file that the table names is there") as found:
        left, findings = spans.scan().count(), spans.verify().findings
        found.append(f"{left:,} spans, {len(findings)} findings")
        if left != rows or findings:
            raise AssertionError(f"{left} spans are left of {rows}, and verify finds {findings}")


def _others(story: Story, lake: esker.Lake, database: Path) -> None:
    with story.step("count the same table with other engines") as found:
        table = lake.table(SPANS)
        story.counted_by["Esker"] = table.scan().to_arrow().num_rows
        story.counted_by["Spark"] = table.scan().to_spark().count()
        story.counted_by.update(_peers(table, database))
        found.append(" · ".join(f"{engine} {rows:,}" for engine, rows in story.counted_by.items()))


def _polars(table: Any) -> dict[str, int]:
    """Count with Polars' own reader, over PyIceberg's plan."""
    try:
        import polars
    except ImportError:
        return {}
    os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")  # otherwise it warns that it has no planner of its own
    return {"Polars": polars.scan_iceberg(table.metadata_location).select("SpanId").collect().height}


def _peers(table: Any, database: Path) -> dict[str, int]:
    """Count with the other engines that are installed."""
    counted = {}
    try:
        from pyiceberg.catalog.sql import SqlCatalog
    except ImportError:
        pass
    else:
        loaded = SqlCatalog("default", uri=f"sqlite:///{database}").load_table(SPANS)
        counted["PyIceberg"] = loaded.scan(selected_fields=("SpanId",)).to_arrow().num_rows
        counted.update(_polars(table))
    try:
        import duckdb_extensions
    except ImportError:
        return counted
    import duckdb

    for extension in ("avro", "iceberg"):
        duckdb_extensions.import_extension(extension)
    session = duckdb.connect()
    for extension in ("avro", "iceberg"):
        session.load_extension(extension)
    rows = session.execute("SELECT count(*) FROM iceberg_scan(?)", [table.metadata_location]).fetchone()
    counted["DuckDB"] = int(rows[0]) if rows else 0
    return counted
