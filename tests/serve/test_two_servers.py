"""Two servers over one database: a folder that both want at the same moment goes to one table."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from postgres_server import PostgresServer

import esker
from esker.lake import Lake
from esker.serve.call import Call
from esker.serve.catalog_service import Service
from esker.serve.store.check_places import Claim, Places

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
Request = tuple[str, dict[str, Any]]


@pytest.fixture(params=["sqlite", "postgresql"])
def lakes(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Lake, Lake]:
    """One catalog, opened twice."""
    if request.param == "sqlite":
        uri, options = f"sqlite:///{tmp_path}/catalog.db", {"warehouse": f"{tmp_path}/warehouse"}
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        uri, options = server.new_catalog(tmp_path), {}
    lake = esker.connect(uri, **options)
    lake.create_namespace("a")
    lake.create_table("a.t", "id bigint")
    lake.create_table("a.old", "id bigint")
    return lake, esker.connect(uri, **options)


@pytest.fixture
def meeting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both requests have found the place free before one of them takes it."""
    barrier = threading.Barrier(2, timeout=60)
    held = Places.held

    @contextmanager
    def late(self: Places, claims: Sequence[Claim]) -> Iterator[None]:
        barrier.wait()
        with held(self, claims):
            yield

    monkeypatch.setattr(Places, "held", late)


def _create(name: str, place: str, lake: Lake) -> Request:
    return "/v1/namespaces/a/tables", {"name": name, "schema": SCHEMA, "location": place}


def _stage(name: str, place: str, lake: Lake) -> Request:
    updates = [
        {"action": "add-schema", "schema": {**SCHEMA, "schema-id": 0}},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": place},
    ]
    return f"/v1/namespaces/a/tables/{name}", {"requirements": [{"type": "assert-create"}], "updates": updates}


def _with_others(name: str, place: str, lake: Lake) -> Request:
    change = {"identifier": {"namespace": ["a"], "name": name}, **_stage(name, place, lake)[1]}
    return "/v1/transactions/commit", {"table-changes": [change]}


def _move(name: str, place: str, lake: Lake) -> Request:
    updates = [{"action": "set-location", "location": place}]
    return "/v1/namespaces/a/tables/t", {"requirements": [], "updates": updates}


def _register(name: str, place: str, lake: Lake) -> Request:
    file = lake.table("a.old").metadata_location
    lake.drop_table("a.old")
    return "/v1/namespaces/a/register", {"name": name, "metadata-location": file}


@pytest.mark.usefixtures("meeting")
@pytest.mark.parametrize("kind", [_create, _stage, _with_others, _move, _register])
def test_one_of_two_servers_gets_a_folder_that_both_want(
    lakes: tuple[Lake, Lake], kind: Callable[[str, str, Lake], Request]
) -> None:
    place = lakes[0].table("a.old").location if kind is _register else f"{lakes[0].table('a.t').location}-new"
    requests = [kind("one", place, lakes[0]), _create("two", place, lakes[1])]

    def send(lake: Lake, request: Request) -> int:
        return Service(lake).answer("POST", request[0], Call(body=msgspec.json.encode(request[1]))).status

    with ThreadPoolExecutor(2) as pool:
        statuses = list(pool.map(send, lakes, requests))
    assert statuses in ([200, 400], [204, 400], [400, 200])
    there = [name for name in lakes[0].tables("a") if lakes[0].table(name).location == place]
    assert len(there) == 1


@pytest.mark.usefixtures("meeting")
def test_tables_in_folders_of_their_own_are_created_at_the_same_time(lakes: tuple[Lake, Lake]) -> None:
    base = lakes[0].table("a.t").location

    def send(lake: Lake, name: str) -> int:
        path, body = _create(name, f"{base}-{name}", lake)
        return Service(lake).answer("POST", path, Call(body=msgspec.json.encode(body))).status

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(send, lakes, ["one", "two"])) == [200, 200]
    assert lakes[0].tables("a") == ["a.old", "a.one", "a.t", "a.two"]
