"""Which snapshot a reader means (checklist K1, K4)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from esker.errors import InvalidInput, NoSuchSnapshot
from esker.model.schema import Schema
from esker.model.types import INT, LONG, STRING, Field
from esker.read.resolve_snapshot import resolve_snapshot, to_epoch_ms
from esker.tree.snapshot import RefKind, Snapshot, SnapshotRef
from esker.tree.table_metadata import SnapshotLogEntry, TableMetadata

OLD = Schema(schema_id=0, fields=(Field(id=1, name="id", type=INT),))
NEW = Schema(schema_id=1, fields=(Field(id=1, name="id", type=LONG), Field(id=2, name="name", type=STRING)))


def snapshot(snapshot_id: int, timestamp_ms: int, parent: int | None = None, schema_id: int | None = 0) -> Snapshot:
    return Snapshot(snapshot_id=snapshot_id, timestamp_ms=timestamp_ms, parent_snapshot_id=parent, schema_id=schema_id)


def table(**changes: object) -> TableMetadata:
    facts: dict[str, object] = {
        "format_version": 2,
        "uuid": "u",
        "location": "memory://t",
        "last_updated_ms": 300,
        "last_column_id": 2,
        "schemas": (OLD, NEW),
        "current_schema_id": 1,
        "current_snapshot_id": 3,
        "snapshots": (snapshot(1, 100), snapshot(2, 200, 1), snapshot(3, 300, 2, schema_id=1)),
        "snapshot_log": (
            SnapshotLogEntry(timestamp_ms=100, snapshot_id=1),
            SnapshotLogEntry(timestamp_ms=200, snapshot_id=2),
            SnapshotLogEntry(timestamp_ms=300, snapshot_id=3),
        ),
        "refs": {
            "main": SnapshotRef(snapshot_id=3, kind=RefKind.BRANCH),
            "audit": SnapshotRef(snapshot_id=1, kind=RefKind.BRANCH),
            "eow": SnapshotRef(snapshot_id=2, kind=RefKind.TAG),
        },
    }
    return TableMetadata(**{**facts, **changes})  # type: ignore[arg-type]


def chosen(metadata: TableMetadata, **choice: object) -> int:
    found = resolve_snapshot(metadata, **choice).snapshot  # type: ignore[arg-type]
    assert found is not None
    return found.snapshot_id


def test_without_a_choice_the_current_snapshot_is_read_with_the_current_schema() -> None:
    resolved = resolve_snapshot(table())
    assert resolved.snapshot is not None
    assert (resolved.snapshot.snapshot_id, resolved.schema) == (3, NEW)


def test_an_empty_table_has_no_snapshot_and_still_a_schema() -> None:
    empty = table(current_snapshot_id=None, snapshots=(), snapshot_log=(), refs={})
    assert resolve_snapshot(empty).snapshot is None
    assert resolve_snapshot(empty, ref="main").schema == NEW


@pytest.mark.parametrize(("moment", "expected"), [(100, 1), (150, 1), (199, 1), (200, 2), (10**15, 3)])
def test_k1_a_time_means_the_last_snapshot_up_to_it(moment: int, expected: int) -> None:
    assert chosen(table(), as_of=moment) == expected


def test_k1_the_largest_time_wins_wherever_it_stands_in_the_log() -> None:
    stepped = table(
        snapshot_log=(
            SnapshotLogEntry(timestamp_ms=200, snapshot_id=2),
            SnapshotLogEntry(timestamp_ms=300, snapshot_id=3),
            SnapshotLogEntry(timestamp_ms=150, snapshot_id=1),
        )
    )
    assert chosen(stepped, as_of=180) == 1
    assert chosen(stepped, as_of=250) == 2
    assert chosen(stepped, as_of=999) == 3


def test_k1_a_rollback_is_seen_in_the_log_not_in_the_parents() -> None:
    rolled = table(
        current_snapshot_id=1,
        snapshot_log=(*table().snapshot_log, SnapshotLogEntry(timestamp_ms=400, snapshot_id=1)),
    )
    assert chosen(rolled, as_of=350) == 3
    assert chosen(rolled, as_of=400) == 1


def test_k1_a_time_before_the_first_snapshot_is_an_error_that_names_the_oldest() -> None:
    with pytest.raises(NoSuchSnapshot, match=r"history begins later; available: 3 snapshots 1, 2, 3, the oldest from"):
        resolve_snapshot(table(), as_of=99)


def test_k1_a_time_whose_snapshot_has_expired_says_so() -> None:
    with pytest.raises(NoSuchSnapshot, match="snapshot 1, current then, has expired"):
        resolve_snapshot(table(snapshots=table().snapshots[1:]), as_of=150)


def test_a_table_without_a_log_is_travelled_by_its_parents() -> None:
    assert chosen(table(snapshot_log=()), as_of=250) == 2


def test_k4_id_time_and_tag_read_with_the_schema_of_their_snapshot() -> None:
    assert resolve_snapshot(table(), snapshot_id=2).schema == OLD
    assert resolve_snapshot(table(), as_of=200).schema == OLD
    assert resolve_snapshot(table(), ref="eow").schema == OLD


def test_k4_a_branch_is_read_with_the_current_schema() -> None:
    resolved = resolve_snapshot(table(), ref="audit")
    assert resolved.snapshot is not None
    assert (resolved.snapshot.snapshot_id, resolved.schema) == (1, NEW)


def test_a_snapshot_without_a_schema_id_is_read_with_the_current_schema() -> None:
    unsaid = table(snapshots=(snapshot(3, 300, schema_id=None),))
    assert resolve_snapshot(unsaid, snapshot_id=3).schema == NEW


def test_a_missing_id_names_what_is_available() -> None:
    with pytest.raises(NoSuchSnapshot, match=r"no snapshot 7: .*available: 3 snapshots .*refs: audit, eow, main"):
        resolve_snapshot(table(), snapshot_id=7)


def test_a_missing_ref_names_the_refs_there_are() -> None:
    with pytest.raises(NoSuchSnapshot, match=r"no branch or tag 'nope'; .*refs: audit, eow, main"):
        resolve_snapshot(table(), ref="nope")


def test_a_ref_to_an_expired_snapshot_says_which() -> None:
    gone = table(snapshots=(snapshot(3, 300),))
    with pytest.raises(NoSuchSnapshot, match="tag 'eow' names snapshot 2, which has expired"):
        resolve_snapshot(gone, ref="eow")


def test_two_choices_at_once_are_refused() -> None:
    with pytest.raises(InvalidInput, match="give one of snapshot_id, as_of and ref"):
        resolve_snapshot(table(), snapshot_id=1, ref="main")


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (0, 0),
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:59:59.999Z", -1),
        ("1700000000000", 1_700_000_000_000),
        (datetime(1970, 1, 1, 0, 0, 1), 1000),
        (datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC), 1000),
        (datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), 0),
    ],
)
def test_a_time_is_a_datetime_an_iso_string_or_milliseconds(moment: datetime | str | int, expected: int) -> None:
    assert to_epoch_ms(moment) == expected


@pytest.mark.parametrize("nonsense", ["yesterday", "", "2026-13-01", 1.5, None, True])
def test_what_is_no_time_is_refused(nonsense: object) -> None:
    with pytest.raises(InvalidInput, match="cannot read"):
        to_epoch_ms(nonsense)  # type: ignore[arg-type]
