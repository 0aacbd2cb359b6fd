"""A SQLite file as catalog: what every catalog promises, and what may go wrong in a database."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import killed_commit
import pytest
from catalog_contract import ORDERS, CatalogContract, count_up, make
from tables import empty_table, with_properties

from esker.catalogs.open_catalog import open_catalog
from esker.catalogs.pointer_catalog import PointerCatalog
from esker.catalogs.sql_pointers import SqlPointers
from esker.catalogs.sqlite import SqliteDatabase
from esker.catalogs.warehouse import Warehouse
from esker.errors import AlreadyExists, Conflict, Corrupt, InvalidInput, NoSuchTable, OutcomeUnknown
from esker.model.table_names import TableName
from esker.ports.catalog import Accepted, Catalog, Rejected, Unanswered
from esker.storage.local import LocalStorage


class TestSqliteCatalog(CatalogContract):
    @pytest.fixture
    def uri(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/lake/catalog.db"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "catalog.db"


@pytest.fixture
def catalog(file: Path) -> Catalog:
    return open_catalog(f"sqlite:///{file}")


def run(file: Path, *statements: str) -> list[tuple[Any, ...]]:
    """Statements on a connection of their own; what the last one found."""
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        found: list[tuple[Any, ...]] = []
        for statement in statements:
            found = connection.execute(statement).fetchall()
        return found
    finally:
        connection.close()


def test_looking_makes_no_database(file: Path, catalog: Catalog) -> None:
    assert catalog.namespaces() == ()
    for verb in (catalog.load, catalog.drop):
        with pytest.raises(NoSuchTable, match=r"no table sales\.orders"):
            verb(ORDERS)
    with pytest.raises(NoSuchTable, match=r"no table sales\.orders"):
        catalog.rename(ORDERS, ORDERS)
    assert list(file.parent.iterdir()) == []


def test_the_tables_are_those_that_other_engines_share(file: Path, catalog: Catalog) -> None:
    made = make(catalog)
    assert run(file, "SELECT * FROM iceberg_tables") == [
        ("default", "sales", "orders", made.metadata_location, None, "TABLE")
    ]
    assert run(file, "SELECT * FROM iceberg_namespace_properties") == [("default", "sales", "exists", "true")]
    count_up(catalog, ORDERS, 1)
    now = catalog.load(ORDERS).metadata_location
    assert run(file, "SELECT metadata_location, previous_metadata_location FROM iceberg_tables") == [
        (now, made.metadata_location)
    ]


def test_a_database_of_the_first_layout_is_used_as_it_is(file: Path, catalog: Catalog) -> None:
    run(
        file,
        "CREATE TABLE iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL,"
        " table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000),"
        " PRIMARY KEY (catalog_name, table_namespace, table_name))",
        "CREATE TABLE iceberg_namespace_properties (catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255)"
        " NOT NULL, property_key VARCHAR(255), property_value VARCHAR(1000),"
        " PRIMARY KEY (catalog_name, namespace, property_key))",
    )
    made = make(catalog)
    count_up(catalog, ORDERS, 1)
    assert catalog.tables(("sales",)) == (ORDERS,)
    assert len(run(file, "SELECT * FROM iceberg_tables")[0]) == 5
    # its owner upgrades it under our feet
    run(file, "ALTER TABLE iceberg_tables ADD COLUMN iceberg_type VARCHAR(5)")
    assert catalog.load(ORDERS).metadata.uuid == made.metadata.uuid
    make(catalog, TableName(("sales",), "later"))
    assert [row[5] for row in run(file, "SELECT * FROM iceberg_tables ORDER BY table_name")] == ["TABLE", None]


def test_a_view_is_no_table_but_its_name_is_taken(file: Path, catalog: Catalog) -> None:
    make(catalog, TableName(("sales",), "other"))
    run(file, "INSERT INTO iceberg_tables VALUES ('default', 'sales', 'orders', '/v.json', NULL, 'VIEW')")
    assert catalog.tables(("sales",)) == (TableName(("sales",), "other"),)
    for verb in (catalog.load, catalog.drop):
        with pytest.raises(NoSuchTable, match=r"no table sales\.orders"):
            verb(ORDERS)
    location = catalog.location_for(ORDERS)
    with pytest.raises(AlreadyExists, match="a view of that name exists"):
        catalog.create(ORDERS, empty_table(location))
    with pytest.raises(AlreadyExists, match="a view of that name exists"):
        catalog.rename(TableName(("sales",), "other"), ORDERS)
    assert not Path(location).joinpath("metadata").is_dir() or not any(Path(location, "metadata").iterdir())


def test_catalogs_of_other_names_in_one_database_do_not_see_each_other(file: Path, catalog: Catalog) -> None:
    made = make(catalog)
    other = open_catalog(f"sqlite:///{file}?catalog_name=prod")
    assert other.namespaces() == ()
    theirs = make(other)
    assert theirs.metadata.location != made.metadata.location
    other.drop(ORDERS)
    assert catalog.load(ORDERS).metadata.uuid == made.metadata.uuid


def test_a_namespace_that_another_engine_made_with_a_table_alone_exists(file: Path, catalog: Catalog) -> None:
    make(catalog)
    run(file, "DELETE FROM iceberg_namespace_properties")
    assert catalog.namespaces() == (("sales",),)
    assert catalog.tables(("sales",)) == (ORDERS,)
    make(catalog, TableName(("sales",), "second"))


def test_the_row_that_says_a_namespace_is_there_is_the_catalogs_own(catalog: Catalog) -> None:
    with pytest.raises(InvalidInput, match="the catalog uses it itself"):
        catalog.create_namespace(("a",), {"exists": "no"})
    with pytest.raises(InvalidInput, match="a value 1000"):
        catalog.create_namespace(("a",), {"comment": "x" * 1001})
    assert catalog.namespaces() == ()


def test_a_row_without_a_location_is_named(file: Path, catalog: Catalog) -> None:
    make(catalog)
    run(file, "UPDATE iceberg_tables SET metadata_location = NULL")
    with pytest.raises(Corrupt, match=r"the row of table sales\.orders has no metadata file"):
        catalog.load(ORDERS)


def test_a_location_longer_than_its_column_is_refused(catalog: Catalog, tmp_path: Path) -> None:
    catalog.create_namespace(("sales",), {})
    deep = "/".join(["d" * 200] * 5)
    with pytest.raises(InvalidInput, match="it has over 1000 characters"):
        catalog.create(ORDERS, empty_table(f"{tmp_path}/warehouse/{deep}"))
    assert catalog.tables(("sales",)) == ()
    assert not list(tmp_path.rglob("*.json"))


def test_a_file_that_is_no_database_is_corrupt(file: Path, catalog: Catalog) -> None:
    file.write_bytes(b"this is no database at all" * 100)
    with pytest.raises(Corrupt, match="file is not a database") as raised:
        catalog.namespaces()
    assert raised.value.file == str(file)


def test_a_directory_in_place_of_the_database_is_refused(file: Path, catalog: Catalog) -> None:
    file.mkdir()
    with pytest.raises(InvalidInput, match="cannot list namespaces"):
        catalog.namespaces()


# --- faults -----------------------------------------------------------------------------------------------------


def faulty(file: Path, connection: type[sqlite3.Connection], busy_seconds: float = 0.05) -> PointerCatalog:
    storage = LocalStorage(roots=[file.parent / "warehouse"])
    warehouse = Warehouse(str(file.parent / "warehouse"), storage, fence=storage)
    database = SqliteDatabase(file, connection=connection, busy_seconds=busy_seconds)
    return PointerCatalog(SqlPointers(database, "default"), warehouse)


class DiesBeforeCommit(sqlite3.Connection):
    """The commit is sent and never done."""

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement == "COMMIT":
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(statement, *values)


class DiesAfterCommit(sqlite3.Connection):
    """The commit is done and its answer lost."""

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        cursor = super().execute(statement, *values)
        if statement == "COMMIT":
            raise sqlite3.OperationalError("disk I/O error")
        return cursor


class DiesInUpdate(sqlite3.Connection):
    """The disk is full before the commit."""

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement.startswith(("UPDATE", "INSERT", "DELETE")):
            raise sqlite3.OperationalError("database or disk is full")
        return super().execute(statement, *values)


@pytest.mark.parametrize(("connection", "happened"), [(DiesBeforeCommit, False), (DiesAfterCommit, True)])
def test_f24_an_error_once_the_commit_was_sent_is_no_answer_and_keeps_every_file(
    file: Path, catalog: Catalog, connection: type[sqlite3.Connection], happened: bool
) -> None:
    base = make(catalog)
    outcome = faulty(file, connection).swap(ORDERS, base, with_properties(base.metadata, {"a": "b"}))
    assert isinstance(outcome, Unanswered)
    assert "disk I/O error" in outcome.why
    assert outcome.metadata_location is not None
    assert catalog.storage().exists(outcome.metadata_location)
    assert (catalog.load(ORDERS).metadata_location == outcome.metadata_location) is happened
    count_up(catalog, ORDERS, 1)


@pytest.mark.parametrize(("connection", "happened"), [(DiesBeforeCommit, False), (DiesAfterCommit, True)])
def test_f24_a_create_whose_commit_is_not_answered_keeps_its_file(
    file: Path, catalog: Catalog, connection: type[sqlite3.Connection], happened: bool
) -> None:
    catalog.create_namespace(("sales",), {})
    location = catalog.location_for(ORDERS)
    with pytest.raises(OutcomeUnknown, match="cannot tell whether it happened"):
        faulty(file, connection).create(ORDERS, empty_table(location))
    assert len(list(Path(location, "metadata").iterdir())) == 1
    assert catalog.tables(("sales",)) == ((ORDERS,) if happened else ())


def test_f25_a_full_disk_before_the_commit_is_a_failure_that_changes_nothing(file: Path, catalog: Catalog) -> None:
    base = make(catalog)
    files = list(Path(base.metadata.location).rglob("*"))
    with pytest.raises(InvalidInput, match="database or disk is full"):
        faulty(file, DiesInUpdate).swap(ORDERS, base, with_properties(base.metadata, {"a": "b"}))
    assert catalog.load(ORDERS).metadata_location == base.metadata_location
    assert list(Path(base.metadata.location).rglob("*")) == files


def test_f25_a_database_that_stays_locked_rejects_the_swap_and_nothing_is_left(file: Path, catalog: Catalog) -> None:
    base = make(catalog)
    files = list(Path(base.metadata.location).rglob("*"))
    impatient = faulty(file, sqlite3.Connection)
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        outcome = impatient.swap(ORDERS, base, with_properties(base.metadata, {"a": "b"}))
        with pytest.raises(Conflict, match=r"stayed locked for 0\.05 s; nothing was changed"):
            impatient.create_namespace(("other",), {})
        assert impatient.load(ORDERS).metadata.uuid == base.metadata.uuid, "readers do not wait for a writer"
    finally:
        holder.execute("ROLLBACK")
        holder.close()
    assert isinstance(outcome, Rejected)
    assert "stayed locked" in outcome.why
    assert list(Path(base.metadata.location).rglob("*")) == files
    assert isinstance(impatient.swap(ORDERS, base, with_properties(base.metadata, {"a": "b"})), Accepted)


def test_a_commit_that_readers_hold_up_is_rejected_and_undone(file: Path) -> None:
    """Without a write-ahead log a reader can make COMMIT itself busy, which SQLite lets us undo."""
    base = make(open_catalog(f"sqlite:///{file}"))
    run(file, "PRAGMA journal_mode = DELETE")
    impatient = faulty(file, sqlite3.Connection)
    reader = sqlite3.connect(file, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM iceberg_tables").fetchall()
    try:
        outcome = impatient.swap(ORDERS, base, with_properties(base.metadata, {"a": "b"}))
    finally:
        reader.close()
    assert isinstance(outcome, Rejected), outcome
    assert impatient.load(ORDERS).metadata_location == base.metadata_location
    assert isinstance(impatient.swap(ORDERS, base, with_properties(base.metadata, {"a": "b"})), Accepted)


def test_a_database_removed_and_made_anew_is_noticed(file: Path, catalog: Catalog) -> None:
    make(catalog)
    for left in file.parent.glob("catalog.db*"):
        left.unlink()
    assert catalog.namespaces() == ()
    with pytest.raises(NoSuchTable, match=r"no table sales\.orders"):
        catalog.load(ORDERS)
    make(catalog)
    assert open_catalog(f"sqlite:///{file}").tables(("sales",)) == (ORDERS,)


def test_connections_are_closed_when_the_catalog_goes(file: Path) -> None:
    closed: list[int] = []

    class Watched(sqlite3.Connection):
        def close(self) -> None:
            closed.append(1)
            super().close()

    catalog = faulty(file, Watched)
    make(catalog)
    threads = [threading.Thread(target=catalog.load, args=(ORDERS,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    del catalog, threads, thread
    assert closed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_catalog_may_be_used_after_a_fork_on_both_sides(file: Path, catalog: Catalog) -> None:
    make(catalog)
    child = os.fork()
    if child == 0:
        try:
            count_up(catalog, ORDERS, 5)
            os._exit(0)
        except BaseException:
            os._exit(1)
    count_up(catalog, ORDERS, 5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert catalog.load(ORDERS).metadata.properties == {"n": "10"}


def test_f06_a_process_killed_in_a_commit_leaves_the_old_or_the_new_version(file: Path, catalog: Catalog) -> None:
    base = make(catalog)
    program = Path(killed_commit.__file__)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for when, expected in (("before", {}), ("after", {"by": "after"})):
        done = subprocess.run([sys.executable, program, file, when], env=environment, check=False)
        assert done.returncode == -signal.SIGKILL
        assert catalog.load(ORDERS).metadata.properties == expected
    count_up(catalog, ORDERS, 1)
    assert catalog.load(ORDERS).metadata.uuid == base.metadata.uuid
