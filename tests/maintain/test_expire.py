"""Expiring snapshots: exactly what the policy says, and exactly the files that nothing needs any more."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from benchmarks.expiry import NAME as EXPIRED
from benchmarks.expiry import make_history
from hypothesis import given, settings
from hypothesis import strategies as st
from reachability import kept_by_policy, needed_by, objects_of, reachable
from sound_tables import rows_of

import esker
from esker.errors import Conflict, Corrupt, InvalidInput, NoSuchSnapshot, OutcomeUnknown
from esker.iceberg import format as iceberg_format
from esker.maintain import reachable_files
from esker.maintain.expire_snapshots import is_journal
from esker.model.table_names import TableName
from esker.ports.catalog import Unanswered
from esker.table import Table
from esker.tree.table_metadata import StatisticsFile

LATE = 1 << 60  # a time that is later than any snapshot
QUICK = {"commit.status-check.num-retries": "0", "commit.retry.min-wait-ms": "0"}


def orders(snapshots: int = 0, **how: Any) -> Table:
    """A table in memory with that many appends."""
    lake = esker.connect("memory:")
    lake.create_namespace("s")
    table = lake.create_table(
        "s.t", "id bigint, region string", properties={**QUICK, **how.pop("properties", {})}, **how
    )
    for n in range(snapshots):
        table.append({"id": [n], "region": ["eu"]})
    return table


def files(table: Table) -> set[str]:
    """Everything in the storage except metadata files."""
    return {place for place in objects_of(table) if not place.endswith(".metadata.json")}


# ---------------------------------------------------------------- the law


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from(["main", "dev"])),
        st.tuples(st.just("delete"), st.sampled_from(["main", "dev"])),
        st.tuples(st.just("tag"), st.integers(1, 3)),
        st.tuples(st.just("short-tag"), st.integers(4, 5)),
        st.tuples(st.just("branch"), st.integers(1, 2)),
        st.tuples(st.just("drop"), st.integers(1, 3)),
        st.tuples(st.just("rollback"), st.integers(0, 3)),
    ),
    min_size=3,
    max_size=12,
)


def applied(table: Table, kind: str, what: Any, number: int) -> None:
    ids = [snapshot.snapshot_id for snapshot in table.snapshots]
    match kind:
        case "append":
            table.append({"id": [number, number + 1000], "region": ["eu", None]}, ref=what)
        case "delete":
            table.delete(f"id < {number}" if number % 2 else "region is null", ref=what)
        case "tag":
            table.tag(f"t{what}", ids[number % len(ids)], replace=True)
        case "short-tag":
            table.tag(f"t{what}", ids[number % len(ids)], max_ref_age_ms=1, replace=True)
        case "branch":
            table.branch(f"b{what}", min_snapshots_to_keep=what, replace=True)
        case "drop" if f"t{what}" in table.refs:
            table.drop_ref(f"t{what}")
        case "rollback":
            line = [entry.snapshot_id for entry in table.history]
            table.set_current_snapshot(line[-1 - what % len(line)])


@settings(max_examples=40)
@given(STEPS, st.integers(0, 12), st.integers(1, 4), st.sampled_from([1, 2, 3]))
def test_k3_an_expiry_removes_exactly_what_was_reached_and_is_not(
    steps: list[tuple[str, Any]], cut: int, last: int, version: int
) -> None:
    mode = {"write.delete.mode": "merge-on-read"} if version > 1 else {}
    # two files in each manifest: removing one of them makes another manifest, which lists the other file
    table = orders(1, format_version=version, properties=mode, partition_by=["region"])
    table.branch("dev", max_snapshot_age_ms=1)
    for number, (kind, what) in enumerate(steps):
        applied(table, kind, what, number)
    times = sorted(snapshot.timestamp_ms for snapshot in table.snapshots)
    older_than = times[min(cut, len(times) - 1)]
    before, storage = table.metadata, table._workings.storage
    reached, there = reachable(storage, before), files(table)
    rows = {s.snapshot_id: rows_of(table, snapshot_id=s.snapshot_id) for s in table.snapshots}

    plan = table.expire_snapshots(older_than=older_than, retain_last=last, dry_run=True)
    assert (files(table), table.metadata) == (there, before)  # a plan touches nothing
    now_ms = max(before.last_updated_ms + 1, 0)
    report = table.expire_snapshots(older_than=older_than, retain_last=last)

    kept = {snapshot.snapshot_id for snapshot in table.snapshots}
    assert set(report.snapshot_ids) == rows.keys() - kept
    assert (report.files, report.total_bytes) == (plan.files, plan.total_bytes)
    young = kept_by_policy(before, now_ms=now_ms, older_than_ms=older_than, retain_last=last)
    late = kept_by_policy(before, now_ms=LATE // 2, older_than_ms=older_than, retain_last=last)
    assert late <= kept <= young  # refs age by the clock, which this test does not set
    assert files(table) == there - (reached - reachable(storage, table.metadata))
    assert {id_: rows_of(table, snapshot_id=id_) for id_ in kept} == {id_: rows[id_] for id_ in kept}
    assert table.verify(deep=True).ok


@pytest.mark.slow
def test_k2_a_thousand_snapshots_with_tags_and_branches() -> None:
    table = orders(1)
    table.branch("audit", min_snapshots_to_keep=40)
    for n in range(1, 1000):
        table.append({"id": [n], "region": ["eu"]}, ref="audit" if n % 3 == 0 else "main")
        if n % 100 == 0:
            table.tag(f"v{n}")
        if n % 150 == 0:
            table.delete(f"id < {n - 50}")
    before, storage = table.metadata, table._workings.storage
    reached, there = reachable(storage, before), files(table)
    expected = kept_by_policy(before, now_ms=before.last_updated_ms, older_than_ms=LATE, retain_last=25)
    report = table.expire_snapshots(older_than=LATE, retain_last=25)
    assert {snapshot.snapshot_id for snapshot in table.snapshots} == expected
    assert len(expected) == 25 + 40 + 9
    assert report.snapshots_before - len(report.snapshot_ids) == report.snapshots_after == len(expected)
    assert files(table) == there - (reached - reachable(storage, table.metadata))
    assert table.verify().ok


# ---------------------------------------------------------------- policies


def test_the_tables_properties_decide_by_default() -> None:
    table = orders(5)
    assert table.expire_snapshots().snapshot_ids == ()  # five days
    with table.alter() as change:
        change.set_properties({"history.expire.max-snapshot-age-ms": "1", "history.expire.min-snapshots-to-keep": "2"})
    assert len(table.expire_snapshots(dry_run=True).snapshot_ids) == 3
    assert len(table.expire_snapshots(retain_last=4, dry_run=True).snapshot_ids) == 1
    assert table.expire_snapshots(older_than=timedelta(days=1), dry_run=True).snapshot_ids == ()


def test_named_snapshots_expire_alone() -> None:
    table = orders(5)
    first, third = table.snapshots[0].snapshot_id, table.snapshots[2].snapshot_id
    report = table.expire_snapshots(snapshot_ids=[first, third])
    assert report.snapshot_ids == (first, third)
    assert rows_of(table) == [0, 1, 2, 3, 4]
    with pytest.raises(NoSuchSnapshot, match="cannot expire snapshot 5: the table does not have it"):
        table.expire_snapshots(snapshot_ids=[5])
    with pytest.raises(InvalidInput, match="'main' points to it"):
        table.expire_snapshots(snapshot_ids=[table.snapshots[-1].snapshot_id])
    with pytest.raises(InvalidInput, match="keep at least 1"):
        table.expire_snapshots(retain_last=0)


def test_statistics_of_an_expired_snapshot_go_with_it() -> None:
    table = orders(2)
    paths = [f"{table.location}/metadata/{n}.stats" for n in range(2)]
    stats = [
        StatisticsFile(snapshot_id=s.snapshot_id, path=path, file_size=1, footer_size=1)
        for s, path in zip(table.snapshots, paths, strict=True)
    ]
    home = table._at_home()
    home.catalog.swap(home.name, table._state, replace(table.metadata, statistics=tuple(stats)))
    for path in paths:
        table._workings.storage.write_new(path, b"x")
    report = table.refresh().expire_snapshots(older_than=LATE)
    assert report.files["statistics"] == 1
    assert [file.path for file in table.metadata.statistics] == paths[1:]
    assert paths[0] not in objects_of(table)
    assert paths[1] in objects_of(table)


@pytest.mark.parametrize("what", ["data", "manifest", "metadata"])
def test_statistics_in_a_file_that_the_table_still_needs_stay(what: str) -> None:
    """A Puffin file may have both sketches and deletion vectors, and crafted metadata may name any file."""
    table = orders(2)
    places = {
        "data": table.inspect.data_files().column("file_path")[0].as_py(),
        "manifest": table.inspect.manifests().column("path")[0].as_py(),
        "metadata": table._state.metadata_location,
    }
    file = StatisticsFile(snapshot_id=table.snapshots[0].snapshot_id, path=places[what], file_size=1, footer_size=1)
    home = table._at_home()
    home.catalog.swap(home.name, table._state, replace(table.metadata, statistics=(file,)))
    report = table.refresh().expire_snapshots(older_than=LATE)
    assert "statistics" not in report.files
    assert table.metadata.statistics == ()
    assert places[what] in objects_of(table)
    assert table.verify().ok


def test_schemas_and_specs_that_nothing_uses_go_when_asked() -> None:
    table = orders(1)
    with table.alter() as change:
        change.add_partition("region")
        change.add_column("note", "string")
    table.overwrite({"id": [7], "region": ["us"], "note": ["x"]})
    assert (len(table.metadata.schemas), len(table.metadata.specs)) == (2, 2)
    table.expire_snapshots(older_than=LATE)
    assert (len(table.metadata.schemas), len(table.metadata.specs)) == (2, 2)
    table.append({"id": [8], "region": ["us"], "note": ["x"]})
    table.expire_snapshots(older_than=LATE, clean_expired_metadata=True)
    assert (len(table.metadata.schemas), len(table.metadata.specs)) == (1, 1)
    assert rows_of(table.refresh()) == [7, 8]
    assert table.verify(deep=True).ok


# ---------------------------------------------------------------- what is not deleted


def other_engines_add_any_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Esker refuses to add a file that the table has removed before; other engines do not."""
    monkeypatch.setattr("esker.write.build_snapshot.check_new_files", lambda *_: None)


