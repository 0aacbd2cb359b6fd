"""Tokens in the database of the catalog: what is stored, what a running server accepts, and the commands."""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from command_line import run, run_json
from postgres_server import PostgresServer

import esker
from esker.errors import AlreadyExists, Conflict, InvalidInput, Unsupported
from esker.lake import Lake
from esker.serve.access import Role, Tokens
from esker.serve.call import Answer, Call
from esker.serve.catalog_service import Service
from esker.serve.catalog_tokens import FRESH_S, CatalogTokens, SqlTokens, add_token, tokens_of
from esker.serve.listen.run_server import Listening, accepted_tokens, check_protected

WRONG = "esker_" + "x" * 43
IN_FILE = "file-token-0123456789"


@pytest.fixture(params=["sqlite", "postgresql"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    if request.param == "sqlite":
        lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/warehouse")
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        lake = esker.connect(server.new_catalog(tmp_path))
    for name in ("sales", "hr"):
        lake.create_namespace(name)
    return lake


class Running:
    """A server with tokens of the catalog, and the clock that it looks at."""

    def __init__(self, lake: Lake, file: Path | None = None) -> None:
        self.now = 1000.0
        self.stored = CatalogTokens(tokens_of(lake.catalog), clock=lambda: self.now)
        tokens = Tokens({}, stored=self.stored) if file is None else Tokens.read(file, stored=self.stored)
        self.service = Service(lake, tokens=tokens)

    def ask(self, token: str, method: str = "GET", path: str = "/v1/namespaces", body: Any = None) -> Answer:
        content = b"" if body is None else msgspec.json.encode(body)
        return self.service.answer(method, path, Call(headers={"authorization": f"Bearer {token}"}, body=content))

    def status(self, token: str) -> int:
        return self.ask(token).status


def add(lake: Lake, name: str, role: Role = Role.READ, *namespaces: str) -> str:
    return add_token(tokens_of(lake.catalog), name, role, namespaces, now_ms=1_700_000_000_000)


def test_a_running_server_sees_tokens_come_and_go(lake: Lake) -> None:
    first = add(lake, "first")
    running = Running(lake)
    assert (running.status(first), running.status(WRONG)) == (200, 401)
    second = add(lake, "second")
    tokens_of(lake.catalog).remove("first")
    running.now += FRESH_S
    assert (running.status(first), running.status(second)) == (401, 200)
    assert FRESH_S <= 5, "a few seconds"


def test_a_role_and_its_namespaces_hold(lake: Lake) -> None:
    running = Running(lake)
    reader, writer, admin = add(lake, "r", Role.READ), add(lake, "w", Role.WRITE, "sales"), add(lake, "a", Role.ADMIN)
    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "int", "required": False}]}

    def creates(token: str, namespace: str, name: str) -> int:
        return running.ask(token, "POST", f"/v1/namespaces/{namespace}/tables", {"name": name, "schema": schema}).status

    assert [creates(reader, "sales", "t1"), creates(writer, "sales", "t2"), creates(writer, "hr", "t3")] == [
        403,
        200,
        403,
    ]
    made = [running.ask(one, "POST", "/v1/namespaces", {"namespace": ["new"]}).status for one in (writer, admin)]
    assert made == [403, 200]
    assert msgspec.json.decode(running.ask(writer).body)["namespaces"] == [["sales"]]


def test_tokens_of_a_file_and_of_the_catalog_are_both_accepted(lake: Lake, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"read {IN_FILE}\n")
    running = Running(lake, file)
    stored = add(lake, "one")
    assert (running.status(IN_FILE), running.status(stored), running.status(WRONG)) == (200, 200, 401)
    tokens_of(lake.catalog).remove("one")
    running.now += FRESH_S
    assert (running.status(IN_FILE), running.status(stored)) == (200, 401)


def test_an_access_token_ends_with_the_token_that_it_was_given_for(lake: Lake) -> None:
    secret = add(lake, "one")
    running = Running(lake)
    form = f"grant_type=client_credentials&client_id=x&client_secret={secret}".encode()
    given = running.service.answer("POST", "/v1/oauth/tokens", Call(body=form))
    token = msgspec.json.decode(given.body)["access_token"]
    assert running.status(token) == 200
    tokens_of(lake.catalog).remove("one")
    running.now += FRESH_S
    assert running.status(token) == 401
    assert running.service.answer("POST", "/v1/oauth/tokens", Call(body=form)).status == 401


