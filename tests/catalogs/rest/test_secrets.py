"""S20: tokens, keys, client secrets and signatures of a REST lake are in no log, error, repr, plan, pickle or output.

PostgreSQL's passwords are tested in ``test_postgres_secrets``, keys of a store alone in ``storage/objects``.
"""

from __future__ import annotations

import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa
import pytest
from command_line import run
from faulty_rest import Fault, FaultyRest, faulty_rest
from s3_server import DENY, S3Server

import esker
from esker.catalogs.rest import service as service_module
from esker.catalogs.rest.operations import Operation
from esker.errors import EskerError
from esker.model.table_names import TableName

TOKEN, CLIENT_SECRET, BEARER, API_KEY = (
    "tok-7f3c9d21aa0b",
    "cl/ient+s3cret==5521",
    "bearer-of-oauth-99aa17",
    "api-key-0e55b1c2d3",
)
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


@dataclass
class Shown:
    """All that was shown, and what must not be in it."""

    secrets: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def add(self, *things: object) -> None:
        for thing in things:
            self.texts += [str(thing), repr(thing)]
            html = getattr(thing, "_repr_html_", None)
            if html is not None:
                self.texts.append(html())

    def attempt(self, act: Callable[[], object]) -> EskerError | None:
        """What an act raises, with its causes, its facts and itself in another process."""
        try:
            self.add(act())
        except EskerError as error:
            self.add("".join(traceback.format_exception(error)), error, error.facts, pickle.loads(pickle.dumps(error)))
            return error
        return None

    def check(self) -> None:
        assert len(self.texts) > 20
        spelt = {form for secret in self.secrets for form in (secret, quote(secret, safe=""))}
        found = [(secret, text[:300]) for text in self.texts for secret in spelt if secret in text]
        assert not found, found[0]


@pytest.fixture
def shown(caplog: pytest.LogCaptureFixture) -> Iterator[Shown]:
    caplog.set_level(logging.DEBUG)
    found = Shown([TOKEN, CLIENT_SECRET, BEARER, API_KEY, "Signature="])
    yield found
    found.texts += [record.getMessage() + str(record.exc_text or "") for record in caplog.records]
    found.check()


@pytest.fixture
def server(checking_s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FaultyRest]:
    monkeypatch.setattr(service_module, "_WAIT_S", 0.001)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with faulty_rest(f"{checking_s3.make_bucket(f'secret-{uuid4().hex[:12]}')}/wh") as found:
        found.config["endpoints"] = [one.value for one in Operation]
        found.namespaces["a"] = {}
        yield found


def place_of(store: S3Server) -> dict[str, str]:
    return {"s3.endpoint": store.endpoint, "client.region": "us-east-1"}


def vends(server: FaultyRest, store: S3Server, shown: Shown) -> None:
    """Let the server vend a key for its files."""
    id_, secret = store.make_key(server.warehouse)
    shown.secrets.append(secret)
    config = {**place_of(store), "s3.access-key-id": id_, "s3.secret-access-key": secret}
    server.extra = {"storage-credentials": [{"prefix": server.warehouse, "config": config}]}


def signs(server: FaultyRest, store: S3Server, shown: Shown) -> None:
    """Let the server sign requests for its files."""
    server.signs_with = store.make_key(server.warehouse)
    shown.secrets.append(server.signs_with[1])
    server.extra = {"config": {**place_of(store), "s3.remote-signing-enabled": "true"}}


DOORS: dict[str, dict[str, str]] = {
    "a token": {"token": TOKEN},
    "an OAuth client": {"credential": f"me:{CLIENT_SECRET}"},
    "a header": {"token": TOKEN, "header.X-Api-Key": API_KEY},
}


def let_in(server: FaultyRest, door: str) -> None:
    server.token = BEARER if "credential" in DOORS[door] else TOKEN
    server.tokens = [{"access_token": BEARER, "expires_in": 3600} for _ in range(40)]


def opened(server: FaultyRest, door: str, **more: str) -> esker.Lake:
    quick = {"s3.retry.num-retries": "0"}
    return esker.connect(server.uri, properties={**DOORS[door], **quick, **more})