def test_a_path_that_was_removed_and_added_again_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    other_engines_add_any_file(monkeypatch)
    table = orders(1)
    path = table.inspect.data_files().column("file_path").to_pylist()[0]
    table.delete("true")
    table.append({"id": [5], "region": ["eu"]})
    table.add_files([path])
    report = table.expire_snapshots(older_than=LATE)
    assert len(report.snapshot_ids) == 3
    assert report.files.get("data", 0) == 0
    assert rows_of(table) == [0, 5]


def test_files_outside_of_the_tables_folders_stay(tmp_path: Path) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/c.db", warehouse=f"{tmp_path}/w", allowed_roots=[tmp_path / "other"])
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint")
    table.append({"id": [1]})
    own = table.inspect.data_files().column("file_path").to_pylist()[0]
    other = tmp_path / "other" / "x.parquet"
    other.parent.mkdir()
    other.write_bytes(Path(own.removeprefix("file://")).read_bytes())
    table.add_files([str(other)])
    table.delete("true")
    report = table.expire_snapshots(older_than=LATE)
    assert report.elsewhere == 1
    assert report.files["data"] == 1
    assert other.exists()
    assert not Path(own.removeprefix("file://")).exists()


def test_s17_a_file_that_is_also_recorded_through_a_link_stays(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    lake = esker.connect(f"sqlite:///{tmp_path}/c.db", warehouse=f"{tmp_path}/real", allowed_roots=[f"{tmp_path}/link"])
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint")
    table.append({"id": [1]})
    (file,) = table.inspect.files()["file_path"].to_pylist()
    table.delete("id = 1")
    table.add_files([file.replace("/real/", "/link/")])
    report = table.expire_snapshots(older_than=1 << 60)
    assert "data" not in report.files
    assert rows_of(table) == [1]
    assert table.verify(deep=True).ok


def test_gc_enabled_false_refuses_deletes() -> None:
    table = orders(3, properties={"gc.enabled": "false"})
    there = files(table)
    for how in ({}, {"dry_run": True}, {"delete": "later"}):
        with pytest.raises(InvalidInput, match=r"gc\.enabled is false"):
            table.expire_snapshots(older_than=LATE, **how)
    report = table.expire_snapshots(older_than=LATE, delete="never")
    assert len(report.snapshot_ids) == 2
    assert (files(table), report.files_total) == (there, 0)


def test_nothing_is_deleted_if_the_outcome_of_the_commit_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders(3)
    there = files(table)
    monkeypatch.setattr(table._at_home().catalog, "swap", lambda *_: Unanswered("no answer"))
    with pytest.raises(OutcomeUnknown):
        table.expire_snapshots(older_than=LATE)
    assert files(table) == there


def test_a_retained_manifest_that_cannot_be_read_keeps_every_file() -> None:
    table = orders(3)
    table.delete("id = 1")
    manifest = table.inspect.manifests().column("path").to_pylist()[0]
    objects_of(table)[manifest] = (b"no avro", 0)
    there = files(table)
    with pytest.raises(Corrupt):
        table.expire_snapshots(older_than=LATE)
    assert files(table) == there


def test_f46_of_two_tables_in_one_folder_only_own_references_go() -> None:
    lake = esker.connect("memory:")
    lake.create_namespace("s")
    outer = lake.create_table("s.outer", "id bigint")
    outer.append({"id": [1]})
    inner = lake.create_table("s.inner", "id bigint", location=f"{outer.location}/inner")
    inner.append({"id": [2]})
    outer.overwrite({"id": [3]})
    outer.expire_snapshots(older_than=LATE)
    assert rows_of(inner) == [2]
    assert inner.verify().ok


# ---------------------------------------------------------------- failures half-way


def dies_after(table: Table, monkeypatch: pytest.MonkeyPatch, deletes: int) -> None:
    """The process is interrupted after so many deletes."""
    storage = table._workings.storage
    delete = storage.delete
    left = [deletes]

    def counted(location: str) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        delete(location)

    monkeypatch.setattr(storage, "delete", counted)


@pytest.mark.parametrize("deletes", [0, 1, 3, 5])
def test_f09_a_second_run_finishes_an_expiry_that_stopped(monkeypatch: pytest.MonkeyPatch, deletes: int) -> None:
    table = orders(4)
    table.overwrite({"id": [9], "region": ["eu"]})
    before, storage = table.metadata, table._workings.storage
    there, reached = files(table), reachable(storage, before)
    with monkeypatch.context() as patch:
        dies_after(table, patch, deletes)
        with pytest.raises(KeyboardInterrupt):
            table.expire_snapshots(older_than=LATE)
    table.refresh()
    assert len(table.snapshots) == 1
    assert table.verify().ok  # F08: no reachable file is gone
    journals = [place for place in files(table) if is_journal(place)]
    assert len(journals) == 1
    report = table.expire_snapshots(older_than=LATE)
    assert report.finished > 0
    assert report.snapshot_ids == ()
    assert files(table) == there - (reached - reachable(storage, table.metadata))
    assert table.verify().ok


def test_a_file_that_cannot_be_deleted_is_reported_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders(3)
    table.overwrite({"id": [9], "region": ["eu"]})
    storage, stuck = table._workings.storage, table.inspect.all_data_files().column("file_path").to_pylist()[-1]
    delete = storage.delete

    def refuses(location: str) -> None:
        if location == stuck:
            raise OSError("busy")
        delete(location)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "delete", refuses)
        stuck = min(needed_by(storage, table.snapshots[0]))
        report = table.expire_snapshots(older_than=LATE)
    assert report.failed == (stuck,)
    assert report.journal is not None
    assert table.expire_snapshots(older_than=LATE).failed == ()
    assert stuck not in objects_of(table)
    assert report.journal not in objects_of(table)


