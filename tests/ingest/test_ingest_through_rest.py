"""Telemetry through a REST catalog that fails at any request: a stream waits, goes on, and everything is there once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from faulty_rest import Fault, FaultyRest, faulty_rest
from outages import IMPATIENT
from telemetry_samples import letters, logs, span_names, spans, write

import esker
from esker.ingest.follow import Pace
from esker.ingest.otlp.ingest_otlp import Asked, follow_otlp
from esker.lake import Lake

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
