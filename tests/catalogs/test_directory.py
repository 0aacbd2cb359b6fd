"""A directory as catalog: what every catalog promises, and what lies in the folders."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from catalog_contract import ORDERS, CatalogContract, count_up, make
from tables import empty_table, with_properties

from esker.catalogs.directory import DirectoryCatalog
from esker.catalogs.open_catalog import open_catalog
from esker.errors import Corrupt, InvalidInput, NoSuchNamespace, NoSuchTable, StorageFailed, Unsupported
from esker.model.table_names import TableName
from esker.ports.catalog import Accepted, Catalog, Rejected, Unanswered


class TestDirectoryCatalog(CatalogContract):
    keeps_properties = False
    renames = False
    names_stay = True
    places_tables = False
    swaps_all = False

    @pytest.fixture
    def uri(self, tmp_path: Path) -> str:
        return f"file://{tmp_path}/warehouse"


@pytest.fixture
def catalog(tmp_path: Path) -> DirectoryCatalog:
    return DirectoryCatalog(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the metadata of sales.orders is."""
    return tmp_path / "sales" / "orders" / "metadata"


def test_looking_makes_no_directory(tmp_path: Path) -> None:
    catalog = open_catalog(str(tmp_path / "nowhere"))
    assert catalog.namespaces() == ()
    with pytest.raises(NoSuchTable, match=r"no table sales\.orders"):
        catalog.load(ORDERS)
    assert list(tmp_path.iterdir()) == []


def test_a_table_lies_where_hadoop_tables_lie(catalog: Catalog, tmp_path: Path, folder: Path) -> None:
    made = make(catalog)
    count_up(catalog, ORDERS, 2)
    assert made.metadata.location == str(tmp_path / "sales" / "orders")
    assert sorted(file.name for file in folder.iterdir()) == [
        "v1.metadata.json",
        "v2.metadata.json",
        "v3.metadata.json",
        "version-hint.text",
    ]
    assert (folder / "version-hint.text").read_text() == "3"
    assert json.loads((folder / "v3.metadata.json").read_text())["properties"] == {"n": "2"}


@pytest.mark.parametrize(
    "hint", [None, b"", b"1", b"0", b"99", b"-1", b"two", b"\xff\xfe", b"9" * 18, b"9" * 5000, b"3\n", "٣".encode()]
)
def test_d10_a_hint_is_only_a_hint(catalog: Catalog, folder: Path, hint: bytes | None) -> None:
    make(catalog)
    count_up(catalog, ORDERS, 2)
    (folder / "version-hint.text").unlink()
    if hint is not None:
        (folder / "version-hint.text").write_bytes(hint)
    assert catalog.load(ORDERS).metadata_location.endswith("/v3.metadata.json")
    assert catalog.tables(("sales",)) == (ORDERS,)
    count_up(catalog, ORDERS, 1)
    assert (folder / "version-hint.text").read_text() == "4"


def test_a_hint_far_behind_costs_one_listing(catalog: Catalog, folder: Path) -> None:
    make(catalog)
    newest = (folder / "v1.metadata.json").read_bytes()
    for version in range(2, 200):
        (folder / f"v{version}.metadata.json").write_bytes(newest)
    (folder / "version-hint.text").write_text("1")
    assert catalog.load(ORDERS).metadata_location.endswith("/v199.metadata.json")


def test_a_hint_that_is_a_folder_or_cannot_be_written_harms_nothing(catalog: Catalog, folder: Path) -> None:
    make(catalog)
    (folder / "version-hint.text").unlink()
    (folder / "version-hint.text").mkdir()
    count_up(catalog, ORDERS, 1)
    assert catalog.load(ORDERS).metadata.properties == {"n": "1"}
    assert not list(folder.glob(".*.tmp")), "no draft is left"


def test_drafts_and_strangers_in_the_folder_are_no_versions(catalog: Catalog, folder: Path) -> None:
    make(catalog)
    (folder / "version-hint.text").unlink()
    for name in (
        ".abc.tmp",
        "v9.metadata.json.tmp",
        "00009-x.metadata.json",
        "v.metadata.json",
        "vv9.metadata.json",
        "v09.metadata.json",
    ):
        (folder / name).write_text("{")
    assert catalog.load(ORDERS).metadata_location.endswith("/v1.metadata.json")


@pytest.mark.parametrize("name", ["v2.gz.metadata.json", "v2.metadata.json.gz"])
def test_d9_compressed_versions_of_others_are_found(catalog: Catalog, folder: Path, name: str) -> None:
    import gzip

    make(catalog)
    (folder / name).write_bytes(gzip.compress((folder / "v1.metadata.json").read_bytes()))
    assert catalog.load(ORDERS).metadata_location.endswith(name)
    count_up(catalog, ORDERS, 1)
    assert catalog.load(ORDERS).metadata_location.endswith("/v3.metadata.json")