def test_two_phases_unreference_now_and_delete_later(monkeypatch: pytest.MonkeyPatch) -> None:
    other_engines_add_any_file(monkeypatch)
    table = orders(3)
    table.overwrite({"id": [9], "region": ["eu"]})
    path = min(p for p in needed_by(table._workings.storage, table.snapshots[0]) if p.endswith(".parquet"))
    there = files(table)
    report = table.expire_snapshots(older_than=LATE, delete="later")
    assert len(report.snapshot_ids) == 3
    assert report.files["data"] == 3
    assert files(table) == there | {report.journal}
    table.append({"id": [5], "region": ["eu"]})
    table.add_files([path])  # the file is in use again
    later = table.expire_snapshots()
    assert later.finished == report.files_total - 1
    assert rows_of(table) == [0, 5, 9]
    assert report.journal not in objects_of(table)


def test_two_expiries_at_once_delete_each_file_and_fail_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders(4)
    table.overwrite({"id": [9], "region": ["eu"]})
    rival, storage = another(table), table._workings.storage
    opens = storage.open
    waiting = [rival.expire_snapshots]

    def opened(location: str) -> Any:
        if is_journal(location) and waiting:
            waiting.pop()(older_than=LATE)  # it finds the journal, and finishes it first
        return opens(location)

    before = table.metadata
    there, reached = files(table), reachable(storage, before)
    with monkeypatch.context() as patch:
        patch.setattr(storage, "open", opened)
        report = table.expire_snapshots(older_than=LATE)
    assert not waiting
    assert (report.failed, report.journal) == ((), None)
    assert files(table) == there - (reached - reachable(storage, table.metadata))
    assert table.verify().ok


