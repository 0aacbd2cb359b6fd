"""Loads that are answered from memory, without a wait: only while the answer is the one that the catalog would give."""

from __future__ import annotations

import gzip
import hashlib
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import cast

import msgspec
import pyarrow as pa
import pytest
from long_history import with_history

import esker
from esker.catalogs.sql_pointers import SqlPointers
from esker.catalogs.sqlite import SqliteDatabase
from esker.lake import Lake
from esker.model.table_names import TableName
from esker.serve.access import Caller, Role, Tokens
from esker.serve.call import Answer, Call
from esker.serve.catalog_service import Service
from esker.serve.catalog_tokens import FRESH_S, CatalogTokens, SqlTokens, add_token, tokens_of
from esker.serve.store.sign_requests import Signing
from esker.serve.store.table_access import TableAccess
from esker.serve.store.vend_credentials import Vending

NAME = TableName(("sales",), "orders")
PATH = "/v1/namespaces/sales/tables/orders"
ROW = pa.table({"id": pa.array([1], pa.int64())})
GZIP = {"accept-encoding": "gzip, deflate"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    lake.create_namespace("sales")
    lake.create_table("sales.orders", ROW.schema).append(ROW)
    return lake


def warm(service: Service, call: Call) -> Answer:
    """The answer to a load, which is in memory afterwards."""
    for _ in range(3):
        answer = service.answer("GET", PATH, call)
        assert answer.status == 200, answer.body
    return answer


@pytest.mark.parametrize("query", [{}, {"snapshots": "refs"}, {"snapshots": "all"}])
def test_a_table_that_has_not_changed_is_answered_at_once(lake: Lake, query: dict[str, str]) -> None:
    service, call = Service(lake), Call(query=query)
    assert service.answer_at_once("GET", PATH, call) is None
    answer = warm(service, call)
    assert service.answer_at_once("GET", PATH, call) == answer


def test_a_client_that_has_the_answer_gets_304_at_once(lake: Lake) -> None:
    service = Service(lake)
    tag = warm(service, Call()).headers["etag"]
    answer = service.answer_at_once("GET", PATH, Call(headers={"if-none-match": f'W/"other", {tag}'}))
    assert answer == Answer(status=304, headers={"etag": tag})


CHANGES: dict[str, Callable[[Lake], object]] = {
    "commit": lambda lake: lake.table("sales.orders").append(ROW),
    "drop": lambda lake: lake.drop_table("sales.orders"),
    "rename": lambda lake: lake.rename_table("sales.orders", "sales.other"),
    "recreate": lambda lake: (lake.drop_table("sales.orders"), lake.create_table("sales.orders", "n string")),
    "lost file": lambda lake: Path(lake.table("sales.orders").metadata_location).unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_by_another_program_is_seen_at_once(lake: Lake, tmp_path: Path, change: str) -> None:
    service = Service(lake)
    warm(service, Call())
    CHANGES[change](esker.connect(f"sqlite:///{tmp_path}/catalog.db"))
    assert service.answer_at_once("GET", PATH, Call()) is None
    assert service.answer("GET", PATH, Call()).status == (200 if change in ("commit", "recreate") else 404)


@pytest.mark.parametrize(
    "path", [PATH.replace("orders", "other"), f"{PATH}/credentials", "/v1/namespaces", "/x", "/%ff"]
)
def test_other_requests_are_not_answered_at_once(lake: Lake, path: str) -> None:
    service = Service(lake)
    warm(service, Call())
    assert service.answer_at_once("GET", path, Call()) is None
    assert service.answer_at_once("HEAD", PATH, Call()) is None
    assert service.answer_at_once("GET", PATH, Call(query={"snapshots": "some"})) is None


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """A database that another program keeps locked, for readers too."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("BEGIN EXCLUSIVE")
        yield


def test_a_locked_database_is_not_waited_for(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "catalog.db")
    pointers = SqlPointers(database, "default")
    pointers.create_namespace(NAME.namespace, {})
    pointers.put_new(NAME, "/where/it/is.json")
    database._connections.close_idle()  # they would keep it from being locked
    with locked(tmp_path / "catalog.db"):
        assert pointers.get_at_once(NAME) is None
    assert pointers.get_at_once(NAME) == "/where/it/is.json"
    assert database.read_at_once(lambda session: session.rows("PRAGMA busy_timeout")) == [{"timeout": 0}]


def test_a_look_does_not_create_the_database(lake: Lake, tmp_path: Path) -> None:
    service = Service(lake)
    warm(service, Call())
    (tmp_path / "catalog.db").rename(tmp_path / "moved.db")
    assert service.answer_at_once("GET", PATH, Call()) is None
    assert not (tmp_path / "catalog.db").exists()


class TestCallers:
    def test_only_callers_who_may_see_the_table_are_answered(self, lake: Lake) -> None:
        callers = {word: Caller(word, Role.READ, namespaces) for word, namespaces in (("all", ()), ("hr", (("hr",),)))}
        tokens = Tokens({_digest(f"{word}-0123456789abcdef"): one for word, one in callers.items()})
        service = Service(lake, tokens=tokens)
        answer = warm(service, _as("all"))
        assert service.answer_at_once("GET", PATH, _as("all")) == answer
        for call in (_as("hr"), _as("nobody"), Call()):
            assert service.answer_at_once("GET", PATH, call) is None
        assert service.answer("GET", PATH, _as("hr")).status == 403
        assert service.answer("GET", PATH, Call()).status == 401

    def test_a_token_that_was_removed_is_not_used_from_memory_for_long(
        self, lake: Lake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = 100.0
        token = add_token(tokens_of(lake.catalog), "one", Role.READ, (), now_ms=1)
        stored = CatalogTokens(tokens_of(lake.catalog), clock=lambda: now)
        service = Service(lake, tokens=Tokens({}, stored=stored))
        call = Call(headers={"authorization": f"Bearer {token}"})
        warm(service, call)
        assert service.answer_at_once("GET", PATH, call) is not None
        tokens_of(lake.catalog).remove("one")
        now += FRESH_S
        with monkeypatch.context() as patch:
            reads: list[str] = []
            patch.setattr(SqlTokens, "listed", lambda _: reads.append("read"))
            assert service.answer_at_once("GET", PATH, call) is None
            assert not reads  # it would wait for the database
        assert service.answer("GET", PATH, call).status == 401

    def test_credentials_and_signatures_of_one_client_are_not_sent_to_others(self) -> None:
        asked = Call(headers={"x-iceberg-access-delegation": "vended-credentials, remote-signing"})
        assert TableAccess({}).is_same_for_all(asked)
        for access in (
            TableAccess({}, vending=cast(Vending, object())),
            TableAccess({}, signing=cast(Signing, object())),
        ):
            assert access.is_same_for_all(Call())
            assert not access.is_same_for_all(asked)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _as(word: str) -> Call:
    return Call(headers={"authorization": f"Bearer {word}-0123456789abcdef"})


class TestCompression:
    def test_an_answer_that_is_asked_for_again_is_compressed(self, lake: Lake) -> None:
        with_history(lake, NAME, 50)
        service = Service(lake)
        first = service.answer("GET", PATH, Call(headers=GZIP))
        assert "content-encoding" not in first.headers  # it may be the only time that anybody asks
        second = warm(service, Call(headers=GZIP))
        assert second.headers["content-encoding"] == "gzip"
        assert "Accept-Encoding" in second.headers["vary"]
        assert first.headers["vary"] == second.headers["vary"]
        assert len(second.body) < len(first.body) / 4
        assert gzip.decompress(second.body) == first.body
        assert service.answer_at_once("GET", PATH, Call(headers=GZIP)) == second
        assert service.answer_at_once("GET", PATH, Call()) == first

    def test_a_change_is_in_the_compressed_answer(self, lake: Lake) -> None:
        with_history(lake, NAME, 50)
        service = Service(lake)
        warm(service, Call(headers=GZIP))
        lake.table("sales.orders").append(ROW)
        now = msgspec.json.decode(gzip.decompress(warm(service, Call(headers=GZIP)).body))
        assert now["metadata-location"] == lake.table("sales.orders").metadata_location

    def test_a_short_answer_stays_as_it_is(self, lake: Lake) -> None:
        assert "content-encoding" not in warm(Service(lake), Call(headers=GZIP)).headers

    @pytest.mark.parametrize(
        ("header", "accepts"),
        [
            ("gzip", True),
            ("GZIP;q=0.5", True),
            ("br, gzip ;q=1.0", True),
            ("gzip;q=0", False),
            ("gzip; q=0.000", False),
            ("identity", False),
            ("deflate, br", False),
            ("x-gzip-not", False),
            ("", False),
            (";;,,q=", False),
        ],
    )
    def test_what_clients_accept(self, header: str, accepts: bool) -> None:
        assert Call(headers={"accept-encoding": header}).accepts_gzip is accepts
