"""Table metadata to JSON, format versions 1 to 3 (checklist D6, T16, T17).

Unchanged fields are written back as the text that was read. So a commit does not encode thousands of old snapshots, and
unknown fields are kept. Changed fields are encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from esker.iceberg.json_document import JsonObject, decode_json, decode_raw_items
from esker.iceberg.metadata.partition_and_sort import (
    decode_partition_spec,
    decode_sort_order,
    encode_partition_fields,
    encode_partition_spec,
    encode_sort_order,
)
from esker.iceberg.metadata.schema import decode_schema, encode_schema
from esker.iceberg.metadata.snapshot import (
    decode_ref,
    encode_partition_statistics,
    encode_ref,
    encode_snapshot,
    encode_statistics,
)
from esker.iceberg.metadata.table_metadata import KNOWN_FIELDS, Origin
from esker.tree.snapshot import LazySequence, Snapshot, SnapshotRef
from esker.tree.table_metadata import MetadataLogEntry, SnapshotLogEntry, TableMetadata

T = TypeVar("T")


def encode_table_metadata(metadata: TableMetadata) -> bytes:
    """The metadata as the bytes of a file, in its own format version."""
    return b"".join(table_metadata_in_pieces(metadata))


def table_metadata_in_pieces(metadata: TableMetadata) -> list[bytes]:
    """The same bytes in pieces: a long history is not copied before it is written.

    Snapshots are near the beginning: what comes before them changes in few commits.
    """
    origin = _origin(metadata)
    state = msgspec.json.encode(
        {
            **_state(metadata),
            **_schemas_and_specs(metadata, origin),
            **_current_state(metadata, origin),
            **_unknown(origin),
        }
    )
    pieces = [_opening(metadata), *_snapshots(metadata, origin), b"],", state[1:-1]]
    for name, entries in _logs(metadata).items():
        pieces += [f',"{name}":['.encode(), *entries, b"]"]
    return [*pieces, b"}"]


def first_pieces(metadata: TableMetadata) -> list[bytes]:
    """The first of these pieces: those that the next version of the table begins with too, if only snapshots are added
    to it. Raises `Corrupt` if a snapshot that was read is not valid JSON."""
    return [_opening(metadata), *_snapshots(metadata, _origin(metadata))[:-1]]


def _origin(metadata: TableMetadata) -> Origin | None:
    return metadata.origin if isinstance(metadata.origin, Origin) else None


def _opening(metadata: TableMetadata) -> bytes:
    """The text before the first snapshot."""
    document: dict[str, Any] = {"format-version": metadata.format_version}
    if metadata.uuid is not None:
        document["table-uuid"] = metadata.uuid
    document["location"] = metadata.location
    return msgspec.json.encode(document).removesuffix(b"}") + b',"snapshots":['


def _state(metadata: TableMetadata) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if metadata.format_version >= 2:
        document["last-sequence-number"] = metadata.last_sequence_number
    document["last-updated-ms"] = metadata.last_updated_ms
    document["last-column-id"] = metadata.last_column_id
    return document


def _schemas_and_specs(metadata: TableMetadata, origin: Origin | None) -> dict[str, Any]:
    schemas = _unchanged(origin, "schemas", metadata.schemas, decode_schema, encode_schema)
    specs = _unchanged(origin, "partition-specs", metadata.specs, decode_partition_spec, encode_partition_spec)
    orders = _unchanged(origin, "sort-orders", metadata.sort_orders, decode_sort_order, encode_sort_order)
    document: dict[str, Any] = {}
    if metadata.format_version == 1:  # early readers know only these two fields (D6)
        document["schema"] = encode_schema(metadata.schema)
        document["partition-spec"] = encode_partition_fields(metadata.spec)
    return document | {
        "current-schema-id": metadata.current_schema_id,
        "schemas": schemas,
        "default-spec-id": metadata.default_spec_id,
        "partition-specs": specs,
        "last-partition-id": metadata.last_partition_id,
        "default-sort-order-id": metadata.default_sort_order_id,
        "sort-orders": orders,
    }


def _current_state(metadata: TableMetadata, origin: Origin | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "properties": dict(metadata.properties),
        "current-snapshot-id": metadata.current_snapshot_id,
        "refs": _refs(metadata.refs, origin),
    }
    if metadata.format_version >= 3:
        document["next-row-id"] = metadata.next_row_id or 0
        if metadata.encryption_keys:
            document["encryption-keys"] = [dict(key) for key in metadata.encryption_keys]
    return document


def _snapshots(metadata: TableMetadata, origin: Origin | None) -> list[bytes]:
    """The snapshots as text in pieces. All but the last piece stay as they are when snapshots are added."""
    version = metadata.format_version
    # A snapshot of another version does not have the fields that this version requires.
    same_version = origin is not None and origin.format_version == version

    def snapshot_json(snapshot: Snapshot) -> dict[str, Any]:
        return encode_snapshot(snapshot, format_version=version)

    return _entries(metadata.snapshots, snapshot_json, version=version, keep_text=same_version)


def _logs(metadata: TableMetadata) -> dict[str, list[bytes]]:
    """The other lists that grow with the table, as text in pieces."""
    return {
        "statistics": _entries(metadata.statistics, encode_statistics),
        "partition-statistics": _entries(metadata.partition_statistics, encode_partition_statistics),
        "snapshot-log": _entries(metadata.snapshot_log, _snapshot_log_json),
        "metadata-log": _entries(metadata.metadata_log, _metadata_log_json),
    }


def _unknown(origin: Origin | None) -> dict[str, msgspec.Raw]:
    """Unknown top-level fields, unchanged."""
    return {name: raw for name, raw in origin.fields.items() if name not in KNOWN_FIELDS} if origin else {}


def _entries(
    items: Sequence[T], encode: Callable[[T], dict[str, Any]], *, version: int = 0, keep_text: bool = True
) -> list[bytes]:
    """History as text. Entries that were read are unchanged; added entries are encoded once per version."""
    if not isinstance(items, LazySequence):
        return [msgspec.json.encode([encode(item) for item in items])[1:-1]]
    return items.written((version, keep_text), lambda item: msgspec.json.encode(encode(item)), keeps_raw=keep_text)


def _unchanged(
    origin: Origin | None,
    name: str,
    items: Sequence[T],
    decode: Callable[[str, Any], T],
    encode: Callable[[T], dict[str, Any]],
) -> list[Any]:
    """Each item as the text that was read, if it still means the same, else encoded."""
    texts = decode_raw_items(origin.file, origin.fields.get(name), repr(name)) if origin else []
    known = [(decode(origin.file, decode_json(origin.file, raw, name)), raw) for raw in texts] if origin else []
    return [next((raw for old, raw in known if old == item), None) or encode(item) for item in items]


def _refs(refs: Mapping[str, SnapshotRef], origin: Origin | None) -> dict[str, Any]:
    text = origin.fields.get("refs") if origin else None
    known = (decode_json(origin.file, text, "'refs'") or {}) if origin and text is not None else {}
    document: dict[str, Any] = {}
    for name, ref in refs.items():
        old = JsonObject(origin.file, name, known[name]) if origin and name in known else None
        document[name] = old.fields if old is not None and decode_ref(old) == ref else encode_ref(ref)
    return document


def _snapshot_log_json(entry: SnapshotLogEntry) -> dict[str, Any]:
    return {"timestamp-ms": entry.timestamp_ms, "snapshot-id": entry.snapshot_id}


def _metadata_log_json(entry: MetadataLogEntry) -> dict[str, Any]:
    return {"timestamp-ms": entry.timestamp_ms, "metadata-file": entry.metadata_file}
