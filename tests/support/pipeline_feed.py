"""The source of a pipeline and its driver's checkpoint without Spark, asked as Spark asks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from esker.ingest.checkpoint import Checkpoint
from esker.ingest.files.seen_files import Seen
from esker.ingest.pipeline.stream_source import Feed
from esker.ingest.pipeline.watched_inputs import Watch
from esker.ingest.receipts import BatchCounts

DONE = BatchCounts(received=1, rows={"otel.spans": 1})


class Query:
    """The driver's checkpoint and a source for it, asked as Spark asks."""

    def __init__(self, folder: Path, **limits: Any) -> None:
        self.folder = folder / "in"
        self.folder.mkdir()
        self.driver = Checkpoint(folder / "checkpoint", kind="otlp")
        self.watch = Watch(
            checkpoint=str(folder / "checkpoint"),
            kind="otlp",
            term=self.driver.term,
            since=0,
            paths=(str(self.folder),),
            pattern="*",
            most_files=10,
            most_bytes=1 << 20,
            most_rows=None,
            tasks=8,
            settle_s=0.0,
            half_line_s=0.0,
            keep_segments=False,
        )
        self.watch = replace(self.watch, **limits)
        self.feed = self.restarted()
        self.at = self.feed.initial()

    def restarted(self) -> Feed:
        """A source that knows what is on disk alone."""
        return Feed(msgspec.json.encode(self.watch).decode())

    def restart(self) -> None:
        """Begin another term, with a source of its own."""
        self.close()
        self.driver = Checkpoint(self.driver.directory, kind="otlp")
        self.watch = replace(self.watch, term=self.driver.term, since=self.driver.next_number)
        self.feed = self.restarted()

    def close(self) -> None:
        """Let go of the checkpoint."""
        self.feed.close()
        self.driver.close()

    def step(self) -> int:
        """Ask for the next batch; gives how many batches it covers, as far as offsets tell."""
        before, self.at = self.at, self.feed.latest(self.at)
        return int(self.at["next"] - before["next"])

    def finish(self) -> list[str]:
        """Take the planned batches in; gives the names of their files."""
        plans = self.driver.unfinished()
        for plan in plans:
            self.driver.tick_off(plan.number, DONE)
        return [Path(file.path).name for plan in plans for file in plan.files]

    def row_of(self, seq: int) -> Seen:
        """What the checkpoint has of the file that it saw first, second and so on."""
        rows = self.driver._database.execute("SELECT track FROM seen ORDER BY seq").fetchall()
        found = self.driver.newest_of_track(rows[seq][0])
        assert found is not None
        return found
