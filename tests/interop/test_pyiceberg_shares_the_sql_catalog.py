"""PyIceberg's SqlCatalog and Esker on one database: what either makes, the other lists, loads and commits to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from catalog_contract import ORDERS, count_up, make
from postgres_server import PostgresServer
from tables import with_properties
from view_contract import EUROPE, make_view

from esker.catalogs.open_catalog import open_catalog
from esker.model.table_names import TableName
from esker.ports.catalog import Accepted, Catalog, Rejected
from esker.wiring import lake_over

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

sql = pytest.importorskip("pyiceberg.catalog.sql")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of its own, by a URI that both read alike."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/catalog.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.uri(server.new_database()).replace("postgresql:", "postgresql+psycopg:")


@pytest.fixture
def ours(tmp_path: Path, database: str) -> Catalog:
    return open_catalog(database, warehouse=str(tmp_path / "ours"), allowed_roots=[str(tmp_path / "theirs")])


@pytest.fixture
def theirs(tmp_path: Path, database: str) -> Iterator[sql.SqlCatalog]:
    catalog = sql.SqlCatalog("default", uri=database, warehouse=f"file://{tmp_path}/theirs")
    yield catalog
    catalog.engine.dispose()


def their_table(theirs: sql.SqlCatalog, name: str = "sales.orders") -> object:
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField

    return theirs.create_table(name, Schema(NestedField(1, "id", LongType(), required=True)))


def test_a_table_of_theirs_is_listed_loaded_and_committed_to(ours: Catalog, theirs: sql.SqlCatalog) -> None:
    theirs.create_namespace("sales", {"owner": "them"})
    table = their_table(theirs)
    assert ours.namespaces() == (("sales",),)
    assert ours.namespace_properties(("sales",)) == {"owner": "them"}
    assert ours.tables(("sales",)) == (ORDERS,)
    state = ours.load(ORDERS)
    assert state.metadata.uuid == str(table.metadata.table_uuid)  # type: ignore[attr-defined]
    outcome = ours.swap(ORDERS, state, with_properties(state.metadata, {"by": "us"}))
    assert isinstance(outcome, Accepted), outcome
    assert table.refresh().properties["by"] == "us"  # type: ignore[attr-defined]


def test_a_table_of_ours_is_listed_loaded_and_committed_to(ours: Catalog, theirs: sql.SqlCatalog) -> None:
    ours.create_namespace(("sales",), {"owner": "us"})
    made = make(ours)
    assert theirs.list_namespaces() == [("sales",)]
    assert theirs.load_namespace_properties("sales")["owner"] == "us"
    assert theirs.list_tables("sales") == [("sales", "orders")]
    table = theirs.load_table("sales.orders")
    assert str(table.metadata.table_uuid) == made.metadata.uuid
    assert [field.name for field in table.schema().fields] == ["id", "name"]
    with table.transaction() as transaction:
        transaction.set_properties(by="them")
    now = ours.load(ORDERS, made)
    assert now.metadata.properties == {"by": "them"}
    assert now.metadata.metadata_log[-1].metadata_file == made.metadata_location


def test_a_stale_writer_loses_whoever_it_is(
    ours: Catalog, theirs: sql.SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table.update import SetPropertiesUpdate

    base = make(ours)
    stale = theirs.load_table("sales.orders")
    theirs.load_table("sales.orders").transaction().set_properties(first="them").commit_transaction()
    assert isinstance(ours.swap(ORDERS, base, with_properties(base.metadata, {"first": "us"})), Rejected)
    count_up(ours, ORDERS, 1)
    monkeypatch.setattr(theirs, "load_table", lambda _: stale)
    with pytest.raises(CommitFailedException, match="updated by another process"):
        theirs.commit_table(stale, (), (SetPropertiesUpdate(updates={"x": "y"}),))
    assert ours.load(ORDERS).metadata.properties == {"first": "them", "n": "1"}


def test_both_write_rows_in_turns(ours: Catalog, theirs: sql.SqlCatalog) -> None:
    import pyarrow as pa
    from pyiceberg.types import StringType

    theirs.create_namespace("sales")
    first = theirs.create_table("sales.orders", pa.schema([("id", pa.int64())]))
    first.append(pa.table({"id": pa.array([0], pa.int64())}))
    lake = lake_over(ours)
    for turn in range(1, 7):
        data = pa.table({"id": pa.array([turn], pa.int64())})
        if turn % 2:
            lake.table("sales.orders").append(data)
        else:
            theirs.load_table("sales.orders").append(data)
        expected = list(range(turn + 1))
        assert sorted(lake.table("sales.orders").to_arrow()["id"].to_pylist()) == expected
        assert sorted(theirs.load_table("sales.orders").scan().to_arrow()["id"].to_pylist()) == expected
    lake.table("sales.orders").delete("id < 3")
    assert sorted(theirs.load_table("sales.orders").scan().to_arrow()["id"].to_pylist()) == [3, 4, 5, 6]
    assert len(lake.table("sales.orders").snapshots) == 8
    theirs.load_table("sales.orders").delete("id == 4")
    assert sorted(lake.table("sales.orders").to_arrow()["id"].to_pylist()) == [3, 5, 6]
    with theirs.load_table("sales.orders").update_schema() as update:
        update.add_column("note", StringType())
    noted = pa.table({"id": pa.array([7], pa.int64()), "note": ["ours"]})
    lake.table("sales.orders").append(noted)
    theirs.load_table("sales.orders").overwrite(noted.set_column(1, "note", [["theirs"]]), "id == 7")
    found = lake.table("sales.orders").to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["note"]) for row in found] == [(3, None), (5, None), (6, None), (7, "theirs")]


def test_nested_namespaces_are_the_same_for_both(ours: Catalog, theirs: sql.SqlCatalog) -> None:
    theirs.create_namespace("a.b")
    their_table(theirs, "a.b.t")
    make(ours, TableName(("a", "c"), "u"))
    assert ours.namespaces() == (("a",), ("a", "b"), ("a", "c"))
    assert ours.load(TableName(("a", "b"), "t")).metadata.schema.find("id").required
    assert sorted(theirs.list_namespaces("a")) == [("a", "b"), ("a", "c")]
    assert theirs.load_table("a.c.u").name() == ("a", "c", "u")


def test_renames_and_drops_are_seen_by_both(ours: Catalog, theirs: sql.SqlCatalog) -> None:
    made = make(ours)
    theirs.rename_table("sales.orders", "sales.renamed")
    renamed = TableName(("sales",), "renamed")
    assert ours.load(renamed).metadata.uuid == made.metadata.uuid
    ours.rename(renamed, ORDERS)
    assert theirs.table_exists("sales.orders")
    ours.drop(ORDERS)
    assert not theirs.table_exists("sales.orders")
    theirs.register_table("sales.orders", made.metadata_location)
    assert ours.load(ORDERS).metadata.uuid == made.metadata.uuid
    theirs.drop_table("sales.orders")
    theirs.drop_namespace("sales")
    assert ours.namespaces() == ()


def test_a_namespace_that_holds_a_table_of_theirs_is_not_dropped(ours: Catalog, theirs: sql.SqlCatalog) -> None:
    from esker.errors import InvalidInput

    theirs.create_namespace("sales")
    their_table(theirs)
    with pytest.raises(InvalidInput, match=r"it holds sales\.orders"):
        ours.drop_namespace(("sales",))


def test_a_purge_of_their_table_removes_every_file_of_it(ours: Catalog, theirs: sql.SqlCatalog, tmp_path: Path) -> None:
    import pyarrow as pa

    from esker.lake import Lake
    from esker.table import Table
    from esker.wiring import workings_on

    theirs.create_namespace("sales")
    data = pa.table({"id": [1, 2, 3]})
    table = theirs.create_table("sales.orders", data.schema)
    for _ in range(3):
        table.append(data)
    table.overwrite(data)
    neighbour = theirs.create_table("sales.neighbour", data.schema)
    neighbour.append(data)
    lake = Lake(
        catalog=ours,
        open_table=lambda name, state: Table(
            name=str(name), state=state, workings=workings_on(ours.storage()), reload=lambda: ours.load(name)
        ),
    )
    lake.drop_table("sales.orders", purge=True)
    assert not theirs.table_exists("sales.orders")
    assert [file for file in (tmp_path / "theirs" / "sales" / "orders").rglob("*") if file.is_file()] == []
    assert theirs.load_table("sales.neighbour").scan().to_arrow().num_rows == 3


def test_a_view_of_ours_is_no_table_of_theirs_and_hides_none(ours: Catalog, theirs: sql.SqlCatalog) -> None:
    from pyiceberg.exceptions import NoSuchTableError

    made = make(ours)
    make_view(ours)
    assert theirs.list_tables("sales") == [("sales", "orders")]
    assert str(theirs.load_table("sales.orders").metadata.table_uuid) == made.metadata.uuid
    with pytest.raises(NoSuchTableError):
        theirs.load_table("sales.europe")
    their_table(theirs, "sales.theirs")
    assert ours.tables(("sales",)) == (ORDERS, TableName(("sales",), "theirs"))
    assert ours.view_catalog().views(("sales",)) == (EUROPE,)
    assert ours.view_catalog().load_view(EUROPE).metadata.current_version.sql() == "SELECT id, name FROM orders"
