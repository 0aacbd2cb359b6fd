"""Which catalog a URI names."""

from __future__ import annotations

from pathlib import Path

import pytest
from catalog_contract import ORDERS, make

import esker
from esker.catalogs.directory import DirectoryCatalog
from esker.catalogs.open_catalog import catalog_address, open_catalog
from esker.errors import InvalidInput, NoSuchFile, Unsupported


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "uri", ["sqlite:///lake/c.db", "sqlite:lake/c.db", "sqlite:////{here}/lake/c.db", "sqlite:/{here}/lake/c.db"]
)
def test_every_spelling_of_a_sqlite_file_opens_it_and_the_warehouse_lies_beside(here: Path, uri: str) -> None:
    catalog = open_catalog(uri.format(here=str(here).lstrip("/")))
    made = make(catalog)
    assert (here / "lake" / "c.db").is_file()
    assert made.metadata.location == str(here / "lake" / "warehouse" / "sales" / "orders")


def test_a_catalog_does_not_follow_the_working_directory(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogs = [open_catalog("sqlite:///lake/c.db", warehouse="lake/w"), open_catalog("folder")]
    (here / "sub").mkdir()
    monkeypatch.chdir(here / "sub")
    for catalog in catalogs:
        make(catalog)
    assert list((here / "sub").iterdir()) == []


def test_a_warehouse_named_by_uri_is_recorded_as_it_was_named(here: Path) -> None:
    catalog = open_catalog("sqlite:///c.db", warehouse=f"file://{here}/w/")
    made = make(catalog)
    assert made.metadata.location == f"file://{here}/w/sales/orders"
    assert (here / "w" / "sales" / "orders" / "metadata").is_dir()


@pytest.mark.parametrize(
    "uri", ["file://{here}/w", "file:{here}/w", "{here}/w", "w", "./w", "file://localhost{here}/w"]
)
def test_every_spelling_of_a_directory_opens_it(here: Path, uri: str) -> None:
    catalog = open_catalog(uri.format(here=here))
    assert isinstance(catalog, DirectoryCatalog)
    assert make(catalog).metadata.location == f"{here}/w/sales/orders"


def test_a_directory_is_its_own_warehouse(here: Path) -> None:
    open_catalog(f"file://{here}/w", warehouse="w")
    with pytest.raises(InvalidInput, match="a directory catalog is its own warehouse"):
        open_catalog("w", warehouse="elsewhere")


def test_memory_holds_its_files_in_memory_or_where_it_is_told(here: Path) -> None:
    assert make(open_catalog("memory:")).metadata.location == "memory://warehouse/sales/orders"
    assert list(here.iterdir()) == []
    made = make(open_catalog("memory:", warehouse="w"))
    assert Path(made.metadata_location).is_relative_to(here / "w")


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("sqlite:", "name the file"),
        ("sqlite://", "name the file"),
        ("sqlite://host/c.db", "name the file"),
        ("sqlite:///:memory:", "name the file"),
        ("sqlite:///c.db?mode=ro", "the only option is catalog_name"),
        ("sqlite:///c.db?catalog_name=", "the only option is catalog_name"),
        ("file://host/w", "name a directory"),
        ("", "name a directory"),
        ("memory:x", "nothing may follow memory:"),
        ("mysql://host/db", "use sqlite:///file"),
        ("ftp://host/w", "use sqlite:///file"),
        ("s3:///w", "name a bucket and a folder"),
        ("s3://bucket/../w", "name a bucket and a folder"),
    ],
)
def test_a_uri_that_names_no_catalog_is_refused(here: Path, uri: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        open_catalog(uri)
    assert list(here.iterdir()) == []


def test_a_file_is_not_a_directory_and_the_error_says_what_to_write(here: Path) -> None:
    (here / "c.db").write_text("x")
    with pytest.raises(InvalidInput, match=r"to open a SQLite catalog, use sqlite:///c\.db"):
        open_catalog("c.db")


def test_a_warehouse_that_no_storage_reaches_is_named() -> None:
    with pytest.raises(Unsupported, match="there is no storage for ftp locations, only for file, s3"):
        open_catalog("sqlite:///c.db", warehouse="ftp://bucket/w")


def test_a_warehouse_may_not_be_the_root_of_everything() -> None:
    with pytest.raises(InvalidInput, match="the root of the file system"):
        open_catalog("sqlite:///c.db", warehouse="/")


def test_a_catalog_name_picks_one_of_several(here: Path) -> None:
    make(open_catalog("sqlite:///c.db?catalog_name=prod"))
    assert open_catalog("sqlite:///c.db").namespaces() == ()
    assert open_catalog("sqlite:///c.db?catalog_name=prod").tables(("sales",)) == (ORDERS,)


@pytest.mark.parametrize(
    ("uri", "warehouse"),
    [
        ("sqlite:///lake/c.db", None),
        ("sqlite:///a b/c.db?catalog_name=x%26y", "lake/w w"),
        ("folder", None),
        ("file:folder", "folder"),
        ("a folder", None),
    ],
)
def test_an_address_opens_the_same_catalog_from_anywhere(
    here: Path, monkeypatch: pytest.MonkeyPatch, uri: str, warehouse: str | None
) -> None:
    uri = uri.replace("file:", f"file:{here}/")
    address = catalog_address(uri, warehouse=warehouse, allowed_roots=["more"])
    assert address is not None
    made = make(open_catalog(uri, warehouse=warehouse))
    (here / "sub").mkdir()
    monkeypatch.chdir(here / "sub")
    found = open_catalog(address.pop("uri"), **address)
    assert found.load(ORDERS).metadata_location == made.metadata_location


def test_what_lives_in_this_process_has_no_address() -> None:
    assert catalog_address("memory:", warehouse=None, allowed_roots=()) is None


@pytest.mark.parametrize("uri", ["sqlite:///{tmp}/lake/catalog.db", "file://{tmp}/lake", "{tmp}/lake"])
def test_a_catalog_that_must_exist_is_not_made(uri: str, tmp_path: Path) -> None:
    named = uri.format(tmp=tmp_path)
    with pytest.raises(NoSuchFile, match=r"cannot open the catalog .*: there is no (file|directory) .*/lake"):
        esker.connect(named, must_exist=True)
    assert esker.connect(named).namespaces() == []  # which the first write makes
    assert not (tmp_path / "lake").exists()
    esker.connect(named).create_namespace("a")
    assert esker.connect(named, must_exist=True).namespaces() == ["a"]
    assert esker.connect("memory:", must_exist=True).namespaces() == []