def test_writers_on_one_base_reach_for_one_name_even_when_one_changes_the_codec(catalog: Catalog) -> None:
    base = make(catalog)
    zipped = with_properties(base.metadata, {"write.metadata.compression-codec": "gzip"})
    assert isinstance(catalog.swap(ORDERS, base, zipped), Accepted)
    assert isinstance(catalog.swap(ORDERS, base, with_properties(base.metadata, {"a": "b"})), Rejected)
    assert catalog.load(ORDERS).metadata_location.endswith("/v2.metadata.json")
    count_up(catalog, ORDERS, 1)
    assert catalog.load(ORDERS).metadata_location.endswith("/v3.gz.metadata.json")


def test_a_rename_is_refused_with_its_reason(catalog: Catalog) -> None:
    make(catalog)
    with pytest.raises(Unsupported, match="the name of a table is its folder") as raised:
        catalog.rename(ORDERS, TableName(("sales",), "other"))
    assert raised.value.feature == "rename"
    with pytest.raises(NoSuchTable, match=r"no table sales\.missing"):
        catalog.rename(TableName(("sales",), "missing"), ORDERS)


def test_a_table_cannot_lie_elsewhere(catalog: Catalog, tmp_path: Path) -> None:
    catalog.create_namespace(("sales",), {})
    for location in (f"{tmp_path}/sales/other", "/elsewhere", "s3://bucket/sales/orders", f"{tmp_path}/sales/../x"):
        with pytest.raises(InvalidInput, match="its location is"):
            catalog.create(ORDERS, empty_table(location))
    with pytest.raises(InvalidInput, match="a directory catalog needs it in"):
        catalog.create(ORDERS, empty_table(catalog.location_for(ORDERS), **{"write.metadata.path": "/elsewhere"}))
    assert not (tmp_path / "sales" / "orders").exists()


def test_the_same_place_in_another_spelling_is_the_same_place(catalog: Catalog) -> None:
    catalog.create_namespace(("sales",), {})
    catalog.create(ORDERS, empty_table(f"file:{catalog.location_for(ORDERS)}/"))
    count_up(catalog, ORDERS, 1)


def test_the_word_that_makes_a_table_is_no_name(catalog: Catalog) -> None:
    with pytest.raises(InvalidInput, match="cannot use the name 'metadata'"):
        catalog.create_namespace(("metadata",), {})
    catalog.create_namespace(("sales",), {})
    with pytest.raises(InvalidInput, match="cannot use the name 'metadata'"):
        catalog.location_for(TableName(("sales",), "metadata"))


def test_a_table_is_no_namespace(catalog: Catalog, tmp_path: Path) -> None:
    made = make(catalog)
    catalog.storage().write_new(f"{made.metadata.location}/data/day=1/a.parquet", b"x")
    assert catalog.namespaces() == (("sales",),)
    with pytest.raises(NoSuchNamespace, match=r"no namespace sales\.orders"):
        catalog.tables(("sales", "orders"))
    with pytest.raises(InvalidInput, match=r"sales\.orders is a table"):
        catalog.create_namespace(("sales", "orders", "deep"), {})
    catalog.drop(ORDERS)
    assert catalog.namespaces() == (("sales",),), "nor is what a dropped one left"


def test_folders_that_cannot_be_named_are_left_alone(catalog: Catalog, tmp_path: Path) -> None:
    for name in ("a.b", ".hidden", " blank"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "good").mkdir()
    assert catalog.namespaces() == (("good",),)


def test_a_namespace_with_leftovers_is_kept_and_says_what_is_in_it(catalog: Catalog, tmp_path: Path) -> None:
    made = make(catalog)
    catalog.drop(ORDERS)
    with pytest.raises(InvalidInput, match=r"cannot drop namespace sales: it holds orders/metadata\.dropped-"):
        catalog.drop_namespace(("sales",))
    for file in catalog.storage().list(made.metadata.location):
        catalog.storage().delete(file.location)
    catalog.drop_namespace(("sales",))
    assert list(tmp_path.iterdir()) == []


def test_namespace_properties_are_refused_rather_than_lost(catalog: Catalog) -> None:
    with pytest.raises(Unsupported, match="a folder has no properties"):
        catalog.create_namespace(("sales",), {"owner": "me"})
    assert catalog.namespaces() == ()


