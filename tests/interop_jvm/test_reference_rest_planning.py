"""Scans that Iceberg's own REST server plans: the rows of a local plan, whatever the filter."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from rest_servers import RestServer, emptied, reference_server

import esker
from esker.catalogs.rest.open_rest_catalog import open_rest_catalog
from esker.catalogs.rest.operations import Operation
from esker.catalogs.rest.scans.reports import commit_report, scan_report
from esker.model.table_names import TableName
from esker.wiring import lake_over

DDL = (
    "id bigint, name string, day date, at timestamp_ntz, price decimal(9,2), score double, ok boolean, "
    "place struct<town: string>"
)
FILTERS = (
    None,
    "id = 13",
    "id != 13",
    "id IN (1, 13, 99)",
    "id NOT IN (1, 13)",
    "name LIKE 'n1%'",
    "name NOT LIKE 'n1%'",
    "name LIKE '%3'",
    "name IS NULL",
    "name IS NOT NULL AND id > 20",
    "day = DATE '2026-01-02'",
    "day >= DATE '2026-01-02' AND day < DATE '2026-01-04'",
    "at > TIMESTAMP_NTZ '2026-01-02 05:00:00'",
    "price >= 12.50",
    "price = 3.25 OR id = 22",
    "score > 15.0",
    "score >= 0",
    "score = 0",
    "score < 0.5",
    "isnan(score)",
    "NOT isnan(score)",
    "ok",
    "NOT ok",
    "ok IS NULL",
    "place.town = 'town 2'",
    "place.town IS NULL",
    "id > 100",
)


@pytest.fixture(scope="module", params=["at once", "later"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    with reference_server(tmp_path_factory.mktemp("rest"), plans_later=request.param == "later") as found:
        emptied(found)
        _write(opened(found, "client"))
        yield found


def opened(server: RestServer, mode: str) -> esker.Lake:
    return lake_over(
        open_rest_catalog(server.uri, allowed_roots=[server.warehouse], properties={"scan-planning-mode": mode})
    )


def rows(day: int) -> pa.Table:
    ids = [day * 10 + one for one in range(4)]
    scores = [float("nan") if day == 3 else -0.0, float(ids[1]), None, float(ids[3])]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"n{one}" if one % 3 else None for one in ids],
            "day": pa.array([date(2026, 1, day + 1)] * 4, pa.date32()),
            "at": pa.array([datetime(2026, 1, day + 1, one) for one in range(0, 24, 6)], pa.timestamp("us")),
            "price": pa.array([Decimal(one) + Decimal("0.25") for one in ids], pa.decimal128(9, 2)),
            "score": pa.array(scores, pa.float64()),
            "ok": [True, False, None, day % 2 == 0],
            "place": [{"town": f"town {day}"}, None, {"town": None}, {"town": "x"}],
        }
    )


def _write(lake: esker.Lake) -> None:
    lake.create_namespace("plans")
    for version in (2, 3):
        table = lake.create_table(
            f"plans.v{version}",
            DDL,
            partition_by=["day(day)", "bucket(4, id)"],
            format_version=version,
            properties={"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"},
        )
        for day in range(4):
            table.append(rows(day))
        table.delete("id IN (3, 12)")
        table.update({"name": "'changed'"}, "id = 21")


@pytest.mark.parametrize("version", [2, 3])
def test_the_rows_are_those_of_a_local_plan(server: RestServer, version: int) -> None:
    ours, theirs = (opened(server, mode).table(f"plans.v{version}") for mode in ("client", "server"))
    wrong = []
    for where in FILTERS:
        local = ours.scan(where)
        served = theirs.scan(where)
        assert served.plan().planner == f"the REST catalog at {server.uri}"
        expected, found = (sorted(map(repr, scan.to_arrow().to_pylist())) for scan in (local, served))
        if found != expected or served.count() != len(expected):
            wrong.append((where, len(found), len(expected)))
    assert wrong == []


def test_the_server_prunes(server: RestServer) -> None:
    table = opened(server, "server").table("plans.v2")
    assert table.scan("day = DATE '2026-01-02'").plan().funnel.files_kept < table.scan().plan().funnel.files_kept


def test_a_column_that_got_another_name_is_still_found(server: RestServer) -> None:
    lake = opened(server, "server")
    table = lake.create_table("plans.renamed", "a bigint, b bigint")
    first = table.append(pa.table({"a": pa.array([1, 2], pa.int64()), "b": pa.array([10, 20], pa.int64())}))
    with table.alter() as change:
        change.rename_column("a", "c")
        change.rename_column("b", "a")
    assert table.scan("a = 10").to_arrow().to_pylist() == [{"c": 1, "a": 10}]
    assert table.scan("c = 2").to_arrow().to_pylist() == [{"c": 2, "a": 20}]
    assert table.scan("a = 2", snapshot_id=first.snapshot_id).to_arrow().to_pylist() == [{"a": 2, "b": 20}]


def test_reports_are_taken(server: RestServer) -> None:
    catalog = open_rest_catalog(server.uri, allowed_roots=[server.warehouse])
    table = lake_over(catalog).table("plans.v2")
    name = TableName.parse("plans.v2")
    scan = table.scan("id = 13 AND name LIKE 'n%' AND day IN (DATE '2026-01-02', DATE '2026-01-03')")
    assert scan._question is not None
    assert table.current_snapshot is not None
    counts = {**scan.plan().funnel.counters, **scan.plan().manifest_counters}
    for report in (scan_report(name, scan._question, counts, 5), commit_report(name, table.current_snapshot)):
        told = catalog._service.tell(Operation.REPORT_METRICS, name, report, resend=False)
        assert told.answer is not None, told.why
        assert told.answer.is_success, told.why
