"""Listing a catalog, and opening its tables by name."""

from __future__ import annotations

from typing import Any

import pytest
from command_line import run, run_json
from corpus import corpus_root

import esker
from esker.cli.settings import Settings
from esker.errors import Corrupt, NoSuchNamespace, NoSuchTable


class _Lake:
    """A catalog of one good and one broken table."""

    def __init__(self, namespaces: dict[str, tuple[str, ...]]) -> None:
        self._tables = namespaces

    def namespaces(self) -> list[str]:
        return sorted(self._tables)

    def tables(self, namespace: str) -> tuple[str, ...]:
        if namespace not in self._tables:
            raise NoSuchNamespace(f"no namespace {namespace}", namespace=namespace)
        return self._tables[namespace]

    def table(self, name: str) -> Any:
        if name == "sales.broken":
            raise Corrupt("s3://b/v9.metadata.json", "it is empty")
        if name != "sales.orders":
            raise NoSuchTable(f"no table {name}", name=name)
        return esker.open_table(corpus_root() / "iceberg/dremio/orders")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings that the catalog was opened with."""
    settings: list[Settings] = []

    def opened(given: Settings) -> _Lake:
        settings.append(given)
        return _Lake({"empty": (), "sales": ("sales.broken", "sales.orders")})

    monkeypatch.setattr("esker.cli.opening.open_lake", opened)
    return settings


def test_the_tables_of_every_namespace_are_listed(seen: list[Settings]) -> None:
    assert run("ls").stdout == "sales.broken\nsales.orders\n"
    assert run("ls", "sales").stdout == "sales.broken\nsales.orders\n"
    document = run_json("ls")
    assert document["namespaces"] == [
        {"namespace": "empty", "tables": []},
        {"namespace": "sales", "tables": [{"name": "sales.broken"}, {"name": "sales.orders"}]},
    ]


def test_a_broken_table_is_listed_with_its_reason_and_hides_no_other(seen: list[Settings]) -> None:
    result = run("ls", "-l")
    assert result.exit_code == 0
    assert "s3://b/v9.metadata.json is corrupt: it is empty" in result.stdout
    assert "sales.orders    600" in result.stdout
    broken, orders = run_json("ls", "-l", "sales")["namespaces"][0]["tables"]
    assert broken["problem"].endswith("it is empty")
    assert (orders["rows"], orders["problem"]) == (600, None)


def test_an_empty_namespace_and_a_missing_one_say_so(seen: list[Settings]) -> None:
    assert run("ls", "empty").stdout == "No tables in 1 namespace: empty.\n"
    assert run("ls", "nowhere").exit_code == 2


def test_a_table_is_opened_by_its_name_in_the_catalog(seen: list[Settings]) -> None:
    assert run_json("info", "sales.orders", "--catalog", "sqlite:///x.db", "--warehouse", "/w")["rows"] == 600
    assert seen == [Settings(catalog="sqlite:///x.db", warehouse="/w", as_json=True)]
    missing = run("info", "sales.gone")
    assert missing.exit_code == 2
    assert missing.stderr == "esker: no table sales.gone\n"


def test_the_catalog_comes_from_the_environment_unless_given(seen: list[Settings]) -> None:
    run("ls", env={"ESKER_CATALOG": "memory:"})
    run("--catalog", "file:///w", "ls", env={"ESKER_CATALOG": "memory:"})
    run("ls")
    assert [settings.catalog for settings in seen] == ["memory:", "file:///w", None]
