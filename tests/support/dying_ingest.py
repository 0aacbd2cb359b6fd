"""A program that ingests telemetry and dies by SIGKILL at a step it is told: one JSON command a line, one answer each.

Steps are those of ``dying_writer``, and the COMMITs of the checkpoint and the removal of a file as well.
"""

from __future__ import annotations

import importlib
import json
import os
import sqlite3
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from dying_writer import Steps

from esker.ingest.checkpoint import Checkpoint
from esker.ingest.follow import Pace
from esker.ingest.otlp.ingest_otlp import Asked, follow_otlp, ingest_otlp
from esker.wiring import connect

_LINE = (
    b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"1700000000000000000","body":{"stringValue":"a"}}]}]}]}\n'
    b"{broken\n"
)


def _watched(steps: Steps) -> type[sqlite3.Connection]:
    class Watched(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            cursor = super().execute(statement, *values)
            if statement == "COMMIT":
                steps.step("after COMMIT of the checkpoint")
            return cursor

    return Watched


def _watch(steps: Steps) -> None:
    steps.watch()
    real = os.unlink

    def unlink(*args: Any, **more: Any) -> None:
        real(*args, **more)
        steps.step("after unlink")

    os.unlink = unlink
    defaults: dict[str, Any] = Checkpoint.__init__.__kwdefaults__  # type: ignore[misc]
    defaults["connection"] = _watched(steps)


def _ingest(command: dict[str, Any]) -> None:
    asked = Asked(
        paths=[Path(command["source"])],
        checkpoint=Path(command["checkpoint"]),
        batch_bytes=command["batch_bytes"],
        dedup=command.get("dedup"),
    )
    lake = connect(command["uri"])
    if "kafka" in command:
        from esker.ingest.otlp.kafka_topics import KafkaTopics
        from esker.kafka.address import source_of

        KafkaTopics(source_of(command["kafka"])).ingest(lake, asked)
    elif command["follow"]:
        follow_otlp(lake, asked, pace=Pace(every_s=0.01, settle_s=0.0, idle_s=0.0))
    else:
        ingest_otlp(lake, asked)


def _do(command: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        status = 1
        try:
            _watch(Steps(writing, command["at"]))
            _ingest(command)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as trace:
        labels = trace.read().splitlines()
    _, status = os.waitpid(child, 0)
    return {"status": os.waitstatus_to_exitcode(status), "steps": labels}


def _import_all() -> None:
    """Import whatever an ingest imports, found out by a fork: what has started no thread may fork later."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "in.jsonl").write_bytes(_LINE)
            _ingest(
                {
                    "uri": f"sqlite:///{folder}/catalog.db",
                    "source": f"{folder}/in.jsonl",
                    "checkpoint": f"{folder}/checkpoint",
                    "batch_bytes": 1,
                    "follow": False,
                }
            )
        with os.fdopen(writing, "w") as names:
            names.write("\n".join(sys.modules))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as names:
        wanted = names.read().splitlines()
    os.waitpid(child, 0)
    for name in wanted:
        with suppress(ImportError):
            importlib.import_module(name)


if __name__ == "__main__":
    _import_all()
    for line in sys.stdin:
        print(json.dumps(_do(json.loads(line))), flush=True)
