"""Esker as a client of Nessie: the contracts of catalogs and of views, with files in an S3 server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest
from catalog_contract import CatalogContract
from rest_servers import RestServer, emptied, nessie
from s3_server import S3Server
from tables import next_snapshot
from view_contract import ViewContract

import esker
from esker.catalogs.open_catalog import open_catalog
from esker.catalogs.rest.commits import TableCommit
from esker.errors import Conflict, InvalidInput, Unsupported
from esker.model.table_names import TableName
from esker.ports.catalog import Catalog


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server) -> Iterator[RestServer]:
    with nessie(tmp_path_factory.mktemp("nessie"), s3_server) as found:
        yield found


class OnNessie:
    """The server, without anything in it."""

    @pytest.fixture
    def uri(self, server: RestServer, s3_environment: None) -> str:
        emptied(server)
        return server.uri

    def open(self, uri: str, *allowed: str) -> Catalog:
        return open_catalog(uri, allowed_roots=allowed)


class TestTables(OnNessie, CatalogContract):
    # Nessie has versions of the whole catalog instead, and writes metadata files as it likes.
    keeps_metadata_log = False
    keeps_snapshots = False
    follows_metadata_settings = False
    takes_local_places = False
    servers_own = frozenset(("location",))
    servers_own_of_tables = ("nessie.", "gc.enabled")
    cannot_name = frozenset(("a#b", "a@b"))  # Nessie reads a branch, a tag or a time in them


class TestViews(OnNessie, ViewContract):
    places_views = False
    servers_own = ("nessie.", "created-at")


# ---------------------------------------------------------------- a lake


@pytest.fixture
def lake(server: RestServer) -> esker.Lake:
    emptied(server)
    lake = server.address.lake()
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id bigint, name string")
    return lake


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [str(id_) for id_ in ids]})


def ids(lake: esker.Lake) -> list[int]:
    found: list[int] = lake.table("sales.orders").to_arrow().column("id").to_pylist()
    return sorted(found)


def test_rows_are_appended_deleted_and_replaced(lake: esker.Lake) -> None:
    table = lake.table("sales.orders")
    table.append(rows(1, 2, 3))
    table.append(rows(4))
    table.delete("id = 2")
    table.upsert(rows(4, 5), on=["id"])
    assert ids(lake) == [1, 3, 4, 5]
    with table.alter() as change:
        change.add_column("note", "string")
    table.append(rows(6))
    assert ids(lake) == [1, 3, 4, 5, 6]
    assert [snapshot.sequence_number for snapshot in lake.table("sales.orders").snapshots] == [5]


def test_a_row_change_that_loses_a_race_is_a_conflict_and_changes_nothing(lake: esker.Lake) -> None:
    """Nessie keeps no older snapshot, so that nobody can say what the other writer did."""
    lake.table("sales.orders").append(rows(1, 2))
    tx = lake.table("sales.orders").transaction()
    tx.upsert(rows(1), on=["id"])
    lake.table("sales.orders").append(rows(3))
    with pytest.raises(Conflict, match="is no longer in the table's past"):
        tx.commit()
    assert ids(lake) == [1, 2, 3]


def test_files_that_older_versions_of_the_catalog_need_are_not_removed(lake: esker.Lake) -> None:
    table = lake.table("sales.orders")
    table.append(rows(1))
    table.overwrite(rows(2))
    with pytest.raises(InvalidInput, match=r"gc\.enabled is false"):
        lake.table("sales.orders").remove_orphans()
    with pytest.raises(InvalidInput, match=r"gc\.enabled is false"):
        lake.drop_table("sales.orders", purge=True)
    with pytest.raises(Unsupported, match="Nessie does not support branches and tags of a table"):
        table.tag("v1")


def test_steps_over_several_tables_are_one_commit_of_nessie(server: RestServer, lake: esker.Lake) -> None:
    lake.create_table("sales.totals", "id bigint, name string")
    with lake.transaction() as tx:
        for name in ("sales.orders", "sales.totals"):
            tx.table(name).append(rows(1))
    made = [lake.table(name).properties["nessie.commit.id"] for name in ("sales.orders", "sales.totals")]
    assert made[0] == made[1]
    assert ids(lake) == [1]


def test_nessie_alone_accepts_two_first_snapshots(server: RestServer, lake: esker.Lake) -> None:
    """The reason for the way in which Esker commits: without an address of a version the first snapshot is lost."""
    catalog = server.open()
    name = TableName(("sales",), "orders")
    base = catalog.load(name).metadata
    changes = [TableCommit.of(name, base, next_snapshot(base)).document() for _ in range(2)]
    assert {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None} in changes[1]["requirements"]
    for change in changes:
        request = Request(
            f"{server.uri}/v1/main/namespaces/sales/tables/orders",
            json.dumps(change).encode(),
            {"Content-Type": "application/json"},
        )
        with urlopen(request, timeout=60) as answer:
            assert answer.status == 200
    assert len(catalog.load(name).metadata.snapshots) == 1
