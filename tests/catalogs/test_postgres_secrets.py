"""The password of a PostgreSQL catalog: it opens the catalog, and appears in no error, log, repr or output."""

from __future__ import annotations

import json
import logging
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from command_line import run
from orders import orders, rows
from postgres_server import PASSWORD, USER, PostgresServer

import esker
from esker.catalogs.postgres_address import SecretUri, parse_address, without_secrets
from esker.errors import EskerError, InvalidInput
from esker.wiring import connect

ESCAPED = quote(PASSWORD, safe="")
PARTS = (PASSWORD, ESCAPED, "s3cr", "w0rd")


@pytest.fixture
def uri(tmp_path: Path, postgres: PostgresServer) -> str:
    """The catalog of a user who needs the password."""
    database = postgres.new_database()
    postgres.run(f"GRANT ALL ON SCHEMA public TO {USER}", database=database)
    options = f"host={quote(str(postgres.folder), safe='')}&warehouse={quote(str(tmp_path / 'w'), safe='')}"
    return f"postgresql://{USER}:{ESCAPED}@/{database}?{options}"


def check_hidden(text: str) -> None:
    for part in PARTS:
        assert part not in text, text


def everything_of(error: BaseException) -> str:
    """An error as a log would show it, with its causes and facts."""
    facts = repr(getattr(error, "facts", {}))
    return "".join(traceback.format_exception(error)) + repr(error) + str(error) + facts


def test_the_password_opens_the_catalog_and_is_shown_nowhere(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    lake = esker.connect(uri)
    table = orders(lake)
    table.append(rows([1]))
    assert lake.address is not None
    for thing in (lake, lake.address, dict(lake.address), lake.catalog, table, table.metadata.properties):
        check_hidden(f"{thing!r} {thing} {vars(thing) if hasattr(thing, '__dict__') else ''}")
    check_hidden(lake._repr_html_())
    check_hidden(caplog.text)
    check_hidden(Path(table.metadata_location).read_text())
    again = connect(**pickle.loads(pickle.dumps(dict(lake.address))))
    assert again.table("sales.orders").uuid == table.uuid
    check_hidden(repr(again.address))


def test_commands_do_not_show_it(uri: str) -> None:
    for command in (("init",), ("create", "--namespace", "a"), ("ls",), ("ls", "--json"), ("init", "--json")):
        done = run("--catalog", uri, *command)
        check_hidden(done.stdout + done.stderr)
    assert run("--catalog", uri, "ls").exit_code == 0
    assert json.loads(run("--catalog", uri, "ls", "--json").stdout)["catalog"].startswith(f"postgresql://{USER}:***@/")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda uri: uri.replace(ESCAPED, f"{ESCAPED}x"),  # the wrong one
        lambda uri: uri.replace("/d", "/nothing"),  # the wrong database
        lambda uri: uri.replace("?host", "?no_such_option=1&host"),
        lambda uri: uri.replace("?host", "?sslmode=nonsense&host"),
        lambda uri: uri.replace("?host", "?port=none&host"),
        lambda uri: uri.replace(ESCAPED, f"{ESCAPED}%zz"),  # not an escape
        lambda uri: uri.replace(ESCAPED, PASSWORD),  # not escaped
        lambda uri: uri.replace("@/", "/"),  # no host
        lambda uri: uri.replace("@/", "@host:port/"),
        lambda uri: uri.replace("?host", f"?password={ESCAPED}x&host"),
        lambda uri: uri.replace("postgresql", "postgresq"),
        lambda uri: uri.replace("postgresql", "https"),
        lambda uri: uri.replace("?host", "?catalog_name=&host"),
        lambda uri: uri.partition("&warehouse")[0],
    ],
)
def test_no_error_shows_it(uri: str, spoil: Callable[[str], str], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    bad = spoil(uri)
    assert bad != uri
    with pytest.raises(EskerError) as raised:
        esker.connect(bad).create_namespace("a")
    check_hidden(everything_of(raised.value))
    check_hidden(caplog.text)
    done = run("--catalog", bad, "ls")
    assert done.exit_code != 0
    check_hidden(done.stdout + done.stderr)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("postgresql://me:pw@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgresql://me@host/db?sslmode=require", "postgresql://me@host/db?sslmode=require"),
        ("postgresql://me:p@w@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:p/w?x@host/db", "postgresql://me:***@host/db"),
        ("postgresql://host/db?password=pw&sslpassword=q", "postgresql://host/db?password=***&sslpassword=***"),
        (
            "postgresql://me:pw@a:1,b:2/db?target_session_attrs=any",
            "postgresql://me:***@a:1,b:2/db?target_session_attrs=any",
        ),
        ("postgresql://[::1]:5432/db", "postgresql://[::1]:5432/db"),
        ("postgresql://me:secret/db", "postgresql://me:***"),
        ("sqlite:///lake/catalog.db", "sqlite:///lake/catalog.db"),
        ("lake", "lake"),
    ],
)
def test_a_uri_is_shown_without_its_secrets(given: str, shown: str) -> None:
    assert without_secrets(given) == shown
    assert str(SecretUri(given)) == f"{SecretUri(given)}" == shown
    assert repr(SecretUri(given)) == repr(shown)


def test_an_address_is_what_the_uri_says() -> None:
    found = parse_address(
        "postgresql+psycopg2://me:p%40w@h:1/db?sslmode=require&catalog_name=prod&warehouse=%2Fdata%2Fw"
    )
    assert found.conninfo == "postgresql://me:p%40w@h:1/db?sslmode=require"
    assert (found.catalog_name, found.warehouse) == ("prod", "/data/w")
    assert found.without_secrets("no p%40w, no p@w") == "no ***, no ***"
    assert "p%40w" not in repr(found)
    assert parse_address("postgres://h/db").catalog_name == "default"
    for bad in ("postgresql:db", "postgresql://h/db?=x", "postgresql://u:a@b@h/db", "postgresql://h:x/db"):
        with pytest.raises(InvalidInput, match="cannot open"):
            parse_address(bad)
