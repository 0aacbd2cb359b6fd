"""Nothing is written outside the warehouse, unless the place was named by someone who may."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from catalog_contract import ORDERS, count_up, make
from tables import empty_table, with_properties

from esker.catalogs.open_catalog import open_catalog
from esker.errors import EskerError, InvalidInput, Unsupported
from esker.model.table_names import TableName
from esker.ports.catalog import Accepted, Catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return open_catalog("memory:", warehouse=str(tmp_path / "w"))


def test_s04_every_name_has_a_folder_of_its_own_below_the_warehouse(catalog: Catalog, tmp_path: Path) -> None:
    names = ["a b", "a%20b", "a#b", "a?b", "*", "'", '"', "%2e%2e", "~", "$HOME", "größe", "-rf"]
    catalog.create_namespace(("n",), {})
    homes = [catalog.location_for(TableName(("n",), name)) for name in names]
    assert len(set(homes)) == len(names)
    for home in homes:
        assert Path(home).parent == tmp_path / "w" / "n"
        assert not set("#?*'\" ") & set(Path(home).name)


def test_a_place_named_on_connecting_is_used(tmp_path: Path) -> None:
    catalog = open_catalog("memory:", warehouse=str(tmp_path / "w"), allowed_roots=[f"{tmp_path}/elsewhere/t"])
    catalog.create_namespace(("sales",), {})
    state = catalog.create(ORDERS, empty_table(f"{tmp_path}/elsewhere/t"))
    count_up(catalog, ORDERS, 1)
    assert Path(state.metadata_location).parent == tmp_path / "elsewhere" / "t" / "metadata"
    catalog.storage().write_new(f"{tmp_path}/elsewhere/t/data/f", b"x")
    with pytest.raises(InvalidInput, match="leads outside"):
        catalog.storage().write_new(f"{tmp_path}/elsewhere/other", b"x")


@pytest.mark.parametrize(
    "location", ["/", "file:///", "relative/t", "", "{tmp}/w/../../x", "{tmp}/w/t\0", "{tmp}/w/\nt", "."]
)
def test_s05_a_location_that_is_not_whole_is_refused(catalog: Catalog, tmp_path: Path, location: str) -> None:
    catalog.create_namespace(("sales",), {})
    with pytest.raises(InvalidInput, match="cannot use"):
        catalog.create(ORDERS, empty_table(location.format(tmp=tmp_path)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("location", ["s3://bucket/t", "http://169.254.169.254/t", "ftp://u@h/t", "file://host/t"])
def test_s05_a_location_in_another_store_is_refused(catalog: Catalog, location: str) -> None:
    catalog.create_namespace(("sales",), {})
    with pytest.raises(Unsupported, match="are not local files"):
        catalog.create(ORDERS, empty_table(location))


@pytest.mark.parametrize("path", ["{tmp}/elsewhere", "/etc", "{tmp}/w/../x", "relative"])
def test_s05_a_metadata_path_outside_is_refused_at_every_commit(catalog: Catalog, tmp_path: Path, path: str) -> None:
    named = {"write.metadata.path": path.format(tmp=tmp_path)}
    base = make(catalog)
    with pytest.raises(InvalidInput, match=r"cannot use .* as write\.metadata\.path"):
        catalog.swap(ORDERS, base, with_properties(base.metadata, named))
    with pytest.raises(InvalidInput, match=r"cannot use .* as write\.metadata\.path"):
        make(catalog, TableName(("sales",), "other"), **named)
    assert catalog.load(ORDERS).metadata_location == base.metadata_location


def test_a_metadata_path_inside_the_warehouse_is_honoured(catalog: Catalog, tmp_path: Path) -> None:
    base = make(catalog)
    named = with_properties(base.metadata, {"write.metadata.path": f"{tmp_path}/w/all-metadata/"})
    outcome = catalog.swap(ORDERS, base, named)
    assert isinstance(outcome, Accepted)
    assert Path(outcome.state.metadata_location).parent == tmp_path / "w" / "all-metadata"
    assert Path(outcome.state.metadata_location).name.startswith("00001-")
    count_up(catalog, ORDERS, 1)


def test_roots_named_on_connecting_are_open(tmp_path: Path) -> None:
    catalog = open_catalog("memory:", warehouse=str(tmp_path / "w"), allowed_roots=[str(tmp_path / "more")])
    base = make(catalog)
    named = with_properties(base.metadata, {"write.metadata.path": f"{tmp_path}/more/metadata"})
    assert isinstance(catalog.swap(ORDERS, base, named), Accepted)


def test_s17_a_link_in_the_warehouse_does_not_lead_a_table_out_of_it(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "sales").symlink_to(tmp_path / "outside")
    catalog.create_namespace(("sales",), {})
    with pytest.raises(InvalidInput, match="leads outside"):
        make(catalog)
    assert list((tmp_path / "outside").iterdir()) == []


def test_s06_a_registered_file_is_no_way_to_read_a_secret(catalog: Catalog, tmp_path: Path) -> None:
    catalog.create_namespace(("sales",), {})
    secret = tmp_path / "elsewhere" / "secret.json"
    secret.parent.mkdir()
    secret.write_text('{"password": "hunter2"}')
    for location in (str(secret), "s3://bucket/x.metadata.json", "http://169.254.169.254/latest", "/nowhere/x.json"):
        with pytest.raises(EskerError) as raised:
            catalog.register(ORDERS, location)
        assert "hunter2" not in str(raised.value)
    assert catalog.tables(("sales",)) == ()


def test_s05_a_registered_table_does_not_open_the_place_it_claims(catalog: Catalog, tmp_path: Path) -> None:
    """Its metadata file is named by the caller; the location written in it is anybody's word."""
    made = make(catalog)
    document = json.loads(Path(made.metadata_location).read_text())
    catalog.drop(ORDERS)
    claim = tmp_path / "w" / "claim.metadata.json"
    claim.write_text(json.dumps({**document, "location": f"{tmp_path}/elsewhere"}))
    with pytest.raises(InvalidInput, match=r"is located outside the warehouse .* in allowed_roots="):
        catalog.register(ORDERS, str(claim))
    assert catalog.tables(("sales",)) == ()


