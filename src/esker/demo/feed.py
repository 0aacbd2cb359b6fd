"""The first half of the tour: telemetry is made and sent, and comes into the tables though programs are killed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from esker.demo import wire
from esker.demo.processes import Program, free_port, receipts_in, wait_for_port, wait_until
from esker.demo.story import Story
from esker.demo.telemetry import Shop, Size, in_requests

SPANS_A_REQUEST = 250
RESENT = 2  # requests that are sent once more
LATE_DAY = 1  # its spans come after everything else
LATE_FILES = 10  # one after the other: any of them may be the one whose batch is caught on its way


@dataclass(slots=True)
class Sent:
    """What went out, counted by the sender."""

    spans: int = 0
    others: int = 0  # log records and metric points
    resent: int = 0  # of the spans, those sent a second time
    corrupt: int = 0
    requests: int = 0
    files: int = 0
    pending: int = 0  # rows that the ingest could not commit
    busy_day: tuple[str, str] = ("", "")

    @property
    def records(self) -> int:
        """All that can be read."""
        return self.spans + self.others


@dataclass(frozen=True, slots=True)
class Places:
    """Where things lie."""

    folder: Path

    @property
    def incoming(self) -> Path:
        """Files are put here."""
        return self.folder / "incoming"

    @property
    def spool(self) -> Path:
        """What the receiver has answered for."""
        return self.folder / "spool"

    @property
    def checkpoint(self) -> Path:
        """What the ingest has planned and done."""
        return self.folder / "ingest" / "otlp"


def feed(story: Story, folder: Path, size: Size) -> Sent:
    """Make, send, ingest, kill, go on; what was sent."""
    places, sent = Places(folder), Sent()
    shop = Shop(size)
    places.incoming.mkdir(parents=True)
    places.spool.mkdir()
    ingest = _ingest(places, 1, idle_s=300)  # it does not end by itself
    try:
        with story.step(
            "record telemetry with the OpenTelemetry SDK, and put files where they are looked for"
        ) as found:
            late = _write_files(shop, places, sent)
            found.append(
                f"{sent.spans:,} spans, {sent.others:,} logs and points in {sent.files} files of five framings"
            )
            found.append(f"{sent.corrupt} corrupt lines, one day comes late")
        with story.step("export over HTTP; kill -9 the receiver on the way, start it again") as found:
            before = sent.spans
            _export(shop, places, sent)
            found.append(f"{sent.requests} requests, {sent.spans - before:,} spans, {sent.resent:,} of them sent twice")
        with story.step("kill -9 the ingest in mid-batch") as found:
            open_batches = _catch_a_batch(places, late)
            ingest.kill()
            found.append(
                f"batch {', '.join(Path(name).stem for name in open_batches) or 'none'} written, not committed"
            )
            for name, content in late:  # what is left of the day comes while nobody looks
                wire.put(places.incoming, name, content)
    finally:
        if ingest.is_running:
            ingest.kill()
    with story.step("start it again: it goes on where it was") as found:
        answer = _ingest(places, 2, idle_s=1).answer()
        found.append(
            f"batches done: {answer['batches']}, parts committed before the kill: {answer['already_committed']}"
        )
        sent.pending = answer["pending"]
        for failure in answer["failures"]:
            raise RuntimeError(f"the ingest could not go on: {failure}")
    return sent


def _ingest(places: Places, number: int, *, idle_s: int) -> Program:
    return Program.start(
        places.folder / f"ingest-{number}.json",
        *("--catalog", f"sqlite:///{places.folder}/catalog.db", "--json", "ingest", "otlp"),
        *(places.incoming, places.spool, "--checkpoint", places.checkpoint, "--follow"),
        *("--every", "0.2", "--settle", "0", "--idle", str(idle_s), "--batch-bytes", "1M", "--engine", "arrow"),
    )


def _catch_a_batch(places: Places, late: list[tuple[str, bytes]]) -> list[str]:
    """Give the ingest late files until one of its batches is seen written and not committed."""
    seen: list[str] = []

    def is_caught() -> bool:
        seen.extend(receipts_in(places.checkpoint))
        return bool(seen)

    while late and not seen:
        wire.put(places.incoming, *late.pop(0))
        with suppress(TimeoutError):
            wait_until(is_caught, "a batch under way", patience_s=3.0)
    return seen


def _write_files(shop: Shop, places: Places, sent: Sent) -> list[tuple[str, bytes]]:
    """Put the files where they are looked for, but for the late ones, which are returned."""
    days = shop.size.days
    late: list[tuple[str, bytes]] = []
    for day in range(days):
        spans = shop.spans(day)
        logs = shop.logs(day)
        sent.spans += len(spans)
        sent.others += len(logs)
        if day == LATE_DAY:
            parts = in_requests(spans, -(-len(spans) // LATE_FILES))
            late = [(f"late-{n:02}.pb", wire.delimited([wire.encoded(part)])) for n, part in enumerate(parts)]
        else:
            requests = [wire.encoded(part) for part in in_requests(spans, SPANS_A_REQUEST)]
            wire.put(places.incoming, *_framed(requests, day))
        lines = [wire.json_line(wire.encoded_logs(logs))]
        if day % 3 == 0:
            lines.append(wire.CORRUPT + b"\n")
            sent.corrupt += 1
        wire.put(places.incoming, f"logs-{day:02}.jsonl", b"".join(lines))
    points = wire.encoded_points(shop.points())
    sent.others += sum(
        _count_points(metric) for r in points.resource_metrics for s in r.scope_metrics for metric in s.metrics
    )
    wire.put(places.incoming, "points.pb", points.SerializeToString())
    sent.files = 2 * days + len(late)
    busy = datetime.fromtimestamp(shop.now_ns / 1e9, UTC).date() - timedelta(days=days // 2)
    sent.busy_day = (busy.isoformat(), (busy + timedelta(days=1)).isoformat())
    return late


def _framed(requests: list[object], day: int) -> tuple[str, bytes]:
    """The framings in turn: nobody says which, it is told from the content."""
    match day % 4:
        case 0:
            return f"spans-{day:02}.jsonl", b"".join(map(wire.json_line, requests))
        case 1:
            return f"spans-{day:02}.pb", wire.delimited(requests)
        case 2:
            return f"spans-{day:02}.bin", wire.exporter_framing(requests)
        case _:
            return f"spans-{day:02}.jsonl.gz", b"".join(map(wire.json_line, requests))


def _count_points(metric: object) -> int:
    kind = metric.WhichOneof("data")  # type: ignore[attr-defined]
    return len(getattr(metric, kind).data_points)


def _export(shop: Shop, places: Places, sent: Sent) -> None:
    port = free_port()
    parts = list(in_requests(shop.spans(shop.size.days - 1), SPANS_A_REQUEST))
    half = len(parts) // 2
    receiver = _receiver(places, port, 1)
    try:
        for part in parts[:half]:
            wire.send(port, part)
        receiver.kill()
        receiver = _receiver(places, port, 2)
        for part in (*parts[half:], *parts[:RESENT]):
            wire.send(port, part)
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
