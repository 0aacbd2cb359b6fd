"""A lake over any catalog: names in, tables out, and errors that say what is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tables import empty_table

import esker
from esker.catalogs.directory import DirectoryCatalog
from esker.catalogs.open_catalog import open_catalog
from esker.errors import AlreadyExists, InvalidInput, NoSuchNamespace, NoSuchTable, Unsupported
from esker.lake import Lake
from esker.model.table_names import TableName
from esker.ports.catalog import TableState
from esker.table import Table
from esker.wiring import workings_on


def lake_at(uri: str) -> Lake:
    catalog = open_catalog(uri)

    def open_table(name: TableName, state: TableState) -> Table:
        workings = workings_on(catalog.storage())
        return Table(name=str(name), state=state, workings=workings, reload=lambda: catalog.load(name))

    return Lake(catalog=catalog, open_table=open_table)


def make(lake: Lake, name: str, **properties: str) -> Table:
    parsed = TableName.parse(name)
    if ".".join(parsed.namespace) not in lake.namespaces():
        lake.create_namespace(".".join(parsed.namespace))
    lake.catalog.create(parsed, empty_table(lake.catalog.location_for(parsed), **properties))
    return lake.table(name)


@pytest.fixture(params=["memory:", "sqlite:///{tmp}/catalog.db", "file://{tmp}/lake"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return lake_at(request.param.format(tmp=tmp_path))


def test_namespaces_and_tables_go_by_dotted_names(lake: Lake) -> None:
    lake.create_namespace("sales")
    lake.create_namespace("a.b")
    make(lake, "sales.orders")
    make(lake, "a.b.orders")
    assert lake.namespaces() == ["a", "a.b", "sales"]
    assert lake.tables("sales") == ["sales.orders"]
    assert lake.tables("a") == []
    assert lake.tables() == ["a.b.orders", "sales.orders"]
    assert lake.table("a.b.orders").name == "a.b.orders"
    lake.drop_table("sales.orders")
    assert lake.tables("sales") == []


def test_a_table_refreshes_to_what_others_committed(lake: Lake) -> None:
    from catalog_contract import count_up

    table = make(lake, "sales.orders")
    count_up(lake.catalog, TableName(("sales",), "orders"), 1)
    assert table.properties == {}
    assert table.refresh().properties == {"n": "1"}


def test_a_missing_table_says_what_is_there(lake: Lake) -> None:
    make(lake, "sales.orders")
    make(lake, "sales.customers")
    with pytest.raises(NoSuchTable, match=r"no table sales\.ordres: .*; did you mean sales\.orders\?") as raised:
        lake.table("sales.ordres")
    assert raised.value.available == ["sales.customers", "sales.orders"]
    with pytest.raises(NoSuchTable, match=r"; sales has sales\.customers, sales\.orders"):
        lake.drop_table("sales.xyz")
    with pytest.raises(NoSuchTable, match="there is no such namespace either; the catalog has sales"):
        lake.table("warehouse.xyz")
    with pytest.raises(NoSuchTable, match=r"did you mean sales\.orders\?"):
        lake.drop_table("sales.order", purge=True)


def test_a_missing_namespace_says_what_is_there(lake: Lake) -> None:
    for call in (lake.tables, lake.drop_namespace, lake.namespace_properties):
        with pytest.raises(NoSuchNamespace, match="no namespace sale; the catalog has none"):
            call("sale")
    lake.create_namespace("sales")
    for call in (lake.tables, lake.drop_namespace, lake.namespace_properties):
        with pytest.raises(NoSuchNamespace, match=r"no namespace sale; did you mean sales\?") as raised:
            call("sale")
        assert raised.value.available == ["sales"]


def test_a_long_list_is_cut_short(lake: Lake) -> None:
    for number in range(15):
        lake.create_namespace(f"n{number:02}")
    with pytest.raises(NoSuchNamespace, match="n11 and 3 more"):
        lake.tables("zzz")


def test_a_name_without_a_namespace_is_refused_with_the_way_to_write_it(lake: Lake) -> None:
    for call in (lake.table, lake.drop_table):
        with pytest.raises(InvalidInput, match=r"write it as namespace\.table"):
            call("orders")


def test_a_taken_name_is_refused(lake: Lake) -> None:
    lake.create_namespace("sales")
    with pytest.raises(AlreadyExists, match="cannot create namespace sales"):
        lake.create_namespace("sales")


def test_a_table_is_renamed_where_the_catalog_can(lake: Lake) -> None:
    table = make(lake, "sales.orders")
    lake.create_namespace("archive")
    if isinstance(lake.catalog, DirectoryCatalog):
        with pytest.raises(Unsupported, match="cannot rename"):
            lake.rename_table("sales.orders", "archive.orders")
        return
    assert lake.rename_table("sales.orders", "archive.orders").uuid == table.uuid
    with pytest.raises(NoSuchNamespace, match=r"did you mean archive\?"):
        lake.rename_table("archive.orders", "archives.orders")
    with pytest.raises(NoSuchTable, match=r"no table sales\.orders"):
        lake.rename_table("sales.orders", "sales.x")


def test_a_table_is_registered_by_its_metadata_file(tmp_path: Path) -> None:
    lake = lake_at(f"sqlite:///{tmp_path}/catalog.db")
    table = make(lake, "sales.orders")
    lake.drop_table("sales.orders")
    assert lake.register_table("sales.back", table.metadata_location).uuid == table.uuid
    with pytest.raises(NoSuchNamespace, match=r"did you mean sales\?"):
        lake.register_table("sale.back", table.metadata_location)


def test_a_dropped_table_keeps_its_files_and_a_purged_one_does_not(lake: Lake) -> None:
    kept, purged = make(lake, "sales.kept"), make(lake, "sales.purged")
    storage = lake.catalog.storage()
    lake.drop_table("sales.kept")
    lake.drop_table("sales.purged", purge=True)
    assert list(storage.list(kept.location))
    left = [file.location.rpartition("/")[2] for file in storage.list(purged.location)]
    assert left == []


def test_f46_a_table_whose_folder_has_another_is_not_purged() -> None:
    lake = esker.connect("memory:")
    lake.create_namespace("s")
    one = lake.create_table("s.one", "id bigint")
    one.append({"id": [1]})
    lake.register_table("s.two", one.metadata_location)
    with pytest.raises(InvalidInput, match=r"cannot purge s\.one: s\.two is in the same folder"):
        lake.drop_table("s.one", purge=True)
    assert lake.table("s.two").to_arrow().num_rows == lake.table("s.one").to_arrow().num_rows == 1
    lake.drop_table("s.one")
    lake.drop_table("s.two", purge=True)
    assert not list(one._workings.storage.list(one.location))


def test_a_table_whose_files_others_may_use_is_not_purged(lake: Lake) -> None:
    make(lake, "sales.orders", **{"gc.enabled": "false"})
    with pytest.raises(InvalidInput, match=r"its property gc\.enabled is false"):
        lake.drop_table("sales.orders", purge=True)
    assert lake.tables("sales") == ["sales.orders"]


def test_s18_a_purge_touches_nothing_outside_the_table(tmp_path: Path) -> None:
    lake = lake_at(f"sqlite:///{tmp_path}/catalog.db")
    victim = make(lake, "sales.victim")
    table = make(lake, "sales.orders")
    document = json.loads(Path(table.metadata_location).read_text())
    log = [victim.metadata_location, f"{table.location}/../victim/metadata/{Path(victim.metadata_location).name}"]
    document["metadata-log"] = [{"timestamp-ms": 1, "metadata-file": file} for file in log]
    Path(table.metadata_location).write_text(json.dumps(document))
    lake.drop_table("sales.orders", purge=True)
    assert lake.table("sales.victim").uuid == victim.uuid
    assert not Path(table.metadata_location).exists()


def test_a_hostile_uuid_does_not_name_a_folder(tmp_path: Path) -> None:
    lake = lake_at(str(tmp_path / "w"))
    table = make(lake, "sales.orders")
    document = json.loads(Path(table.metadata_location).read_text())
    Path(table.metadata_location).write_text(json.dumps({**document, "table-uuid": "../../../escaped"}))
    lake.drop_table("sales.orders")
    assert [place.name for place in tmp_path.iterdir()] == ["w"]
    assert lake.tables("sales") == []
