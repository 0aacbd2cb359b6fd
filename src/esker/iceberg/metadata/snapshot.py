"""Snapshots, refs, logs and the entries of statistics files to and from JSON (checklist T16).

Only the history of a table grows with every commit. So each entry stays text until it is read.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from esker.errors import Corrupt
from esker.iceberg.json_document import JsonObject, decode_json
from esker.iceberg.metadata.split_document import ArrayText, decode_items
from esker.tree.snapshot import LazySequence, RefKind, Snapshot, SnapshotRef
from esker.tree.table_metadata import MetadataLogEntry, PartitionStatisticsFile, SnapshotLogEntry, StatisticsFile


class _SnapshotJson(msgspec.Struct, rename="kebab"):
    snapshot_id: int
    timestamp_ms: int
    parent_snapshot_id: int | None = None
    sequence_number: int | None = None
    manifest_list: str | None = None
    manifests: list[str] | None = None
    summary: dict[str, Any] | None = None
    schema_id: int | None = None
    first_row_id: int | None = None
    added_rows: int | None = None
    key_id: str | None = None


class _SnapshotLogJson(msgspec.Struct, rename="kebab"):
    timestamp_ms: int
    snapshot_id: int


class _MetadataLogJson(msgspec.Struct, rename="kebab"):
    timestamp_ms: int
    metadata_file: str


_snapshots = msgspec.json.Decoder(_SnapshotJson)
_snapshot_log = msgspec.json.Decoder(_SnapshotLogJson)
_metadata_log = msgspec.json.Decoder(_MetadataLogJson)


def decode_snapshots(file: str, content: msgspec.Raw | ArrayText | None) -> LazySequence[Snapshot]:
    """The snapshots of a table, each decoded when it is read."""
    return LazySequence(decode_items(file, content, "'snapshots'"), partial(decode_snapshot, file))


def decode_snapshot_log(file: str, content: msgspec.Raw | ArrayText | None) -> LazySequence[SnapshotLogEntry]:
    """Which snapshot was current from which time on. Times may go back (D12)."""
    return LazySequence(decode_items(file, content, "'snapshot-log'"), partial(_log_entry, file))


def decode_metadata_log(file: str, content: msgspec.Raw | ArrayText | None) -> LazySequence[MetadataLogEntry]:
    """The earlier metadata files."""
    return LazySequence(decode_items(file, content, "'metadata-log'"), partial(_metadata_log_entry, file))


def decode_snapshot(file: str, content: msgspec.Raw | bytes) -> Snapshot:
    """One snapshot. `manifest-list` is preferred to inline `manifests` (v1). Raises `Corrupt` if both are missing."""
    document: _SnapshotJson = _decode(file, _snapshots, content, "a snapshot")
    if document.manifest_list is None and document.manifests is None:
        raise Corrupt(file, f"snapshot {document.snapshot_id} has neither 'manifest-list' nor 'manifests'")
    inline = () if document.manifest_list is not None else tuple(document.manifests or ())
    return Snapshot(
        snapshot_id=document.snapshot_id,
        timestamp_ms=document.timestamp_ms,
        parent_snapshot_id=none_if_negative(document.parent_snapshot_id),
        sequence_number=document.sequence_number or 0,
        manifest_list=document.manifest_list,
        manifests=inline,
        summary=texts(file, f"the summary of snapshot {document.snapshot_id}", document.summary or {}),
        schema_id=document.schema_id,
        first_row_id=document.first_row_id,
        added_rows=document.added_rows,
        key_id=document.key_id,
    )


def none_if_negative(snapshot_id: int | None) -> int | None:
    """The id, or None if it is negative: Java writes -1 for "no snapshot" in v1 and v2 (D2)."""
    return None if snapshot_id == -1 else snapshot_id


def texts(file: str, what: str, values: dict[str, Any]) -> dict[str, str]:
    """A map of strings. Some writers do not quote numbers; null values are dropped."""
    if all(type(value) is str for value in values.values()):
        return values
    for name, value in values.items():
        if isinstance(value, dict | list):
            raise Corrupt(file, f"{what}: the value of {name!r} must be a string")
    return {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in values.items()
        if value is not None
    }


def decode_ref(document: JsonObject) -> SnapshotRef:
    """A branch or a tag."""
    kind = document.string("type").lower()
    if kind not in ("branch", "tag"):
        raise document.corrupt(f"'type' must be 'branch' or 'tag', not {kind!r}")
    return SnapshotRef(
        snapshot_id=document.integer("snapshot-id"),
        kind=RefKind(kind),
        min_snapshots_to_keep=document.integer_or_none("min-snapshots-to-keep"),
        max_snapshot_age_ms=document.integer_or_none("max-snapshot-age-ms"),
        max_ref_age_ms=document.integer_or_none("max-ref-age-ms"),
    )


def encode_snapshot(snapshot: Snapshot, *, format_version: int) -> dict[str, Any]:
    """A snapshot as JSON of that format version."""
    document: dict[str, Any] = {"snapshot-id": snapshot.snapshot_id}
    if snapshot.parent_snapshot_id is not None:
        document["parent-snapshot-id"] = snapshot.parent_snapshot_id
    if format_version >= 2:
        document["sequence-number"] = snapshot.sequence_number
    document["timestamp-ms"] = snapshot.timestamp_ms
    if snapshot.summary or format_version >= 2:
        document["summary"] = dict(snapshot.summary)
    if snapshot.manifest_list is not None:
        document["manifest-list"] = snapshot.manifest_list
    else:
        document["manifests"] = list(snapshot.manifests)
    if snapshot.schema_id is not None:
        document["schema-id"] = snapshot.schema_id
    if format_version >= 3:
        later = {
            "first-row-id": snapshot.first_row_id,
            "added-rows": snapshot.added_rows,
            "key-id": snapshot.key_id,
        }
        document |= {name: value for name, value in later.items() if value is not None}
    return document


def encode_ref(ref: SnapshotRef) -> dict[str, Any]:
    """A branch or a tag as JSON."""
    document: dict[str, Any] = {"snapshot-id": ref.snapshot_id, "type": ref.kind.value}
    retention = {
        "min-snapshots-to-keep": ref.min_snapshots_to_keep,
        "max-snapshot-age-ms": ref.max_snapshot_age_ms,
        "max-ref-age-ms": ref.max_ref_age_ms,
    }
    return document | {name: value for name, value in retention.items() if value is not None}


def _log_entry(file: str, content: msgspec.Raw | bytes) -> SnapshotLogEntry:
    document: _SnapshotLogJson = _decode(file, _snapshot_log, content, "an entry of 'snapshot-log'")
    return SnapshotLogEntry(timestamp_ms=document.timestamp_ms, snapshot_id=document.snapshot_id)


def _metadata_log_entry(file: str, content: msgspec.Raw | bytes) -> MetadataLogEntry:
    document: _MetadataLogJson = _decode(file, _metadata_log, content, "an entry of 'metadata-log'")
    return MetadataLogEntry(timestamp_ms=document.timestamp_ms, metadata_file=document.metadata_file)


def _decode(file: str, decoder: msgspec.json.Decoder[Any], content: msgspec.Raw | bytes, what: str) -> Any:
    try:
        return decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt(file, f"{what} is not as expected: {error}") from None
    except RecursionError:
        raise Corrupt(file, f"{what} is nested too deeply") from None


# ---------------------------------------------------------------- Statistics files


def decode_statistics(file: str, content: msgspec.Raw | ArrayText | None) -> LazySequence[StatisticsFile]:
    """Puffin files of column statistics. Each entry is decoded when it is read, because there may be one per
    snapshot."""
    return LazySequence(decode_items(file, content, "'statistics'"), partial(_statistics, file))


def decode_partition_statistics(
    file: str, content: msgspec.Raw | ArrayText | None
) -> LazySequence[PartitionStatisticsFile]:
    """Files of statistics per partition."""
    items = decode_items(file, content, "'partition-statistics'")
    return LazySequence(items, partial(_partition_statistics, file))


def encode_statistics(entry: StatisticsFile) -> dict[str, Any]:
    """The entry of a statistics file as JSON."""
    document: dict[str, Any] = {
        "snapshot-id": entry.snapshot_id,
        "statistics-path": entry.path,
        "file-size-in-bytes": entry.file_size,
        "file-footer-size-in-bytes": entry.footer_size,
        "blob-metadata": [dict(blob) for blob in entry.blobs],
    }
    if entry.key_metadata is not None:
        document["key-metadata"] = entry.key_metadata
    return document


def encode_partition_statistics(entry: PartitionStatisticsFile) -> dict[str, Any]:
    """The entry of a partition statistics file as JSON."""
    return {
        "snapshot-id": entry.snapshot_id,
        "statistics-path": entry.path,
        "file-size-in-bytes": entry.file_size,
    }


def _statistics(file: str, content: msgspec.Raw | bytes) -> StatisticsFile:
    document = _document(file, content, "an entry of 'statistics'")
    return StatisticsFile(
        snapshot_id=document.integer("snapshot-id"),
        path=document.string("statistics-path"),
        file_size=document.integer("file-size-in-bytes", at_least=0),
        footer_size=document.integer("file-footer-size-in-bytes", at_least=0),
        blobs=tuple(blob.fields for blob in document.objects("blob-metadata", "blob")),
        key_metadata=document.string_or_none("key-metadata"),
    )


def _partition_statistics(file: str, content: msgspec.Raw | bytes) -> PartitionStatisticsFile:
    document = _document(file, content, "an entry of 'partition-statistics'")
    return PartitionStatisticsFile(
        snapshot_id=document.integer("snapshot-id"),
        path=document.string("statistics-path"),
        file_size=document.integer("file-size-in-bytes", at_least=0),
    )


def _document(file: str, content: msgspec.Raw | bytes, what: str) -> JsonObject:
    return JsonObject(file, what, decode_json(file, content, what))