def test_a_journal_of_another_table_is_left_alone() -> None:
    """A dropped table that had the same folder leaves one. The expiries of this table must go on."""
    table = orders(2)
    storage = table._workings.storage
    live = table.inspect.data_files().column("file_path")[0].as_py()
    place = f"{table.location}/metadata/expired-x.files.jsonl"
    text = f'{{"table-uuid": "other"}}\n["data", "{live}"]\n["data", "{table.location}/data/x"]\n'.encode()
    storage.write_new(place, text)
    storage.write_new(f"{table.location}/data/x", b"x")
    report = table.expire_snapshots(older_than=LATE)
    assert (report.snapshots_after, report.finished, report.failed) == (1, 0, ())
    assert storage.read(place) == text
    assert storage.size(f"{table.location}/data/x") == 1
    assert table.verify().ok


@pytest.mark.parametrize("text", [b"", b"[]\n", b"{}\n", b'{"table-uuid": "0'])
def test_a_file_that_is_no_journal_though_it_has_the_name_is_refused(text: bytes) -> None:
    table = orders(2)
    table._workings.storage.write_new(f"{table.location}/metadata/expired-x.files.jsonl", text)
    with pytest.raises(Corrupt, match="expired-x"):
        table.expire_snapshots(older_than=LATE)
    assert len(table.refresh().snapshots) == 2


