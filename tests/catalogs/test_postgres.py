"""A PostgreSQL database as catalog: what every catalog promises, and what a server may answer."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from catalog_contract import ORDERS, CatalogContract, all_at_once, count_up, make
from postgres_server import PostgresServer
from s3_server import S3Server
from tables import empty_table, with_properties
from view_contract import ViewContract, make_view

import esker
from esker.catalogs.open_catalog import open_catalog
from esker.catalogs.postgres import PostgresSession
from esker.errors import InvalidInput, NoSuchNamespace, NoSuchTable, StorageFailed, Unsupported
from esker.model.table_names import TableName


class TestPostgresCatalog(CatalogContract):
    @pytest.fixture
    def uri(self, tmp_path: Path, postgres: PostgresServer) -> str:
        return postgres.new_catalog(tmp_path)


class TestPostgresViews(ViewContract):
    @pytest.fixture
    def uri(self, tmp_path: Path, postgres: PostgresServer) -> str:
        return postgres.new_catalog(tmp_path)


def test_looking_makes_no_tables_and_the_first_write_makes_those_that_engines_share(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    database = postgres.new_database()
    catalog = open_catalog(postgres.uri(database, warehouse=str(tmp_path)))
    assert catalog.namespaces() == ()
    with pytest.raises(NoSuchTable, match=r"no table sales\.orders"):
        catalog.drop(ORDERS)
    look = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1"
    assert postgres.run(look, database=database) == []
    made = make(catalog)
    assert postgres.run(look, database=database) == [("iceberg_namespace_properties",), ("iceberg_tables",)]
    assert postgres.run("SELECT * FROM iceberg_tables", database=database) == [
        ("default", "sales", "orders", made.metadata_location, None, "TABLE")
    ]
    columns = postgres.run(
        "SELECT column_name, character_maximum_length, is_nullable FROM information_schema.columns"
        " WHERE table_name = 'iceberg_tables' ORDER BY ordinal_position",
        database=database,
    )
    assert columns == [
        ("catalog_name", 255, "NO"),
        ("table_namespace", 255, "NO"),
        ("table_name", 255, "NO"),
        ("metadata_location", 1000, "YES"),
        ("previous_metadata_location", 1000, "YES"),
        ("iceberg_type", 5, "YES"),
    ]


def test_eight_first_writers_make_the_tables_once(tmp_path: Path, postgres: PostgresServer) -> None:
    database = postgres.new_database()
    uri = postgres.uri(database, warehouse=str(tmp_path))
    all_at_once(*(lambda n=n: open_catalog(uri).create_namespace((f"n{n}",), {}) for n in range(8)))  # type: ignore[misc]
    assert open_catalog(uri).namespaces() == tuple((f"n{n}",) for n in range(8))


def test_a_database_of_the_first_layout_is_used_as_it_is(tmp_path: Path, postgres: PostgresServer) -> None:
    database = postgres.new_database()
    postgres.run(
        "CREATE TABLE iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL,"
        " table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000),"
        " PRIMARY KEY (catalog_name, table_namespace, table_name))",
        "CREATE TABLE iceberg_namespace_properties (catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255)"
        " NOT NULL, property_key VARCHAR(255), property_value VARCHAR(1000),"
        " PRIMARY KEY (catalog_name, namespace, property_key))",
        database=database,
    )
    catalog = open_catalog(postgres.uri(database, warehouse=str(tmp_path)))
    make(catalog)
    count_up(catalog, ORDERS, 1)
    assert len(postgres.run("SELECT * FROM iceberg_tables", database=database)[0]) == 5
    with pytest.raises(Unsupported, match="ALTER TABLE iceberg_tables ADD COLUMN iceberg_type"):
        make_view(catalog)


def test_a_drop_of_a_namespace_and_a_new_table_in_it_never_both_succeed(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have looked before either changes anything: what one has read must still hold when it writes."""
    catalog = open_catalog(postgres.new_catalog(tmp_path))
    make(catalog, TableName(("other",), "t"))
    catalog.create_namespace(ORDERS.namespace, {})
    location = catalog.location_for(ORDERS)
    meeting = threading.Barrier(2)
    met = threading.local()
    change = PostgresSession.change

    def change_together(session: PostgresSession, *statement: Any) -> int:
        if not getattr(met, "once", False):
            met.once = True
            meeting.wait(30)
        return change(session, *statement)

    monkeypatch.setattr(PostgresSession, "change", change_together)

    def outcome(act: Callable[[], object]) -> str:
        try:
            act()
        except (NoSuchNamespace, InvalidInput) as error:
            return type(error).__name__
        return "done"

    outcomes = all_at_once(
        lambda: outcome(lambda: catalog.create(ORDERS, empty_table(location))),
        lambda: outcome(lambda: catalog.drop_namespace(ORDERS.namespace)),
    )
    assert outcomes in (["done", "InvalidInput"], ["NoSuchNamespace", "done"])
    assert (ORDERS.namespace in catalog.namespaces()) == (outcomes[0] == "done")


