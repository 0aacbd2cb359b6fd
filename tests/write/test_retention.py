"""Which snapshots a table keeps, and its log without the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from esker.errors import InvalidInput
from esker.tree.snapshot import RefKind, Snapshot, SnapshotRef
from esker.tree.table_metadata import SnapshotLogEntry, StatisticsFile, TableMetadata
from esker.write.definition.new_table import define_table
from esker.write.refs.retention import retained, without_snapshots
from esker.write.table_changes import ancestors, is_ancestor

NOW = 1_000_000


def chain(
    parents: Mapping[int, int | None], head: int, /, log: tuple[int, ...] = (), **more: SnapshotRef
) -> TableMetadata:
    """Snapshots 1, 2, … with these parents, each taken at ten times its number."""
    made = define_table(schema="a int", location="memory://t")
    snapshots = tuple(
        Snapshot(snapshot_id=id_, parent_snapshot_id=parent, timestamp_ms=id_ * 10) for id_, parent in parents.items()
    )
    refs = {"main": SnapshotRef(snapshot_id=head, kind=RefKind.BRANCH), **more}
    entries = tuple(SnapshotLogEntry(timestamp_ms=at * 10, snapshot_id=id_) for at, id_ in enumerate(log))
    return replace(made, snapshots=snapshots, refs=refs, current_snapshot_id=head, snapshot_log=entries)


LINE = {1: None, 2: 1, 3: 2, 4: 3, 5: 4}


def kept(metadata: TableMetadata, **more: int) -> list[int]:
    return sorted(retained(metadata, now_ms=NOW, **more).snapshot_ids)


def test_k2_a_branch_keeps_its_head_and_what_is_young_or_few() -> None:
    assert kept(chain(LINE, 5), older_than_ms=NOW) == [5]
    assert kept(chain(LINE, 5), older_than_ms=30) == [3, 4, 5]
    assert kept(chain(LINE, 5), older_than_ms=NOW, retain_last=2) == [4, 5]
    assert kept(chain(LINE, 5)) == [1, 2, 3, 4, 5]  # younger than five days


def test_k2_a_refs_own_retention_comes_before_the_tables() -> None:
    main = SnapshotRef(snapshot_id=5, kind=RefKind.BRANCH, min_snapshots_to_keep=3)
    assert kept(chain(LINE, 5, main=main), older_than_ms=NOW) == [3, 4, 5]
    main = SnapshotRef(snapshot_id=5, kind=RefKind.BRANCH, max_snapshot_age_ms=NOW - 20)
    assert kept(chain(LINE, 5, main=main), older_than_ms=NOW) == [2, 3, 4, 5]


def test_k2_every_refs_head_stays_and_a_ref_past_its_age_goes() -> None:
    tag = SnapshotRef(snapshot_id=2, kind=RefKind.TAG)
    old = SnapshotRef(snapshot_id=3, kind=RefKind.TAG, max_ref_age_ms=NOW - 31)
    young = SnapshotRef(snapshot_id=3, kind=RefKind.TAG, max_ref_age_ms=NOW - 30)
    assert kept(chain(LINE, 5, v1=tag), older_than_ms=NOW) == [2, 5]
    assert kept(chain(LINE, 5, v1=old), older_than_ms=NOW) == [5]
    assert kept(chain(LINE, 5, v1=young), older_than_ms=NOW) == [3, 5]
    assert set(retained(chain(LINE, 5, v1=old), now_ms=NOW).refs) == {"main"}


def test_k2_ancestors_of_every_branch_count() -> None:
    forked = {1: None, 2: 1, 3: 2, 4: 1}
    dev = SnapshotRef(snapshot_id=4, kind=RefKind.BRANCH, min_snapshots_to_keep=2)
    assert kept(chain(forked, 3, dev=dev), older_than_ms=NOW) == [1, 3, 4]


def test_k2_a_staged_snapshot_stays_while_it_is_young() -> None:
    staged = {1: None, 2: 1, 3: 1}  # 3 waits, on no branch, to be published
    assert kept(chain(staged, 2), older_than_ms=30) == [2, 3]
    assert kept(chain(staged, 2), older_than_ms=31) == [2]


def test_k3_what_a_ref_points_at_is_not_expired() -> None:
    metadata = chain(LINE, 5, v1=SnapshotRef(snapshot_id=2, kind=RefKind.TAG))
    for snapshot_id, name in ((2, "v1"), (5, "main")):
        with pytest.raises(InvalidInput, match=f"cannot expire snapshot {snapshot_id}: '{name}' points to it"):
            without_snapshots(metadata, {snapshot_id})


def test_d3_expiry_cuts_the_log_behind_the_newest_that_went() -> None:
    metadata = chain(LINE, 5, log=(1, 2, 3, 2, 4, 5))
    after = without_snapshots(metadata, {1, 2})
    assert [s.snapshot_id for s in after.snapshots] == [3, 4, 5]
    assert [entry.snapshot_id for entry in after.snapshot_log] == [4, 5]
    assert after.last_updated_ms > metadata.last_updated_ms


def test_statistics_go_with_their_snapshot() -> None:
    metadata = chain(LINE, 5)
    statistics = tuple(StatisticsFile(snapshot_id=id_, path="p", file_size=1, footer_size=1) for id_ in (1, 5))
    metadata = replace(metadata, statistics=statistics)
    assert [s.snapshot_id for s in without_snapshots(metadata, {1}).statistics] == [5]


def test_ancestry_ends_where_snapshots_have_expired_and_never_goes_in_circles() -> None:
    assert [s.snapshot_id for s in ancestors(chain(LINE, 5), 5)] == [5, 4, 3, 2, 1]
    assert [s.snapshot_id for s in ancestors(chain({4: 3, 5: 4}, 5), 5)] == [5, 4]
    assert [s.snapshot_id for s in ancestors(chain({1: 2, 2: 1}, 2), 2)] == [2, 1]
    long = chain({id_: id_ - 1 or None for id_ in range(1, 40)}, 39)
    assert len(list(ancestors(long, 39))) == 39
    assert is_ancestor(long, 1, 39)
    assert not is_ancestor(long, 39, 1)
    assert not is_ancestor(long, 1, None)