def test_files_that_are_gone_already_are_no_error() -> None:
    table = orders(4)
    table.overwrite({"id": [9], "region": ["eu"]})
    first, second = table.snapshots[0], table.snapshots[1]
    assert first.manifest_list is not None
    storage = table._workings.storage
    storage.delete(first.manifest_list)
    lost = sorted(p for p in needed_by(storage, second) if p.endswith(".parquet"))
    storage.delete(lost[0])
    report = table.expire_snapshots(older_than=LATE)
    assert report.unreadable == (first.manifest_list,)
    assert report.failed == ()
    assert table.verify().ok


def test_one_manifest_that_is_gone_hides_no_files_of_the_others() -> None:
    table = orders(4)
    table.overwrite({"id": [9], "region": ["eu"]})
    storage = table._workings.storage
    gone = table.inspect.all_manifests().column("path").to_pylist()[0]
    storage.delete(gone)
    report = table.expire_snapshots(older_than=LATE)
    assert report.unreadable == (gone,)
    assert report.files["data"] == 3
    assert table.verify().ok


# ---------------------------------------------------------------- two writers


def just_before_the_swap(table: Table, monkeypatch: pytest.MonkeyPatch, rival: Callable[[], object]) -> None:
    """A rival commits between an expiry's reading of the table and its swap."""
    catalog = table._at_home().catalog
    swap = catalog.swap
    waiting = [rival]

    def raced(*given: Any) -> Any:
        if waiting:
            waiting.pop()()
        return swap(*given)

    monkeypatch.setattr(catalog, "swap", raced)


