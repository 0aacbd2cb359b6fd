"""Removing orphans: exactly the old files that nothing needs, and nothing at all where something is unclear."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from esker_server import serving
from fake_nessie import fake_nessie
from reachability import objects_of, reachable
from sound_tables import rows_of

import esker
from esker.catalogs.rest.open_rest_catalog import open_rest_catalog
from esker.catalogs.rest.rest_catalog import RestCatalog
from esker.errors import Conflict, Corrupt, EskerError, InvalidInput, NoSuchFile, StorageFailed, Unsupported
from esker.lake import Lake
from esker.maintain.pending_files import PendingNote, write_note
from esker.maintain.remove_orphans import DAY_MS, OrphanRemoval
from esker.ports.catalog import SelfTending
from esker.ports.storage import StoredFile
from esker.table import Table
from esker.wiring import lake_over


def lake_in_memory() -> Lake:
    lake = esker.connect("memory:")
    lake.create_namespace("s")
    return lake


def orders(lake: Lake | None = None, name: str = "s.t", snapshots: int = 3, **how: Any) -> Table:
    """A table whose own files are all old: age alone never saves them."""
    table = (lake or lake_in_memory()).create_table(name, "id bigint", **how)
    for n in range(snapshots):
        table.append({"id": [n]})
    age(table, *objects_of(table))
    return table


def age(table: Table, *places: str, days: float = 10) -> None:
    """Make objects older."""
    held = objects_of(table)
    for place in places:
        data, _ = held[place]
        held[place] = (data, now_ms() - int(days * DAY_MS))


def now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


def stray(table: Table, name: str, *, days: float = 10, data: bytes = b"12345") -> str:
    """A file below the table that nothing refers to."""
    place = f"{table.location}/{name}"
    table._workings.storage.write_new(place, data)
    age(table, place, days=days)
    return place


def there(table: Table) -> set[str]:
    return set(objects_of(table))


def refuses(table: Table, match: str, kind: type[EskerError] = InvalidInput, **how: Any) -> None:
    """The removal fails, and nothing is gone."""
    before = there(table)
    with pytest.raises(kind, match=match):
        table.remove_orphans(**how)
    assert there(table) == before


# ---------------------------------------------------------------- the right files


def test_a_mixed_set_of_100_files_is_resolved_exactly() -> None:
    table = orders(snapshots=5, properties={"write.metadata.previous-versions-max": "2"})
    table.tag("v1", table.snapshots[1].snapshot_id)
    table.delete("id = 0")
    age(table, *there(table))
    reached = reachable(table._workings.storage, table.metadata)
    logged = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    forgotten = there(table) - reached - logged  # metadata files that left the log
    old = {stray(table, f"data/old-{n}.parquet") for n in range(20)}
    old |= {stray(table, f"data/day=2026-01-0{n}/_x={n}/{n}.parquet") for n in range(1, 6)}
    old |= {stray(table, f"metadata/{n}-m0.avro") for n in range(10)}
    old |= {stray(table, f"metadata/.{n:032x}.tmp") for n in range(5)}  # a draft that was never complete
    young = {stray(table, f"data/young-{n}.parquet", days=2.9) for n in range(20)}
    kept = {stray(table, f"metadata/v{n}.metadata.json") for n in range(1, 4)}
    kept |= {stray(table, "metadata/version-hint.text"), stray(table, "metadata/expired-a.files.jsonl")}
    kept |= {stray(table, f"_checkpoint/{n}") for n in range(4)} | {
        stray(table, "data/.hidden"),
        stray(table, "_SUCCESS"),
    }
    kept |= {stray(table, "metadata.dropped-abc-1/v1.metadata.json")}
    timeless = stray(table, "data/timeless.parquet")
    objects_of(table)[timeless] = (b"x", 0)
    pending = {stray(table, f"data/pending-{n}.parquet") for n in range(10)}
    note = PendingNote(application="app", number=1, uuid=table.uuid, files=tuple(sorted(pending)))
    write_note(table._workings.storage, table.location, note)
    age(table, note.location(table.location))
    everything = there(table)
    assert len(everything) > 100

    plan = table.remove_orphans(dry_run=True)
    assert there(table) == everything
    report = table.remove_orphans()
    assert set(report.files) == set(plan.files) == old | forgotten
    assert there(table) == everything - old - forgotten
    assert (report.young, report.spared) == (len(young), len(kept) + len(pending) + 2)
    assert report.listed == report.reached + report.young + report.spared + len(report.files)
    assert report.total_bytes >= 5 * len(old)
    assert rows_of(table, ref="v1") == [0, 1]
    assert table.verify(deep=True).ok
    assert table.remove_orphans().files == ()


def test_times_and_ages() -> None:
    table = orders()
    place = stray(table, "data/x.parquet", days=5)
    assert table.remove_orphans(older_than=timedelta(days=6), dry_run=True).files == ()
    assert table.remove_orphans(older_than=timedelta(days=4), dry_run=True).files == (place,)
    week = datetime.now(UTC) - timedelta(days=7)
    assert table.remove_orphans(older_than=week, dry_run=True).files == ()
    refuses(table, "cannot remove files younger than 24 hours", older_than=timedelta(hours=23))
    refuses(table, "cannot remove files younger than 24 hours", older_than=datetime.now(UTC))
    young = stray(table, "data/young.parquet", days=0.1)
    assert set(table.remove_orphans(older_than=timedelta(hours=1), under_24_hours=True).files) == {place, young}


def test_f40_the_clock_of_the_store_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders()
    place = stray(table, "data/x.parquet", days=-2)
    # The store is nine days ahead of this machine: by its clock, the file is seven days old.
    monkeypatch.setattr("esker.storage.memory.time.time_ns", lambda: (now_ms() + 9 * DAY_MS) * 1_000_000)
    assert table.remove_orphans().files == (place,)
    behind = stray(table, "data/y.parquet", days=10)
    monkeypatch.setattr("esker.storage.memory.time.time_ns", lambda: (now_ms() - 9 * DAY_MS) * 1_000_000)
    assert table.remove_orphans().files == ()  # one day old there
    assert behind in there(table)


def test_a_sub_folder() -> None:
    table = orders()
    inside, outside = stray(table, "data/a/x.parquet"), stray(table, "data/b/x.parquet")
    assert table.remove_orphans(location=f"{table.location}/data/a").files == (inside,)
    assert outside in there(table)
    refuses(table, "it is not a folder of s.t", location="memory://warehouse/s/other")
    refuses(table, "it is not a folder of s.t", location=f"{table.location}/../other")


def test_orphans_go_to_quarantine() -> None:
    table = orders()
    place = stray(table, "data/a/x.parquet", data=b"precious")
    target = "memory://warehouse/quarantine"
    report = table.remove_orphans(quarantine=target)
    assert report.quarantine == target
    assert place not in there(table)
    assert table._workings.storage.read(f"{target}/data/a/x.parquet") == b"precious"
    again = stray(table, "data/a/x.parquet", data=b"precious")  # a run that stopped after the copy
    assert table.remove_orphans(quarantine=target).files == (again,)
    stray(table, "data/a/x.parquet", data=b"other")
    refuses(table, "the object exists", EskerError, quarantine=target)
    refuses(table, "it is in the table", quarantine=f"{table.location}/trash")


# ---------------------------------------------------------------- what is refused


def test_f46_overlapping_tables_are_refused() -> None:
    lake = lake_in_memory()
    table = orders(lake)
    inner = orders(lake, "s.inner", location=f"{table.location}/inner")
    for one, other in ((table, "s.inner"), (inner, "s.t")):
        refuses(one, f"{other} has files at .*, which overlaps")
    lake.drop_table("s.inner")
    beside = orders(lake, "s.beside", properties={"write.data.path": f"{table.location}/data/beside"})
    refuses(table, r"s\.beside has files at")
    assert table.remove_orphans(location=f"{table.location}/metadata").files == ()
    assert beside.verify().ok


def two_catalogs(tmp_path: Path) -> tuple[Lake, Lake]:
    """Two catalogs that have tables in the same warehouse and do not know of each other."""
    lakes = [esker.connect(f"sqlite:///{tmp_path}/{name}.db", warehouse=f"{tmp_path}/w") for name in ("a", "b")]
    for lake in lakes:
        lake.create_namespace("s")
    return lakes[0], lakes[1]


def files_of(table: Table) -> set[str]:
    return {file.location for file in table._workings.storage.list(table.location)}


ALL: dict[str, Any] = {"older_than": datetime.now(UTC) + timedelta(days=1), "under_24_hours": True}


def test_f46_a_table_that_another_catalog_commits_to_is_left_alone(tmp_path: Path) -> None:
    one, other = two_catalogs(tmp_path)
    mine = one.create_table("s.t", "id bigint")
    mine.append({"id": [1]})
    theirs = other.register_table("s.t", mine.metadata_location)
    theirs.append({"id": [2]})
    theirs.append({"id": [3]})
    mine.append({"id": [4]})
    before = files_of(mine)
    with pytest.raises(InvalidInput, match=r"is a version of the table that is not in its history; another catalog"):
        mine.remove_orphans(**ALL)
    with pytest.raises(
        InvalidInput, match=r"cannot purge s\.t: .* is a version of the table that is not in its history"
    ):
        one.drop_table("s.t", purge=True)
    assert files_of(mine) == before
    assert rows_of(other.table("s.t")) == [1, 2, 3]
    assert rows_of(one.table("s.t")) == [1, 4]
    other.drop_table("s.t")
    assert mine.remove_orphans(other_tables="remove", **ALL).files
    assert rows_of(one.table("s.t")) == [1, 4]
    assert mine.verify(deep=True).ok


def test_f05_what_commits_that_failed_have_left_is_no_other_history(tmp_path: Path) -> None:
    table = two_catalogs(tmp_path)[0].create_table("s.t", "id bigint")
    left = []
    for number in range(3):
        table.append({"id": [number]})
        newest = Path(table.metadata_location)
        left.append(str(newest.with_name(f"{newest.name[:5]}-lost-{number}.metadata.json")))
        Path(left[-1]).write_bytes(newest.read_bytes())  # an attempt that another commit overtook
    assert sorted(table.remove_orphans(**ALL).files) == sorted(left)


@pytest.mark.parametrize("kind", ["json", "gz", "version"])
def test_f46_a_table_of_another_catalog_in_the_folder_is_refused(tmp_path: Path, kind: str) -> None:
    one, other = two_catalogs(tmp_path)
    mine = one.create_table("s.t", "id bigint")
    mine.append({"id": [1]})
    how = {"properties": {"write.metadata.compression-codec": "gzip"}} if kind == "gz" else {}
    theirs = other.create_table("s.inner", "id bigint", location=f"{mine.location}/inner", **how)
    theirs.append({"id": [2]})
    if kind == "version":  # as the catalog of a directory names it
        newest = Path(theirs.metadata_location)
        newest.rename(newest.with_name("v2.metadata.json"))
        for file in newest.parent.glob("0*.metadata.json"):
            file.unlink()
    before = files_of(mine)
    with pytest.raises(InvalidInput, match=rf"is metadata of another table \({theirs.uuid}\), which may need files"):
        mine.remove_orphans(**ALL)
    assert files_of(mine) == before
    assert mine.remove_orphans(location=f"{mine.location}/metadata", **ALL).files == ()
    gone = set(mine.remove_orphans(other_tables="remove", **ALL).files)
    assert gone == {place for place in before if "/inner/" in place and not place.endswith("/v2.metadata.json")}
    refuses(orders(), "it takes error, remove", other_tables="delete")


@pytest.mark.parametrize("without", ["mine", "theirs", "both"])
def test_f46_a_table_without_a_uuid_is_another_one_by_its_location(without: str) -> None:
    """Writers of format version 1 need not give a uuid."""
    lake = lake_in_memory()
    table = orders(lake, format_version=1)
    inner = {"format-version": 1, "location": f"{table.location}/inner", "last-updated-ms": 1}
    if without == "mine":
        inner["table-uuid"] = "11111111-1111-1111-1111-111111111111"
    if without != "theirs":
        for written, (data, time_ms) in objects_of(table).items():
            if written.endswith(".metadata.json"):
                version = {key: value for key, value in json.loads(data).items() if key != "table-uuid"}
                objects_of(table)[written] = (json.dumps(version).encode(), time_ms)
        table = lake.table("s.t")
        assert table.uuid is None
        assert table.remove_orphans().files == ()
    place = stray(table, "inner/metadata/00001-x.metadata.json", data=json.dumps(inner).encode())
    file = stray(table, "inner/data/x.parquet")
    refuses(table, "is metadata of another table")
    assert set(table.remove_orphans(other_tables="remove").files) >= {place, file}


def test_f46_a_view_of_another_catalog_in_the_folder_is_refused() -> None:
    table = orders()
    view = {"view-uuid": "11111111-1111-1111-1111-111111111111", "location": f"{table.location}/v"}
    stray(table, "v/metadata/00001-x.metadata.json", data=json.dumps(view).encode())
    refuses(table, "is metadata of another table")


def test_a_version_of_the_table_itself_without_a_uuid_is_an_orphan() -> None:
    table = orders()
    old = {"format-version": 1, "location": f"{table.location}/", "last-updated-ms": 1}
    place = stray(table, "metadata/00000-x.metadata.json", data=json.dumps(old).encode())
    assert table.remove_orphans().files == (place,)


@pytest.mark.parametrize("data", [b"", b"{", b"null", b'{"table-uuid": 1}', b"\x1f\x8bx", b"\xff\xfe"])
def test_a_file_that_is_no_metadata_though_it_has_the_name_is_an_orphan(data: bytes) -> None:
    table = orders()
    place = stray(table, "metadata/00009-x.metadata.json", data=data)
    assert table.remove_orphans().files == (place,)


def test_s17_a_file_that_the_table_records_through_a_link_stays(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    lake = esker.connect(f"sqlite:///{tmp_path}/c.db", warehouse=f"{tmp_path}/real", allowed_roots=[f"{tmp_path}/link"])
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint")
    table.append({"id": [1]})
    pq.write_table(pa.table({"id": [2]}), tmp_path / "real/s/t/data/added.parquet")
    table.add_files([f"{tmp_path}/link/s/t/data/added.parquet"])
    lost = Path(table.location, "data/lost.parquet")
    lost.write_bytes(b"x")
    with pytest.raises(
        InvalidInput, match=r"it records a file with the name of .*added\.parquet outside of its folders"
    ):
        table.remove_orphans(**ALL)
    assert lost.exists()
    report = table.remove_orphans(mismatch="ignore", **ALL)
    assert (report.files, report.spared) == ((str(lost),), 1)
    assert rows_of(table) == [1, 2]


def test_a_table_with_a_name_that_begins_alike_is_no_overlap() -> None:
    lake = lake_in_memory()
    table = orders(lake, "s.t")
    orders(lake, "s.t2")
    place = stray(table, "data/x.parquet")
    assert table.remove_orphans().files == (place,)


def test_a_file_recorded_in_another_store_is_refused_or_kept() -> None:
    table = orders()
    moved = [entry.metadata_file.replace("memory://", "other://") for entry in table.metadata.metadata_log]
    log = [replace(e, metadata_file=m) for e, m in zip(table.metadata.metadata_log, moved, strict=True)]
    home = table._at_home()
    load = home.catalog.load
    state = load(home.name)
    changed = replace(state, metadata=replace(state.metadata, metadata_log=tuple(log)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(home.catalog, "load", lambda name, known=None: changed)
        refuses(table, "in another store")
        assert table.remove_orphans(mismatch="ignore").files == ()
    assert table.verify().ok


def test_a_table_whose_files_are_all_recorded_elsewhere_is_refused() -> None:
    table = orders()
    files = list(there(table))
    for place in files:
        held = objects_of(table)
        held[place.replace("/s/t/", "/s/alias/")] = held[place]
    home = table._at_home()
    state = home.catalog.load(home.name)
    changed = replace(state, metadata=replace(state.metadata, location="memory://warehouse/s/alias"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(home.catalog, "load", lambda name, known=None: changed)
        refuses(table, "the table records none of the files there")


@pytest.mark.parametrize("part", ["manifest-list", "manifest"])
@pytest.mark.parametrize("fault", [Corrupt, NoSuchFile])
def test_any_error_while_reading_removes_nothing(part: str, fault: type[EskerError]) -> None:
    table = orders()
    stray(table, "data/x.parquet")
    first = table.snapshots[0]
    assert first.manifest_list is not None
    place = first.manifest_list
    if part == "manifest":
        place = table.inspect.all_manifests().column("path").to_pylist()[0]
    if fault is NoSuchFile:
        table._workings.storage.delete(place)
    else:
        objects_of(table)[place] = (b"no avro", 0)
    refuses(table, "is missing" if fault is NoSuchFile else "is corrupt", fault)


def test_f43_a_listing_that_fails_half_way_removes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders()
    for n in range(5):
        stray(table, f"data/{n}.parquet")
    storage = table._workings.storage
    listing = storage.list

    def fails(prefix: str) -> Any:
        for number, file in enumerate(listing(prefix)):
            if number == 4 and "clock" not in prefix and "pending" not in prefix:
                raise StorageFailed("cannot list it", retryable=True)
            yield file

    monkeypatch.setattr(storage, "list", fails)
    refuses(table, "cannot list it", StorageFailed)


def test_a_note_of_pending_files_that_cannot_be_read_removes_nothing() -> None:
    table = orders()
    stray(table, "data/x.parquet")
    stray(table, "metadata/pending/000-x.json", data=b"{")
    refuses(table, "not a note of pending files", Corrupt)


def test_gc_enabled_false_and_encryption_are_refused() -> None:
    refuses(orders(properties={"gc.enabled": "false"}), r"gc\.enabled is false")
    table = orders()
    home = table._at_home()
    state = home.catalog.load(home.name)
    secret = replace(state, metadata=replace(state.metadata, encryption_keys=({"key-id": "k"},)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(home.catalog, "load", lambda name, known=None: secret)
        refuses(table, "it is encrypted", Unsupported)


def test_a_service_that_tends_its_tables_itself_is_refused() -> None:
    table = orders()
    home = table._at_home()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(home.catalog), "tended_by", "S3 Tables", raising=False)
        assert isinstance(home.catalog, SelfTending)
        refuses(table, "S3 Tables removes files of its tables itself", Unsupported)
        with pytest.raises(Unsupported, match="S3 Tables"):
            table.expire_snapshots(older_than=1 << 60)
    assert len(table.refresh().snapshots) == 3
    assert "tended_by" in vars(RestCatalog)


def test_nessie_whose_older_versions_may_need_any_file_is_refused_and_compaction_is_not(tmp_path: Path) -> None:
    with fake_nessie(str(tmp_path)) as server:
        lake = lake_over(open_rest_catalog(server.uri, allowed_roots=[server.warehouse]))
        lake.create_namespace("s")
        table = lake.create_table("s.t", "id bigint")
        for n in range(6):
            table.append({"id": [n]})
        folder = Path(table.location.removeprefix("file://"))
        (folder / "data" / "x.parquet").write_bytes(b"1")
        before = sorted(folder.rglob("*"))
        with pytest.raises(Unsupported, match="cannot remove orphans: Nessie removes files of its tables itself"):
            table.remove_orphans(older_than=1 << 60, under_24_hours=True)
        with pytest.raises(Unsupported, match="cannot delete files of expired snapshots: Nessie removes"):
            table.expire_snapshots(older_than=1 << 60)
        assert sorted(folder.rglob("*")) == before
        assert table.compact().files_rewritten == 6
        assert rows_of(table.refresh()) == list(range(6))
        assert set(before) <= set(folder.rglob("*")), "what older versions need is still there"


# ---------------------------------------------------------------- writers and crashes


def test_f37_files_of_a_writer_at_work_stay() -> None:
    table = orders()
    tx = table.transaction()
    tx.append({"id": [77]})
    before = there(table)
    stray(table, "data/x.parquet")
    report = table.remove_orphans()
    assert len(report.files) == 1
    assert before <= there(table)
    tx.commit()
    assert rows_of(table.refresh()) == [0, 1, 2, 77]


def test_a_commit_of_old_files_during_the_listing_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders()
    tx = table.transaction()  # of a writer that has been at work for days
    tx.append({"id": [77]})
    age(table, *there(table))
    lost = stray(table, "data/x.parquet")
    after_listing(table, monkeypatch, tx.commit)
    report = table.remove_orphans()
    assert report.files == (lost,)
    assert rows_of(table.refresh()) == [0, 1, 2, 77]
    assert table.verify(deep=True).ok


def test_f34_a_table_made_again_during_the_listing_removes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = lake_in_memory()
    table = orders(lake)
    lost = stray(table, "data/x.parquet")

    def again() -> None:
        lake.drop_table("s.t")
        orders(lake, location=table.location)

    after_listing(table, monkeypatch, again)
    with pytest.raises(Conflict, match="dropped and another table has its name"):
        table.remove_orphans()
    assert lost in there(table)
    assert rows_of(lake.table("s.t")) == [0, 1, 2]


def after_listing(table: Table, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    storage = table._workings.storage
    listing = storage.list

    def listed(prefix: str) -> Any:
        found: list[StoredFile] = list(listing(prefix))
        if prefix == table.location:
            act()
        return iter(found)

    monkeypatch.setattr(storage, "list", listed)


@pytest.mark.parametrize("deletes", [0, 1, 4])
def test_f09_a_second_run_finishes_a_removal_that_stopped(monkeypatch: pytest.MonkeyPatch, deletes: int) -> None:
    table = orders()
    lost = {stray(table, f"data/{n}.parquet") for n in range(5)}
    storage = table._workings.storage
    delete, left = storage.delete, [deletes]

    def dies(location: str) -> None:
        if location in lost:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
        delete(location)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "delete", dies)
        with pytest.raises(KeyboardInterrupt):
            table.remove_orphans()
    assert table.verify().ok
    assert len(table.remove_orphans().files) == 5 - deletes
    assert not lost & there(table)
    assert table.verify().ok


def test_a_file_that_cannot_be_deleted_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders()
    stuck = stray(table, "data/a.parquet")
    stray(table, "data/b.parquet")
    delete = table._workings.storage.delete

    def refuses_one(location: str) -> None:
        if location == stuck:
            raise StorageFailed("busy", retryable=True)
        delete(location)

    monkeypatch.setattr(table._workings.storage, "delete", refuses_one)
    report = table.remove_orphans()
    assert (report.failed, len(report.files)) == ((stuck,), 2)
    assert str(report).startswith("deleted 1 of")


# ---------------------------------------------------------------- lakes


def old_file(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(b"x")
    then = (datetime.now(UTC) - timedelta(days=10)).timestamp()
    os.utime(place, (then, then))


@pytest.mark.parametrize("kind", ["directory", "sqlite"])
def test_lakes_on_this_machine(tmp_path: Path, kind: str) -> None:
    uri = f"file://{tmp_path}/w" if kind == "directory" else f"sqlite:///{tmp_path}/c.db"
    _tends(esker.connect(uri, warehouse=None if kind == "directory" else f"file://{tmp_path}/w"))


@pytest.mark.slow
def test_a_lake_behind_a_rest_server(tmp_path: Path) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/c.db", warehouse=f"{tmp_path}/w")
    with serving(lake) as address:
        _tends(esker.connect(address, allowed_roots=[tmp_path / "w"]))


def test_a_lake_in_postgresql(tmp_path: Path, postgres: Any) -> None:
    _tends(esker.connect(postgres.new_catalog(tmp_path)))


def _tends(lake: Lake) -> None:
    """Orphans go and snapshots expire, in any lake on this machine."""
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint")
    table.append({"id": [1]})
    table.append({"id": [2]})
    folder = Path(table.location.removeprefix("file://"))
    for file in folder.rglob("*"):
        if file.is_file():
            os.utime(file, (0.001, 0.001))
    old_file(folder / "data" / "lost.parquet")
    report = table.remove_orphans()
    assert [Path(file).name for file in report.files] == ["lost.parquet"]
    assert rows_of(table.refresh()) == [1, 2]
    table.append({"id": [3]})
    assert table.verify(deep=True).findings == ()


@pytest.mark.slow
@pytest.mark.usefixtures("s3_environment")
def test_a_lake_in_s3(bucket: str) -> None:
    lake = esker.connect(f"{bucket}/w")
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint")
    table.append({"id": [1]})
    storage = table._workings.storage
    place = f"{table.location.replace('s3://', 's3a://')}/data/lost.parquet"
    storage.write_new(place, b"x")
    assert table.remove_orphans().files == ()  # young
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    report = table.remove_orphans(older_than=tomorrow, under_24_hours=True)
    assert report.files == (place.replace("s3a://", "s3://"),)
    assert rows_of(table) == [1]
    table.append({"id": [2]})
    table.overwrite({"id": [3]})
    assert table.expire_snapshots(older_than=tomorrow).files["data"] == 2
    assert table.verify(deep=True).ok


def test_a_removal_shows_itself() -> None:
    table = orders()
    stray(table, "data/x.parquet")
    plan = table.remove_orphans(dry_run=True)
    assert isinstance(plan, OrphanRemoval)
    assert repr(plan).startswith("<OrphanRemoval of s.t: would have deleted 1 of")
    assert "data/x.parquet" in plan._repr_html_()


def test_another_engine_is_refused_and_a_storage_that_workers_cannot_reach_is_listed_here() -> None:
    table = orders()
    place = stray(table, "data/x.parquet")
    with pytest.raises(InvalidInput, match="engine='flink': it takes arrow, spark"):
        table.remove_orphans(engine="flink")  # type: ignore[arg-type]
    from esker.spark.scan.spread_jobs import list_on_spark

    no_session: Any = None
    found = list(list_on_spark(no_session, table._workings.storage, table.location))
    assert place in {file.location for file in found}
    assert found == list(table._workings.storage.list(table.location))
