"""Listing a catalog, and opening its tables by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from command_line import run, run_json
from corpus import corpus_root

import esker
from esker.cli.shared_options import Settings
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

    def views(self, namespace: str) -> list[str]:
        return []

    def table(self, name: str) -> Any:
        if name == "sales.broken":
            raise Corrupt("s3://b/v9.metadata.json", "it is empty")
        if name != "sales.orders":
            raise NoSuchTable(f"no table {name}", name=name)
        return esker.open_table(corpus_root() / "iceberg/dremio/orders")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings that the catalog was opened with."""
    corpus_root()  # a test that needs it is skipped here, not in the middle of a command
    settings: list[Settings] = []

    def opened(given: Settings) -> _Lake:
        settings.append(given)
        return _Lake({"empty": (), "sales": ("sales.broken", "sales.orders")})

    monkeypatch.setattr("esker.cli.open_table.open_lake", opened)
    return settings


def test_the_tables_of_every_namespace_are_listed(seen: list[Settings]) -> None:
    assert run("ls").stdout == "sales.broken\nsales.orders\n"
    assert run("ls", "sales").stdout == "sales.broken\nsales.orders\n"
    document = run_json("ls")
    assert document["namespaces"] == [
        {"namespace": "empty", "tables": [], "views": []},
        {"namespace": "sales", "tables": [{"name": "sales.broken"}, {"name": "sales.orders"}], "views": []},
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


def test_a_real_lake_is_listed_and_looked_into(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    lake = esker.connect(uri, warehouse=f"{tmp_path}/warehouse")
    lake.create_namespace("sales")
    table = lake.create_table("sales.orders", "id bigint not null, region string", partition_by=["region"])
    table.append(pa.table({"id": pa.array([1, 2, 3], pa.int64()), "region": ["eu", "us", "eu"]}))
    where = ("--catalog", uri, "--warehouse", f"{tmp_path}/warehouse")
    assert run("ls", *where).stdout == "sales.orders\n"
    (listed,) = run_json("ls", "-l", *where)["namespaces"][0]["tables"]
    assert (listed["rows"], listed["data_files"], listed["snapshots"]) == (3, 2, 1)
    assert run_json("info", "sales.orders", *where)["partitioning"] == ["region"]
    assert len(run_json("scan", "sales.orders", "--where", "region = 'eu'", *where)["rows"]) == 2
    assert run("tree", "sales.orders", *where).exit_code == 0


def test_a_view_is_listed_and_told_of_without_a_jvm(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    lake = esker.connect(uri)
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id bigint, region string")
    sql = "SELECT id FROM orders WHERE region = 'eu'"
    lake.create_view("sales.europe", sql, schema="id bigint comment 'as in the shop'", comment="from Europe")
    where = ("--catalog", uri)
    assert run("ls", *where).stdout == "sales.orders\nsales.europe (view)\n"
    assert run_json("ls", *where)["namespaces"][0]["views"] == ["sales.europe"]
    assert "1 table and 1 view in 1 namespace" in run("ls", "-l", *where).stdout
    told = run_json("info", "sales.europe", *where)
    assert (told["kind"], told["sql"], told["dialects"]) == ("view", sql, ["spark"])
    assert (told["default_namespace"], told["properties"]) == ("sales", {"comment": "from Europe"})
    card = run("info", "sales.europe", *where).stdout
    assert "sales.europe  Iceberg view" in card
    assert sql in card
    (column,) = run_json("schema", "sales.europe", *where)["columns"]
    assert (column["name"], column["type"], column["doc"]) == ("id", "long", "as in the shop")
    refused = run("files", "sales.europe", *where)
    assert refused.exit_code == 2
    assert refused.stderr == "esker: no table sales.europe: it is a view; lake.sql reads it and lake.view opens it\n"


def test_diff_of_a_real_lakes_table_tells_columns_and_properties(tmp_path: Path) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/warehouse")
    lake.create_namespace("ns")
    table = lake.create_table("ns.t", "id bigint, note string", properties={"owner": "ann", "gone": "1"})
    table.append(pa.table({"id": pa.array([1], pa.int64()), "note": ["a"]}))
    first = table.current_snapshot
    with table.alter() as change:
        change.rename_column("note", "remark")
        change.set_properties({"owner": "bob", "new": "2"})
        change.remove_properties("gone")
    table.append(pa.table({"id": pa.array([2], pa.int64()), "remark": ["b"]}))
    assert first is not None
    facts = run_json("diff", tmp_path / "warehouse/ns/t", str(first.snapshot_id))
    assert facts["schema"]["changed"] == [{"id": 2, "name": "note", "changes": ["renamed to remark"]}]
    assert facts["properties"] == {
        "added": {"new": "2"},
        "removed": {"gone": "1"},
        "changed": {"owner": ["ann", "bob"]},
    }
    said = run("diff", tmp_path / "warehouse/ns/t", str(first.snapshot_id)).stdout
    for line in ("~ note: renamed to remark", "+ new = 2", "- gone = 1", "~ owner: ann is now bob"):
        assert line in said