def another(table: Table) -> Table:
    """The same table, opened by someone else."""
    home = table._at_home()
    return Table(
        name=table.name,
        state=home.catalog.load(home.name),
        workings=table._workings,
        reload=lambda: home.catalog.load(home.name),
        home=home,
    )


def test_a_snapshot_that_is_tagged_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders(4)
    first, rival = table.snapshots[0].snapshot_id, another(table)
    just_before_the_swap(table, monkeypatch, lambda: rival.tag("keep", first))
    report = table.expire_snapshots(older_than=LATE)
    assert first not in report.snapshot_ids
    assert rows_of(table, ref="keep") == [0]
    assert table.verify().ok


def test_f33_an_append_meanwhile_keeps_its_rows_and_files(monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders(4)
    table.overwrite({"id": [9], "region": ["eu"]})
    rival = another(table)
    just_before_the_swap(table, monkeypatch, lambda: rival.append({"id": [10], "region": ["eu"]}))
    table.expire_snapshots(older_than=LATE)
    assert rows_of(table) == [9, 10]
    assert table.verify().ok


def test_f34_a_table_made_again_under_the_name_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders(3)
    home = table._at_home()
    there = files(table)

    def again() -> None:
        home.catalog.drop(home.name)
        made = replace(table.metadata, uuid="0" * 32, snapshots=(), refs={}, current_snapshot_id=None)
        home.catalog.create(home.name, made)

    just_before_the_swap(table, monkeypatch, again)
    with pytest.raises(Conflict, match="dropped and another table has its name"):
        table.expire_snapshots(older_than=LATE)
    assert there <= files(table)


def test_f34_a_table_that_gets_another_name_after_the_commit_keeps_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name then leads to another table, which reaches none of the files."""
    table = orders(3)
    home = table._at_home()
    swap = home.catalog.swap

    def renamed(*given: Any) -> Any:
        answer = swap(*given)
        monkeypatch.undo()
        home.catalog.rename(home.name, TableName(("s",), "moved"))
        made = replace(table.metadata, uuid="0" * 32, snapshots=(), refs={}, current_snapshot_id=None)
        home.catalog.create(home.name, made)
        return answer

    there = files(table)
    monkeypatch.setattr(home.catalog, "swap", renamed)
    with pytest.raises(Conflict, match="the snapshots have expired, but another table has its name"):
        table.expire_snapshots(older_than=LATE)
    assert there <= files(table)
    moved = home.catalog.load(TableName(("s",), "moved"))
    assert len(moved.metadata.snapshots) == 1
    assert reachable(table._workings.storage, moved.metadata) <= files(table)


def test_nothing_is_picked_twice_though_the_history_has_expired() -> None:
    table = orders(3)
    first = table.snapshots[0].snapshot_id
    table.tag("keep", first)
    table.expire_snapshots(older_than=LATE)
    with pytest.raises(InvalidInput, match=f"cannot cherry-pick snapshot {first}: main has its file .*parquet already"):
        table.cherry_pick(first)
    assert rows_of(table.refresh()) == [0, 1, 2]
    table.delete("id = 0")
    table.cherry_pick(first)  # its file is gone, so it is a new change
    assert rows_of(table) == [0, 1, 2]
    assert table.verify().ok


def test_f33_a_change_that_began_before_an_expiry_fails_closed() -> None:
    table = orders(2)
    tx = another(table).transaction()
    tx.overwrite({"id": [5], "region": ["eu"]}, "id = 1")
    table.append({"id": [1], "region": ["eu"]})
    table.expire_snapshots(older_than=LATE)
    with pytest.raises(Conflict):
        tx.commit()
    assert rows_of(table.refresh()) == [0, 1, 1]
    assert table.verify().ok


def test_f45_a_reader_of_an_expired_snapshot_is_informed() -> None:
    table = orders(3)
    first = table.snapshots[0].snapshot_id
    table.expire_snapshots(older_than=LATE)
    with pytest.raises(NoSuchSnapshot):
        table.scan(snapshot_id=first).to_arrow()


# ---------------------------------------------------------------- other engines


@pytest.mark.interop
@pytest.mark.slow
def test_pyiceberg_and_duckdb_read_the_table_afterwards(tmp_path: Path) -> None:
    from duckdb_iceberg import duckdb_with_iceberg
    from pyiceberg.table import StaticTable

    lake = esker.connect(f"sqlite:///{tmp_path}/c.db", warehouse=f"{tmp_path}/w")
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint, region string", properties={"write.delete.mode": "merge-on-read"})
    for n in range(6):
        table.append({"id": [n, n + 100], "region": ["eu", "us"]})
    table.tag("v1", table.snapshots[2].snapshot_id)
    table.delete("id = 3")
    table.expire_snapshots(older_than=LATE, retain_last=2)
    expected = rows_of(table)
    other = StaticTable.from_metadata(table.metadata_location)
    assert sorted(other.scan().to_arrow()["id"].to_pylist()) == expected
    tagged = other.scan(snapshot_id=table.refs["v1"].snapshot_id).to_arrow()
    assert sorted(tagged["id"].to_pylist()) == rows_of(table, ref="v1")
    connection: Any = duckdb_with_iceberg()
    found = connection.execute(f"select id from iceberg_scan('{table.metadata_location}')").fetchall()
    assert sorted(row[0] for row in found) == expected


def test_an_expiry_shows_itself() -> None:
    table = orders(3)
    plan = table.expire_snapshots(older_than=LATE, dry_run=True)
    assert repr(plan).startswith("<Expiry of s.t: would expire 2 of 3 snapshots, would delete 2 files")
    report = table.expire_snapshots(older_than=LATE)
    assert str(report).startswith("expired 2 of 3 snapshots, deleted 2 files")
    assert "3 before, 1 after" in report._repr_html_()
    assert table.expire_snapshots(older_than=LATE, delete="later").journal is None


# ---------------------------------------------------------------- memory


MOST_BYTES = (
    60  # for each file more: two keys of 8 bytes, as much while sets are joined, and the files of two manifests
)


@pytest.mark.slow
def test_memory_grows_by_few_bytes_with_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachable_files, "_AT_ONCE", 2)  # manifests that are read together
    monkeypatch.setattr(iceberg_format, "MANIFESTS_AT_ONCE", 2)
    peaks = []
    for each in (10, 160):
        uri = f"sqlite:///{tmp_path}/{each}.db"
        make_history(esker.connect(uri, warehouse=f"{tmp_path}/{each}"), 40, each)
        table = esker.connect(uri, warehouse=f"{tmp_path}/{each}").table(EXPIRED)
        table.expire_snapshots(older_than=LATE, retain_last=30, dry_run=True)  # imports, and caches of fixed size
        tracemalloc.start()
        plan = table.expire_snapshots(older_than=LATE, retain_last=5, dry_run=True)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(plan.snapshot_ids) == 35
        assert plan.files["data"] == (40 - 25) * each  # a snapshot lists the manifests of the 20 before it
    assert peaks[1] - peaks[0] < 40 * (160 - 10) * MOST_BYTES
