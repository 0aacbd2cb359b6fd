"""Folders in use: of tables, of views, of dropped tables that can come back, and those that no metadata file shows."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from postgres_server import PostgresServer

import esker
from esker.catalogs.sql_dropped import dropped_tables
from esker.lake import Lake
from esker.ports.catalog import KnowsPlaces
from esker.serve.access import Caller, Role, Tokens
from esker.serve.call import Call
from esker.serve.catalog_service import Service
from esker.serve.store.check_places import Places
from esker.serve.store.dropped_tables import DroppedTables

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
QUERY = {
    "version-id": 1,
    "schema-id": 0,
    "timestamp-ms": 1,
    "summary": {},
    "default-namespace": ["a"],
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
}
DAY_MS = 86_400_000
TABLES, VIEWS = "/v1/namespaces/a/tables", "/v1/namespaces/a/views"


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    if request.param == "memory":
        lake = esker.connect("memory:")
    elif request.param == "sqlite":
        lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        lake = esker.connect(server.new_catalog(tmp_path))
    for namespace in ("a", "b"):
        lake.create_namespace(namespace)
    lake.create_table("a.t", "id bigint").append(pa.table({"id": pa.array([1], pa.int64())}))
    return lake


@pytest.fixture
def service(lake: Lake) -> Service:
    return Service(lake, keep_dropped_ms=7 * DAY_MS)


def ask(service: Service, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    content = b"" if body is None else msgspec.json.encode(body)
    answer = service.answer(method, path, Call(body=content, headers=headers))
    return answer.status, msgspec.json.decode(answer.body) if answer.body else None


def new_table(name: str, location: str, **properties: str) -> dict[str, Any]:
    return {"name": name, "schema": SCHEMA, "location": location, "properties": properties}


def new_view(name: str, location: str | None = None, **properties: str) -> dict[str, Any]:
    return {"name": name, "schema": SCHEMA, "view-version": QUERY, "location": location, "properties": properties}


def is_refused(answer: tuple[int, Any]) -> bool:
    status, found = answer
    return status == 400 and "another table or view is there" in found["error"]["message"]


def home(lake: Lake) -> str:
    """The folder of the tables of the first namespace."""
    return lake.table("a.t").location.rpartition("/")[0]


def updates(*changes: dict[str, Any]) -> dict[str, Any]:
    return {"requirements": [], "updates": list(changes)}


@pytest.mark.parametrize("below", ["", "/data", "/metadata"])
def test_a_view_gets_no_folder_of_a_table(lake: Lake, service: Service, below: str) -> None:
    taken = f"{home(lake)}/t{below}"
    assert is_refused(ask(service, "POST", VIEWS, new_view("v", taken)))
    assert is_refused(ask(service, "POST", VIEWS, new_view("v", **{"write.metadata.path": taken})))
    assert ask(service, "POST", VIEWS, new_view("v"))[0] == 200
    moved = updates({"action": "set-location", "location": taken})
    assert is_refused(ask(service, "POST", f"{VIEWS}/v", moved))
    path = updates({"action": "set-properties", "updates": {"write.metadata.path": taken}})
    assert is_refused(ask(service, "POST", f"{VIEWS}/v", path))
    assert lake.views("a") == ["a.v"]
    own = updates({"action": "set-location", "location": f"{home(lake)}/moved"})
    assert ask(service, "POST", f"{VIEWS}/v", own)[0] == 200


def test_a_table_gets_no_folder_of_a_view(lake: Lake, service: Service) -> None:
    assert ask(service, "POST", VIEWS, new_view("v", f"{home(lake)}/v"))[0] == 200
    assert is_refused(ask(service, "POST", TABLES, new_table("u", f"{home(lake)}/v")))
    assert ask(service, "DELETE", f"{VIEWS}/v")[0] == 204
    assert ask(service, "POST", TABLES, new_table("u", f"{home(lake)}/v"))[0] == 200


@pytest.mark.parametrize("path", ["write.metadata.path", "write.data.path", "write.object-storage.path"])
def test_all_folders_of_a_table_are_its_own(lake: Lake, service: Service, path: str) -> None:
    base = home(lake)
    own, other = f"{base}/own", f"{base}/other"
    assert ask(service, "POST", TABLES, new_table("own", own, **{path: other}))[0] == 200
    for taken in (own, f"{own}/data", other, f"{other}/x"):
        assert is_refused(ask(service, "POST", TABLES, new_table("u", taken))), taken
        assert is_refused(ask(service, "POST", VIEWS, new_view("v", taken))), taken
    renamed = {"source": {"namespace": ["a"], "name": "own"}, "destination": {"namespace": ["b"], "name": "new"}}
    assert ask(service, "POST", "/v1/tables/rename", renamed)[0] == 204
    assert is_refused(ask(service, "POST", TABLES, new_table("own", own)))
    assert is_refused(ask(service, "POST", TABLES, new_table("own", other)))
    assert ask(service, "POST", "/v1/namespaces/b/tables/new/unregister")[0] == 200
    for name, free in (("first", own), ("second", other)):
        assert ask(service, "POST", TABLES, new_table(name, free))[0] == 200


@pytest.mark.parametrize("path", ["location", "write.metadata.path", "write.data.path"])
def test_a_place_that_a_table_has_left_is_not_free(lake: Lake, service: Service, path: str) -> None:
    """Its earlier snapshots still have files there."""
    base = home(lake)
    old, new = f"{base}/old", f"{base}/new"

    def at(place: str) -> dict[str, Any]:
        if path == "location":
            return {"action": "set-location", "location": place}
        return {"action": "set-properties", "updates": {path: place}}

    for place in (old, new):
        assert ask(service, "POST", f"{TABLES}/t", updates(at(place)))[0] == 200
    for taken in (old, new, f"{base}/t"):
        assert is_refused(ask(service, "POST", TABLES, new_table("u", taken))), taken
    assert ask(service, "POST", f"{TABLES}/t", updates(at(old)))[0] == 200  # the table itself may go back


def test_the_folder_of_a_dropped_table_stays_its_own(lake: Lake, service: Service) -> None:
    if dropped_tables(lake.catalog) is None:
        pytest.skip("a catalog in memory keeps no dropped tables")
    base = home(lake)
    own = new_table("own", f"{base}/own", **{"write.data.path": f"{base}/data"})
    assert ask(service, "POST", TABLES, own)[0] == 200
    assert ask(service, "DELETE", f"{TABLES}/own")[0] == 204
    for taken in (f"{base}/own", f"{base}/data"):
        assert is_refused(ask(service, "POST", "/v1/namespaces/b/tables", new_table("u", taken))), taken
    back = {"namespace": ["a"], "name": "own", "new-name": "back"}
    assert ask(service, "POST", "/esker/v1/dropped", back)[0] == 204
    for taken in (f"{base}/own", f"{base}/data"):
        assert is_refused(ask(service, "POST", TABLES, new_table("own", taken))), taken


def test_a_dropped_table_is_registered_again_only_by_callers_who_may_know_of_it(lake: Lake, service: Service) -> None:
    if dropped_tables(lake.catalog) is None:
        pytest.skip("a catalog in memory keeps no dropped tables")
    file = lake.table("a.t").metadata_location
    assert ask(service, "DELETE", f"{TABLES}/t")[0] == 204
    limited = Caller("limited", Role.ADMIN, (("b",),))
    token = "a-token-of-one-namespace"
    strict = Service(lake, tokens=Tokens({hashlib.sha256(token.encode()).digest(): limited}))
    again = {"name": "again", "metadata-location": file}
    assert is_refused(
        ask(strict, "POST", "/v1/namespaces/b/register", again, authorization=f"Bearer {token}"),
    )
    assert ask(service, "POST", "/v1/namespaces/b/register", again)[0] == 200
    assert lake.table("b.again").scan().to_arrow().num_rows == 1


def test_files_of_a_table_that_was_dropped_twice_stay_until_the_second_time_is_over(lake: Lake) -> None:
    kept = dropped_tables(lake.catalog)
    if kept is None:
        pytest.skip("a catalog in memory keeps no dropped tables")
    now = [0]
    places = Places(lake.catalog)
    dropping = DroppedTables(lake, places, kept, 7 * DAY_MS, now_ms=lambda: now[0])
    call = Call(path={"namespace": "a", "table": "t"}, query={"purgeRequested": "true"})
    file = lake.table("a.t").metadata_location
    dropping.drop(call)
    lake.register_table("a.t", file)
    now[0] = 5 * DAY_MS
    dropping.drop(call)
    now[0] = 8 * DAY_MS
    dropping.tidy()
    assert [one.dropped_ms for one in kept.listed()] == [5 * DAY_MS]
    assert lake.catalog.storage().exists(file)
    now[0] = 13 * DAY_MS
    dropping.tidy()
    assert not lake.catalog.storage().exists(file)
    assert isinstance(lake.catalog, KnowsPlaces)
    assert not lake.catalog.folders()
