"""Version numbers of a directory catalog: each is used once, whatever is tidied away and however slow a writer is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from catalog_contract import ORDERS, count_up, make
from orders import NAME, QUICK, orders, rows
from sound_tables import rows_of
from tables import with_properties
from watched_folder import highest, hint_of, walked_from_hint

import esker
from esker.catalogs.directory import DirectoryCatalog
from esker.errors import Corrupt, OutcomeUnknown
from esker.ports.catalog import Accepted, Rejected, TableState, Unanswered
from esker.storage import version_folder
from esker.storage.version_folder import VersionFolder

TIDY = {"write.metadata.previous-versions-max": "1", "write.metadata.delete-after-commit.enabled": "true"}


@pytest.fixture
def catalog(tmp_path: Path) -> DirectoryCatalog:
    return DirectoryCatalog(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the metadata of sales.orders is."""
    return tmp_path / "sales" / "orders" / "metadata"


def before_link(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Let something happen just before the next version is made."""
    link = os.link

    def late(draft: str, name: str, **kwargs: int) -> None:
        if version_folder.version_file(str(name)) is not None:  # data files are made by links too
            monkeypatch.setattr(os, "link", link)
            happens()
        link(draft, name, **kwargs)

    monkeypatch.setattr(os, "link", late)


def free(folder: Path, *versions: int) -> None:
    """Remove versions as other engines do: the name is free afterwards."""
    for version in versions:
        (folder / f"v{version}.metadata.json").unlink()


def lost(catalog: DirectoryCatalog, base: TableState) -> object:
    return catalog.swap(ORDERS, base, with_properties(base.metadata, {"late": "yes"}))


def test_a_late_writer_is_rejected_while_its_base_is_still_there(
    catalog: DirectoryCatalog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tidying is turned on after the first version fell off the log: version 1 stays, version 2 goes."""
    base = make(catalog, **{"write.metadata.previous-versions-max": "1"})

    def others() -> None:
        count_up(catalog, ORDERS, 2)
        now = catalog.load(ORDERS)
        assert isinstance(catalog.swap(ORDERS, now, with_properties(now.metadata, TIDY)), Accepted)
        count_up(catalog, ORDERS, 2)

    before_link(monkeypatch, others)
    outcome = lost(catalog, base)
    assert isinstance(outcome, Rejected), outcome
    assert "another writer created version 2 of sales.orders first" in outcome.why
    assert (folder / "v1.metadata.json").stat().st_size > 0
    assert (folder / "v2.metadata.json").stat().st_size == 0
    assert catalog.load(ORDERS).metadata.properties["n"] == "4"
    assert hint_of(folder) == highest(folder) == 6


def test_rows_of_a_late_writer_and_of_those_who_came_before_are_all_there(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = orders(esker.connect(str(tmp_path)), properties=TIDY)

    def others() -> None:
        for at in range(5):
            esker.connect(str(tmp_path)).table(NAME).append(rows([at]))

    before_link(monkeypatch, others)
    table.append(rows([100]))
    assert rows_of(esker.connect(str(tmp_path)).table(NAME)) == [0, 1, 2, 3, 4, 100]
    assert highest(folder) == 7


def test_a_late_version_on_a_name_that_another_engine_freed_is_no_answer_and_nobody_reads_it(
    catalog: DirectoryCatalog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = make(catalog, **{"write.metadata.previous-versions-max": "1"})

    def others() -> None:
        count_up(catalog, ORDERS, 5)
        free(folder, 2, 3, 4)

    before_link(monkeypatch, others)
    outcome = lost(catalog, base)
    assert isinstance(outcome, Unanswered), outcome
    assert "later versions of sales.orders exist" in outcome.why
    assert outcome.metadata_location is None, "others' logs name another file by that name"
    assert catalog.load(ORDERS).metadata.properties["n"] == "5"
    assert (folder / "v2.metadata.json").stat().st_size == 0, "a reader that begins at an old hint finds no table in it"
    assert walked_from_hint(folder).name == "v6.metadata.json"


def test_rows_on_a_name_that_another_engine_freed_are_not_acknowledged(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"write.metadata.previous-versions-max": "1", "commit.retry.num-retries": "0", **QUICK}
    table = orders(esker.connect(str(tmp_path)), properties=asked)

    def others() -> None:
        for at in range(4):
            esker.connect(str(tmp_path)).table(NAME).append(rows([at]))
        free(folder, 1, 2, 3)

    before_link(monkeypatch, others)
    with pytest.raises(OutcomeUnknown, match=r"cannot find out whether the commit to sales\.orders succeeded"):
        table.append(rows([100]))
    assert rows_of(esker.connect(str(tmp_path)).table(NAME)) == [0, 1, 2, 3]


@pytest.mark.parametrize("then", [1, 2, 5])
def test_a_version_that_others_built_on_before_its_writer_looked_is_accepted(
    catalog: DirectoryCatalog, monkeypatch: pytest.MonkeyPatch, then: int
) -> None:
    base = make(catalog)
    create = VersionFolder.create

    def overtaken(self: VersionFolder, name: str, data: bytes) -> None:
        monkeypatch.setattr(VersionFolder, "create", create)
        create(self, name, data)
        count_up(catalog, ORDERS, then)

    monkeypatch.setattr(VersionFolder, "create", overtaken)
    assert isinstance(lost(catalog, base), Accepted)
    assert catalog.load(ORDERS).metadata.properties == {"late": "yes", "n": str(then)}


def test_a_twin_under_the_other_codec_s_name_is_no_answer(
    catalog: DirectoryCatalog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gzip

    base = make(catalog)
    content = gzip.compress((folder / "v1.metadata.json").read_bytes())
    before_link(monkeypatch, lambda: (folder / "v2.gz.metadata.json").write_bytes(content))
    outcome = lost(catalog, base)
    assert isinstance(outcome, Unanswered)
    assert "under another name" in outcome.why


def test_a_late_first_version_is_no_second_table(
    catalog: DirectoryCatalog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.create_namespace(("sales",), {})
    other = DirectoryCatalog(folder.parents[2])

    def others() -> None:
        make(other)
        count_up(other, ORDERS, 2)
        free(folder, 1)

    before_link(monkeypatch, others)
    with pytest.raises(OutcomeUnknown, match=r"cannot tell whether table sales\.orders was created"):
        make(catalog)
    assert catalog.load(ORDERS).metadata.properties == {"n": "2"}


@pytest.mark.parametrize("missing", [(2,), (2, 3), (1, 3, 4)])
def test_gaps_hide_no_newer_version(catalog: DirectoryCatalog, folder: Path, missing: tuple[int, ...]) -> None:
    make(catalog)
    count_up(catalog, ORDERS, 4)
    free(folder, *missing)
    for hint in ("1", "2", "4", "5"):
        (folder / "version-hint.text").write_text(hint)
        assert catalog.load(ORDERS).metadata_location.endswith("/v5.metadata.json")


def test_a_slow_writer_does_not_set_the_hint_back(
    catalog: DirectoryCatalog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = make(catalog, **TIDY)
    leave = VersionFolder.leave_hint

    def slow(self: VersionFolder) -> None:
        monkeypatch.setattr(VersionFolder, "leave_hint", leave)
        count_up(catalog, ORDERS, 4)
        leave(self)

    monkeypatch.setattr(VersionFolder, "leave_hint", slow)
    lost(catalog, base)
    assert hint_of(folder) == highest(folder) == 6


def test_a_writer_that_finds_the_hint_locked_does_not_wait(catalog: DirectoryCatalog, folder: Path) -> None:
    make(catalog)
    with VersionFolder(folder) as held, held._hint_lock():
        count_up(catalog, ORDERS, 2)
        assert hint_of(folder) == 1
        assert walked_from_hint(folder).name == "v3.metadata.json"
    count_up(catalog, ORDERS, 1)
    assert hint_of(folder) == 4


def test_a_reader_that_is_overtaken_by_tidying_looks_again(
    catalog: DirectoryCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(catalog, **TIDY)
    read = VersionFolder.read

    def overtaken(self: VersionFolder, name: str) -> bytes:
        monkeypatch.setattr(VersionFolder, "read", read)
        count_up(DirectoryCatalog(catalog._folders.root), ORDERS, 3)
        return read(self, name)

    monkeypatch.setattr(VersionFolder, "read", overtaken)
    assert catalog.load(ORDERS).metadata.properties["n"] == "3"


def test_an_empty_file_that_is_the_newest_version_is_corrupt_and_not_tidied(
    catalog: DirectoryCatalog, folder: Path
) -> None:
    make(catalog)
    (folder / "v2.metadata.json").write_bytes(b"")
    with pytest.raises(Corrupt, match=r"v2\.metadata\.json is corrupt"):
        catalog.load(ORDERS)


def test_names_of_long_ago_are_free_again(
    catalog: DirectoryCatalog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version_folder, "NAMES_KEPT", 5)
    make(catalog, **TIDY)
    count_up(catalog, ORDERS, 11)
    assert sorted(int(file.name[1:].split(".")[0]) for file in folder.glob("v*.json")) == [8, 9, 10, 11, 12]


def test_tidying_after_a_table_was_registered_again_spares_its_new_versions(
    catalog: DirectoryCatalog, folder: Path
) -> None:
    """Its log names versions of the table that was there before: 2 and 3 are now numbers of its own."""
    made = make(catalog)
    count_up(catalog, ORDERS, 3)
    content = (folder / "v4.metadata.json").read_bytes()
    catalog.drop(ORDERS)
    kept = folder.parent / "v4.metadata.json"
    kept.write_bytes(content)
    state = catalog.register(ORDERS, str(kept))
    assert [entry.metadata_file for entry in state.metadata.metadata_log] == [str(kept)]
    now = catalog.swap(ORDERS, state, with_properties(state.metadata, TIDY))
    assert isinstance(now, Accepted)
    count_up(catalog, ORDERS, 4)
    loaded = catalog.load(ORDERS)
    assert loaded.metadata.uuid == made.metadata.uuid
    assert loaded.metadata.properties["n"] == "7"
    assert highest(folder) == 6
