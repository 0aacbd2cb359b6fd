"""Table metadata from JSON, format versions 1 to 3 (checklist D, T17).

Metadata is always rewritten as a whole in the table's version, so the fields that the version requires must be there.
Manifests are read with fewer checks. The history stays text until it is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from esker.errors import Corrupt, Unsupported
from esker.iceberg.json_document import GZIP_MAGIC, JsonObject, decode_json, decompress
from esker.iceberg.metadata.partition_and_sort import (
    decode_partition_fields,
    decode_partition_specs,
    decode_sort_orders,
)
from esker.iceberg.metadata.schema import decode_schema, decode_schemas
from esker.iceberg.metadata.snapshot import (
    decode_metadata_log,
    decode_partition_statistics,
    decode_ref,
    decode_snapshot_log,
    decode_snapshots,
    decode_statistics,
    none_if_negative,
    texts,
)
from esker.iceberg.metadata.split_document import ArrayText, split_document
from esker.model.partition_and_sort import FIRST_PARTITION_FIELD_ID, UNSORTED, PartitionSpec, SortOrder
from esker.model.schema import Schema
from esker.tree.snapshot import RefKind, Snapshot, SnapshotRef
from esker.tree.table_metadata import TableMetadata

NEWEST_VERSION = 3
MAIN = "main"
LARGEST_DOCUMENT = 256 << 20  # decompressed; more is an attack, or an unreadable history

# 'last-sequence-number' is required too, but DuckDB does not write it. It follows from the snapshots.
REQUIRED_FROM_V2 = (
    "table-uuid",
    "schemas",
    "current-schema-id",
    "partition-specs",
    "default-spec-id",
    "last-partition-id",
    "sort-orders",
    "default-sort-order-id",
)
REQUIRED_FROM_V3 = ("next-row-id",)

# These fields, and unknown ones, are decoded at once. Other known fields are history and stay slices of text.
_EAGER = (
    "format-version",
    "table-uuid",
    "location",
    "last-sequence-number",
    "last-updated-ms",
    "last-column-id",
    "schema",
    "schemas",
    "current-schema-id",
    "partition-spec",
    "partition-specs",
    "default-spec-id",
    "last-partition-id",
    "sort-orders",
    "default-sort-order-id",
    "properties",
    "current-snapshot-id",
    "refs",
    "next-row-id",
    "encryption-keys",
)
_HISTORY = ("snapshots", "snapshot-log", "metadata-log", "statistics", "partition-statistics")
KNOWN_FIELDS = frozenset(_EAGER + _HISTORY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The text of each field of the metadata but its history, so that a writer can write unchanged fields back."""

    file: str
    format_version: int
    fields: dict[str, msgspec.Raw]


def decode_table_metadata(file: str, content: bytes) -> TableMetadata:
    """The metadata in a file's content. It may be gzipped, whatever the name of the file (D9). Raises `Corrupt`."""
    if content[:2] == GZIP_MAGIC:
        content = decompress(file, "the file", content, "gzip", limit=LARGEST_DOCUMENT)
    if not content.strip():
        raise Corrupt(file, "the file is empty")
    fields = split_document(file, content, _HISTORY)
    raw = {name: text for name, text in fields.items() if isinstance(text, msgspec.Raw) and name not in _HISTORY}
    document = JsonObject(file, "", {name: decode_json(file, text, repr(name)) for name, text in raw.items()})
    version = _format_version(document)
    metadata = _table_metadata(document, version, raw, {name: fields.get(name) for name in _HISTORY})
    if metadata.current_snapshot_id is not None and metadata.current_snapshot is None:
        raise Corrupt(file, f"the current snapshot {metadata.current_snapshot_id} is not among its snapshots")
    return metadata


def _format_version(document: JsonObject) -> int:
    version = document.integer("format-version", at_least=1)
    if version > NEWEST_VERSION:
        raise Unsupported(
            f"cannot read {document.file}: it has format version {version}, the newest known is {NEWEST_VERSION}",
            feature=f"format version {version}",
            file=document.file,
        )
    return version


def _check_required(document: JsonObject, version: int, *names: str) -> None:
    """Raise `Corrupt` if a field that the version requires is missing. If ``names`` are given, check only these."""
    required = (REQUIRED_FROM_V2 if version >= 2 else ()) + (REQUIRED_FROM_V3 if version >= 3 else ())
    missing = [name for name in required if name not in document]
    if missing and (not names or set(names) & set(missing)):
        raise Corrupt(document.file, f"format version {version} requires {', '.join(map(repr, missing))}")


