"""What the metadata tables say, over manifests held in memory."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fake_ports import FakeEngine, FakeFormat, entries_of, inspect_of

from esker.errors import InvalidInput, NoSuchSnapshot
from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.schema import Schema
from esker.model.transform import DAY, IDENTITY, VOID, BucketTransform
from esker.model.types import INT, LONG, STRING, TIMESTAMPTZ, Field
from esker.model.values import to_bytes
from esker.tree.data_file import DataFile, FileContent, Metrics
from esker.tree.manifest import EntryStatus
from esker.tree.manifest_list import FieldSummary, ManifestContent, ManifestFile
from esker.tree.snapshot import RefKind, Snapshot, SnapshotRef
from esker.tree.table_metadata import MetadataLogEntry, SnapshotLogEntry, TableMetadata

SCHEMA = Schema(
    fields=(
        Field(id=1, name="id", type=LONG, required=True),
        Field(id=2, name="ts", type=TIMESTAMPTZ),
        Field(id=3, name="note", type=STRING),
    )
)
BY_DAY = PartitionSpec(spec_id=0, fields=(PartitionField(source_id=2, field_id=1000, name="day", transform=DAY),))
BY_DAY_AND_BUCKET = PartitionSpec(
    spec_id=1,
    fields=(
        PartitionField(source_id=2, field_id=1000, name="ts_day", transform=DAY),
        PartitionField(source_id=1, field_id=1001, name="id_bucket", transform=BucketTransform(4)),
    ),
)
ADDED, EXISTING, DELETED = EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED


def _snapshot(id_: int, ms: int, parent: int | None = None, **facts: Any) -> Snapshot:
    return Snapshot(
        snapshot_id=id_,
        timestamp_ms=ms,
        parent_snapshot_id=parent,
        sequence_number=id_,
        manifest_list=f"memory:t/snap-{id_}.avro",
        summary={"operation": "append", "added-records": "5"},
        schema_id=0,
        **facts,
    )


def _metadata(**changes: Any) -> TableMetadata:
    base: dict[str, Any] = {
        "format_version": 2,
        "uuid": "0" * 32,
        "location": "memory:t",
        "last_updated_ms": 3_000,
        "last_column_id": 3,
        "schemas": (SCHEMA,),
        "current_schema_id": 0,
        "specs": (BY_DAY, BY_DAY_AND_BUCKET),
        "default_spec_id": 1,
        "current_snapshot_id": 2,
        "snapshots": (_snapshot(1, 1_000), _snapshot(2, 2_000, 1)),
        "snapshot_log": (
            SnapshotLogEntry(timestamp_ms=1_000, snapshot_id=1),
            SnapshotLogEntry(timestamp_ms=2_000, snapshot_id=2),
        ),
    }
    return TableMetadata(**{**base, **changes})


def _file(path: str, **facts: Any) -> DataFile:
    base: dict[str, Any] = {"file_format": "parquet", "record_count": 10, "file_size": 100, "snapshot_id": 1}
    return DataFile(path=path, **{**base, **facts})


def _manifest(path: str, spec: int = 0, **facts: Any) -> ManifestFile:
    return ManifestFile(path=path, length=7, spec_id=spec, added_snapshot_id=1, **facts)


OLD, NEW = _manifest("m-old"), _manifest("m-new", spec=1)
DELETES = _manifest("m-deletes", spec=1, content=ManifestContent.DELETES)


def _two_specs() -> FakeFormat:
    old = entries_of(
        OLD,
        BY_DAY,
        [_file("a", partition=(19_000,)), _file("b", partition=(19_001,)), _file("gone", partition=(19_000,))],
        status=[EXISTING, ADDED, DELETED],
    )
    new = entries_of(NEW, BY_DAY_AND_BUCKET, [_file("c", partition=(19_000, 3), snapshot_id=2)])
    deletes = entries_of(
        DELETES,
        BY_DAY_AND_BUCKET,
        [
            _file("pos", partition=(19_000, 3), content=FileContent.POSITION_DELETES, record_count=2, snapshot_id=2),
            _file("eq", partition=(19_000, 3), content=FileContent.EQUALITY_DELETES, equality_ids=(1,), record_count=1),
        ],
    )
    return FakeFormat({1: (OLD,), 2: (OLD, NEW, DELETES)}, {"m-old": old, "m-new": new, "m-deletes": deletes})


def test_files_of_two_specs_share_one_partition_struct_by_field_id() -> None:
    table = inspect_of(_metadata(), _two_specs()).files()
    day = date(2022, 1, 8)
    assert table["file_path"].to_pylist() == ["a", "b", "c", "pos", "eq"]
    assert table["partition"].to_pylist() == [
        {"ts_day": day, "id_bucket": None},
        {"ts_day": date(2022, 1, 9), "id_bucket": None},
        {"ts_day": day, "id_bucket": 3},
        {"ts_day": day, "id_bucket": 3},
        {"ts_day": day, "id_bucket": 3},
    ]
    assert table["spec_id"].to_pylist() == [0, 0, 1, 1, 1]
    assert table["content"].to_pylist() == [0, 0, 0, 1, 2]
    assert table["file_format"].to_pylist() == ["PARQUET"] * 5
    assert table["equality_ids"].to_pylist() == [None, None, None, None, [1]]


def test_data_and_delete_files_divide_the_files_between_them() -> None:
    inspect = inspect_of(_metadata(), _two_specs())
    assert inspect.data_files()["file_path"].to_pylist() == ["a", "b", "c"]
    assert inspect.delete_files()["file_path"].to_pylist() == ["pos", "eq"]


def test_files_of_an_earlier_snapshot_are_those_it_had() -> None:
    assert inspect_of(_metadata(), _two_specs()).files(1)["file_path"].to_pylist() == ["a", "b"]


def test_a_snapshot_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(NoSuchSnapshot, match=r"no snapshot 9: .*available: 2 snapshots 1, 2"):
        inspect_of(_metadata(), _two_specs()).files(9)


def test_entries_keep_what_was_deleted() -> None:
    table = inspect_of(_metadata(), _two_specs()).entries()
    assert table["status"].to_pylist() == [0, 1, 2, 1, 1, 1]
    assert table["snapshot_id"].to_pylist() == [1, 1, 1, 2, 2, 1]
    assert [f["file_path"] for f in table["data_file"].to_pylist()] == ["a", "b", "gone", "c", "pos", "eq"]


@pytest.mark.parametrize("name", ["all_files", "all_entries", "all_data_files", "all_delete_files"])
def test_the_all_tables_open_a_shared_manifest_once(name: str) -> None:
    format_ = _two_specs()
    getattr(inspect_of(_metadata(), format_), name)()
    assert len(format_.opened) == len(set(format_.opened))


def test_all_files_reach_every_snapshots_files() -> None:
    format_ = _two_specs()
    metadata = _metadata(current_snapshot_id=1)
    assert inspect_of(metadata, format_).files()["file_path"].to_pylist() == ["a", "b"]
    assert inspect_of(metadata, format_).all_files()["file_path"].to_pylist() == ["a", "b", "c", "pos", "eq"]


def test_asking_for_plain_columns_leaves_statistics_undecoded() -> None:
    format_ = _two_specs()
    table = inspect_of(_metadata(), format_).files(columns=["file_path", "record_count"])
    assert table.schema.names == ["file_path", "record_count"]
    assert not format_.asked[0].full_metrics
    assert not format_.asked[0].rest


def test_a_column_no_metadata_table_has_is_refused_by_name() -> None:
    with pytest.raises(
        InvalidInput, match="no column 'size' in this metadata table: its columns are content, file_path"
    ):
        inspect_of(_metadata(), _two_specs()).files(columns=["size", "content", "file_path"])


def test_readable_metrics_give_each_column_its_counts_and_decoded_bounds() -> None:
    metrics = Metrics(
        column_sizes={1: 80, 2: 90},
        value_counts={1: 10, 2: 10},
        null_counts={1: 0},
        lower_bounds={1: to_bytes(LONG, 5), 3: b"a"},
        upper_bounds={1: to_bytes(LONG, 9), 3: b"zz"},
    )
    spec = PartitionSpec()
    files = [_file("a", metrics=metrics), _file("b"), _file("c", metrics=Metrics(lower_bounds={3: b"\xff"}))]
    format_ = FakeFormat({2: (OLD,)}, {"m-old": entries_of(OLD, spec, files)})
    first, second, third = (
        inspect_of(_metadata(specs=(spec,), default_spec_id=0), format_).files()["readable_metrics"].to_pylist()
    )
    nothing = dict.fromkeys(["column_size", "value_count", "null_value_count", "nan_value_count"])
    assert first["id"] == {
        "column_size": 80,
        "value_count": 10,
        "null_value_count": 0,
        "nan_value_count": None,
        "lower_bound": 5,
        "upper_bound": 9,
    }
    assert first["note"] == {**nothing, "lower_bound": "a", "upper_bound": "zz"}
    assert second["id"] == {**nothing, "lower_bound": None, "upper_bound": None}
    assert third["note"]["lower_bound"] is None  # bytes that are no text


def test_e6_a_bound_from_before_a_promotion_is_read_at_its_old_width() -> None:
    spec = PartitionSpec()
    files = [
        _file("old", metrics=Metrics(lower_bounds={1: to_bytes(INT, -5)})),
        _file("new", metrics=Metrics(lower_bounds={1: to_bytes(LONG, 2**40)})),
    ]
    format_ = FakeFormat({2: (OLD,)}, {"m-old": entries_of(OLD, spec, files)})
    readable = inspect_of(_metadata(specs=(spec,), default_spec_id=0), format_).files()["readable_metrics"]
    assert [row["id"]["lower_bound"] for row in readable.to_pylist()] == [-5, 2**40]


def test_partitions_add_up_their_files_and_remember_who_touched_them_last() -> None:
    rows = inspect_of(_metadata(), _two_specs()).partitions().to_pylist()
    by_key = {(row["partition"]["ts_day"].day, row["partition"]["id_bucket"]): row for row in rows}
    assert set(by_key) == {(8, None), (9, None), (8, 3)}
    busy = by_key[8, 3]
    assert (busy["record_count"], busy["file_count"], busy["total_data_file_size_in_bytes"]) == (10, 1, 100)
    assert (busy["position_delete_record_count"], busy["position_delete_file_count"]) == (2, 1)
    assert (busy["equality_delete_record_count"], busy["equality_delete_file_count"]) == (1, 1)
    assert busy["last_updated_at"] == datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)
    assert (busy["last_updated_snapshot_id"], busy["spec_id"]) == (2, 1)
    assert by_key[8, None]["record_count"] == 10, "a deleted entry counts for nothing"


def test_a_partition_last_touched_by_an_expired_snapshot_does_not_say_when() -> None:
    metadata = _metadata(snapshots=(_snapshot(2, 2_000, 1),))
    rows = inspect_of(metadata, _two_specs()).partitions().to_pylist()
    quiet = next(row for row in rows if row["partition"]["id_bucket"] is None)
    assert quiet["last_updated_at"] is None
    assert quiet["last_updated_snapshot_id"] is None


def test_an_unpartitioned_table_is_one_partition() -> None:
    spec = PartitionSpec()
    format_ = FakeFormat({2: (OLD,)}, {"m-old": entries_of(OLD, spec, [_file("a"), _file("b")])})
    (row,) = inspect_of(_metadata(specs=(spec,), default_spec_id=0), format_).partitions().to_pylist()
    assert (row["record_count"], row["file_count"]) == (20, 2)
    assert "partition" not in row


def test_f10_the_two_zeros_are_two_partitions_and_nan_is_one() -> None:
    from esker.model.types import DOUBLE

    schema = Schema(fields=(Field(id=1, name="x", type=DOUBLE),))
    spec = PartitionSpec(fields=(PartitionField(source_id=1, field_id=1000, name="x", transform=IDENTITY),))
    nan = float("nan")
    files = [_file(str(at), partition=(x,)) for at, x in enumerate([0.0, -0.0, nan, nan, 0.0])]
    format_ = FakeFormat({2: (OLD,)}, {"m-old": entries_of(OLD, spec, files)})
    table = inspect_of(_metadata(schemas=(schema,), specs=(spec,), default_spec_id=0), format_).partitions()
    assert sorted(table["file_count"].to_pylist()) == [1, 2, 2]


def test_a_partition_field_that_v1_dropped_keeps_its_type_and_takes_its_newest_name() -> None:
    dropped = PartitionSpec(
        spec_id=1, fields=(PartitionField(source_id=2, field_id=1000, name="day_dropped", transform=VOID),)
    )
    old = entries_of(OLD, BY_DAY, [_file("a", partition=(19_000,))])
    void = entries_of(NEW, dropped, [_file("b")], partition=(pa.nulls(1),))
    format_ = FakeFormat({2: (OLD, NEW)}, {"m-old": old, "m-new": void})
    table = inspect_of(_metadata(specs=(BY_DAY, dropped)), format_).files()
    assert table["partition"].to_pylist() == [{"day_dropped": date(2022, 1, 8)}, {"day_dropped": None}]


def test_two_fields_of_one_name_stay_apart() -> None:
    other = PartitionSpec(
        spec_id=1, fields=(PartitionField(source_id=3, field_id=1001, name="day", transform=IDENTITY),)
    )
    table = inspect_of(_metadata(specs=(BY_DAY, other)), FakeFormat({}, {})).files()
    assert [f.name for f in table.schema.field("partition").type] == ["day", "day_1001"]


def test_manifests_count_data_and_deletes_apart_and_read_their_bounds_aloud() -> None:
    data = _manifest(
        "m",
        spec=1,
        added_files=3,
        existing_files=2,
        deleted_files=1,
        partitions=(
            FieldSummary(contains_null=False, lower_bound=to_bytes(INT, 19_000), upper_bound=to_bytes(INT, 19_001)),
            FieldSummary(contains_null=True, contains_nan=False),
        ),
    )
    deletes = _manifest("d", spec=1, content=ManifestContent.DELETES, added_files=4)
    first, second = inspect_of(_metadata(), FakeFormat({2: (data, deletes)}, {})).manifests().to_pylist()
    assert [first[f"{what}_data_files_count"] for what in ("added", "existing", "deleted")] == [3, 2, 1]
    assert [first[f"{what}_delete_files_count"] for what in ("added", "existing", "deleted")] == [0, 0, 0]
    assert first["partition_summaries"] == [
        {"contains_null": False, "contains_nan": None, "lower_bound": "2022-01-08", "upper_bound": "2022-01-09"},
        {"contains_null": True, "contains_nan": False, "lower_bound": None, "upper_bound": None},
    ]
    assert (second["content"], second["added_delete_files_count"], second["added_data_files_count"]) == (1, 4, 0)
    assert second["existing_delete_files_count"] is None, "a count the writer left out is unknown"
    assert second["partition_summaries"] is None


def test_all_manifests_give_a_shared_manifest_a_row_for_each_snapshot() -> None:
    rows = inspect_of(_metadata(), _two_specs()).all_manifests().to_pylist()
    assert [(row["reference_snapshot_id"], row["path"]) for row in rows] == [
        (1, "m-old"),
        (2, "m-old"),
        (2, "m-new"),
        (2, "m-deletes"),
    ]


def test_snapshots_keep_the_operation_out_of_their_summary() -> None:
    first, second = inspect_of(_metadata()).snapshots().to_pylist()
    assert first["committed_at"] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert (first["operation"], first["summary"]) == ("append", [("added-records", "5")])
    assert (first["parent_id"], second["parent_id"]) == (None, 1)
    assert second["manifest_list"] == "memory:t/snap-2.avro"


def test_an_id_beyond_64_bits_is_shown_as_unknown_and_hides_no_other_row() -> None:
    table = inspect_of(_metadata(snapshots=(_snapshot(2**64 - 1, 1_000), _snapshot(2, 2**63)))).snapshots()
    assert table["snapshot_id"].to_pylist() == [None, 2]
    assert table["committed_at"].to_pylist()[1] is None


def test_history_after_a_rollback_says_which_snapshots_were_left_behind() -> None:
    metadata = _metadata(
        snapshots=(_snapshot(1, 1_000), _snapshot(2, 2_000, 1), _snapshot(3, 3_000, 2)),
        current_snapshot_id=2,
        snapshot_log=tuple(
            SnapshotLogEntry(timestamp_ms=ms, snapshot_id=id_) for ms, id_ in [(1, 1), (2, 2), (3, 3), (4, 2), (5, 9)]
        ),
    )
    rows = inspect_of(metadata).history().to_pylist()
    assert [(row["snapshot_id"], row["parent_id"], row["is_current_ancestor"]) for row in rows] == [
        (1, None, True),
        (2, 1, True),
        (3, 2, False),
        (2, 1, True),
        (9, None, False),
    ]


def test_a_circle_of_parents_does_not_hang() -> None:
    metadata = _metadata(snapshots=(_snapshot(1, 1_000, 2), _snapshot(2, 2_000, 1)))
    assert inspect_of(metadata).history()["is_current_ancestor"].to_pylist() == [True, True]


def test_d2_main_is_a_ref_even_where_the_writer_left_it_out() -> None:
    tag = SnapshotRef(snapshot_id=1, kind=RefKind.TAG, max_ref_age_ms=5)
    rows = inspect_of(_metadata(refs={"v1": tag})).refs().to_pylist()
    assert [(row["name"], row["type"], row["snapshot_id"]) for row in rows] == [("main", "BRANCH", 2), ("v1", "TAG", 1)]
    assert rows[1]["max_reference_age_in_ms"] == 5


def test_the_metadata_log_ends_with_the_present_file_and_knows_the_snapshot_of_each() -> None:
    metadata = _metadata(
        metadata_log=(
            MetadataLogEntry(timestamp_ms=500, metadata_file="v1.json"),
            MetadataLogEntry(timestamp_ms=1_500, metadata_file="v2.json"),
        )
    )
    rows = inspect_of(metadata).metadata_log_entries().to_pylist()
    assert [(row["file"], row["latest_snapshot_id"], row["latest_sequence_number"]) for row in rows] == [
        ("v1.json", None, None),
        ("v2.json", 1, 1),
        ("memory:t/metadata/v9.metadata.json", 2, 2),
    ]


def test_position_deletes_are_told_with_the_partition_and_file_they_come_from() -> None:
    engine = FakeEngine({"pos": [("c", 0), ("c", 7)]})
    rows = inspect_of(_metadata(), _two_specs(), engine).position_deletes().to_pylist()
    assert rows == [
        {
            "file_path": "c",
            "pos": pos,
            "row": None,
            "partition": {"ts_day": date(2022, 1, 8), "id_bucket": 3},
            "spec_id": 1,
            "delete_file_path": "pos",
        }
        for pos in (0, 7)
    ]


def test_file_changes_between_two_snapshots_leave_shared_manifests_unread() -> None:
    format_ = _two_specs()
    changes = inspect_of(_metadata(), format_).file_changes(1, 2)
    assert list(zip(changes["change"].to_pylist(), changes["file_path"].to_pylist(), strict=True)) == [
        ("added", "c"),
        ("added", "pos"),
        ("added", "eq"),
    ]
    assert format_.opened == ["m-new", "m-deletes"]


def test_file_changes_backwards_are_the_same_files_removed() -> None:
    changes = inspect_of(_metadata(), _two_specs()).file_changes(2, 1)
    assert changes["change"].to_pylist() == ["removed"] * 3


def test_a_file_moved_to_another_manifest_is_no_change() -> None:
    rewritten = entries_of(NEW, BY_DAY, [_file("a", partition=(19_000,))], status=[EXISTING])
    old = entries_of(OLD, BY_DAY, [_file("a", partition=(19_000,))])
    format_ = FakeFormat({1: (OLD,), 2: (NEW,)}, {"m-old": old, "m-new": rewritten})
    assert inspect_of(_metadata(), format_).file_changes(1, 2).num_rows == 0


def test_many_files_become_columns_not_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    from esker.tree.manifest import Entries

    def refuse(self: Entries, row: int) -> DataFile:
        raise AssertionError("a files table needs no DataFile")

    monkeypatch.setattr(Entries, "data_file", refuse)
    spec = PartitionSpec()
    files = [_file(str(n), metrics=Metrics(lower_bounds={1: to_bytes(LONG, n)})) for n in range(500)]
    format_ = FakeFormat({2: (OLD,)}, {"m-old": entries_of(OLD, spec, files)})
    table = inspect_of(_metadata(specs=(spec,), default_spec_id=0), format_).files()
    lowers = [row["id"]["lower_bound"] for row in table["readable_metrics"].to_pylist()]
    assert lowers == list(range(500))
    assert np.array_equal(table["record_count"].to_numpy(), np.full(500, 10))
