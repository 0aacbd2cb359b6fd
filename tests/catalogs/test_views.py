"""Views in each catalog: those that hold them keep one contract, a directory says that it holds none."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from catalog_contract import ORDERS, make
from view_contract import EUROPE, ViewContract, make_view
from views import simple_view

from esker.catalogs.open_catalog import open_catalog
from esker.errors import Corrupt, InvalidInput, NoSuchNamespace, NoSuchView, Unsupported
from esker.model.table_names import TableName


class TestMemoryViews(ViewContract):
    @pytest.fixture
    def uri(self) -> str:
        return "memory:"


class TestSqliteViews(ViewContract):
    @pytest.fixture
    def uri(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/lake/catalog.db"


def _run(file: Path, statement: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def test_a_directory_has_no_views_and_makes_none(tmp_path: Path) -> None:
    catalog = open_catalog(str(tmp_path))
    catalog.create_namespace(("sales",), {})
    views = catalog.view_catalog()
    assert views.views(("sales",)) == ()
    with pytest.raises(NoSuchNamespace, match="no namespace nowhere"):
        views.views(("nowhere",))
    with pytest.raises(Unsupported, match=r"cannot create view sales\.europe: a directory catalog has only tables"):
        views.create_view(EUROPE, simple_view())
    for verb in (views.load_view, views.drop_view):
        with pytest.raises(NoSuchView, match=r"no view sales\.europe: a directory catalog has only tables"):
            verb(EUROPE)


def test_the_row_of_a_view_is_that_of_the_jdbc_catalog(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    made = make_view(open_catalog(f"sqlite:///{file}"))
    assert _run(file, "SELECT * FROM iceberg_tables") == [
        ("default", "sales", "europe", made.metadata_location, None, "VIEW")
    ]
    assert json.loads(Path(made.metadata_location).read_bytes())["view-uuid"] == made.metadata.uuid


def test_a_database_without_room_for_views_says_so_and_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    catalog = open_catalog(f"sqlite:///{file}")
    make(catalog, ORDERS)
    _run(file, "ALTER TABLE iceberg_tables DROP COLUMN iceberg_type")
    with pytest.raises(Unsupported, match=r"no column for them.*ADD COLUMN iceberg_type VARCHAR\(5\)"):
        make_view(catalog)
    assert catalog.view_catalog().views(("sales",)) == ()
    assert catalog.tables(("sales",)) == (ORDERS,)
    _run(file, "ALTER TABLE iceberg_tables ADD COLUMN iceberg_type VARCHAR(5)")
    make_view(catalog)
    assert (catalog.tables(("sales",)), catalog.view_catalog().views(("sales",))) == ((ORDERS,), (EUROPE,))


def test_a_refused_view_leaves_no_file_behind(tmp_path: Path) -> None:
    catalog = open_catalog(f"sqlite:///{tmp_path}/catalog.db")
    make(catalog, ORDERS)
    _run(tmp_path / "catalog.db", "ALTER TABLE iceberg_tables DROP COLUMN iceberg_type")
    with pytest.raises(Unsupported):
        make_view(catalog)
    assert list((tmp_path / "warehouse/sales").rglob("europe*/**/*.json")) == []


def test_a_view_may_ask_for_gzip_and_another_folder(tmp_path: Path) -> None:
    catalog = open_catalog(f"sqlite:///{tmp_path}/catalog.db")
    elsewhere = f"{tmp_path}/warehouse/elsewhere"
    made = make_view(catalog, **{"write.metadata.compression-codec": "gzip", "write.metadata.path": elsewhere})
    assert made.metadata_location.startswith(elsewhere)
    assert made.metadata_location.endswith(".gz.metadata.json")
    assert catalog.view_catalog().load_view(EUROPE).metadata.uuid == made.metadata.uuid


def test_a_view_whose_metadata_lies_about_its_place_writes_nowhere_else(tmp_path: Path) -> None:
    catalog = open_catalog(f"sqlite:///{tmp_path}/lake/catalog.db")
    made = make_view(catalog)
    file = Path(made.metadata_location)
    file.write_text(file.read_text().replace(made.metadata.location, f"{tmp_path}/outside"))
    views = catalog.view_catalog()
    base = views.load_view(EUROPE)
    with pytest.raises(InvalidInput, match=r"it is located outside the warehouse .* allowed_roots="):
        views.swap_view(EUROPE, base, base.metadata)
    assert not (tmp_path / "outside").exists()


def test_a_pointer_to_a_tables_metadata_is_no_view(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    catalog = open_catalog(f"sqlite:///{file}")
    make(catalog, ORDERS)
    _run(file, "UPDATE iceberg_tables SET iceberg_type = 'VIEW'")
    with pytest.raises(Corrupt, match="it describes a table, not a view"):
        catalog.view_catalog().load_view(ORDERS)


def test_catalogs_in_one_database_have_views_of_their_own(tmp_path: Path) -> None:
    first = open_catalog(f"sqlite:///{tmp_path}/catalog.db?catalog_name=a")
    second = open_catalog(f"sqlite:///{tmp_path}/catalog.db?catalog_name=b")
    make_view(first)
    second.create_namespace(("sales",), {})
    assert (first.view_catalog().catalog_name(), second.view_catalog().catalog_name()) == ("a", "b")
    assert second.view_catalog().views(("sales",)) == ()
    make_view(second, TableName(("sales",), "europe"))