def _table_metadata(
    document: JsonObject,
    version: int,
    raw: dict[str, msgspec.Raw],
    history: Mapping[str, msgspec.Raw | ArrayText | None],
) -> TableMetadata:
    file = document.file
    # If the schema is missing, report it first: it explains the fault better than other missing fields.
    _check_required(document, version, "schemas", "current-schema-id")
    schemas, current_schema_id = _schemas(document)
    _check_required(document, version)
    specs, default_spec_id = _specs(document)
    orders, default_order_id = _sort_orders(document)
    current_snapshot_id = none_if_negative(document.integer_or_none("current-snapshot-id"))
    last_partition_id = document.integer_or_none("last-partition-id")
    properties = document.object_or_none("properties")
    snapshots = decode_snapshots(file, history["snapshots"])
    return TableMetadata(
        format_version=version,
        uuid=document.string_or_none("table-uuid"),
        location=document.string("location"),
        last_updated_ms=document.integer("last-updated-ms"),
        last_column_id=document.integer("last-column-id"),
        schemas=schemas,
        current_schema_id=current_schema_id,
        specs=specs,
        default_spec_id=default_spec_id,
        last_partition_id=_highest_partition_id(specs) if last_partition_id is None else last_partition_id,
        sort_orders=orders,
        default_sort_order_id=default_order_id,
        last_sequence_number=_last_sequence_number(document, version, snapshots),
        properties=texts(file, "'properties'", properties.fields) if properties else {},
        current_snapshot_id=current_snapshot_id,
        snapshots=snapshots,
        snapshot_log=decode_snapshot_log(file, history["snapshot-log"]),
        metadata_log=decode_metadata_log(file, history["metadata-log"]),
        refs=_refs(document, current_snapshot_id),
        statistics=decode_statistics(file, history["statistics"]),
        partition_statistics=decode_partition_statistics(file, history["partition-statistics"]),
        next_row_id=document.integer_or_none("next-row-id", at_least=0),
        encryption_keys=tuple(key.fields for key in document.objects("encryption-keys", "encryption key")),
        origin=Origin(file=file, format_version=version, fields=raw),
    )


def _last_sequence_number(document: JsonObject, version: int, snapshots: Sequence[Snapshot]) -> int:
    """The highest sequence number so far. 0 in v1, which has none."""
    number = document.integer_or_none("last-sequence-number", at_least=0)
    if number is None and version > 1:
        return max((snapshot.sequence_number for snapshot in snapshots), default=0)
    return number or 0


def _schemas(document: JsonObject) -> tuple[tuple[Schema, ...], int]:
    """All schemas and the id of the current one. v1 may have only ``schema``, or both without the current id."""
    several = document.items_or_none("schemas")
    current_id = document.integer_or_none("current-schema-id")
    if several is None:
        schema = decode_schema(document.file, document.required("schema"))
        return (schema,), schema.schema_id
    schemas = decode_schemas(document.file, several)
    if current_id is None:
        if "schema" not in document:
            raise Corrupt(document.file, "it has no 'current-schema-id' or 'schema', so its current schema is unknown")
        current = decode_schema(document.file, document.required("schema"))
        same = next((schema for schema in schemas if schema.fields == current.fields), None)
        if same is not None:
            return schemas, same.schema_id
        others = tuple(schema for schema in schemas if schema.schema_id != current.schema_id)
        return (*others, current), current.schema_id
    if all(schema.schema_id != current_id for schema in schemas):
        raise Corrupt(document.file, f"the current schema {current_id} is not among its schemas")
    return schemas, current_id


def _specs(document: JsonObject) -> tuple[tuple[PartitionSpec, ...], int]:
    """All specs and the id of the default one. v1 may have only ``partition-spec``, or several without a default."""
    several = document.items_or_none("partition-specs")
    default_id = document.integer_or_none("default-spec-id")
    if several is None:
        fields = decode_partition_fields(document.file, document.items("partition-spec"))
        return (PartitionSpec(spec_id=default_id or 0, fields=fields),), default_id or 0
    specs = decode_partition_specs(document.file, several)
    if default_id is None:
        default_id = max((spec.spec_id for spec in specs), default=0)
    if all(spec.spec_id != default_id for spec in specs):
        raise Corrupt(document.file, f"the default partition spec {default_id} is not among its partition specs")
    return specs, default_id


def _sort_orders(document: JsonObject) -> tuple[tuple[SortOrder, ...], int]:
    """All sort orders and the id of the default one. v1 may have none, which means unsorted."""
    orders = decode_sort_orders(document.file, document.items_or_none("sort-orders") or [])
    default_id = document.integer_or_none("default-sort-order-id") or UNSORTED.order_id
    if all(order.order_id != default_id for order in orders):
        if default_id != UNSORTED.order_id:
            raise Corrupt(document.file, f"the default sort order {default_id} is not among its sort orders")
        orders = (UNSORTED, *orders)
    return orders, default_id


def _highest_partition_id(specs: tuple[PartitionSpec, ...]) -> int:
    return max((field.field_id for spec in specs for field in spec.fields), default=FIRST_PARTITION_FIELD_ID - 1)


def _refs(document: JsonObject, current_snapshot_id: int | None) -> dict[str, SnapshotRef]:
    """Branches and tags. ``main`` is added with the current snapshot if it is not recorded (D2)."""
    named = document.object_or_none("refs")
    file, values = document.file, named.fields if named else {}
    refs = {name: decode_ref(JsonObject(file, f"ref {name!r}", value)) for name, value in values.items()}
    main = refs.get(MAIN)
    if main is None:
        if current_snapshot_id is None:
            return refs
        return {MAIN: SnapshotRef(snapshot_id=current_snapshot_id, kind=RefKind.BRANCH), **refs}
    if main.snapshot_id != current_snapshot_id:
        said = "no snapshot" if current_snapshot_id is None else current_snapshot_id
        raise Corrupt(file, f"branch main is at {main.snapshot_id}, while the current snapshot is {said}")
    if main.kind is not RefKind.BRANCH:
        raise Corrupt(file, "main must be a branch, not a tag")
    return refs
