"""Snapshots, refs and logs in the JSON of table metadata (checklist T16)."""

from __future__ import annotations

import pickle
from typing import Any

import msgspec
import pytest

from esker.errors import Corrupt
from esker.iceberg.json_document import JsonObject
from esker.iceberg.metadata.snapshot import (
    decode_metadata_log,
    decode_ref,
    decode_snapshot,
    decode_snapshot_log,
    decode_snapshots,
    encode_ref,
    encode_snapshot,
)
from esker.tree.snapshot import RefKind, Snapshot, SnapshotRef
from esker.tree.table_metadata import MetadataLogEntry, SnapshotLogEntry

JSON = {
    "snapshot-id": 3055729675574597004,
    "parent-snapshot-id": 3051729675574597004,
    "sequence-number": 1,
    "timestamp-ms": 1555100955770,
    "summary": {"operation": "append", "total-records": "7"},
    "manifest-list": "s3://a/b/2.avro",
    "schema-id": 1,
    "first-row-id": 10,
    "added-rows": 7,
    "key-id": "k",
}
SNAPSHOT = Snapshot(
    snapshot_id=3055729675574597004,
    parent_snapshot_id=3051729675574597004,
    sequence_number=1,
    timestamp_ms=1555100955770,
    summary={"operation": "append", "total-records": "7"},
    manifest_list="s3://a/b/2.avro",
    schema_id=1,
    first_row_id=10,
    added_rows=7,
    key_id="k",
)


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def without(*names: str, **more: Any) -> msgspec.Raw:
    return raw({name: value for name, value in JSON.items() if name not in names} | more)


def test_t16_every_field_of_a_snapshot_is_read_and_written() -> None:
    assert decode_snapshot("m.json", raw(JSON)) == SNAPSHOT
    assert encode_snapshot(SNAPSHOT, format_version=3) == JSON


def test_t16_each_version_writes_the_fields_it_has() -> None:
    later = {"first-row-id", "added-rows", "key-id"}
    assert set(encode_snapshot(SNAPSHOT, format_version=2)) == set(JSON) - later
    assert set(encode_snapshot(SNAPSHOT, format_version=1)) == set(JSON) - later - {"sequence-number"}
    bare = Snapshot(snapshot_id=1, timestamp_ms=2, manifests=("a.avro",))
    assert encode_snapshot(bare, format_version=1) == {"snapshot-id": 1, "timestamp-ms": 2, "manifests": ["a.avro"]}


def test_t16_a_snapshot_of_v1_needs_neither_sequence_number_nor_summary() -> None:
    snapshot = decode_snapshot("m", raw({"snapshot-id": 1, "timestamp-ms": 5, "manifests": ["m0.avro", "m1.avro"]}))
    assert snapshot == Snapshot(snapshot_id=1, timestamp_ms=5, manifests=("m0.avro", "m1.avro"))
    assert (snapshot.sequence_number, snapshot.operation) == (0, None)


def test_t16_a_manifest_list_wins_over_inline_manifests() -> None:
    snapshot = decode_snapshot("m", without(manifests=["m0.avro"]))
    assert (snapshot.manifest_list, snapshot.manifests) == ("s3://a/b/2.avro", ())


def test_a_snapshot_id_beyond_64_bits_is_only_a_number() -> None:
    snapshot = decode_snapshot("m", without("snapshot-id", **{"snapshot-id": 9876543210123456789}))
    assert snapshot.snapshot_id == 9876543210123456789


def test_a_parent_of_minus_one_is_none() -> None:
    assert decode_snapshot("m", without(**{"parent-snapshot-id": -1})).parent_snapshot_id is None


