"""The entries of table metadata that name statistics files, to and from JSON."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from esker.iceberg.json_object import JsonObject, decode_json, decode_raw_items
from esker.tree.snapshot import LazySequence
from esker.tree.table_metadata import PartitionStatisticsFile, StatisticsFile


def decode_statistics(file: str, content: msgspec.Raw | None) -> LazySequence[StatisticsFile]:
    """Puffin files of column statistics, each entry decoded when asked for: there may be one per snapshot."""
    return LazySequence(decode_raw_items(file, content, "'statistics'"), partial(_statistics, file))


def decode_partition_statistics(file: str, content: msgspec.Raw | None) -> LazySequence[PartitionStatisticsFile]:
    """Files of statistics per partition."""
    items = decode_raw_items(file, content, "'partition-statistics'")
    return LazySequence(items, partial(_partition_statistics, file))


def encode_statistics(entry: StatisticsFile) -> dict[str, Any]:
    """A statistics file as metadata names it."""
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
    """A partition statistics file as metadata names it."""
    return {
        "snapshot-id": entry.snapshot_id,
        "statistics-path": entry.path,
        "file-size-in-bytes": entry.file_size,
    }


def _statistics(file: str, content: msgspec.Raw) -> StatisticsFile:
    document = _document(file, content, "an entry of 'statistics'")
    return StatisticsFile(
        snapshot_id=document.integer("snapshot-id"),
        path=document.string("statistics-path"),
        file_size=document.integer("file-size-in-bytes", at_least=0),
        footer_size=document.integer("file-footer-size-in-bytes", at_least=0),
        blobs=tuple(blob.fields for blob in document.objects("blob-metadata", "blob")),
        key_metadata=document.string_or_none("key-metadata"),
    )


def _partition_statistics(file: str, content: msgspec.Raw) -> PartitionStatisticsFile:
    document = _document(file, content, "an entry of 'partition-statistics'")
    return PartitionStatisticsFile(
        snapshot_id=document.integer("snapshot-id"),
        path=document.string("statistics-path"),
        file_size=document.integer("file-size-in-bytes", at_least=0),
    )


def _document(file: str, content: msgspec.Raw, what: str) -> JsonObject:
    return JsonObject(file, what, decode_json(file, content, what))
