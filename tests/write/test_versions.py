"""Tags, branches, rollback, fast-forward, cherry-pick and write-audit-publish."""

from __future__ import annotations

from typing import Any, cast

import pytest
from commits import NAME, CommittedTable

from esker.errors import AlreadyExists, Conflict, EskerError, InvalidInput, NoSuchSnapshot
from esker.ports.catalog import Catalog, TableState
from esker.read.resolve_snapshot import resolve_snapshot
from esker.tree.snapshot import RefKind, SnapshotRef
from esker.write.refs import branches_and_tags
from esker.write.refs import cherry_pick as picks
from esker.write.refs.retention import without_snapshots


class Versioned(CommittedTable):
    """A table with the verbs of versions, each on the table as it is now unless a base is given."""

    def _home(self, base: TableState | None) -> tuple[Catalog, Any, TableState]:
        return cast(Catalog, self.catalog), NAME, base or self.load()

    def tag(self, *args: Any, base: TableState | None = None, **more: Any) -> TableState:
        return branches_and_tags.tag(*self._home(base), *args, **more)

    def branch(self, *args: Any, base: TableState | None = None, **more: Any) -> TableState:
        return branches_and_tags.branch(*self._home(base), self.tools, *args, **more)

    def drop_ref(self, *args: Any, **more: Any) -> TableState:
        return branches_and_tags.drop_ref(*self._home(None), *args, **more)

    def rollback(self, base: TableState | None = None, **more: Any) -> TableState:
        return branches_and_tags.rollback(*self._home(base), **more)

    def fast_forward(self, *args: Any) -> TableState:
        return branches_and_tags.fast_forward(*self._home(None), *args)

    def cherry_pick(self, snapshot_id: int, **more: Any) -> TableState:
        return picks.cherry_pick(*self._home(None), self.tools, snapshot_id, **more)

    def publish(self, wap_id: str) -> TableState:
        return picks.publish(*self._home(None), self.tools, wap_id)


@pytest.fixture(params=[1, 2, 3])
def table(request: pytest.FixtureRequest) -> Versioned:
    return Versioned(format_version=request.param)


# ---------------------------------------------------------------- refs


def test_a_tag_stays_and_a_branch_moves(table: Versioned) -> None:
    first = table.append("a")
    table.tag("v1", max_ref_age_ms=5)
    table.branch("dev", min_snapshots_to_keep=3, max_snapshot_age_ms=7, max_ref_age_ms=9)
    second = table.append("b", ref="dev")
    refs = table.metadata.refs
    assert refs["v1"] == SnapshotRef(snapshot_id=first.snapshot_id, kind=RefKind.TAG, max_ref_age_ms=5)
    assert refs["dev"] == SnapshotRef(
        snapshot_id=second.snapshot_id,
        kind=RefKind.BRANCH,
        min_snapshots_to_keep=3,
        max_snapshot_age_ms=7,
        max_ref_age_ms=9,
    )
    assert table.metadata.current_snapshot_id == first.snapshot_id
    assert (table.paths(), table.paths(second.snapshot_id)) == (["a"], ["a", "b"])
    assert second.parent_snapshot_id == first.snapshot_id


def test_a_ref_without_a_snapshot_is_of_the_one_the_user_sees(table: Versioned) -> None:
    first = table.append("a")
    seen = table.load()
    table.append("b")
    table.tag("v1", base=seen)
    table.branch("dev", base=seen)
    table.tag("old", first.snapshot_id)
    assert {ref.snapshot_id for name, ref in table.metadata.refs.items() if name != "main"} == {first.snapshot_id}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "is not a name for a ref: it is empty"),
        (" x", "begins or ends with a space"),
        ("a\nb", "it has control characters or more than 200 bytes"),
        ("x" * 201, "it has control characters or more than 200 bytes"),
        (5, "5 is not a name for a ref"),
    ],
)
def test_a_name_that_is_none_is_refused(name: Any, said: str) -> None:
    table = Versioned()
    table.append("a")
    for make in (table.tag, table.branch):
        with pytest.raises(InvalidInput) as refusal:
            make(name)
        assert said in refusal.value.message


