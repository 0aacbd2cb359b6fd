"""Table metadata written: what was read goes back unharmed, each version writes what it must (checklist D6, T17)."""

from __future__ import annotations

import dataclasses
import secrets
from typing import Any

import msgspec
import pytest
from corpus import corpus_root

from esker.errors import Corrupt, EskerError
from esker.iceberg.metadata.table_metadata import REQUIRED_FROM_V2, decode_table_metadata
from esker.iceberg.metadata.write_table_metadata import encode_table_metadata, table_metadata_in_pieces
from esker.model.schema import Schema
from esker.model.types import LONG, STRING, Field
from esker.tree.snapshot import RefKind, Snapshot, SnapshotRef, extended
from esker.tree.table_metadata import TableMetadata
from esker.write.context import new_snapshot_id

COLUMNS = (Field(id=1, name="x", type=LONG, required=True), Field(id=2, name="y", type=STRING, write_default="?"))
SNAPSHOT = Snapshot(
    snapshot_id=7, timestamp_ms=5, sequence_number=1, manifest_list="l.avro", summary={"operation": "append"}
)
METADATA = TableMetadata(
    format_version=2,
    uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
    location="s3://b/t",
    last_updated_ms=9,
    last_column_id=2,
    schemas=(Schema(fields=COLUMNS),),
    current_schema_id=0,
    last_sequence_number=1,
    snapshots=(SNAPSHOT,),
    current_snapshot_id=7,
    refs={"main": SnapshotRef(snapshot_id=7, kind=RefKind.BRANCH)},
)


def plain(metadata: TableMetadata) -> TableMetadata:
    """The same metadata with every entry decoded and nothing left of the text it came from."""
    lazy = ("snapshots", "snapshot_log", "metadata_log", "statistics", "partition_statistics")
    return dataclasses.replace(metadata, origin=None, **{name: tuple(getattr(metadata, name)) for name in lazy})


def again(metadata: TableMetadata) -> TableMetadata:
    return decode_table_metadata("again.json", encode_table_metadata(metadata))


def document(metadata: TableMetadata) -> dict[str, Any]:
    written: dict[str, Any] = msgspec.json.decode(encode_table_metadata(metadata))
    return written


@pytest.mark.parametrize("version", [1, 2, 3])
def test_metadata_reads_back_as_it_was_written(version: int) -> None:
    snapshot = dataclasses.replace(SNAPSHOT, sequence_number=0 if version == 1 else 1)
    metadata = dataclasses.replace(
        METADATA,
        format_version=version,
        snapshots=(snapshot,),
        last_sequence_number=0 if version == 1 else 1,
        next_row_id=12 if version == 3 else None,
    )
    assert plain(again(metadata)) == plain(metadata)


def test_d6_only_v1_writes_schema_and_partition_spec() -> None:
    first = document(dataclasses.replace(METADATA, format_version=1))
    second = document(METADATA)
    assert first["schema"]["fields"] == second["schemas"][0]["fields"]
    assert first["partition-spec"] == []
    assert "last-sequence-number" not in first
    assert not {"schema", "partition-spec"} & set(second)
    assert set(REQUIRED_FROM_V2) <= set(second)
    assert "next-row-id" not in second
    assert document(dataclasses.replace(METADATA, format_version=3))["next-row-id"] == 0


def test_d2_no_snapshot_is_written_as_null() -> None:
    empty = document(dataclasses.replace(METADATA, current_snapshot_id=None, snapshots=(), refs={}))
    assert empty["current-snapshot-id"] is None


def test_d11_unknown_fields_at_any_depth_survive_a_change_elsewhere() -> None:
    text = document(METADATA)
    text["colour"] = {"deep": 1}
    text["schemas"][0]["shape"] = "round"
    text["schemas"][0]["fields"][1]["taste"] = "sweet"
    text["snapshots"][0]["smell"] = 5
    text["refs"]["main"]["mood"] = "fine"
    read = decode_table_metadata("m.json", msgspec.json.encode(text))
    changed = dataclasses.replace(read, properties={"owner": "me"})
    assert document(changed) == {**text, "properties": {"owner": "me"}}


def test_what_changed_is_written_anew() -> None:
    read = again(METADATA)
    wider = Schema(fields=(*COLUMNS, Field(id=3, name="z", type=LONG)), schema_id=0)
    branch = {**read.refs, "dev": SnapshotRef(snapshot_id=7, kind=RefKind.BRANCH)}
    changed = dataclasses.replace(read, schemas=(wider,), refs=branch, snapshots=(SNAPSHOT, SNAPSHOT))
    assert [field["name"] for field in document(changed)["schemas"][0]["fields"]] == ["x", "y", "z"]
    assert list(document(changed)["refs"]) == ["main", "dev"]
    assert len(document(changed)["snapshots"]) == 2


