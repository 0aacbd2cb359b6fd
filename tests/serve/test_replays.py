"""Idempotency keys: a request is carried out once, whatever happens to its answer; SQLite and PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from postgres_server import PostgresServer

import esker
from esker.catalogs.sql_request_log import SqlRequestLog
from esker.errors import OutcomeUnknown
from esker.lake import Lake
from esker.ports.catalog import Catalog
from esker.serve.access import Tokens
from esker.serve.call import Answer, Call
from esker.serve.catalog_service import Service

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "int", "required": False}]}
TABLE = "/v1/namespaces/a/tables/t"


@pytest.fixture(params=["sqlite", "postgresql"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    if request.param == "sqlite":
        yield esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/warehouse")
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    yield esker.connect(server.new_catalog(tmp_path))


@pytest.fixture
def service(lake: Lake) -> Service:
    lake.create_namespace("a")
    lake.create_table("a.t", "id int")
    return Service(lake)


def send(service: Service, method: str, path: str, body: Any, key: str) -> Answer:
    headers = {"idempotency-key": key}
    return service.answer(method, path, Call(headers=headers, body=msgspec.json.encode(body)))


def change(name: str) -> dict[str, Any]:
    return {"requirements": [], "updates": [{"action": "set-properties", "updates": {name: "1"}}]}


def test_the_server_says_how_long_it_keeps_keys(service: Service, tmp_path: Path) -> None:
    config = msgspec.json.decode(service.answer("GET", "/v1/config", Call()).body)
    assert config["idempotency-key-lifetime"] == "PT30M"
    directory = Service(esker.connect(f"file://{tmp_path}/directory"))
    config = msgspec.json.decode(directory.answer("GET", "/v1/config", Call()).body)
    assert "idempotency-key-lifetime" not in config


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/namespaces", {"namespace": ["b"]}, 200),
        ("POST", "/v1/namespaces/a/properties", {"updates": {"x": "1"}, "removals": []}, 200),
        ("POST", "/v1/namespaces/a/tables", {"name": "new", "schema": SCHEMA}, 200),
        ("POST", TABLE, change("x"), 200),
        (
            "POST",
            "/v1/tables/rename",
            {"source": {"namespace": ["a"], "name": "t"}, "destination": {"namespace": ["a"], "name": "u"}},
            204,
        ),
        ("DELETE", TABLE, {}, 204),
    ],
)
def test_the_second_time_a_request_is_answered_and_not_carried_out(
    service: Service, lake: Lake, method: str, path: str, body: Any, status: int
) -> None:
    key = str(uuid4())
    assert send(service, method, path, body, key).status == status
    tables = {name: lake.table(name).metadata_location for name in lake.tables()}
    restarted = Service(lake)  # the key is in the database, not in the process
    assert send(restarted, method, path, body, key).status == status
    assert {name: lake.table(name).metadata_location for name in lake.tables()} == tables
    assert send(service, "POST", TABLE, change("other"), key).status == 400


def test_a_refusal_is_repeated_even_if_it_would_now_succeed(service: Service, lake: Lake) -> None:
    key, body = str(uuid4()), {"namespace": ["a"]}
    refused = send(service, "POST", "/v1/namespaces", body, key)
    assert refused.status == 409
    lake.drop_table("a.t")
    lake.drop_namespace("a")
    again = send(service, "POST", "/v1/namespaces", body, key)
    assert (again.status, again.body) == (409, refused.body)
    assert send(service, "POST", "/v1/namespaces", body, str(uuid4())).status == 200


def test_a_wrong_body_with_a_key_is_the_fault_of_its_sender(service: Service) -> None:
    assert send(service, "POST", TABLE, {"requirements": 5}, str(uuid4())).status == 400


def test_s22_a_key_belongs_to_one_user_and_one_request(lake: Lake, service: Service, tmp_path: Path) -> None:
    one, other, key = "one-token-0123456789", "other-token-0123456789", str(uuid4())
    (tmp_path / "tokens").write_text(f"write {one}\nwrite {other}\n")
    guarded = Service(lake, tokens=Tokens.read(tmp_path / "tokens"))

    def ask(token: str, body: Any) -> int:
        headers = {"idempotency-key": key, "authorization": f"Bearer {token}"}
        return guarded.answer("POST", TABLE, Call(headers=headers, body=msgspec.json.encode(body))).status

    assert ask(one, change("x")) == 200
    now = lake.table("a.t").metadata_location
    assert [ask(other, change("x")), ask(one, change("y")), ask(one, change("x"))] == [400, 400, 200]
    assert lake.table("a.t").metadata_location == now


def test_a_key_must_be_a_uuid(service: Service) -> None:
    assert send(service, "POST", TABLE, change("x"), "7").status == 400


def test_twins_at_the_same_time_have_one_effect(service: Service, lake: Lake) -> None:
    for turn in range(5):
        key, start = str(uuid4()), threading.Barrier(6)
        before = len(lake.table("a.t").metadata.metadata_log)

        def go(key: str = key, start: threading.Barrier = start, turn: int = turn) -> int:
            start.wait()
            return send(Service(lake), "POST", TABLE, change(f"n{turn}"), key).status

        with ThreadPoolExecutor(6) as pool:
            statuses = [future.result() for future in [pool.submit(go) for _ in range(6)]]
        assert set(statuses) == {200}
        assert len(lake.table("a.t").metadata.metadata_log) == before + 1


def test_twins_that_create_a_table_are_both_told_of_it(service: Service, lake: Lake) -> None:
    for turn in range(5):
        key, start, body = str(uuid4()), threading.Barrier(6), {"name": f"new{turn}", "schema": SCHEMA}

        def go(key: str = key, start: threading.Barrier = start, body: Any = body) -> Answer:
            start.wait()
            return send(Service(lake), "POST", "/v1/namespaces/a/tables", body, key)

        with ThreadPoolExecutor(6) as pool:
            answers = [future.result() for future in [pool.submit(go) for _ in range(6)]]
        assert {answer.status for answer in answers} == {200}
        assert len({msgspec.json.decode(answer.body)["metadata-location"] for answer in answers}) == 1


def test_a_change_without_an_answer_is_500_and_is_found_when_it_is_sent_again(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = str(uuid4())
    swap = type(lake.catalog).swap

    def lost(catalog: Catalog, *args: Any) -> Any:
        swap(catalog, *args)  # type: ignore[arg-type]
        raise OutcomeUnknown("the answer is lost")

    with monkeypatch.context() as patch:
        patch.setattr(type(lake.catalog), "swap", lost)
        assert send(service, "POST", TABLE, change("x"), key).status == 500
    made = lake.table("a.t").metadata_location
    assert send(service, "POST", TABLE, change("x"), key).status == 200
    assert lake.table("a.t").metadata_location == made


def test_effect_and_record_are_one_transaction(service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the record cannot be written, the change is not made either."""
    from esker.catalogs import sql_request_log

    def fail(*_: Any) -> None:
        raise OutcomeUnknown("no room for the record")

    key, before = str(uuid4()), lake.table("a.t").metadata_location
    with monkeypatch.context() as patch:
        patch.setattr(sql_request_log, "_insert", fail)
        assert send(service, "POST", TABLE, change("x"), key).status == 500
    assert lake.table("a.t").metadata_location == before
    assert SqlRequestLog(lake.catalog.pointers.database).find(key) is None  # type: ignore[attr-defined]