def test_what_refs_may_not_be(table: Versioned) -> None:
    snapshot = table.append("a").snapshot_id
    table.tag("v1")
    table.branch("dev")
    cases: list[tuple[Any, type[EskerError], str]] = [
        (lambda: table.tag("v1"), AlreadyExists, "cannot create tag 'v1': a tag has that name"),
        (lambda: table.branch("v1"), AlreadyExists, "cannot create branch 'v1': a tag has that name"),
        (lambda: table.branch("main"), AlreadyExists, "a branch has that name"),
        (lambda: table.branch("v1", replace=True), InvalidInput, "cannot make 'v1' a branch: it is a tag; drop it"),
        (lambda: table.tag("main"), InvalidInput, "cannot make main a tag"),
        (lambda: table.drop_ref("main"), InvalidInput, "cannot drop main"),
        (lambda: table.drop_ref("nope"), NoSuchSnapshot, "no branch or tag 'nope'; refs: dev, main, v1"),
        (lambda: table.drop_ref("v1", kind=RefKind.BRANCH), InvalidInput, "cannot drop branch 'v1': it is a tag"),
        (lambda: table.tag("x", 5), NoSuchSnapshot, "no snapshot 5"),
        (lambda: table.branch("x", max_ref_age_ms=0), InvalidInput, "cannot use max_ref_age_ms = 0"),
        (lambda: table.branch("x", min_snapshots_to_keep=True), InvalidInput, "cannot use min_snapshots_to_keep"),
        (lambda: table.branch("main", max_ref_age_ms=5, replace=True), InvalidInput, "cannot let main expire"),
        (lambda: table.append("b", ref="v1"), InvalidInput, "cannot write to 'v1': it is a tag"),
        (lambda: table.append("b", ref="nope"), NoSuchSnapshot, "cannot write to branch 'nope': it does not exist"),
    ]
    for act, error, said in cases:
        with pytest.raises(error) as refusal:
            act()
        assert said in refusal.value.message
    assert set(table.metadata.refs) == {"main", "v1", "dev"}
    assert table.metadata.current_snapshot_id == snapshot


def test_a_ref_is_replaced_when_that_is_asked_for(table: Versioned) -> None:
    table.append("a")
    table.tag("v1")
    second = table.append("b")
    table.tag("v1", replace=True)
    assert table.metadata.refs["v1"].snapshot_id == second.snapshot_id
    table.branch("main", replace=True, min_snapshots_to_keep=4)
    assert table.metadata.refs["main"].min_snapshots_to_keep == 4
    first = table.metadata.snapshots[0].snapshot_id
    with pytest.raises(InvalidInput, match="cannot move main by branch"):
        table.branch("main", first, replace=True)


def test_a_dropped_ref_leaves_its_snapshots(table: Versioned) -> None:
    table.append("a")
    table.branch("dev")
    snapshot = table.append("b", ref="dev")
    table.drop_ref("dev")
    assert set(table.metadata.refs) == {"main"}
    assert table.paths(snapshot.snapshot_id) == ["a", "b"]


def test_an_empty_table_can_be_branched_and_not_tagged(table: Versioned) -> None:
    with pytest.raises(InvalidInput, match="cannot create tag 'v1': the table has no snapshot yet"):
        table.tag("v1")
    table.branch("dev", min_snapshots_to_keep=2)
    metadata = table.metadata
    assert metadata.current_snapshot_id is None
    assert metadata.refs["dev"].min_snapshots_to_keep == 2
    assert metadata.snapshot_log == ()
    snapshot = table.append("a", ref="dev")
    assert (table.paths(), table.paths(snapshot.snapshot_id)) == ([], ["a"])
    table.fast_forward("main", "dev")
    assert table.paths() == ["a"]


def test_an_empty_table_that_fills_meanwhile_is_not_branched_empty() -> None:
    table = Versioned()
    seen = table.load()
    table.append("a")
    with pytest.raises(Conflict, match="cannot branch 'dev' off the empty table: another writer has committed"):
        table.branch("dev", base=seen)


# ---------------------------------------------------------------- rollback


