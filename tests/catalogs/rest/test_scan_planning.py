"""Scans that a REST server plans: the rows of a local plan, or an error, and never fewer rows."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from faulty_rest import Fault, serving
from planning_rest import PLANNING, PlanningRest

import esker
from esker.catalogs.rest import service as service_module
from esker.catalogs.rest.open_rest_catalog import open_rest_catalog
from esker.catalogs.rest.operations import Operation
from esker.catalogs.rest.scans import plan_scan
from esker.errors import Corrupt, EskerError, InvalidInput, NoSuchTable, StorageFailed, Unsupported
from esker.model.predicates.predicate import TRUE
from esker.wiring import lake_over

DAYS = 5
PLAN = "/plan"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlanningRest]:
    monkeypatch.setattr(service_module, "_WAIT_S", 0.001)
    monkeypatch.setattr(plan_scan, "_FIRST_WAIT_S", 0.001)
    with serving(PlanningRest(warehouse=str(tmp_path))) as found:
        found.offer()
        yield found


def rows(day: int) -> pa.Table:
    """Six rows of one day; the first of each has no amount."""
    ids = [day * 10 + one for one in range(6)]
    amounts = [None, *(float(one) for one in ids[1:])]
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "day": [f"2026-01-0{day + 1}"] * 6, "amount": pa.array(amounts, pa.float64())}
    )


def opened(server: PlanningRest, **properties: str) -> esker.Lake:
    return lake_over(open_rest_catalog(server.uri, allowed_roots=[server.warehouse], properties=properties))


@pytest.fixture
def lake(server: PlanningRest) -> esker.Lake:
    """One table of five partitions, two of them with position deletes, whose scans the server should plan."""
    lake = opened(server)
    lake.create_namespace("a")
    made = lake.create_table(
        "a.t",
        "id bigint, day string, amount double",
        partition_by=["day"],
        properties={"write.delete.mode": "merge-on-read"},
    )
    for day in range(DAYS):
        made.append(rows(day))
    made.delete("id in (2, 13)")
    server.extra = {"config": {"scan-planning-mode": "server"}}
    return lake


def read(table: esker.Table, where: str | None = None) -> list[int]:
    return sorted(table.scan(where).to_arrow()["id"].to_pylist())


FILTERS = (
    None,
    "day = '2026-01-02'",
    "day > '2026-01-02' AND amount > 33",
    "amount IS NULL OR id = 21",
    "id NOT IN (1, 2, 3) AND day LIKE '2026-01-0%'",
    "amount != 1.0",
    "day IN ('2026-01-01', '2026-01-09')",
    "id < 0",
)


@pytest.mark.parametrize("where", FILTERS)
@pytest.mark.parametrize(("polls", "page"), [(0, 0), (0, 1), (3, 0), (2, 2)])
def test_the_rows_are_those_of_a_local_plan(
    server: PlanningRest, lake: esker.Lake, where: str | None, polls: int, page: int
) -> None:
    server.polls, server.page = polls, page
    local = read(opened(server, **{"scan-planning-mode": "client"}).table("a.t"), where)
    assert not server.requests("POST", PLAN)
    assert read(lake.table("a.t"), where) == local
    assert len(server.requests("POST", PLAN)) == 1
    assert len(server.requests("GET", PLAN)) == polls
    assert not server.cancelled
    assert not server.pages


def test_explain_says_that_the_server_planned_and_no_manifest_is_read(
    server: PlanningRest, lake: esker.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.table("a.t")
    monkeypatch.setattr(table._workings.format, "manifests", None)
    scan = table.scan("day = '2026-01-02'")
    assert f"planner    the REST catalog at {server.uri}" in scan.explain()
    assert scan.plan().funnel.files_kept == 1
    assert [task.residual for task in scan.plan().tasks] == [TRUE]


def test_a_snapshot_is_planned_by_its_id(server: PlanningRest, lake: esker.Lake) -> None:
    table = lake.table("a.t")
    first = table.snapshots[0].snapshot_id
    assert sorted(table.scan(snapshot_id=first).to_arrow()["id"].to_pylist()) == list(range(6))
    assert json.loads(server.requests("POST", PLAN)[0][3])["snapshot-id"] == first


def test_deleted_rows_can_be_asked_for(lake: esker.Lake) -> None:
    found = lake.table("a.t").scan(columns=["id", "_deleted"]).to_arrow()
    assert sorted(row["id"] for row in found.to_pylist() if row["_deleted"]) == [2, 13]


def test_a_scan_travels_to_other_processes_which_plan_it_themselves(server: PlanningRest, lake: esker.Lake) -> None:
    scan = lake.table("a.t").scan("day = '2026-01-02'")
    again = pickle.loads(pickle.dumps(replace(scan, frames=None)))
    assert sorted(again.to_arrow()["id"].to_pylist()) == [10, 11, 12, 14, 15]
    assert not server.requests("POST", PLAN)
    assert "the REST catalog" in scan.explain()
    sent = pickle.loads(pickle.dumps(scan.plan()))
    assert sent.planner == scan.plan().planner


# ---------------------------------------------------------------- who plans


def test_the_server_is_not_asked_where_it_does_not_say_so(server: PlanningRest, lake: esker.Lake) -> None:
    server.extra = {}
    other = opened(server)
    assert len(read(other.table("a.t"))) == 28
    assert not server.requests("POST", PLAN)
    assert "planner" not in other.table("a.t").scan().explain()


def test_the_configuration_of_the_server_decides_for_all_tables(server: PlanningRest, lake: esker.Lake) -> None:
    server.extra = {}
    server.config["defaults"]["scan-planning-mode"] = "server"
    assert len(read(opened(server).table("a.t"))) == 28
    assert len(server.requests("POST", PLAN)) == 1


def test_the_user_can_ask_for_it_and_forbid_it(server: PlanningRest, lake: esker.Lake) -> None:
    server.extra = {}
    assert len(read(opened(server, **{"scan-planning-mode": "server"}).table("a.t"))) == 28
    assert len(server.requests("POST", PLAN)) == 1
    server.extra = {"config": {"scan-planning-mode": "server"}}
    assert len(read(opened(server, **{"scan-planning-mode": "client"}).table("a.t"))) == 28
    assert len(server.requests("POST", PLAN)) == 1
    with pytest.raises(InvalidInput, match="not client or server"):
        read(opened(server, **{"scan-planning-mode": "both"}).table("a.t"))


def test_a_server_that_does_not_advertise_it_is_not_called(server: PlanningRest, lake: esker.Lake) -> None:
    server.offer(*PLANNING)
    with pytest.raises(Unsupported, match=r"does not advertise the operation POST .*/plan.*scan-planning-mode"):
        read(opened(server).table("a.t"))
    assert not server.requests("POST", PLAN)


@pytest.mark.parametrize("status", [400, 405, 406, 501])
def test_a_refusal_before_any_answer_leaves_the_plan_to_the_client(
    server: PlanningRest, lake: esker.Lake, status: int
) -> None:
    server.faults.append(Fault(path=PLAN, status=status, body='{"error": {"type": "No", "message": "not today"}}'))
    scan = lake.table("a.t").scan()
    assert len(scan.to_arrow()) == 28
    assert "planner    this client, since the server refused" in scan.explain()
    assert "not today" in scan.explain()


def test_a_refusal_is_an_error_where_the_user_asked_for_the_server(server: PlanningRest, lake: esker.Lake) -> None:
    server.faults.append(Fault(path=PLAN, status=406))
    with pytest.raises(Unsupported, match="scan-planning-mode asks for plans of the server"):
        read(opened(server, **{"scan-planning-mode": "server"}).table("a.t"))


def test_row_lineage_is_planned_here(server: PlanningRest, tmp_path: Path) -> None:
    lake = opened(server)
    lake.create_namespace("b")
    lake.create_table("b.t", "id bigint", format_version=3).append(pa.table({"id": pa.array([1, 2], pa.int64())}))
    server.extra = {"config": {"scan-planning-mode": "server"}}
    scan = lake.table("b.t").scan(columns=["id", "_row_id", "_last_updated_sequence_number"])
    assert scan.to_arrow()["_last_updated_sequence_number"].to_pylist() == [1, 1]
    assert "row lineage" in scan.explain()


# ---------------------------------------------------------------- faults


def test_a_lost_answer_is_asked_for_again(server: PlanningRest, lake: esker.Lake) -> None:
    server.page, server.polls = 2, 1
    server.faults += [
        Fault(path=PLAN, cut=True),
        Fault(method="GET", path=PLAN, status=503, headers=(("Retry-After", "0"),)),
        Fault(path="/tasks", status=500),
    ]
    assert len(read(lake.table("a.t"))) == 28


FAILURES: dict[str, tuple[list[Fault], type[EskerError], str]] = {
    "a plan that never comes": ([Fault(path=PLAN, status=503)] * 4, StorageFailed, "503"),
    "a table that is gone": (
        [Fault(path=PLAN, status=404, body='{"error": {"type": "NoSuchTableException"}}')], NoSuchTable, "plan a scan"),
    "no right": ([Fault(path=PLAN, status=403)], InvalidInput, "not allowed"),
    "a page of a proxy": ([Fault(path=PLAN, status=200, body="<html>")], Corrupt, "cannot be read"),
    "a status that nobody knows": ([Fault(path=PLAN, status=200, body='{"status": "later"}')], Corrupt, "later"),
    "no plan-id": ([Fault(path=PLAN, status=200, body='{"status": "submitted"}')], Corrupt, "no plan-id"),
    "cancelled at once": ([Fault(path=PLAN, status=200, body='{"status": "cancelled"}')], StorageFailed, "cancelled"),
    "an expired task": (
        [Fault(path="/tasks", status=404, body='{"error": {"type": "NoSuchPlanTaskException"}}')],
        StorageFailed,
        "expired",
    ),
    "a task that is cut": ([Fault(path="/tasks", status=200, body='{"file-scan-tasks": [')], Corrupt, "cannot be"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FAILURES)
def test_what_fails_after_the_question_is_an_error(server: PlanningRest, lake: esker.Lake, kind: str) -> None:
    faults, error, words = FAILURES[kind]
    server.page = 2
    server.faults += faults
    with pytest.raises(error, match=words):
        read(lake.table("a.t"))
    assert len(server.cancelled) == (1 if faults[0].path == "/tasks" else 0)  # given up: the server need not go on


POLLED: dict[str, tuple[Fault, str]] = {
    "failed": (
        Fault(
            method="GET",
            path=PLAN,
            status=200,
            body='{"status": "failed", "error": {"type": "Bad", "message": "no memory", "code": 500}}',
        ),
        "failed.*no memory",
    ),
    "cancelled": (Fault(method="GET", path=PLAN, status=200, body='{"status": "cancelled"}'), "cancelled"),
    "expired": (Fault(method="GET", path=PLAN, status=404), "expired"),
}


@pytest.mark.parametrize("kind", POLLED)
def test_a_plan_that_ends_badly_is_an_error_that_can_be_tried_again(
    server: PlanningRest, lake: esker.Lake, kind: str
) -> None:
    server.polls = 2
    server.faults.append(POLLED[kind][0])
    with pytest.raises(StorageFailed, match=POLLED[kind][1]) as caught:
        read(lake.table("a.t"))
    assert caught.value.retryable
    assert len(read(lake.table("a.t"))) == 28


def test_a_plan_that_takes_too_long_is_cancelled(server: PlanningRest, lake: esker.Lake) -> None:
    server.polls = 10_000
    with pytest.raises(StorageFailed, match="not ready in time"):
        read(opened(server, **{"rest-scan-planning.poll-timeout-ms": "30"}).table("a.t"))
    assert len(server.cancelled) == 1


def test_a_plan_that_the_user_stops_is_cancelled(
    server: PlanningRest, lake: esker.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(seconds: float) -> None:
        raise KeyboardInterrupt

    server.polls = 5
    monkeypatch.setattr(plan_scan.Planning.__init__, "__kwdefaults__", {"sleep": stopped})
    with pytest.raises(KeyboardInterrupt):
        read(lake.table("a.t"))
    assert len(server.cancelled) == 1


# ---------------------------------------------------------------- wrong answers


def _first(answer: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = answer["file-scan-tasks"][0]["data-file"]
    return found


def outside(answer: dict[str, Any]) -> Any:
    _first(answer)["file-path"] = "/etc/passwd"
    return answer


def twice(answer: dict[str, Any]) -> Any:
    answer["file-scan-tasks"] *= 2
    return answer


def unknown_delete(answer: dict[str, Any]) -> Any:
    answer["file-scan-tasks"][0]["delete-file-references"] = [7]
    return answer


def negative_delete(answer: dict[str, Any]) -> Any:
    answer["file-scan-tasks"][0]["delete-file-references"] = [-1]
    return answer


def unknown_spec(answer: dict[str, Any]) -> Any:
    _first(answer)["spec-id"] = 9
    return answer


def wrong_partition(answer: dict[str, Any]) -> Any:
    _first(answer)["partition"] = []
    return answer


def delete_as_data(answer: dict[str, Any]) -> Any:
    _first(answer)["content"] = "position-deletes"
    return answer


def circle(answer: dict[str, Any]) -> Any:
    answer["plan-tasks"] = ["x", "x"]
    return answer


def no_path(answer: dict[str, Any]) -> Any:
    del _first(answer)["file-path"]
    return answer


def vector_nowhere(answer: dict[str, Any]) -> Any:
    answer["delete-files"] = [{**_first(answer), "content": "position-deletes", "file-format": "puffin"}]
    return answer


WRONG: dict[str, tuple[Callable[[dict[str, Any]], Any], type[EskerError], str]] = {
    "a file outside the table": (outside, InvalidInput, "outside"),
    "a file twice": (twice, Corrupt, "twice"),
    "an unknown delete": (unknown_delete, Corrupt, "refers to delete 7"),
    "a delete from the end": (negative_delete, Corrupt, "refers to delete -1"),
    "an unknown spec": (unknown_spec, Corrupt, "partition spec 9"),
    "a partition of another spec": (wrong_partition, Corrupt, "wrong partition"),
    "a delete as data": (delete_as_data, Corrupt, "among the data"),
    "a task twice": (circle, Corrupt, "same plan task twice"),
    "a file without a path": (no_path, Corrupt, "file-path"),
    "a vector without a place": (vector_nowhere, Corrupt, "its place in the file"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_plan_is_refused_as_a_whole(server: PlanningRest, lake: esker.Lake, kind: str) -> None:
    server.alter, error, words = WRONG[kind]
    with pytest.raises(error, match=words):
        read(lake.table("a.t"))


def test_a_wrong_residual_of_the_server_loses_no_row(server: PlanningRest, lake: esker.Lake) -> None:
    def altered(answer: dict[str, Any]) -> Any:
        for task in answer["file-scan-tasks"]:
            task["residual-filter"] = False
        return answer

    server.alter = altered
    assert len(read(lake.table("a.t"))) == 28


def test_partitions_may_be_objects_by_field_id(server: PlanningRest, lake: esker.Lake) -> None:
    def altered(answer: dict[str, Any]) -> Any:
        for task in answer["file-scan-tasks"]:
            task["data-file"]["partition"] = {"1000": task["data-file"]["partition"][0]}
        return answer

    server.alter = altered
    assert read(lake.table("a.t"), "day = '2026-01-02'") == [10, 11, 12, 14, 15]


def test_operations_of_a_plan_that_are_missing_are_named(server: PlanningRest, lake: esker.Lake) -> None:
    server.polls = 1
    server.offer(Operation.FETCH_PLAN)
    with pytest.raises(Unsupported, match="fetch plan"):
        read(opened(server).table("a.t"))