def test_a_user_without_rights_is_told_so_and_a_missing_database_too(tmp_path: Path, postgres: PostgresServer) -> None:
    database = postgres.new_database()
    postgres.run("DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN")
    owner = open_catalog(postgres.uri(database, warehouse=str(tmp_path)))
    make(owner)
    postgres.run("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader", database=database)
    reader = open_catalog(postgres.uri(database, warehouse=str(tmp_path), user="reader"))
    base = reader.load(ORDERS)
    with pytest.raises(StorageFailed, match=r"permission denied .* give this user the right to do so") as refused:
        reader.swap(ORDERS, base, with_properties(base.metadata, {"a": "b"}))
    assert not refused.value.retryable
    missing = open_catalog(postgres.uri("nothing_here", warehouse=str(tmp_path)))
    with pytest.raises(StorageFailed, match=r"does not exist; .* check the names") as absent:
        missing.namespaces()
    assert not absent.value.retryable


def test_the_tables_may_be_in_an_object_store(postgres: PostgresServer, s3: S3Server, bucket: str) -> None:
    """The pointer in PostgreSQL, the files in S3, and two tables changed in one step."""
    database = postgres.new_database()
    lake = esker.connect(postgres.uri(database), warehouse=f"{bucket}/warehouse", properties=s3.properties)
    lake.create_namespace("sales")
    for name in ("sales.orders", "sales.totals"):
        lake.create_table(name, "id bigint")
    with lake.transaction() as tx:
        tx.table("sales.orders").append(pa.table({"id": [1, 2]}))
        tx.table("sales.totals").append(pa.table({"id": [3]}))
    assert lake.address is not None
    again = esker.connect(**pickle.loads(pickle.dumps(dict(lake.address))))
    assert sorted(again.table("sales.orders").to_arrow()["id"].to_pylist()) == [1, 2]
    assert again.table("sales.totals").location.startswith(f"{bucket}/warehouse/")


def test_a_warehouse_must_be_named(postgres: PostgresServer) -> None:
    with pytest.raises(InvalidInput, match=r"without a warehouse: name the place of its tables, with warehouse="):
        open_catalog(postgres.uri())


def test_without_the_driver_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(Unsupported, match=r"pip install 'esker\[postgres\]'"):
        open_catalog(f"postgresql://host/db?warehouse={tmp_path}").namespaces()


def test_a_catalog_may_be_used_after_a_fork_on_both_sides(tmp_path: Path, postgres: PostgresServer) -> None:
    """A child leaves the connections of its parent alone."""
    uri = postgres.new_catalog(tmp_path)
    program = (
        "import os, sys\n"
        "from catalog_contract import ORDERS, count_up, make\n"
        "from esker.catalogs.open_catalog import open_catalog\n"
        "catalog = open_catalog(sys.argv[1])\n"
        "make(catalog)\n"
        "child = os.fork()\n"
        "count_up(catalog, ORDERS, 5)\n"
        "if child == 0:\n"
        "    os._exit(0)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n"
        "count_up(catalog, ORDERS, 5)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", program, uri], env=environment, check=True, timeout=120)
    assert open_catalog(uri).load(ORDERS).metadata.properties == {"n": "15"}
