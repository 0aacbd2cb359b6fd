"""A change that may have been made is 500, whatever fails afterwards. Clients repeat a 503 and clean up after a 4xx."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import esker
from esker.catalogs.pointer_catalog import PointerCatalog, PointerViews
from esker.errors import EskerError, NoSuchFile, NoSuchTable, NoSuchView, StorageFailed
from esker.lake import Lake
from esker.ports.catalog import AllUnanswered, TableSwap, Unanswered
from esker.serve.call import Call
from esker.serve.catalog_service import Service

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
VIEW = {
    "name": "v",
    "schema": SCHEMA,
    "view-version": {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": 1,
        "summary": {},
        "default-namespace": ["a"],
        "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
    },
    "properties": {},
}
SET = {"action": "set-properties", "updates": {"k": "v"}}
AFTERWARDS: list[EskerError] = [
    StorageFailed("the database is gone", retryable=True),
    StorageFailed("the disk is broken", retryable=False),
    NoSuchTable("it was dropped", table="a.t"),
    NoSuchFile("its file is gone", file="x"),
]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    lake.create_namespace("a")
    for name in ("a.t", "a.u"):
        lake.create_table(name, "id bigint")
    return lake


def ask(service: Service, method: str, path: str, body: Any = None) -> tuple[int, str]:
    content = b"" if body is None else msgspec.json.encode(body)
    answer = service.answer(method, path, Call(body=content))
    return answer.status, msgspec.json.decode(answer.body)["error"]["type"] if answer.status >= 400 else ""


def raising(error: EskerError) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize("after", AFTERWARDS, ids=lambda error: f"{type(error).__name__} {error.message}")
def test_a_commit_without_an_answer_is_500_whatever_fails_afterwards(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, after: EskerError
) -> None:
    service = Service(lake)
    load = PointerCatalog.load

    def no_answer(catalog: PointerCatalog, swaps: list[TableSwap], *_: Any) -> AllUnanswered:
        monkeypatch.setattr(PointerCatalog, "load", raising(after))
        return AllUnanswered("the connection was cut", {swap.name: "somewhere" for swap in swaps})

    monkeypatch.setattr(PointerCatalog, "change_all", no_answer)
    one = {"requirements": [], "updates": [SET]}
    several = {
        "table-changes": [{"identifier": {"namespace": ["a"], "name": name}, **one} for name in ("t", "u")],
    }
    unknown = (500, "CommitStateUnknownException")
    assert ask(service, "POST", "/v1/namespaces/a/tables/t", one) == unknown
    monkeypatch.setattr(PointerCatalog, "load", load)
    assert ask(service, "POST", "/v1/transactions/commit", several) == unknown


def test_a_commit_to_several_tables_without_any_word_of_them_is_no_success(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PointerCatalog, "change_all", lambda *_: AllUnanswered("no answer came"))
    change = {"identifier": {"namespace": ["a"], "name": "t"}, "requirements": [], "updates": [SET]}
    answer = ask(Service(lake), "POST", "/v1/transactions/commit", {"table-changes": [change]})
    assert answer == (500, "CommitStateUnknownException")


@pytest.mark.parametrize(
    "after", [StorageFailed("the database is gone", retryable=True), NoSuchView("it was dropped", view="a.v")]
)
def test_a_change_of_a_view_without_an_answer_is_500_whatever_fails_afterwards(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, after: EskerError
) -> None:
    service = Service(lake)
    assert ask(service, "POST", "/v1/namespaces/a/views", VIEW) == (200, "")

    def no_answer(*_: Any) -> Unanswered:
        monkeypatch.setattr(PointerViews, "load_view", raising(after))
        return Unanswered("the connection was cut", "somewhere")

    monkeypatch.setattr(PointerViews, "swap_view", no_answer)
    answer = ask(service, "POST", "/v1/namespaces/a/views/v", {"requirements": [], "updates": [SET]})
    assert answer == (500, "CommitStateUnknownException")


def test_a_table_that_was_unregistered_is_not_read_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    service, storage = Service(lake), lake.catalog.storage()
    remove = lake.catalog.pointers.remove  # type: ignore[attr-defined]

    def then_the_storage_fails(*args: Any) -> Any:
        monkeypatch.setattr(storage, "read", raising(StorageFailed("the store is gone", retryable=True)))
        return remove(*args)

    monkeypatch.setattr(lake.catalog.pointers, "remove", then_the_storage_fails)  # type: ignore[attr-defined]
    assert ask(service, "POST", "/v1/namespaces/a/tables/t/unregister")[0] == 200
    assert lake.tables("a") == ["a.u"]


def test_a_last_version_that_cannot_be_read_after_an_unregister_is_500(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another commit came between the look at the table and its removal, and then the store failed."""
    service, storage = Service(lake), lake.catalog.storage()
    remove = lake.catalog.pointers.remove  # type: ignore[attr-defined]

    def after_another_commit(*args: Any) -> Any:
        lake.table("a.t").append(pa.table({"id": pa.array([1], pa.int64())}))
        monkeypatch.setattr(storage, "read", raising(StorageFailed("the store is gone", retryable=True)))
        return remove(*args)

    monkeypatch.setattr(lake.catalog.pointers, "remove", after_another_commit)  # type: ignore[attr-defined]
    answer = ask(service, "POST", "/v1/namespaces/a/tables/t/unregister")
    assert answer == (500, "CommitStateUnknownException")