def test_d3_every_move_of_main_is_logged_and_moves_of_branches_are_not(table: Versioned) -> None:
    first, second = table.append("a"), table.append("b")
    table.branch("dev")
    table.append("c", ref="dev")
    table.tag("t")
    table.rollback(snapshot_id=first.snapshot_id)
    metadata = table.metadata
    assert [e.snapshot_id for e in metadata.snapshot_log] == [first.snapshot_id, second.snapshot_id, first.snapshot_id]
    assert metadata.snapshot_log[-1].timestamp_ms == metadata.last_updated_ms
    assert metadata.current_snapshot_id == metadata.refs["main"].snapshot_id == first.snapshot_id
    assert table.paths() == ["a"]


def test_a_rollback_keeps_what_came_after_until_it_expires(table: Versioned) -> None:
    first, second = table.append("a"), table.append("b")
    table.rollback(snapshot_id=first.snapshot_id)
    third = table.append("c")
    assert third.parent_snapshot_id == first.snapshot_id
    assert table.paths() == ["a", "c"]
    assert table.paths(second.snapshot_id) == ["a", "b"]


def test_k1_rolling_back_by_time_finds_what_reading_at_that_time_finds(table: Versioned) -> None:
    first = table.append("a")
    table.append("b")
    table.rollback(as_of=first.timestamp_ms)
    assert table.metadata.current_snapshot_id == first.snapshot_id
    with pytest.raises(NoSuchSnapshot, match="no snapshot as of"):
        table.rollback(as_of=first.timestamp_ms - 1)


def test_k1_the_log_and_not_the_parents_say_what_was_current(table: Versioned) -> None:
    first, second = table.append("a"), table.append("b")
    table.rollback(snapshot_id=first.snapshot_id)
    third = table.append("c")
    found = [
        resolve_snapshot(table.metadata, as_of=at).snapshot
        for at in (first.timestamp_ms, second.timestamp_ms, third.timestamp_ms - 1, third.timestamp_ms)
    ]
    assert [s.snapshot_id for s in found if s] == [s.snapshot_id for s in (first, second, first, third)]


def test_a_rollback_goes_to_ancestors_only(table: Versioned) -> None:
    first, second = table.append("a"), table.append("b")
    table.rollback(snapshot_id=first.snapshot_id)
    with pytest.raises(InvalidInput) as refusal:
        table.rollback(snapshot_id=second.snapshot_id)
    assert (
        "it is not in the history of main; create a branch at it with branch(name, snapshot_id="
        in refusal.value.message
    )
    with pytest.raises(InvalidInput, match="it is not in the history of main"):
        table.rollback(as_of=second.timestamp_ms)
    branches_and_tags.set_current(cast(Catalog, table.catalog), NAME, table.load(), second.snapshot_id)
    assert table.paths() == ["a", "b"]


def test_a_rollback_says_where_to(table: Versioned) -> None:
    snapshot = table.append("a")
    for said in ({}, {"snapshot_id": snapshot.snapshot_id, "as_of": 5}):
        with pytest.raises(InvalidInput, match="give one of snapshot_id and as_of"):
            table.rollback(**said)
    with pytest.raises(NoSuchSnapshot, match="no snapshot 5"):
        table.rollback(snapshot_id=5)
    before = table.load().metadata_location
    table.rollback(snapshot_id=snapshot.snapshot_id)
    assert table.load().metadata_location == before


def test_l1_a_rollback_does_not_take_back_what_the_user_never_saw() -> None:
    table = Versioned()
    first = table.append("a")
    table.append("b")
    table.catalog.rivals.append(lambda: table.append("c"))
    with pytest.raises(Conflict, match=r"another writer has committed \d+, which would be lost; refresh and try again"):
        table.rollback(snapshot_id=first.snapshot_id)
    assert table.paths() == ["a", "b", "c"]


# ---------------------------------------------------------------- fast-forward


def test_a_branch_moves_on_to_what_came_from_it(table: Versioned) -> None:
    table.append("a")
    table.branch("dev", max_ref_age_ms=77)
    table.append("b", ref="dev")
    last = table.append("c", ref="dev")
    table.fast_forward("main", "dev")
    assert table.paths() == ["a", "b", "c"]
    assert table.metadata.snapshot_log[-1].snapshot_id == last.snapshot_id
    before = table.load().metadata_location
    table.fast_forward("main", "dev")
    assert table.load().metadata_location == before
    further = table.append("d")
    table.fast_forward("dev", further.snapshot_id)
    assert table.metadata.refs["dev"] == SnapshotRef(
        snapshot_id=further.snapshot_id, kind=RefKind.BRANCH, max_ref_age_ms=77
    )