def test_numbers_in_a_summary_are_taken_as_their_text() -> None:
    summary = {"operation": "append", "total-records": 7, "done": True, "nothing": None}
    expected = {"operation": "append", "total-records": "7", "done": "true"}
    assert decode_snapshot("m", without("summary", summary=summary)).summary == expected


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (without("manifest-list"), "has neither 'manifest-list' nor 'manifests'"),
        (without("snapshot-id"), "a snapshot is not as expected: .*`snapshot-id`"),
        (without("timestamp-ms"), "missing required field `timestamp-ms`"),
        (without(**{"sequence-number": "1"}), r"Expected `int \| null`, got `str` - at `\$.sequence-number`"),
        (without(summary={"a": {"b": "c"}}), "the summary of snapshot 30557.*: the value of 'a' must be a string"),
        (without(summary="x"), "a snapshot is not as expected: Expected `object"),
        (raw([]), "a snapshot is not as expected: Expected `object`, got `array`"),
        (msgspec.Raw(b'{"snapshot-id":'), "a snapshot is not as expected: Input data was truncated"),
        (msgspec.Raw(b'{"manifest-list":"\xff"}'), "can't decode byte 0xff"),
        (msgspec.Raw(b'{"x":' * 5000), "a snapshot is not as expected|nested too deeply"),
    ],
)
def test_t16_a_broken_snapshot_is_refused(content: msgspec.Raw, reason: str) -> None:
    with pytest.raises(Corrupt, match=reason):
        decode_snapshot("m.json", content)


def test_history_is_decoded_only_where_someone_looks() -> None:
    snapshots = decode_snapshots("m", raw([5, JSON]))
    assert len(snapshots) == 2
    assert snapshots[-1] == SNAPSHOT
    with pytest.raises(Corrupt, match="m is corrupt: a snapshot is not as expected"):
        snapshots[0]
    assert list(pickle.loads(pickle.dumps(decode_snapshots("m", raw([JSON]))))) == [SNAPSHOT]


@pytest.mark.parametrize("absent", [None, raw(None), raw([])])
def test_absent_history_is_empty(absent: msgspec.Raw | None) -> None:
    assert list(decode_snapshots("m", absent)) == []
    assert list(decode_snapshot_log("m", absent)) == []
    assert list(decode_metadata_log("m", absent)) == []


def test_history_that_is_no_array_is_corrupt() -> None:
    with pytest.raises(Corrupt, match=r"'snapshots' is not as expected: Expected `array"):
        decode_snapshots("m", raw({}))


def test_d12_log_times_may_step_back() -> None:
    log = decode_snapshot_log("m", raw([{"snapshot-id": 1, "timestamp-ms": 9}, {"snapshot-id": 2, "timestamp-ms": 3}]))
    assert list(log) == [
        SnapshotLogEntry(timestamp_ms=9, snapshot_id=1),
        SnapshotLogEntry(timestamp_ms=3, snapshot_id=2),
    ]


def test_the_metadata_log_names_earlier_files() -> None:
    log = decode_metadata_log("m", raw([{"metadata-file": "s3://a/v1.json", "timestamp-ms": 9}]))
    assert list(log) == [MetadataLogEntry(timestamp_ms=9, metadata_file="s3://a/v1.json")]
    with pytest.raises(Corrupt, match="an entry of 'metadata-log' is not as expected"):
        decode_metadata_log("m", raw([{}]))[0]


def test_refs_read_back_as_they_were_written() -> None:
    refs = [
        SnapshotRef(snapshot_id=1, kind=RefKind.TAG, max_ref_age_ms=5),
        SnapshotRef(snapshot_id=2, kind=RefKind.BRANCH, min_snapshots_to_keep=3, max_snapshot_age_ms=4),
    ]
    for ref in refs:
        assert decode_ref(JsonObject("m", "ref", encode_ref(ref))) == ref


def test_a_ref_is_a_branch_or_a_tag() -> None:
    with pytest.raises(Corrupt, match="ref 'x': 'type' must be 'branch' or 'tag', not 'bookmark'"):
        decode_ref(JsonObject("m", "ref 'x'", {"snapshot-id": 1, "type": "bookmark"}))