def test_s17_no_link_leads_out_of_the_warehouse(catalog: Catalog, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    DirectoryCatalog(outside).create_namespace(("x",), {})
    (tmp_path / "link").symlink_to(outside)
    (tmp_path / "sales").mkdir()
    (tmp_path / "sales" / "orders").symlink_to(outside)
    assert catalog.namespaces() == (("sales",),)
    with pytest.raises(InvalidInput, match="leads outside"):
        catalog.tables(("link",))
    with pytest.raises(InvalidInput, match="leads outside"):
        make(catalog)
    with pytest.raises(InvalidInput, match="leads outside"):
        catalog.create_namespace(("link", "new"), {})
    assert sorted(place.name for place in outside.iterdir()) == ["x"]


def test_s17_a_metadata_folder_that_is_a_link_is_not_followed(catalog: Catalog, folder: Path, tmp_path: Path) -> None:
    make(catalog)
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    with pytest.raises(InvalidInput, match=r"cannot load table sales\.orders"):
        catalog.load(ORDERS)


def test_f48_a_broken_version_is_named_and_the_table_can_still_be_listed_and_dropped(
    catalog: Catalog, folder: Path
) -> None:
    make(catalog)
    (folder / "v2.metadata.json").write_text('{"format-version": 2')
    with pytest.raises(Corrupt, match=r"v2\.metadata\.json is corrupt"):
        catalog.load(ORDERS)
    assert catalog.tables(("sales",)) == (ORDERS,)
    catalog.drop(ORDERS)


def test_a_drop_during_a_commit_takes_the_late_version_with_it(
    catalog: Catalog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next version must not appear alone in a folder made anew: the dropped table would be back."""
    base = make(catalog)
    link = os.link

    def drop_first(*args: object, **kwargs: object) -> None:
        monkeypatch.setattr(os, "link", link)
        catalog.drop(ORDERS)
        link(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "link", drop_first)
    catalog.swap(ORDERS, base, with_properties(base.metadata, {"a": "b"}))
    assert catalog.tables(("sales",)) == ()
    assert not folder.exists()
    anew = make(catalog)
    assert catalog.load(ORDERS).metadata.uuid == anew.metadata.uuid


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
def test_f41_a_failing_disk_fails_the_commit_and_leaves_the_table(
    catalog: Catalog, folder: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code), "disk")

    base = make(catalog)
    before = sorted(file.name for file in folder.iterdir())
    for call in ("fsync", "link") if code != errno.EIO else ("fsync",):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, fail)
            with pytest.raises(StorageFailed, match=rf"cannot commit to sales\.orders: /.*: {os.strerror(code)}; "):
                catalog.swap(ORDERS, base, with_properties(base.metadata, {"a": "b"}))
        assert sorted(file.name for file in folder.iterdir()) == before
    assert isinstance(catalog.swap(ORDERS, base, with_properties(base.metadata, {"a": "b"})), Accepted)


def test_f18_a_link_that_was_made_and_then_reported_as_failed_is_ours(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Network file systems resend a lost request and then report its own success as a name that exists."""
    base = make(catalog)
    link = os.link

    def made_but_refused(*args: object, **kwargs: object) -> None:
        link(*args, **kwargs)  # type: ignore[arg-type]
        raise FileExistsError(errno.EEXIST, "File exists")

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", made_but_refused)
        outcome = catalog.swap(ORDERS, base, with_properties(base.metadata, {"a": "b"}))
    assert isinstance(outcome, Accepted)
    assert catalog.load(ORDERS).metadata.properties == {"a": "b"}


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
def test_a_link_nobody_can_tell_of_is_no_answer(catalog: Catalog, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    base = make(catalog)
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", fail)
        outcome = catalog.swap(ORDERS, base, with_properties(base.metadata, {"a": "b"}))
    assert isinstance(outcome, Unanswered)
    assert "cannot tell whether" in outcome.why


def test_a_folder_that_cannot_be_synced_after_the_link_is_no_answer(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = make(catalog)
    fsync = os.fsync

    def fail_on_folders(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        fsync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail_on_folders)
        outcome = catalog.swap(ORDERS, base, with_properties(base.metadata, {"a": "b"}))
    assert isinstance(outcome, Unanswered)
    assert outcome.metadata_location == catalog.load(ORDERS).metadata_location


KILLED = """
import os, signal, sys
from esker.catalogs.directory import DirectoryCatalog
from esker.model.table_names import TableName
from tables import with_properties
catalog, step = DirectoryCatalog(sys.argv[1]), sys.argv[2]
real = getattr(os, step.split(":")[1])
def die(*args, **kwargs):
    if step.startswith("after"):
        real(*args, **kwargs)
    os.kill(os.getpid(), signal.SIGKILL)
name = TableName(("sales",), "orders")
base = catalog.load(name)
setattr(os, step.split(":")[1], die)
catalog.swap(name, base, with_properties(base.metadata, {"step": step}))
"""


@pytest.mark.parametrize(
    ("step", "new"),
    [("before:fsync", False), ("before:link", False), ("after:link", True), ("before:unlink", True)],
)
def test_f05_f07_a_process_killed_at_any_step_leaves_the_old_or_the_new_version(
    catalog: Catalog, tmp_path: Path, step: str, new: bool
) -> None:
    base = make(catalog)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path, step], env=environment, check=False)
    assert done.returncode == -9
    now = catalog.load(ORDERS)
    assert now.metadata.properties == ({"step": step} if new else {})
    assert now.metadata.uuid == base.metadata.uuid
    count_up(catalog, ORDERS, 1)
