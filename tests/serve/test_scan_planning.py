"""Scans that the server plans: the same rows as a plan of the client, filters of every kind, plans in parts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("urllib3")

from esker_server import serving

import esker
from esker.lake import Lake
from esker.serve.call import Answer, Call
from esker.serve.catalog_service import Service
from esker.serve.error_answers import NoSuchPlan
from esker.serve.scan_planning import ScanPlanning

FILES = 12


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/warehouse")
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


@pytest.fixture
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
def test_the_rows_are_those_of_a_plan_of_the_client(lake: Lake, uri: str, tmp_path: Path, where: str | None) -> None:
    there = esker.connect(
        uri, allowed_roots=[str(tmp_path / "warehouse")], properties={"scan-planning-mode": "server"}
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
        {"type": "near", "term": "id", "value": 1},
        {"type": "starts-with", "term": "id", "value": "1"},
        {"type": "and", "left": True},
        [],
        "id = 1",
    ],
)
def test_a_filter_that_is_wrong_is_refused(lake: Lake, filter_: Any) -> None:
    assert ask(lake, filter_).status == 400


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
    with pytest.raises(NoSuchPlan):
        fetched(first["plan-tasks"][0])
    again = msgspec.json.decode(planning.plan(Call(path=path, body=b"{}")).body)
    planning.cancel(Call(path={**path, "plan-id": again["plan-id"]}))
    with pytest.raises(NoSuchPlan):
        fetched(again["plan-tasks"][0])


def test_deletes_are_listed_once_and_named_by_number(lake: Lake) -> None:
    document = msgspec.json.decode(ask(lake, True).body)
    used = [task["delete-file-references"] for task in document["file-scan-tasks"] if "delete-file-references" in task]
    assert len(used) == 2
    assert {number for numbers in used for number in numbers} == set(range(len(document["delete-files"])))
