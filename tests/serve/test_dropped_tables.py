"""Tables that were dropped through the server come back, until their time is over."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pyarrow as pa
import pytest
from command_line import run
from postgres_server import PostgresServer

import esker
from esker.catalogs.sql_dropped import dropped_tables
from esker.lake import Lake
from esker.serve.access import Tokens
from esker.serve.call import Call
from esker.serve.catalog_service import Service
from esker.serve.store.check_places import Places
from esker.serve.store.dropped_tables import DroppedTables

DAY_MS = 86_400_000
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
TABLE, DROPPED = "/v1/namespaces/a/tables/t", "/esker/v1/dropped"
T = {"namespace": ["a"], "name": "t"}


@pytest.fixture(params=["sqlite", "postgresql"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    if request.param == "sqlite":
        lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/warehouse")
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        lake = esker.connect(server.new_catalog(tmp_path))
    lake.create_namespace("a")
    lake.create_table("a.t", "id bigint").append(ROWS)
    return lake


def ask(service: Service, method: str, path: str, body: Any = None, **query: str) -> tuple[int, Any]:
    content = b"" if body is None else msgspec.json.encode(body)
    answer = service.answer(method, path, Call(body=content, query=query))
    return answer.status, msgspec.json.decode(answer.body) if answer.body else None


def later(lake: Lake, days: int) -> DroppedTables:
    """What the server does some days later."""
    kept = dropped_tables(lake.catalog)
    assert kept is not None
    now_ms = time.time_ns() // 1_000_000 + days * DAY_MS
    return DroppedTables(lake, Places(lake.catalog), kept, 7 * DAY_MS, now_ms=lambda: now_ms)


@pytest.mark.parametrize("purge", ["true", "false"])
def test_a_dropped_table_comes_back_with_all_its_rows(lake: Lake, purge: str) -> None:
    service = Service(lake, keep_dropped_ms=7 * DAY_MS)
    assert ask(service, "DELETE", TABLE, purgeRequested=purge)[0] == 204
    assert lake.tables("a") == []
    (one,) = ask(service, "GET", DROPPED)[1]["dropped"]
    assert (one["namespace"], one["name"], one["purge-requested"]) == (["a"], "t", purge == "true")
    assert one["kept-until-ms"] == one["dropped-ms"] + 7 * DAY_MS
    later(lake, 6).tidy()
    assert ask(service, "POST", DROPPED, T)[0] == 204
    assert lake.table("a.t").to_arrow().equals(ROWS)
    assert ask(service, "GET", DROPPED)[1]["dropped"] == []
    assert ask(service, "POST", DROPPED, T)[0] == 404


def test_a_name_in_use_is_not_taken_and_another_name_can_be_given(lake: Lake) -> None:
    service = Service(lake, keep_dropped_ms=DAY_MS)
    ask(service, "DELETE", TABLE)
    lake.create_table("a.t", "id bigint")
    assert ask(service, "POST", DROPPED, T)[0] == 409
    assert ask(service, "POST", DROPPED, {**T, "new-name": "old"})[0] == 204
    assert lake.table("a.old").to_arrow().equals(ROWS)
    assert lake.table("a.t").scan().count() == 0


def test_files_are_removed_when_the_time_is_over_and_only_if_that_was_asked_for(lake: Lake) -> None:
    lake.create_table("a.kept", "id bigint").append(ROWS)
    places = {name: lake.table(name).location for name in ("a.t", "a.kept")}
    service = Service(lake, keep_dropped_ms=7 * DAY_MS)
    ask(service, "DELETE", TABLE, purgeRequested="true")
    ask(service, "DELETE", "/v1/namespaces/a/tables/kept")
    later(lake, 8).tidy()
    assert ask(service, "POST", DROPPED, T)[0] == 404
    storage = lake.catalog.storage()
    assert [len(list(storage.list(place))) > 0 for place in places.values()] == [False, True]


def test_files_of_a_table_that_was_registered_again_are_never_removed(lake: Lake) -> None:
    place = lake.table("a.t").metadata_location
    service = Service(lake, keep_dropped_ms=7 * DAY_MS)
    ask(service, "DELETE", TABLE, purgeRequested="true")
    lake.register_table("a.again", place)
    assert ask(service, "POST", DROPPED, T)[0] == 400  # two tables in one folder
    later(lake, 8).tidy()
    assert lake.table("a.again").to_arrow().equals(ROWS)


def test_a_drop_that_is_sent_again_is_one_drop(lake: Lake) -> None:
    service = Service(lake, keep_dropped_ms=DAY_MS)
    key = str(uuid4())
    for _ in range(2):
        answer = service.answer("DELETE", TABLE, Call(headers={"idempotency-key": key}))
        assert answer.status == 204
    assert len(ask(service, "GET", DROPPED)[1]["dropped"]) == 1


def test_only_an_administrator_of_its_namespace_brings_a_table_back(lake: Lake, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(
        "admin everything-0123456789\nwrite writer-0123456789abcdef\nadmin other-0123456789abcdef b\n"
        "admin below-0123456789abcdef a.below\n"
    )
    service = Service(lake, tokens=Tokens.read(file), keep_dropped_ms=DAY_MS)

    def as_(token: str, method: str, body: Any = None) -> tuple[int, bytes]:
        content = b"" if body is None else msgspec.json.encode(body)
        answer = service.answer(method, DROPPED, Call(headers={"authorization": f"Bearer {token}"}, body=content))
        return answer.status, answer.body

    lake_drop = Call(headers={"authorization": "Bearer writer-0123456789abcdef"})
    assert service.answer("DELETE", TABLE, lake_drop).status == 204
    assert as_("writer-0123456789abcdef", "GET")[0] == 403
    assert as_("writer-0123456789abcdef", "POST", T)[0] == 403
    assert as_("other-0123456789abcdef", "POST", T)[0] == 403
    for token in ("other-0123456789abcdef", "below-0123456789abcdef"):  # of another namespace, and of one below
        assert as_(token, "GET") == (200, b'{"dropped":[]}')
    assert as_("everything-0123456789", "POST", T)[0] == 204


def test_a_server_that_keeps_none_says_so(lake: Lake) -> None:
    service = Service(lake)
    assert ask(service, "GET", DROPPED)[0] == 406
    assert ask(service, "DELETE", TABLE, purgeRequested="true")[0] == 204


def test_the_command_line_lists_tables_and_brings_them_back(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    lake = esker.connect(uri)
    lake.create_namespace("a")
    lake.create_table("a.t", "id bigint").append(ROWS)
    ask(Service(lake, keep_dropped_ms=DAY_MS), "DELETE", TABLE)
    assert "a.t" in run("undrop", "--catalog", uri).output
    assert run("undrop", "a.t", "--as", "a.back", "--catalog", uri).exit_code == 0
    assert lake.table("a.back").to_arrow().equals(ROWS)
    assert "No table" in run("undrop", "--catalog", uri).output