def test_another_catalog_of_the_same_database_has_its_own_tokens(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    ours, theirs = esker.connect(f"{uri}?catalog_name=ours"), esker.connect(f"{uri}?catalog_name=theirs")
    token = add(ours, "one", Role.ADMIN)
    assert tokens_of(theirs.catalog).listed().tokens == ()
    assert (Running(ours).status(token), Running(theirs).status(token)) == (200, 401)
    with pytest.raises(InvalidInput, match="cannot remove token one"):
        tokens_of(theirs.catalog).remove("one")


@pytest.fixture
def small(tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/warehouse")
    lake.create_namespace("sales")
    return lake


def test_every_compare_takes_the_same_time(small: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = [add(small, name) for name in ("a", "b", "c")]
    running = Running(small)
    compared: list[tuple[bytes, bytes]] = []
    compare = hmac.compare_digest

    def recorded(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return compare(one, other)

    monkeypatch.setattr("esker.serve.access.hmac.compare_digest", recorded)
    known = {hashlib.sha256(token.encode()).digest() for token in tokens}
    for token, status in ((tokens[0], 200), (tokens[2], 200), (WRONG, 401)):
        compared.clear()
        assert running.status(token) == status
        asked = hashlib.sha256(token.encode()).digest()
        assert {one for one, other in compared if other == asked} == known  # all of them, wherever the right one is


def test_the_database_does_not_have_the_token(small: Lake, tmp_path: Path) -> None:
    token = add(small, "one", Role.WRITE, "sales", "hr.pay")
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as connection:
        dump = "\n".join(connection.iterdump())
    assert token not in dump
    assert token.removeprefix("esker_") not in dump
    assert hashlib.sha256(token.encode()).hexdigest() in dump
    assert len(token) >= 43  # 256 bits
    assert add(small, "two") != token
    (found, _) = tokens_of(small.catalog).listed().tokens
    assert (found.name, found.role, found.namespaces) == ("one", "write", (("sales",), ("hr", "pay")))
    assert hashlib.sha256(token.encode()).hexdigest() not in repr(found)


def test_reading_creates_no_table_and_other_programs_see_no_difference(small: Lake, tmp_path: Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    def tables() -> set[str]:
        with closing(sqlite3.connect(tmp_path / "catalog.db")) as connection:
            return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    kept = tokens_of(small.catalog)
    assert kept.listed().tokens == ()
    assert Running(small).stored.callers() == {}
    with pytest.raises(InvalidInput):
        kept.remove("one")
    assert "esker_tokens" not in tables()
    add(small, "one")
    assert "esker_tokens" in tables()
    small.create_table("sales.t", "id int")
    theirs = SqlCatalog("default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/warehouse")
    theirs.create_namespace("theirs")
    assert sorted(theirs.list_namespaces()) == [("sales",), ("theirs",)]
    assert theirs.list_tables("sales") == [("sales", "t")]
    theirs.close()
    assert [one.name for one in kept.listed().tokens] == ["one"]


def test_a_name_is_used_once_and_is_a_plain_word(lake: Lake) -> None:
    token = add(lake, "one")
    with pytest.raises(AlreadyExists, match="cannot add token one"):
        add(lake, "one", Role.ADMIN)
    assert Running(lake).status(token) == 200
    for name in ("", "-x", "a b", "a\nb", "a" * 101, "ü"):
        with pytest.raises(InvalidInput, match="cannot add token"):
            add(lake, name)
    for namespace in ("", "a..b", "a/b"):
        with pytest.raises(InvalidInput):
            add(lake, "two", Role.READ, namespace)
    assert [one.name for one in tokens_of(lake.catalog).listed().tokens] == ["one"]


@pytest.mark.parametrize(
    "damage",
    ["namespaces = ''", "namespaces = 'a..b'", "token_role = 'owner'", "token_sha256 = 'ab'", "token_sha256 = 'no'"],
)
def test_a_damaged_row_gives_no_rights(
    small: Lake, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = add(small, "bad", Role.ADMIN, "sales"), add(small, "good")
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as connection, connection:
        connection.execute(f"UPDATE esker_tokens SET {damage} WHERE token_name = 'bad'")
    running = Running(small)
    assert (running.status(bad), running.status(good)) == (401, 200)
    running.now += FRESH_S
    running.status(good)
    assert [record.message for record in caplog.records if "token bad is ignored" in record.message] == [
        "token bad is ignored: its row cannot be read; remove it and add it again"
    ]
    tokens_of(small.catalog).remove("bad")


def test_nobody_is_accepted_while_the_database_does_not_answer(small: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    token = add(small, "one")
    running = Running(small)
    assert running.status(token) == 200
    asked = []

    def fails(self: SqlTokens) -> None:
        asked.append(self)
        raise Conflict("cannot read the tokens: secret-host.example stayed locked")

    with monkeypatch.context() as patch:
        patch.setattr(SqlTokens, "listed", fails)
        running.now += FRESH_S
        for one in (token, WRONG, token):
            answer = running.ask(one)
            assert answer.status == 503
            assert "retry-after" in answer.headers
            assert b"secret-host" not in answer.body
        assert len(asked) == 1, "requests do not queue for a database that is gone"
    running.now += FRESH_S
    assert running.status(token) == 200


def test_tokens_of_the_catalog_let_the_server_leave_this_machine(small: Lake, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--catalog-tokens"):
        check_protected(Listening(host="0.0.0.0"))
    listening = Listening(host="0.0.0.0", uses_catalog_tokens=True)
    check_protected(listening)
    tokens = accepted_tokens(small, listening)
    service = Service(small, tokens=tokens)
    for headers in ({}, {"authorization": f"Bearer {WRONG}"}):  # there is no token yet: nobody is let in
        assert service.answer("GET", "/v1/namespaces", Call(headers=headers)).status == 401
    assert accepted_tokens(small, Listening()) is None
    with pytest.raises(Unsupported, match="only catalogs in SQLite and PostgreSQL"):
        accepted_tokens(esker.connect(f"{tmp_path}/folder"), listening)


def test_the_commands_add_list_and_remove(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    assert "no tokens" in run("token", "list", "--catalog", _made(uri)).stdout
    added = run("token", "add", "ingest", "--role", "write", "--namespace", "sales", "--catalog", uri)
    token = added.stdout.strip()
    assert added.exit_code == 0
    assert "cannot be shown again" in added.stderr
    assert Running(esker.connect(uri)).status(token) == 200
    listed = run("token", "list", "--catalog", uri).stdout
    assert listed.startswith("ingest  write  sales  added 2")
    shown = json.dumps(run_json("token", "list", "--catalog", uri)) + listed
    for secret in (token, hashlib.sha256(token.encode()).hexdigest()):
        assert secret not in shown
    found = run_json("token", "list", "--catalog", uri)
    assert [set(one) for one in found["tokens"]] == [{"name", "role", "namespaces", "created_ms"}]
    assert run("token", "add", "ingest", "--role", "read", "--catalog", uri).exit_code != 0
    assert run("token", "add", "other", "--role", "owner", "--catalog", uri).exit_code == 2
    assert run("token", "remove", "ingest", "--catalog", uri).stdout == "Removed the token ingest.\n"
    assert Running(esker.connect(uri)).status(token) == 401
    again = run("token", "remove", "ingest", "--catalog", uri)
    assert again.exit_code != 0
    assert "esker token list" in again.stderr
    assert run_json("token", "add", "two", "--role", "admin", "--catalog", uri)["token"].startswith("esker_")


def _made(uri: str) -> str:
    esker.connect(uri).create_namespace("sales")
    return uri


def test_the_commands_offer_every_role() -> None:
    import click

    from esker.cli.commands.serve import token_add_command

    (role,) = (one for one in token_add_command.params if one.name == "role")
    assert isinstance(role.type, click.Choice)
    assert list(role.type.choices) == [one.name.lower() for one in Role]
