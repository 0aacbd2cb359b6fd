"""Reports of scans and commits: sent in the background where the server wants them, and never in the way."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from faulty_rest import Fault, FaultyRest, faulty_rest

import esker
from esker.catalogs.rest import service as service_module
from esker.catalogs.rest.open_rest_catalog import open_rest_catalog
from esker.catalogs.rest.operations import Operation
from esker.wiring import lake_over

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "b"]})
METRICS = "/metrics"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyRest]:
    monkeypatch.setattr(service_module, "_WAIT_S", 0.001)
    with faulty_rest(str(tmp_path)) as found:
        found.namespaces["a"] = {}
        yield found


def opened(server: FaultyRest, **properties: str) -> esker.Lake:
    return lake_over(open_rest_catalog(server.uri, allowed_roots=[server.warehouse], properties=properties))


def made(server: FaultyRest, **properties: str) -> esker.Table:
    return opened(server, **properties).create_table("a.t", "id bigint, name string")


def reports(server: FaultyRest, count: int) -> list[dict[str, Any]]:
    """The reports, when there are so many; nobody waits for them but a test."""
    ends = time.monotonic() + 20
    while len(server.requests("POST", METRICS)) < count and time.monotonic() < ends:
        time.sleep(0.01)
    return [json.loads(body) for _, _, _, body in server.requests("POST", METRICS)]


def test_a_scan_is_reported_without_the_values_of_its_filter(server: FaultyRest) -> None:
    table = made(server)
    table.append(ROWS)
    assert len(table.scan("id = 1987 AND name IN ('secret', 'hidden')", columns=["name"]).to_arrow()) == 0
    commit, scan = reports(server, 2)
    assert commit["report-type"] == "commit-report"
    assert scan["report-type"] == "scan-report"
    assert scan["table-name"] == "a.t"
    assert scan["snapshot-id"] == table.snapshots[0].snapshot_id
    assert scan["projected-field-names"] == ["name"]
    assert scan["projected-field-ids"] == [2]
    metrics = scan["metrics"]
    assert metrics["result-data-files"] == {"unit": "count", "value": 0}
    assert metrics["skipped-data-files"] == {"unit": "count", "value": 1}
    assert metrics["scanned-data-manifests"] == {"unit": "count", "value": 1}
    assert metrics["total-planning-duration"]["total-duration"] > 0
    text = json.dumps(scan["filter"])
    assert '"term": "id"' in text
    assert not any(value in text for value in ("1987", "secret", "hidden"))


def test_reports_can_be_switched_off_and_are_not_sent_where_nobody_takes_them(server: FaultyRest) -> None:
    before = set(threading.enumerate())
    table = made(server, **{"rest-metrics-reporting-enabled": "false"})
    table.append(ROWS)
    assert table.scan().count() == 2
    server.config["endpoints"] = [one.value for one in Operation if one is not Operation.REPORT_METRICS]
    assert opened(server).table("a.t").scan().count() == 2
    assert "esker-rest-reports" not in {one.name for one in set(threading.enumerate()) - before}
    assert not server.requests("POST", METRICS)


@pytest.mark.parametrize(
    "fault", [Fault(path=METRICS, status=500), Fault(path=METRICS, cut=True), Fault(path=METRICS, status=401)]
)
def test_a_report_that_fails_fails_nothing(server: FaultyRest, fault: Fault) -> None:
    table = made(server)
    server.faults += [fault] * 20
    table.append(ROWS)
    assert table.scan().count() == 2
    assert reports(server, 1)


def test_a_server_that_takes_no_report_holds_nobody_up(server: FaultyRest) -> None:
    table = made(server)
    table.append(ROWS)
    reports(server, 1)
    busy = threading.Event()
    waited = threading.Event()

    def hold(_: Any) -> None:
        waited.set()
        server.lock.release()
        busy.wait(30)
        server.lock.acquire()

    server.faults.append(Fault(path=METRICS, status=204, applies=True, then=hold))
    try:
        for _ in range(150):  # more than may wait
            assert table.scan().count() == 2
        assert waited.wait(20)
    finally:
        busy.set()
    assert len(reports(server, 100)) < 152


def test_the_last_report_is_sent_when_the_process_ends(server: FaultyRest) -> None:
    made(server).append(ROWS)
    reports(server, 1)
    program = (
        "import sys, esker\n"
        "table = esker.connect(sys.argv[1], allowed_roots=[sys.argv[2]]).table('a.t')\n"
        "assert table.scan().count() == 2\n"
    )
    subprocess.run([sys.executable, "-c", program, server.uri, server.warehouse], check=True, timeout=120)
    assert [one["report-type"] for one in reports(server, 2)] == ["commit-report", "scan-report"]