def test_a_table_elsewhere_is_registered_where_its_place_is_allowed(tmp_path: Path) -> None:
    catalog = open_catalog("memory:", warehouse=str(tmp_path / "w"), allowed_roots=[str(tmp_path / "other")])
    other = open_catalog("memory:", warehouse=str(tmp_path / "other"))
    theirs = make(other)
    catalog.create_namespace(("sales",), {})
    catalog.register(ORDERS, theirs.metadata_location)
    count_up(catalog, ORDERS, 1)
    now = catalog.load(ORDERS).metadata_location
    assert Path(now).parent == tmp_path / "other" / "sales" / "orders" / "metadata"
    assert Path(now).name.startswith("00001-")


def test_a_namespace_may_name_where_its_tables_go(tmp_path: Path) -> None:
    catalog = open_catalog("memory:", warehouse=str(tmp_path / "w"), allowed_roots=[str(tmp_path / "sales-disk")])
    catalog.create_namespace(("sales",), {"location": f"{tmp_path}/sales-disk/"})
    assert make(catalog).metadata.location == f"{tmp_path}/sales-disk/orders"


def test_files_that_fell_off_the_log_are_deleted_only_in_the_tables_own_folder(
    catalog: Catalog, tmp_path: Path
) -> None:
    """The log of a hostile table may name any file at all (INV6, S18)."""
    victim = tmp_path / "w" / "victim.metadata.json"
    base = make(
        catalog,
        **{"write.metadata.previous-versions-max": "1", "write.metadata.delete-after-commit.enabled": "true"},
    )
    victim.write_text("precious")
    document = json.loads(Path(base.metadata_location).read_text())
    log = [str(victim), f"{base.metadata.location}/metadata/../../../victim.metadata.json", "/etc/hostname"]
    document["metadata-log"] = [{"timestamp-ms": 1, "metadata-file": file} for file in log]
    Path(base.metadata_location).write_text(json.dumps(document))
    count_up(catalog, ORDERS, 3)
    assert victim.read_text() == "precious"
    assert not Path(base.metadata_location).exists()


def test_a_warehouse_that_was_used_is_known_to_those_who_name_none(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    made = make(open_catalog(uri, warehouse=str(tmp_path / "w")))
    make(open_catalog(uri, warehouse=str(tmp_path / "w")), TableName(("sales",), "other"))
    assert open_catalog(uri).load(ORDERS).metadata_location == made.metadata_location
    assert (tmp_path / "catalog.db.warehouses").read_text() == f"{tmp_path}/w\n"
    with pytest.raises(InvalidInput, match=rf"cannot use {made.metadata_location}: .* allowed_roots="):
        open_catalog(uri, warehouse=str(tmp_path / "another")).load(ORDERS)


def test_allowed_roots_are_not_remembered(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = open_catalog(uri, warehouse=str(tmp_path / "w"), allowed_roots=[str(tmp_path / "more")])
    catalog.create_namespace(("sales",), {})
    catalog.create(ORDERS, empty_table(f"{tmp_path}/more/t"))
    for warehouse in (None, str(tmp_path / "w")):
        with pytest.raises(InvalidInput, match="allowed_roots="):
            open_catalog(uri, warehouse=warehouse).load(ORDERS)