def test_a_branch_that_would_lose_snapshots_does_not_move(table: Versioned) -> None:
    table.append("a")
    table.branch("dev")
    table.tag("v1")
    table.append("b")
    table.append("c", ref="dev")
    cases: list[tuple[Any, type[EskerError], str]] = [
        (("main", "dev"), InvalidInput, "cannot fast-forward 'main' to 'dev': 'dev' is no descendant"),
        (("main", "v1"), InvalidInput, "cannot fast-forward 'main' to 'v1'"),
        (("nope", "dev"), NoSuchSnapshot, "it does not exist; create it with branch('nope')"),
        (("v1", "dev"), InvalidInput, "it is a tag, and a tag does not move"),
        (("main", "nope"), NoSuchSnapshot, "no branch or tag 'nope'"),
        (("main", 5), NoSuchSnapshot, "no snapshot 5"),
    ]
    for said_to, error, said in cases:
        with pytest.raises(error) as refusal:
            table.fast_forward(*said_to)
        assert said in refusal.value.message


# ---------------------------------------------------------------- cherry-pick


def test_a_picked_append_is_a_new_snapshot_with_the_same_files(table: Versioned) -> None:
    table.append("a")
    table.branch("dev")
    picked = table.append("b", "c", ref="dev")
    head = table.append("d")
    table.cherry_pick(picked.snapshot_id)
    metadata = table.metadata
    new = metadata.current_snapshot
    assert new is not None
    assert table.paths() == ["a", "b", "c", "d"]
    assert new.parent_snapshot_id == head.snapshot_id
    assert new.summary["source-snapshot-id"] == str(picked.snapshot_id)
    assert (new.operation, new.summary["added-records"], new.summary["total-records"]) == ("append", "20", "40")
    assert "published-wap-id" not in new.summary
    if metadata.format_version > 1:
        assert new.sequence_number == metadata.last_sequence_number
    if metadata.format_version > 2:  # files that are new again get row ids of their own
        assert (new.first_row_id, new.added_rows, metadata.next_row_id) == (40, 20, 60)


def test_what_follows_the_head_is_moved_to(table: Versioned) -> None:
    table.append("a")
    table.branch("dev")
    picked = table.append("b", ref="dev")
    table.cherry_pick(picked.snapshot_id)
    assert table.metadata.current_snapshot_id == picked.snapshot_id
    assert len(table.metadata.snapshots) == 2


def test_nothing_is_picked_twice(table: Versioned) -> None:
    first = table.append("a")
    table.branch("dev")
    picked = table.append("b", ref="dev")
    table.append("c")
    table.cherry_pick(picked.snapshot_id)
    for again, why in ((picked, "has picked it already"), (first, "it is in the history of main")):
        with pytest.raises(InvalidInput, match=f"cannot cherry-pick snapshot {again.snapshot_id}: .*{why}"):
            table.cherry_pick(again.snapshot_id)
    with pytest.raises(NoSuchSnapshot, match="no snapshot 5"):
        table.cherry_pick(5)


def test_what_a_snapshot_removed_cannot_be_removed_again(table: Versioned) -> None:
    table.append("a")
    table.branch("dev")
    removed = table.delete_all(ref="dev")
    table.append("b")
    with pytest.raises(Conflict, match=r"main has moved since, and what a snapshot of operation 'delete' removed"):
        table.cherry_pick(removed.snapshot_id)
    assert table.paths() == ["a", "b"]
    other = Versioned()
    other.append("a")
    other.branch("dev")
    followed = other.delete_all(ref="dev")
    other.cherry_pick(followed.snapshot_id)
    assert other.paths() == []


def test_a_pick_that_loses_the_race_is_made_on_the_new_head() -> None:
    table = Versioned()
    table.append("a")
    table.branch("dev")
    picked = table.append("b", ref="dev")
    table.catalog.rivals.append(lambda: table.append("c"))  # no longer a fast-forward by then
    table.cherry_pick(picked.snapshot_id)
    assert table.paths() == ["a", "b", "c"]
    assert table.metadata.current_snapshot_id != picked.snapshot_id


