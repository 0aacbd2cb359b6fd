"""What every catalog that holds views promises. Inherit the class and give it a ``uri``."""

from __future__ import annotations

from pathlib import Path

import pytest
from catalog_contract import ORDERS, all_at_once, make
from tables import empty_table
from views import definition, simple_view

from esker.catalogs.open_catalog import open_catalog
from esker.errors import AlreadyExists, InvalidInput, NoSuchNamespace, NoSuchTable, NoSuchView
from esker.model.table_names import TableName
from esker.ports.catalog import Catalog, Rejected, ViewAccepted, ViewState
from esker.write.views.view_versions import commit_view, replaced, with_properties

EUROPE = TableName(("sales",), "europe")


def make_view(catalog: Catalog, name: TableName = EUROPE, **properties: str) -> ViewState:
    """A new view, and its namespace if it needs one."""
    if name.namespace not in catalog.namespaces():
        catalog.create_namespace(name.namespace, {})
    return catalog.view_catalog().create_view(name, simple_view(catalog.location_for(name), **properties))


class ViewContract:
    """Laws of ``ports.view_catalog.ViewCatalog``."""

    # What differs from server to server of the REST catalog; each test names the server that needs it.
    compares_all = True  # of a view; Iceberg's own server compares its uuid alone
    places_views = True  # at a location of the caller's choice
    servers_own: tuple[str, ...] = ()  # the beginnings of properties that a server adds
    roots: tuple[str, ...] = ()  # places that every opening allows

    def open(self, uri: str, *allowed: str) -> Catalog:
        """The catalog as a user opens it."""
        return open_catalog(uri, allowed_roots=(*self.roots, *allowed))

    def own(self, state: ViewState) -> dict[str, str]:
        """The properties of a view that its users set."""
        found = state.metadata.properties.items()
        return {name: value for name, value in found if not name.startswith(self.servers_own or ("\0",))}

    @pytest.fixture
    def catalog(self, uri: str) -> Catalog:
        return self.open(uri)

    def test_a_view_is_made_listed_loaded_and_dropped(self, catalog: Catalog) -> None:
        made = make_view(catalog, comment="mine")
        views = catalog.view_catalog()
        assert views.views(("sales",)) == (EUROPE,)
        assert catalog.tables(("sales",)) == ()
        found = views.load_view(EUROPE)
        assert found.metadata_location == made.metadata_location
        assert (found.metadata.uuid, self.own(found)) == (made.metadata.uuid, {"comment": "mine"})
        views.drop_view(EUROPE)
        assert views.views(("sales",)) == ()
        with pytest.raises(NoSuchView, match=r"no view sales\.europe: the catalog has none of that name") as raised:
            views.load_view(EUROPE)
        assert raised.value.view == "sales.europe"

    def test_what_is_missing_is_said_to_be_missing(self, catalog: Catalog) -> None:
        catalog.create_namespace(("sales",), {})
        views = catalog.view_catalog()
        for verb in (views.load_view, views.drop_view):
            with pytest.raises(NoSuchView, match=r"no view sales\.europe"):
                verb(EUROPE)
        with pytest.raises(NoSuchView, match=r"no view sales\.europe"):
            views.rename_view(EUROPE, TableName(("sales",), "other"))
        with pytest.raises(NoSuchNamespace, match="no namespace nowhere"):
            views.views(("nowhere",))
        with pytest.raises(NoSuchNamespace, match="no namespace nowhere"):
            views.create_view(TableName(("nowhere",), "v"), simple_view())

    def test_a_name_is_a_tables_or_a_views_and_never_both(self, catalog: Catalog) -> None:
        table = make(catalog, ORDERS)
        make_view(catalog)
        views = catalog.view_catalog()
        with pytest.raises(AlreadyExists, match=r"cannot create view sales\.orders: a table of that name exists"):
            views.create_view(ORDERS, simple_view(catalog.location_for(ORDERS)))
        with pytest.raises(AlreadyExists, match=r"cannot create view sales\.europe: a view of that name exists"):
            views.create_view(EUROPE, simple_view(catalog.location_for(EUROPE)))
        with pytest.raises(AlreadyExists, match=r"cannot create table sales\.europe: a view of that name exists"):
            catalog.create(EUROPE, empty_table(catalog.location_for(EUROPE)))
        with pytest.raises(AlreadyExists, match=r"cannot create table sales\.europe: a view of that name exists"):
            catalog.register(EUROPE, table.metadata_location)
        with pytest.raises(AlreadyExists, match=r"cannot create table sales\.europe: a view of that name exists"):
            catalog.rename(ORDERS, EUROPE)
        with pytest.raises(AlreadyExists, match=r"cannot create view sales\.orders: a table of that name exists"):
            views.rename_view(EUROPE, ORDERS)
        assert (catalog.tables(("sales",)), views.views(("sales",))) == ((ORDERS,), (EUROPE,))

    def test_a_view_is_no_table_and_a_table_no_view(self, catalog: Catalog) -> None:
        make(catalog, ORDERS)
        make_view(catalog)
        views = catalog.view_catalog()
        for verb in (catalog.load, catalog.drop):
            with pytest.raises(NoSuchTable, match=r"no table sales\.europe: it is a view; lake\.sql reads it"):
                verb(EUROPE)
        with pytest.raises(NoSuchTable, match=r"no table sales\.europe: it is a view"):
            catalog.rename(EUROPE, TableName(("sales",), "other"))
        for verb in (views.load_view, views.drop_view):
            with pytest.raises(NoSuchView, match=r"no view sales\.orders: it is a table; lake\.table opens it"):
                verb(ORDERS)

    def test_a_namespace_with_a_view_in_it_stays(self, catalog: Catalog) -> None:
        make_view(catalog)
        with pytest.raises(InvalidInput, match=r"cannot drop namespace sales: it holds sales\.europe"):
            catalog.drop_namespace(("sales",))

    def test_a_swap_counts_only_on_what_is_current(self, catalog: Catalog) -> None:
        first = make_view(catalog)
        views = catalog.view_catalog()
        second = views.swap_view(EUROPE, first, replaced(first.metadata, definition("SELECT 2")))
        assert isinstance(second, ViewAccepted)
        assert views.load_view(EUROPE).metadata_location == second.state.metadata_location
        late = views.swap_view(EUROPE, first, replaced(first.metadata, definition("SELECT 3")))
        assert isinstance(late, Rejected)
        assert late.why.startswith("view sales.europe was changed, dropped or renamed")
        assert views.load_view(EUROPE).metadata.current_version.sql() == "SELECT 2"

    def test_a_views_uuid_never_changes(self, catalog: Catalog) -> None:
        first = make_view(catalog)
        other = simple_view(first.metadata.location)
        with pytest.raises(InvalidInput, match=rf"its uuid is {first.metadata.uuid}"):
            catalog.view_catalog().swap_view(EUROPE, first, other)

    def test_every_one_of_several_writers_lands_exactly_once(self, catalog: Catalog) -> None:
        if not self.compares_all:
            pytest.skip("this catalog compares a view's uuid alone, so that the last writer wins")
        make_view(catalog)
        views = catalog.view_catalog()

        def count_up() -> None:
            for _ in range(5):
                commit_view(
                    views,
                    EUROPE,
                    lambda base: with_properties(base, {"n": str(int(base.properties.get("n", "0")) + 1)}),
                )

        all_at_once(*[count_up] * 4)
        assert views.load_view(EUROPE).metadata.properties["n"] == "20"

    def test_of_several_makers_of_one_name_one_wins(self, catalog: Catalog) -> None:
        catalog.create_namespace(("sales",), {})

        def as_view() -> str:
            try:
                make_view(catalog)
            except AlreadyExists:
                return "lost"
            return "view"

        def as_table() -> str:
            try:
                make(catalog, EUROPE)
            except AlreadyExists:
                return "lost"
            return "table"

        outcomes = all_at_once(as_view, as_table, as_view, as_table)
        assert outcomes.count("lost") == 3
        held = len(catalog.tables(("sales",))) + len(catalog.view_catalog().views(("sales",)))
        assert held == 1

    def test_a_renamed_view_is_the_same_view(self, catalog: Catalog) -> None:
        made = make_view(catalog)
        views = catalog.view_catalog()
        catalog.create_namespace(("other",), {})
        moved = TableName(("other",), "europe")
        views.rename_view(EUROPE, moved)
        assert views.load_view(moved).metadata.uuid == made.metadata.uuid
        assert views.views(("sales",)) == ()

    def test_a_view_outside_the_warehouse_needs_an_allowed_root(
        self, catalog: Catalog, uri: str, tmp_path: Path
    ) -> None:
        place = f"{tmp_path}/outside/v"
        catalog.create_namespace(("sales",), {})
        with pytest.raises(InvalidInput, match=rf"cannot use {place} as the view's location: .* allowed_roots="):
            catalog.view_catalog().create_view(EUROPE, simple_view(place))
        assert catalog.view_catalog().views(("sales",)) == ()
        if not self.places_views:
            return
        allowing = self.open(uri, f"{tmp_path}/outside")
        if ("sales",) not in allowing.namespaces():
            allowing.create_namespace(("sales",), {})
        made = allowing.view_catalog().create_view(EUROPE, simple_view(place))
        assert made.metadata_location.startswith(f"{place}/metadata/")
        assert allowing.view_catalog().load_view(EUROPE).metadata.location == place