def test_an_upgrade_writes_snapshots_with_the_fields_of_the_new_version() -> None:
    old = again(dataclasses.replace(METADATA, format_version=1))
    upgraded = dataclasses.replace(old, format_version=2)
    assert "sequence-number" not in document(old)["snapshots"][0]
    assert document(upgraded)["snapshots"][0]["sequence-number"] == 0
    assert not {"schema", "partition-spec"} & set(document(upgraded))


def test_metadata_of_other_engines_survives_reading_and_writing() -> None:
    compared = 0
    for folder in ("iceberg", "metadata-json"):
        for path in sorted((corpus_root() / folder).rglob("*.json")):
            try:
                metadata = decode_table_metadata(str(path), path.read_bytes())
            except EskerError:
                continue
            assert plain(again(metadata)) == plain(metadata), path
            assert plain(again(plain(metadata))) == plain(metadata), path
            compared += 1
    assert compared > 300


@pytest.mark.interop
@pytest.mark.parametrize("version", [1, 2, 3])
def test_pyiceberg_reads_what_is_written(version: int) -> None:
    from pyiceberg.table.metadata import TableMetadataUtil

    metadata = dataclasses.replace(METADATA, format_version=version, next_row_id=0 if version == 3 else None)
    theirs = TableMetadataUtil.parse_raw(encode_table_metadata(metadata).decode())
    assert theirs.format_version == version
    assert [str(field.field_type) for field in theirs.schema().fields] == ["long", "string"]
    assert theirs.current_snapshot_id == 7
    assert theirs.snapshots[0].manifest_list == "l.avro"


def grown(metadata: TableMetadata, ids: range) -> TableMetadata:
    """The metadata with more snapshots, one version after the other, each of them written."""
    for id_ in ids:
        snapshot = dataclasses.replace(SNAPSHOT, snapshot_id=id_, sequence_number=id_)
        metadata = dataclasses.replace(metadata, snapshots=extended(metadata.snapshots, snapshot))
        encode_table_metadata(metadata)
    return metadata


def ids_in(metadata: TableMetadata) -> list[int]:
    return [snapshot["snapshot-id"] for snapshot in document(metadata)["snapshots"]]


def test_a_long_history_is_written_whole_whatever_was_written_before() -> None:
    base = again(grown(METADATA, range(1000, 1300)))
    one = grown(base, range(2000, 2200))
    other = grown(base, range(3000, 3300))  # begins with the same snapshots
    start = [7, *range(1000, 1300)]
    assert ids_in(base) == start
    assert ids_in(one) == [*start, *range(2000, 2200)]
    assert ids_in(other) == [*start, *range(3000, 3300)]
    assert again(other).snapshots == other.snapshots
    upgraded = dataclasses.replace(one, format_version=3, next_row_id=0)
    assert ids_in(upgraded) == ids_in(one)


def test_a_broken_entry_of_the_history_is_not_written_on() -> None:
    """Old entries are copied without decoding them. A text that is no JSON must not reach the next file."""
    newest = dataclasses.replace(grown(METADATA, range(1000, 1300)), current_snapshot_id=1299, refs={})
    text = encode_table_metadata(newest)
    broken = text.replace(b'"snapshot-id":1100', b'"snapshot-id":11o0', 1)
    assert broken != text
    read = decode_table_metadata("m.json", broken)
    with pytest.raises(Corrupt, match="'snapshots' is not valid JSON"):
        grown(read, range(2000, 2001))


def test_the_next_version_copies_no_text_of_old_snapshots() -> None:
    base = grown(METADATA, range(1000, 1600))
    before = table_metadata_in_pieces(base)
    after = table_metadata_in_pieces(grown(base, range(1600, 1601)))
    copied = [new for new in after if not any(new is old for old in before)]
    assert sum(map(len, copied)) < sum(map(len, after)) / 4


def test_a_new_snapshot_gets_an_id_that_none_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of snapshots that were read and of those that were added, in this version and after it."""
    read = again(grown(METADATA, range(1000, 1004)))
    metadata = grown(read, range(2000, 2003))
    drawn = iter([0, 7, 1003, 2002, 2000, 4000, 1000, 4000, 4001])
    monkeypatch.setattr(secrets, "randbits", lambda bits: next(drawn))
    assert new_snapshot_id(metadata) == 4000
    metadata = grown(metadata, range(4000, 4001))
    assert new_snapshot_id(metadata) == 4001