def test_a_pick_that_fails_leaves_no_file_behind_and_takes_none_away() -> None:
    table = Versioned(properties={"commit.retry.num-retries": "0"})
    table.append("a")
    table.branch("dev")
    picked = table.append("b", ref="dev")
    table.append("c")
    before = {file.location for file in table.tools.storage.list(table.metadata.location)}
    table.catalog.rivals.append(lambda: table.tag("t"))
    with pytest.raises(Conflict, match="other writers committed first 1 times in a row"):
        table.cherry_pick(picked.snapshot_id)
    left = {file.location for file in table.tools.storage.list(table.metadata.location)} - before
    assert [location for location in left if not location.endswith(".metadata.json")] == []
    assert table.paths(picked.snapshot_id) == ["a", "b"]


# ---------------------------------------------------------------- write, audit, publish


def test_a_staged_write_is_seen_when_it_is_published_and_once(table: Versioned) -> None:
    table.append("a")
    staged = table.append("b", stage=True, **{"wap.id": "batch-1"})
    assert table.paths() == ["a"]
    assert table.paths(staged.snapshot_id) == ["a", "b"]
    assert len(table.metadata.snapshot_log) == 1
    table.append("c")
    table.publish("batch-1")
    assert table.paths() == ["a", "b", "c"]
    new = table.metadata.current_snapshot
    assert new is not None
    assert new.summary["published-wap-id"] == "batch-1"
    for again in (lambda: table.publish("batch-1"), lambda: table.cherry_pick(staged.snapshot_id)):
        with pytest.raises(InvalidInput, match="cannot cherry-pick snapshot"):
            again()
    with pytest.raises(NoSuchSnapshot, match=r"no snapshot was staged with wap\.id 'batch-2'"):
        table.publish("batch-2")


def test_one_wap_id_is_published_once_whoever_staged_it(table: Versioned) -> None:
    table.append("a")
    one = table.append("b", stage=True, **{"wap.id": "batch-1"})
    other = table.append("b2", stage=True, **{"wap.id": "batch-1"})
    table.cherry_pick(one.snapshot_id)
    with pytest.raises(InvalidInput, match=r"has published wap\.id 'batch-1' already"):
        table.cherry_pick(other.snapshot_id)
    assert table.paths() == ["a", "b"]


# ---------------------------------------------------------------- time travel and races


def test_k4_a_branch_reads_with_the_tables_schema_and_a_tag_with_its_snapshots(table: Versioned) -> None:
    table.append("a")
    table.tag("v1")
    table.branch("dev")
    with table.alter() as change:
        change.add_column("more", "int")
    metadata = table.metadata
    old, new = metadata.schemas
    snapshot = metadata.snapshots[0]
    assert resolve_snapshot(metadata, ref="dev").schema == new
    assert resolve_snapshot(metadata, ref="v1").schema == old
    assert resolve_snapshot(metadata, snapshot_id=snapshot.snapshot_id).schema == old
    assert resolve_snapshot(metadata, as_of=snapshot.timestamp_ms).schema == old


def test_l3_commits_to_two_branches_at_once_both_land_with_numbers_of_their_own() -> None:
    table = Versioned()
    table.append("a")
    table.branch("dev")
    theirs: list[int] = []
    table.catalog.rivals.append(lambda: theirs.append(table.append("b", ref="dev").sequence_number))
    ours = table.append("c")
    assert (theirs, ours.sequence_number, table.metadata.last_sequence_number) == ([2], 3, 3)
    assert table.paths() == ["a", "c"]


def test_l3_a_ref_set_while_others_commit_is_set() -> None:
    table = Versioned()
    first = table.append("a")
    table.catalog.rivals.append(lambda: table.append("b"))
    table.tag("v1")
    assert table.metadata.refs["v1"].snapshot_id == first.snapshot_id
    assert table.paths() == ["a", "b"]


def test_k3_a_ref_whose_snapshot_expired_meanwhile_is_refused() -> None:
    table = Versioned()
    first = table.append("a")
    table.append("b")
    seen = table.load()
    expired = without_snapshots(seen.metadata, {first.snapshot_id})
    table.catalog.rivals.append(lambda: table.catalog.inner.swap(NAME, seen, expired))
    with pytest.raises(NoSuchSnapshot, match=f"no snapshot {first.snapshot_id}: it never existed, or it has expired"):
        table.tag("v1", first.snapshot_id, base=seen)
