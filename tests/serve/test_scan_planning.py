"""Scans that the server plans: the same rows as a plan of the client, filters of every kind, plans in parts."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("urllib3")

from esker_server import serving

import esker
from esker.arrow.read.filter import matches
from esker.errors import NoSuchTable
from esker.lake import Lake
from esker.model.predicates.predicate import TRUE
from esker.model.schema import Schema
from esker.model.types import BINARY, DOUBLE, FLOAT, LONG, UUID, Field, FixedType, Type
from esker.serve.call import Answer, Call
from esker.serve.catalog_service import Service
from esker.serve.error_answers import NoSuchPlan, NoSuchPlanTask
from esker.serve.scan_documents import Residuals, read_filter
from esker.serve.scan_planning import ScanPlanning

FILES = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module")
def lake(folder: Path) -> Lake:
    """One for all tests: none changes it."""
    lake = esker.connect(f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/warehouse")
    lake.create_namespace("a")
    table = lake.create_table(
        "a.t",
        "id bigint, name string, score double, day date",
        partition_by=["day"],
        properties={"write.delete.mode": "merge-on-read"},
    )
    for at in range(FILES):
        rows = {
            "id": pa.array([at * 10, at * 10 + 1, None], pa.int64()),
            "name": [f"n{at}", "x", None],
            "score": [float(at), float("nan"), None],
            "day": [date(2026, 1, 1 + at % 3)] * 3,
        }
        table.append(pa.table(rows))
    table.delete("id = 51 or id = 80")
    return lake


@pytest.fixture(scope="module")
def uri(lake: Lake) -> Iterator[str]:
    with serving(lake) as address:
        yield address


@pytest.mark.parametrize(
    "where",
    [
        None,
        "id = 70",
        "id != 70",
        "id in (20, 31)",
        "id not in (20, 31)",
        "not (id > 30 and name = 'x')",
        "name like 'n1%'",
        "name not like 'n%'",
        "score > 5",
        "isnan(score)",
        "score is null or id < 15",
        "day = date '2026-01-02'",
        "day > date '2026-01-01' and id >= 50",
        "id = 51",
    ],
)
def test_the_rows_are_those_of_a_plan_of_the_client(lake: Lake, uri: str, folder: Path, where: str | None) -> None:
    there = esker.connect(
        uri, allowed_roots=[str(folder / "warehouse")], properties={"scan-planning-mode": "server"}
    ).table("a.t")
    scan = there.scan(where)
    assert "the REST catalog at" in scan.explain()
    key = [("id", "ascending"), ("name", "ascending")]
    ours = lake.table("a.t").to_arrow(where).sort_by(key)
    assert str(scan.to_arrow().sort_by(key).to_pylist()) == str(ours.to_pylist())  # as text: NaN equals NaN
    assert len(scan.plan().tasks) == len(lake.table("a.t").scan(where).plan().tasks) or where is not None


def ask(lake: Lake, filter_: Any, **more: Any) -> Answer:
    body = msgspec.json.encode({"filter": filter_, **more})
    return Service(lake).answer("POST", "/v1/namespaces/a/tables/t/plan", Call(body=body))


@pytest.mark.parametrize(
    ("filter_", "files"),
    [
        (True, FILES),
        (False, 0),
        ({"type": "eq", "term": "id", "value": 70}, 1),
        ({"type": "eq", "term": {"type": "reference", "term": "id"}, "value": 70}, 1),
        ({"type": "not", "child": {"type": "not-eq", "term": "id", "value": 70}}, 1),
        (
            {
                "type": "not",
                "child": {"type": "or", "left": {"type": "lt", "term": "id", "value": 100}, "right": False},
            },
            2,
        ),
        ({"type": "in", "term": "day", "values": ["2026-01-01"]}, 4),
        ({"type": "starts-with", "term": "name", "value": "n11"}, 4),
        ({"type": "eq", "term": {"type": "transform", "transform": "bucket[4]", "term": "id"}, "value": 1}, FILES),
    ],
)
def test_filters_of_other_clients_prune(lake: Lake, filter_: Any, files: int) -> None:
    answer = ask(lake, filter_)
    document = msgspec.json.decode(answer.body)
    assert (answer.status, document["status"], len(document["file-scan-tasks"])) == (200, "completed", files)


@pytest.mark.parametrize(
    "filter_",
    [
        {"type": "eq", "term": "no", "value": 1},
        {"type": "eq", "term": "id", "value": "many"},
        {"type": "eq", "term": "id"},
        {"type": "in", "term": "id", "values": [1, None]},
        {"type": "not-in", "term": "id", "values": [None]},
        {"type": "near", "term": "id", "value": 1},
        {"type": "starts-with", "term": "id", "value": "1"},
        {"type": "and", "left": True},
        [],
        "id = 1",
    ],
)
def test_a_filter_that_is_wrong_is_refused(lake: Lake, filter_: Any) -> None:
    assert ask(lake, filter_).status == 400


@pytest.fixture(scope="module")
def times(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A table with a file for each of four days; the last one has nulls."""
    folder = tmp_path_factory.mktemp("times")
    lake = esker.connect(f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/warehouse")
    lake.create_namespace("a")
    table = lake.create_table(
        "a.t", "n int, day date, local timestamp_ntz, at timestamp, fine timestamptz_ns, clock time", format_version=3
    )
    for at in range(4):
        when = datetime(2026, 1, 1 + at)
        rows = {
            "n": pa.array([None if at == 3 else at], pa.int32()),
            "day": [when.date()],
            "local": pa.array([when], pa.timestamp("us")),
            "at": pa.array([when], pa.timestamp("us", "UTC")),
            "fine": pa.array([when], pa.timestamp("ns", "UTC")),
            "clock": pa.array([time(at)], pa.time64("us")),
        }
        table.append(pa.table(rows))
    return lake


MICROS = int(datetime(2026, 1, 3, tzinfo=UTC).timestamp()) * 1_000_000


@pytest.mark.parametrize(
    ("term", "kind", "value", "files"),
    [
        ("day", "eq", 20454, 1),  # numbers: Iceberg's Java client sends all dates and times as such
        ("local", "gt-eq", MICROS, 2),
        ("at", "gt-eq", MICROS, 2),
        ("fine", "gt-eq", MICROS, 2),
        ("clock", "eq", 3_600_000_000, 1),
        ("at", "gt-eq", "2026-01-03T00:00:00", 2),  # PyIceberg leaves out the zone
        ("at", "gt-eq", "2026-01-03T00:00:00Z", 2),
        ("at", "gt-eq", "2026-01-03T02:00:00+02:00", 2),
        ("at", "gt", "2026-01-02T22:30:00.5-01:30", 1),
        ("fine", "gt-eq", "2026-01-02T23:00:00-01:00", 2),
        ("n", "lt", 3_000_000_000, 4),  # no 32-bit number is above it
        ("n", "gt", 3_000_000_000, 0),
        ("n", "eq", -3_000_000_000, 0),
        ("n", "not-eq", 3_000_000_000, 4),
        ("day", "gt-eq", -(1 << 40), 4),
    ],
)
def test_literals_are_taken_as_clients_send_them(times: Lake, term: str, kind: str, value: Any, files: int) -> None:
    filter_ = {"type": kind, "term": term, "value": value}
    answer = ask(times, filter_)
    assert answer.status == 200, answer.body
    tasks = msgspec.json.decode(answer.body)["file-scan-tasks"]
    assert len(tasks) == files
    if abs(value if isinstance(value, int) else 0) >= 3_000_000_000 and term == "n":
        assert all(task["residual-filter"] == filter_ for task in tasks)  # clients decide what it means for null


def test_a_set_ignores_numbers_that_the_column_cannot_hold(times: Lake) -> None:
    for kind, files in (("in", 1), ("not-in", 3)):
        answer = ask(times, {"type": kind, "term": "n", "values": [1, 1 << 40]})
        assert len(msgspec.json.decode(answer.body)["file-scan-tasks"]) == files


@pytest.mark.parametrize(("term", "value"), [("local", "2026-01-03T00:00:00+00:00"), ("at", "soon"), ("clock", "1h")])
def test_a_time_that_nobody_can_read_is_refused(times: Lake, term: str, value: str) -> None:
    answer = ask(times, {"type": "eq", "term": term, "value": value})
    assert (answer.status, f"cannot filter by '{term}'".encode() in answer.body) == (400, True)


def test_plans_and_tasks_of_a_table_that_is_missing_say_so(lake: Lake) -> None:
    service = Service(lake)
    for method, path, kind in (
        ("DELETE", "none/plan/x", "NoSuchTableException"),
        ("POST", "none/tasks", "NoSuchTableException"),
        ("POST", "t/tasks", "NoSuchPlanTaskException"),
        ("GET", "t/plan/x", "NoSuchPlanIdException"),
    ):
        answer = service.answer(method, f"/v1/namespaces/a/tables/{path}", Call(body=b'{"plan-task": "x"}'))
        assert (answer.status, msgspec.json.decode(answer.body)["error"]["type"]) == (404, kind)


def test_a_filter_that_is_too_deep_is_refused(lake: Lake) -> None:
    deep: Any = True
    for _ in range(300):
        deep = {"type": "not", "child": deep}
    assert ask(lake, deep).status == 400


def test_names_may_differ_in_case_if_the_client_says_so(lake: Lake) -> None:
    test = {"type": "eq", "term": "ID", "value": 70}
    assert ask(lake, test).status == 400
    assert ask(lake, test, **{"case-sensitive": False}).status == 200
    assert ask(lake, True, **{"start-snapshot-id": 1, "end-snapshot-id": 2}).status == 400
    assert ask(lake, True, **{"snapshot-id": 1}).status == 400


def test_a_large_plan_comes_in_parts_which_expire(lake: Lake) -> None:
    now = [0.0]
    planning = ScanPlanning(lake, files_at_once=5, now=lambda: now[0])
    path = {"namespace": "a", "table": "t"}
    first = msgspec.json.decode(planning.plan(Call(path=path, body=b"{}")).body)
    assert (len(first["file-scan-tasks"]), len(first["plan-tasks"])) == (5, 2)

    def fetched(task: str) -> list[Any]:
        body = msgspec.json.encode({"plan-task": task})
        found: list[Any] = msgspec.json.decode(planning.tasks(Call(path=path, body=body)).body)["file-scan-tasks"]
        return found

    parts = [fetched(task) for task in first["plan-tasks"]]
    paths = [task["data-file"]["file-path"] for part in (first["file-scan-tasks"], *parts) for task in part]
    assert len(set(paths)) == len(paths) == FILES
    assert fetched(first["plan-tasks"][0]) == parts[0]
    planning.cancel(Call(path={**path, "plan-id": "another"}))
    assert fetched(first["plan-tasks"][0]) == parts[0]
    now[0] += 601
    with pytest.raises(NoSuchPlanTask):
        fetched(first["plan-tasks"][0])
    again = msgspec.json.decode(planning.plan(Call(path=path, body=b"{}")).body)
    planning.cancel(Call(path={**path, "plan-id": again["plan-id"]}))
    with pytest.raises(NoSuchPlanTask):
        fetched(again["plan-tasks"][0])


def test_the_result_of_a_plan_can_be_fetched_until_it_expires_or_is_cancelled(lake: Lake) -> None:
    now = [0.0]
    planning = ScanPlanning(lake, files_at_once=5, now=lambda: now[0])
    path = {"namespace": "a", "table": "t"}

    def planned() -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(planning.plan(Call(path=path, body=b"{}")).body)
        return found

    def fetched(plan_id: str, table: str = "t") -> dict[str, Any]:
        call = Call(path={**path, "table": table, "plan-id": plan_id})
        found: dict[str, Any] = msgspec.json.decode(planning.fetch(call).body)
        return found

    first = planned()
    plan_id = first.pop("plan-id")
    assert fetched(plan_id) == fetched(plan_id) == first
    assert first["status"] == "completed"
    with pytest.raises(NoSuchTable):
        fetched(plan_id, "other")
    for unknown in ("never", f"{plan_id}0"):
        with pytest.raises(NoSuchPlan):
            fetched(unknown)
    planning.cancel(Call(path={**path, "plan-id": plan_id}))
    with pytest.raises(NoSuchPlan):
        fetched(plan_id)
    again = planned()["plan-id"]
    now[0] += 601
    with pytest.raises(NoSuchPlan):
        fetched(again)


def test_deletes_are_listed_once_and_named_by_number(lake: Lake) -> None:
    document = msgspec.json.decode(ask(lake, True).body)
    used = [task["delete-file-references"] for task in document["file-scan-tasks"] if "delete-file-references" in task]
    assert len(used) == 2
    assert {number for numbers in used for number in numbers} == set(range(len(document["delete-files"])))


def residuals(lake: Lake, filter_: Any, **more: Any) -> dict[date, Any]:
    """The residual of the files of each day, which is the same for all of them."""
    document = msgspec.json.decode(ask(lake, filter_, **more).body)
    found: dict[date, Any] = {}
    for task in document["file-scan-tasks"]:
        day = date.fromisoformat(task["data-file"]["partition"][0])
        assert found.setdefault(day, task.get("residual-filter", "none")) == task.get("residual-filter", "none")
    return found


ONE, TWO, THREE = (date(2026, 1, number) for number in (1, 2, 3))
DAY = {"type": "lt", "term": "day", "value": "2026-01-02"}
FEW = {"type": "gt", "term": "id", "value": -5}  # each file has a null, so no file is whole
NOT_DAY = {"type": "not-eq", "term": "day", "value": "2026-01-01"}
REAL = {"type": "not-null", "term": "score"}
BUCKET = {"type": "eq", "term": {"type": "transform", "transform": "bucket[4]", "term": "id"}, "value": 1}


@pytest.mark.parametrize(
    ("filter_", "left"),
    [
        (True, {ONE: True, TWO: True, THREE: True}),
        (DAY, {ONE: True}),
        ({**DAY, "term": {"type": "reference", "term": "day"}}, {ONE: True}),
        ({"type": "not", "child": DAY}, {TWO: True, THREE: True}),
        ({"type": "and", "left": DAY, "right": FEW}, {ONE: FEW}),
        ({"type": "and", "left": {"type": "and", "left": FEW, "right": DAY}, "right": True}, {ONE: FEW}),
        (
            {"type": "not", "child": {"type": "or", "left": DAY, "right": FEW}},
            {},  # no id is as small as that
        ),
        (
            {"type": "not", "child": {"type": "or", "left": DAY, "right": {"type": "not", "child": FEW}}},
            {TWO: FEW, THREE: FEW},
        ),
        ({"type": "or", "left": DAY, "right": FEW}, {ONE: True, TWO: None, THREE: None}),
        (NOT_DAY, {TWO: None, THREE: None}),  # clients differ in whether it selects null
        ({"type": "not", "child": {**NOT_DAY, "type": "eq"}}, {TWO: None, THREE: None}),
        ({"type": "and", "left": DAY, "right": REAL}, {ONE: REAL}),
        (BUCKET, {ONE: None, TWO: None, THREE: None}),
        ({"type": "and", "left": DAY, "right": BUCKET}, {ONE: BUCKET}),
        ({"type": "and", "left": DAY, "right": {"type": "not", "child": BUCKET}}, {ONE: "not bucket"}),
    ],
)
def test_a_residual_is_what_the_partition_leaves_open_of_the_filter(
    lake: Lake, filter_: Any, left: dict[date, Any]
) -> None:
    """None stands for the whole filter."""
    expected = {day: filter_ if one is None else one for day, one in left.items()}
    if expected.get(ONE) == "not bucket":
        expected = {ONE: {"type": "not", "child": BUCKET}}
    assert residuals(lake, filter_) == expected


@pytest.mark.parametrize(
    ("type_", "value", "is_dropped"),
    [
        (LONG, 1, True),
        (DOUBLE, 1.5, False),
        (UUID, "f79c3e09-677c-4bbd-a479-3f349cb785e7", False),
        (BINARY, "00ff", False),
        (FixedType(2), "00ff", False),
    ],
    ids=str,
)
def test_what_the_planner_proved_stays_where_clients_order_values_in_other_ways(
    type_: Type, value: Any, is_dropped: bool
) -> None:
    filter_ = {"type": "gt", "term": "x", "value": value}
    schema = Schema(fields=(Field(id=1, name="x", type=type_),))
    assert Residuals(filter_, schema).document(TRUE) == (is_dropped or filter_)


def test_residuals_stay_with_the_case_of_the_client_and_in_plans_of_a_range(lake: Lake) -> None:
    filter_ = {"type": "and", "left": {**DAY, "term": "DAY"}, "right": {**FEW, "term": "Id"}}
    assert residuals(lake, filter_, **{"case-sensitive": False}) == {ONE: {**FEW, "term": "Id"}}
    snapshots = [snapshot.snapshot_id for snapshot in lake.table("a.t").snapshots]
    spans = {"start-snapshot-id": snapshots[0], "end-snapshot-id": snapshots[5]}
    assert residuals(lake, {"type": "and", "left": DAY, "right": FEW}, **spans) == {ONE: FEW}


def test_residuals_are_left_out_where_a_long_filter_would_be_repeated_too_often(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = {"type": "in", "term": "id", "values": list(range(200))}
    filter_ = {"type": "or", "left": DAY, "right": many}
    assert residuals(lake, filter_) == {ONE: True, TWO: filter_, THREE: filter_}
    monkeypatch.setattr("esker.serve.scan_documents._MOST_RESIDUAL_BYTES", 5000)
    assert residuals(lake, filter_) == {ONE: True, TWO: "none", THREE: "none"}


@pytest.mark.interop
@pytest.mark.parametrize(
    "where",
    [
        "id = 70",
        "id != 70",
        "id in (20, 31)",
        "id not in (20, 31)",
        "not (id > 30 and name = 'x')",
        "name like 'n1%'",
        "name not like 'n%'",
        "score > 5",
        "score is nan",
        "score is not nan",
        "score is null or id < 15",
        "day = '2026-01-02'",
        "day != '2026-01-02'",
        "day > '2026-01-01' and id >= 50",
        "day >= '2026-01-01'",
    ],
)
def test_pyiceberg_counts_and_reads_as_with_a_plan_of_its_own(uri: str, where: str) -> None:
    from pyiceberg.catalog.rest import RestCatalog

    own, ours = (
        RestCatalog("esker", uri=uri, **{"scan-planning-mode": mode}).load_table("a.t").scan(where)
        for mode in ("client", "server")
    )
    key = [("id", "ascending"), ("name", "ascending"), ("day", "ascending")]
    rows = ours.to_arrow().sort_by(key)
    assert str(rows.to_pylist()) == str(own.to_arrow().sort_by(key).to_pylist())  # as text: NaN equals NaN
    assert ours.count() == rows.num_rows


@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_beyond_all_floats_selects_as_it_would_among_doubles(sign: int) -> None:
    schema = Schema(fields=(Field(id=1, name="a", type=FLOAT),))
    values = [0.0, 3.4028234663852886e38, -3.4028234663852886e38, float("inf"), float("-inf")]
    column = pa.array(values, pa.float32())
    asked = {"lt": operator.lt, "lt-eq": operator.le, "gt": operator.gt, "gt-eq": operator.ge, "eq": operator.eq}
    for kind, compare in asked.items():
        bound = read_filter({"type": kind, "term": "a", "value": sign * 1e90}, schema)
        found = matches(bound, {1: column}, len(column)).to_pylist()
        assert found == [compare(value, sign * 1e90) for value in values], kind
