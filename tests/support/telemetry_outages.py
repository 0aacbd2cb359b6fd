"""Telemetry sent to ``esker receive`` and ``esker ingest otlp --follow`` while the catalog is killed twice."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from receiver_process import receiving
from s3_server import SECRET_KEY
from telemetry_samples import letters, log_bodies, logs, point_values, points, span_names, spans, write

from esker.lake import Lake

SECONDS = 240
WAITS = "trying again"
PATHS = {"traces": spans, "logs": logs, "metrics": points}


@dataclass
class Feed:
    """Sends one span, one log record and one point with each number: over HTTP for even ones, as files for odd ones."""

    folder: Path
    port: int
    sent: int = 0
    answers: Counter[int] = field(default_factory=Counter)

    def send(self, rounds: int) -> None:
        """So many more."""
        for number in range(self.sent, self.sent + rounds):
            if number % 2:
                write(
                    self.folder, f"{number:04d}.jsonl", spans([number]), logs([number]), points([number]), b"{broken\n"
                )
                continue
            for path, make in PATHS.items():
                self.answers[self._post(path, make([number]))] += 1
        self.sent += rounds

    def _post(self, path: str, body: bytes) -> int:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/{path}", body, {"Content-Type": "application/json"}
        )
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
            return int(answer.status)

    def check(self, lake: Lake) -> None:
        """Every record is in the tables, once."""
        numbers = range(self.sent)
        assert span_names(lake) == Counter(f"span {number}" for number in numbers)
        assert log_bodies(lake) == Counter(f"log {number}" for number in numbers)
        assert point_values(lake) == Counter(numbers)
        assert letters(lake).total() == self.sent // 2
        assert set(self.answers) == {200}


@dataclass
class Ingest:
    """The command as a program, and what its checkpoint says meanwhile."""

    folder: Path
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, folder: Path, options: Sequence[str], environment: Mapping[str, str]) -> Ingest:
        """``options`` say which lake and which engine."""
        command = [sys.executable, "-m", "esker.cli.main", "--json", *options, "ingest", "otlp", "--follow"]
        pace = ("--every", "0.3", "--settle", "0.1", "--idle", "4")
        places = ("--checkpoint", str(folder / "checkpoint"), str(folder / "spool"), str(folder / "in"))
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            process = subprocess.Popen(
                [*command, *pace, *places], stdout=out, stderr=err, env={**os.environ, **environment}
            )
        return cls(folder, process)

    def committed(self) -> int:
        """How many batches are in their tables. One that was withdrawn has received nothing."""
        file = self.folder / "checkpoint" / "checkpoint.db"
        if not file.exists():
            return 0
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=30)) as database:
            try:
                found = database.execute("SELECT done FROM batches WHERE done IS NOT NULL").fetchall()
            except sqlite3.OperationalError:  # its tables are not there yet
                return 0
        return sum(json.loads(done)["received"] > 0 for (done,) in found)

    def said(self) -> str:
        """What it wrote to standard error so far."""
        return (self.folder / "err").read_text(errors="replace")

    def wait_for(self, what: str, is_so: Callable[[], bool]) -> None:
        """Wait until something is so; fail if the program ends before."""
        ends = time.monotonic() + SECONDS
        while not is_so():
            assert self.process.poll() is None, (what, self.said()[-3000:])
            assert time.monotonic() < ends, (what, self.said()[-3000:])
            time.sleep(0.1)

    def account(self) -> dict[str, Any]:
        """The account, when it has ended by itself because nothing came any more."""
        self.process.wait(SECONDS)
        found: dict[str, Any] = json.loads((self.folder / "out").read_text())
        return found

    def stop(self) -> None:
        """End it if it still runs."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def ingest_while_the_catalog_dies(
    folder: Path,
    options: Sequence[str],
    environment: Mapping[str, str],
    *,
    kill: Callable[[], None],
    start_again: Callable[[], None],
) -> tuple[Feed, dict[str, Any]]:
    """What was sent, and the account. The catalog dies twice while batches are under way, and comes back each time."""
    (folder / "in").mkdir()
    with receiving(folder / "spool") as receiver:
        feed = Feed(folder / "in", receiver.port)
        feed.send(4)
        ingest = Ingest.start(folder, options, environment)
        try:
            for _ in range(2):
                done, said = ingest.committed(), ingest.said().count(WAITS)
                ingest.wait_for("a batch is committed", lambda least=done: ingest.committed() > least)
                feed.send(4)
                kill()
                feed.send(4)  # the receiver answers although the catalog is gone
                ingest.wait_for("it reports that it waits", lambda least=said: ingest.said().count(WAITS) > least)
                time.sleep(2)
                start_again()
                feed.send(2)
            account = ingest.account()
        finally:
            ingest.stop()
        check_no_secrets(folder)
        return feed, account


def check_no_secrets(folder: Path) -> None:
    """No file of the ingest, and nothing that it said, has the key of the store."""
    for file in folder.rglob("*"):
        if file.is_file():
            assert SECRET_KEY.encode() not in file.read_bytes(), file
