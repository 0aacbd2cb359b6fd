"""The first half of the tour: telemetry is made and sent, and is loaded into the tables although programs are
killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esker.demo import telemetry
from esker.demo.places import Places, start_query
from esker.demo.processes import Driver, Program, free_port, receipts_in, wait_for_port, wait_until
from esker.demo.story import Batch, Story
from esker.demo.telemetry import Shop, Size, in_requests

if TYPE_CHECKING:
    from esker.demo.deployment import Deployment
    from esker.lake import Lake

SPANS_A_REQUEST = 250
RESENT = 2  # requests that are sent twice
LATE_DAY = 1  # the spans of this day are sent after everything else
LATE_FILES = 10  # sent one after the other: the driver is killed during the batch of one of them
_CATCH_S = 10.0


@dataclass(slots=True)
class Sent:
    """What was sent, counted by the sender."""

    spans: int = 0
    others: int = 0  # log records and metric points
    resent: int = 0  # of the spans, those that were sent twice
    corrupt: int = 0
    requests: int = 0
    files: int = 0
    pending: int = 0  # rows that the pipeline could not commit
    busy_day: tuple[str, str] = ("", "")

    @property
    def records(self) -> int:
        """All records that can be decoded."""
        return self.spans + self.others


class Watched:
    """The first driver. Its messages are passed to the story."""

    def __init__(self, story: Story, driver: Driver) -> None:
        self._story = story
        self.driver = driver
        self.is_working = False  # whether it has begun a batch, as far as is known

    def hear(self) -> bool:
        """Read its new messages. Returns whether there were any."""
        news = self.driver.news()
        for one in news:
            if one["event"] == "batch":
                self._story.note(batch_of(one, driver=1))
            self.is_working = one["event"] == "working"
        return bool(news)

    def wait_for_batches(self, count: int) -> None:
        """Wait until ``count`` more batches are committed."""
        enough = len(self._story.batches) + count
        wait_until(lambda: (self.hear(), len(self._story.batches) >= enough)[1], f"{count} batches of the pipeline")

    def wait_for_work(self, give_more: Callable[[], None]) -> None:
        """Wait until tasks run. Gives them more files if there is nothing left to do."""
        while not self.is_working:
            try:
                wait_until(lambda: (self.hear(), self.is_working)[1], "tasks", patience_s=_CATCH_S, look_s=0.01)
            except TimeoutError:
                give_more()


def batch_of(told: dict[str, Any], *, driver: int) -> Batch:
    """A batch, from the message of the query."""
    return Batch(
        number=told["number"],
        received=told["received"],
        committed=told["committed"],
        dead=told["dead"],
        waiting=told["lag_files"],
        driver=driver,
    )


def feed(story: Story, places: Places, size: Size, master: str, deployment: Deployment | None = None) -> Sent:
    """Make, send and load telemetry, and kill the driver and other programs meanwhile. Returns what was sent. Some of
    it is not in the tables yet. In a deployment, the catalog server is killed as well."""
    sent = Sent()
    places.incoming.mkdir(parents=True)
    places.spool.mkdir()
    driver = Driver.launch(
        places.folder / "driver-1", places.folder, places.catalog, master
    )  # Spark starts in the meantime
    watched = Watched(story, driver)
    try:
        with story.step("record telemetry with the OpenTelemetry SDK, put files where the query reads") as found:
            shop = Shop(size)
            late = _write_files(shop, places, sent)
            found.append(
                f"{sent.spans:,} spans, {sent.others:,} logs and points in {sent.files} files of five framings"
            )
            found.append(f"{sent.corrupt} corrupt lines, one day comes late")
        with story.step(f"the streaming query on Spark, {master}: workers decode, the driver commits") as found:
            watched.wait_for_batches(1)
            found.append("the first batch is in the tables")
        if not master.startswith("local["):
            executors = driver.executors if deployment is None else deployment.executors
            _kill_executor(story, watched, executors, lambda: telemetry.put(places.incoming, *late.pop(0)))
        if deployment is not None:
            _kill_catalog(story, deployment)
        with story.step("export over HTTP to esker receive; kill -9 the receiver meanwhile, start it again") as found:
            before = sent.spans
            _export(story, shop, places, sent)
            found.append(f"{sent.requests} requests, {sent.spans - before:,} spans, {sent.resent:,} of them sent twice")
        if deployment is not None:
            _start_catalog(story, places, watched, deployment)
        with story.step("kill -9 the driver in mid-batch: Python and its JVM") as found:
            _catch_a_batch(places, late, watched)
            driver.kill()
            story.killed.append("the driver")
            open_batches = ", ".join(str(int(Path(name).stem)) for name in receipts_in(places.checkpoint))
            found.append(f"batch {open_batches or 'none'} written, not committed")
            for name, content in late:  # the rest of the day arrives while no driver runs
                telemetry.put(places.incoming, name, content)
    finally:
        if driver.is_running:
            driver.kill()
    return sent


def go_on(story: Story, places: Places, lake: Lake, sent: Sent) -> None:
    """Start the same query in this process. It loads what the first one left."""
    with story.step("start another driver: the query continues where the first stopped") as found:
        query = start_query(places, lake, lambda told: story.note(batch_of(told, driver=2)), available_now=True)
        query.awaitTermination()
        account = query.account
        with suppress(TimeoutError):  # the message about a batch may come after its commit
            wait_until(lambda: _received(story, 2) >= account.received, "the last progress", patience_s=10.0)
        sent.pending = account.pending
        found.append(
            f"{account.batches} batches, {account.already_committed} of their parts were committed before the kill; "
            f"the account {'holds' if account.holds else 'does not hold'}"
        )


def _received(story: Story, driver: int) -> int:
    return sum(batch.received for batch in story.batches if batch.driver == driver)


def _kill_executor(
    story: Story, watched: Watched, executors: Callable[[], list[int]], give_more: Callable[[], None]
) -> None:
    with story.step("kill -9 an executor while it decodes") as found:
        watched.wait_for_work(give_more)
        victim = executors()[0]
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
        story.killed.append("an executor")
        watched.wait_for_batches(1)
        found.append(f"Spark gave its tasks to another; batch {story.batches[-1].number} is committed")


def _kill_catalog(story: Story, deployment: Deployment) -> None:
    with story.step("kill -9 the catalog server") as found:
        asked = sum(deployment.server.requests().values())
        deployment.server.kill()
        story.killed.append("the catalog server")
        found.append(f"it has answered {asked:,} requests; now nothing can be committed")


def _start_catalog(story: Story, places: Places, watched: Watched, deployment: Deployment) -> None:
    """Start the catalog server again when a batch waits for it."""
    with story.step("the senders had their answers, the query waits; start the catalog server again") as found:
        with suppress(TimeoutError):  # a batch that needs the catalog before it writes waits without a receipt
            wait_until(lambda: bool(receipts_in(places.checkpoint)), "a batch that waits", patience_s=3 * _CATCH_S)
        waits = len(receipts_in(places.checkpoint))
        watched.hear()
        deployment.server.start()
        watched.wait_for_batches(1)
        found.append(f"{waits} batch had waited; batch {story.batches[-1].number} is committed")


def _catch_a_batch(places: Places, late: list[tuple[str, bytes]], watched: Watched) -> None:
    """Give the query late files until one of its batches is written but not committed."""
    seen: list[str] = []

    def is_caught() -> bool:
        seen.extend(receipts_in(places.checkpoint))
        return bool(seen)

    while late and not seen:
        telemetry.put(places.incoming, *late.pop(0))
        with suppress(TimeoutError):
            wait_until(is_caught, "a batch under way", patience_s=_CATCH_S, look_s=0.002)
        watched.hear()


def _write_files(shop: Shop, places: Places, sent: Sent) -> list[tuple[str, bytes]]:
    """Write the files to the input directory, except the late ones, which are returned."""
    days = shop.size.days
    late: list[tuple[str, bytes]] = []
    for day in range(days):
        spans = shop.spans(day)
        logs = shop.logs(day)
        sent.spans += len(spans)
        sent.others += len(logs)
        if day == LATE_DAY:
            parts = in_requests(spans, -(-len(spans) // LATE_FILES))
            late = [(f"late-{n:02}.pb", telemetry.delimited([telemetry.encoded(part)])) for n, part in enumerate(parts)]
        else:
            requests = [telemetry.encoded(part) for part in in_requests(spans, SPANS_A_REQUEST)]
            telemetry.put(places.incoming, *_framed(requests, day))
        lines = [telemetry.json_line(telemetry.encoded_logs(logs))]
        if day % 3 == 0:
            lines.append(telemetry.CORRUPT + b"\n")
            sent.corrupt += 1
        telemetry.put(places.incoming, f"logs-{day:02}.jsonl", b"".join(lines))
    points = telemetry.encoded_points(shop.points())
    sent.others += sum(
        _count_points(metric) for r in points.resource_metrics for s in r.scope_metrics for metric in s.metrics
    )
    telemetry.put(places.incoming, "points.pb", points.SerializeToString())
    sent.files = 2 * days + len(late)
    busy = datetime.fromtimestamp(shop.now_ns / 1e9, UTC).date() - timedelta(days=days // 2)
    sent.busy_day = (busy.isoformat(), (busy + timedelta(days=1)).isoformat())
    return late


def _framed(requests: list[object], day: int) -> tuple[str, bytes]:
    """The framings in turn. The pipeline detects them from the content."""
    match day % 4:
        case 0:
            return f"spans-{day:02}.jsonl", b"".join(map(telemetry.json_line, requests))
        case 1:
            return f"spans-{day:02}.pb", telemetry.delimited(requests)
        case 2:
            return f"spans-{day:02}.bin", telemetry.exporter_framing(requests)
        case _:
            return f"spans-{day:02}.jsonl.gz", b"".join(map(telemetry.json_line, requests))


def _count_points(metric: object) -> int:
    kind = metric.WhichOneof("data")  # type: ignore[attr-defined]
    return len(getattr(metric, kind).data_points)


def _export(story: Story, shop: Shop, places: Places, sent: Sent) -> None:
    port = free_port()
    parts = list(in_requests(shop.spans(shop.size.days - 1), SPANS_A_REQUEST))
    half = len(parts) // 2
    receiver = _receiver(places, port, 1)
    try:
        for part in parts[:half]:
            telemetry.send(port, part)
        receiver.kill()
        story.killed.append("the receiver")
        receiver = _receiver(places, port, 2)
        for part in (*parts[half:], *parts[:RESENT]):
            telemetry.send(port, part)
    finally:
        receiver.stop()
    sent.resent += sum(map(len, parts[:RESENT]))
    sent.spans += sum(map(len, parts)) + sent.resent
    sent.requests += len(parts) + RESENT


def _receiver(places: Places, port: int, number: int) -> Program:
    started = Program.start(
        places.folder / f"receive-{number}", "receive", "--port", str(port), "--spool", places.spool
    )
    wait_for_port(port)
    return started
