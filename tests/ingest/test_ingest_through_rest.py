"""Telemetry through a REST catalog that fails at any request: a stream waits, goes on, and everything is there once."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import run
from faulty_rest import Fault, FaultyRest, faulty_rest
from outages import IMPATIENT
from s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from telemetry_samples import letters, logs, span_names, spans, write

import esker
from esker.ingest.follow import Pace
from esker.ingest.otlp.ingest_otlp import Asked, follow_otlp
from esker.lake import Lake
from esker.write.commit import RetryPolicy

FAULTS = {
    "cut before": Fault(cut=True),
    "cut after": Fault(cut=True, applies=True),
    "503 after": Fault(status=503, applies=True),
    "throttled": Fault(status=429, headers=(("Retry-After", "0"),)),
}
QUICK = Pace(every_s=0.0, settle_s=0.0, idle_s=0.0, first_wait_s=0.01)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyRest]:
    monkeypatch.setattr("esker.catalogs.rest.service._WAIT_S", 0.001)
    (tmp_path / "warehouse").mkdir()
    with faulty_rest(str(tmp_path / "warehouse")) as found:
        yield found


def connected(server: FaultyRest) -> Lake:
    return esker.connect(server.uri, allowed_roots=[server.warehouse])


def emptied(server: FaultyRest) -> None:
    with server.lock:
        server.faults.clear()
        for held in (server.namespaces, server.tables, server.versions, server.replays, server.seen):
            held.clear()  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_stream_goes_on_after_a_fault_at_any_change(tmp_path: Path, server: FaultyRest, fault: str) -> None:
    """At a namespace, a table, a commit; once, or so often that the client gives up."""
    for number, (path, times) in enumerate(
        (("/namespaces", 1), ("/otel/tables", 9), ("/logs", 9), ("/dead_letter", 1))
    ):
        emptied(server)
        folder = tmp_path / str(number)
        write(folder / "in", "a.jsonl", spans([0, 1]), logs([0]), b"{broken\n")
        lake = connected(server)
        assert not lake.namespaces()
        asked = Asked(paths=[folder / "in"], checkpoint=folder / "checkpoint", properties=IMPATIENT)
        server.faults += [replace(FAULTS[fault], path=path)] * times
        account = follow_otlp(lake, asked, pace=QUICK)
        assert (account.holds, account.received) == (True, 4), (path, account.facts())
        assert span_names(connected(server)) == Counter(["span 0", "span 1"]), path
        assert letters(connected(server)).total() == 1, path
        assert len(server.faults) < times


@pytest.mark.slow
def test_the_commands_ingest_to_s3_and_replay_what_is_pending(
    tmp_path: Path, s3: S3Server, bucket: str, s3_environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys come from the environment, the rest from ``--catalog-property``. No key is in the checkpoint or shown."""
    monkeypatch.setattr("esker.catalogs.rest.service._WAIT_S", 0.001)
    monkeypatch.setattr("esker.write.commit.RetryPolicy.of", lambda properties: RetryPolicy(checks=0, retries=0))
    write(tmp_path / "in", "a.jsonl", spans([0, 1]))
    with faulty_rest(bucket) as server:
        lake = ("--catalog", server.uri, "--catalog-property", f"s3.endpoint={s3.endpoint}")
        place = ("--checkpoint", tmp_path / "checkpoint", "--engine", "arrow")
        refused = run(*lake, "ingest", "otlp", tmp_path / "in", "--engine", "arrow")
        assert refused.exit_code == 2
        assert "this lake has no folder on this machine" in refused.output
        assert run(*lake, "ingest", "otlp", tmp_path / "in", *place).exit_code == 0
        write(tmp_path / "in", "b.jsonl", spans([2, 3]))
        server.faults += [Fault(path="/tables/spans", status=503)] * 9
        first = run(*lake, "--json", "ingest", "otlp", tmp_path / "in", *place)
        assert (first.exit_code, json.loads(first.stdout)["pending"]) == (4, 2), first.output
        for file in (tmp_path / "checkpoint").rglob("*"):
            assert file.is_dir() or not {SECRET_KEY, ACCESS_KEY} & set(
                re.findall(r"[\w+/]+", file.read_text("latin-1"))
            )
        assert SECRET_KEY not in first.output
        server.faults.clear()
        again = run(*lake, "--json", "replay", *place)
        assert (again.exit_code, json.loads(again.stdout)["tables"]) == (0, {"otel.spans": 2}), again.output
        found = esker.connect(server.uri, properties={"s3.endpoint": s3.endpoint})
        assert span_names(found) == Counter(f"span {number}" for number in range(4))