def walked(lake: esker.Lake, shown: Shown) -> esker.Table:
    """Use everything once, and show everything that there is to show."""
    table = lake.create_table("a.t", "id bigint")
    table.append(ROWS)
    scan = table.scan("id > 1")
    shown.add(lake, lake.address, dict(lake.address or {}), lake.catalog, lake.catalog.storage(), table, scan)
    shown.add(scan.plan(), scan.explain(), scan.to_arrow(), table.properties, table.snapshots, table.metadata)
    service: Any = lake.catalog
    shown.add(service._service, service._service.configuration, service._service._auth, service._reports)
    shown.add(lake.catalog.scan_service(TableName.parse("a.t")))  # type: ignore[attr-defined]
    for name, (credentials, store) in service._files._stores.items():
        shown.add(name, credentials, store, store.configuration, store.configuration.signer)
        shown.add(pickle.loads(pickle.dumps(store)), pickle.loads(pickle.dumps(store)).configuration.signer)
    shown.add(pickle.loads(pickle.dumps(lake.catalog.storage())))
    return table


@pytest.mark.parametrize("files", [vends, signs])
@pytest.mark.parametrize("door", DOORS)
def test_s20_what_works_shows_no_secret(
    server: FaultyRest, checking_s3: S3Server, shown: Shown, door: str, files: Callable[..., None]
) -> None:
    let_in(server, door)
    files(server, checking_s3, shown)
    table = walked(opened(server, door), shown)
    assert table.scan().count() == 3


SENT = {
    "a token": (TOKEN,),
    "an OAuth client": (CLIENT_SECRET, BEARER),
    "a header": (TOKEN, API_KEY),
}


def echo(door: str, status: int, path: str, method: str = "GET") -> Fault:
    """A server that quotes what was sent to it."""
    told = " ".join(SENT[door])
    return Fault(
        method=method, path=path, status=status, body=f'{{"error": {{"message": "bad: {told}", "type": "E"}}}}'
    )


@pytest.mark.parametrize("door", DOORS)
def test_s20_what_is_refused_shows_no_secret(
    server: FaultyRest, checking_s3: S3Server, shown: Shown, door: str
) -> None:
    let_in(server, door)
    vends(server, checking_s3, shown)
    table = walked(opened(server, door), shown)
    for status in (400, 401, 403, 406, 409, 500):
        for fault in (
            echo(door, status, "/namespaces"),
            echo(door, status, "/tables/t"),
            echo(door, status, "/tables/t", "POST"),
        ):
            server.faults += [fault] * 4
            shown.attempt(lambda: opened(server, door).namespaces())
            shown.attempt(table.refresh)
            shown.attempt(lambda: table.append(ROWS))
            server.faults.clear()
    checking_s3.fail(DENY, times=1000)
    assert shown.attempt(lambda: table.scan().to_arrow()) is not None
    assert shown.attempt(lambda: table.append(ROWS)) is not None
    checking_s3.heal()
    server.token = "another"
    server.tokens = [{"error": "invalid_client", "error_description": f"no such secret: {CLIENT_SECRET}"}] * 5
    assert shown.attempt(lambda: opened(server, door).namespaces()) is not None


def test_s20_a_signer_that_refuses_shows_no_secret(server: FaultyRest, checking_s3: S3Server, shown: Shown) -> None:
    let_in(server, "a token")
    signs(server, checking_s3, shown)
    table = walked(opened(server, "a token"), shown)
    for status in (400, 403, 500):
        server.faults += [echo("a token", status, "/sign", "POST")] * 8
        assert shown.attempt(lambda: table.scan().to_arrow()) is not None
        server.faults.clear()
    assert server.signs_with is not None
    server.signs_with = (server.signs_with[0], "z" * 40)  # a signature that the store refuses, and quotes
    assert shown.attempt(lambda: table.scan().to_arrow()) is not None


COMMANDS = (
    ("ls",), ("ls", "a"), ("info", "a.t"), ("schema", "a.t"), ("snapshots", "a.t"), ("refs", "a.t"), ("files", "a.t"),
    ("manifests", "a.t"), ("scan", "a.t"), ("explain", "a.t", "--where", "id > 1"), ("verify", "a.t"), ("doctor",),
    ("create", "a.t", "id bigint"), ("drop", "a.nothing"),
)  # fmt: skip


@pytest.mark.parametrize("door", ["a token", "an OAuth client"])
def test_s20_commands_show_no_secret(server: FaultyRest, checking_s3: S3Server, shown: Shown, door: str) -> None:
    let_in(server, door)
    vends(server, checking_s3, shown)
    walked(opened(server, door), shown)
    env = {f"ESKER_{name.upper()}": value for name, value in DOORS[door].items()}
    worked = 0
    for wrong in (False, True):
        if wrong:
            server.token, server.tokens = "another", []
        for command in COMMANDS:
            for how in ((), ("--json",)):
                done = run("--catalog", server.uri, *command, *how, env=env)
                shown.add(done.stdout, done.stderr, done.exception)
                worked += done.exit_code == 0
    assert worked >= 20
