"""Manifests and manifest lists made for tests: with Esker's own writer, then bent as real writers bend them."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import fastavro

from esker.iceberg.manifests.manifest import decode_manifests
from esker.iceberg.manifests.write_manifest import ManifestForm, describe_manifest, encode_manifest
from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.schema import Schema
from esker.model.transform import IDENTITY, Transform
from esker.model.types import LONG, STRING, Field, Type
from esker.ports.table_format import EntryColumns
from esker.tree.data_file import DataFile, FileContent
from esker.tree.manifest import Entries, EntryStatus, ManifestEntry
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.table_metadata import TableMetadata

ADDED, EXISTING, DELETED = EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED
SCHEMA = Schema(fields=(Field(id=1, name="id", type=LONG, required=True), Field(id=2, name="region", type=STRING)))
UNPARTITIONED = PartitionSpec()
BY_REGION = PartitionSpec(
    spec_id=3, fields=(PartitionField(source_id=2, field_id=1000, name="region", transform=IDENTITY),)
)


def table_of(*specs: PartitionSpec, schemas: tuple[Schema, ...] = (SCHEMA,), format_version: int = 2) -> TableMetadata:
    """Metadata of a table with these specs."""
    return TableMetadata(
        format_version=format_version,
        uuid=None,
        location="mem://t",
        last_updated_ms=0,
        last_column_id=max(schema.highest_id for schema in schemas),
        schemas=schemas,
        current_schema_id=schemas[-1].schema_id,
        specs=specs or (UNPARTITIONED,),
        default_spec_id=(specs or (UNPARTITIONED,))[0].spec_id,
    )


def one_field(type_: Type, transform: Transform = IDENTITY) -> tuple[Schema, PartitionSpec]:
    """A schema with a column ``x`` of the type, and a spec that partitions by it."""
    schema = Schema(fields=(Field(id=1, name="x", type=type_),))
    field = PartitionField(source_id=1, field_id=1000, name="x_part", transform=transform)
    return schema, PartitionSpec(fields=(field,))


def a_file(path: str = "mem://t/data/a.parquet", **more: Any) -> DataFile:
    """A data file of ten rows."""
    return DataFile(**{"path": path, "file_format": "parquet", "record_count": 10, "file_size": 1000, **more})


def a_delete(path: str = "mem://t/data/d.parquet", **more: Any) -> DataFile:
    """A position delete file."""
    return a_file(path, **{"content": FileContent.POSITION_DELETES, **more})


def a_manifest(
    entries: Sequence[ManifestEntry | DataFile],
    *,
    schema: Schema = SCHEMA,
    spec: PartitionSpec = UNPARTITIONED,
    content: ManifestContent = ManifestContent.DATA,
    version: int = 2,
    path: str = "mem://t/metadata/m.avro",
    **changes: Any,
) -> tuple[ManifestFile, bytes]:
    """A manifest's row in the list, ``changes`` applied, and its bytes."""
    form = ManifestForm.of(schema, spec, content=content, format_version=version)
    given = [_entry(entry, version) for entry in entries]
    data = encode_manifest(given, form)
    number = changes.get("sequence_number", 7 if version > 1 else 0)
    row = describe_manifest(given, form, path=path, length=len(data), snapshot_id=77, sequence_number=number)
    return replace(row, **changes), data


def _entry(entry: ManifestEntry | DataFile, version: int) -> ManifestEntry:
    if isinstance(entry, DataFile):
        return ManifestEntry(data_file=entry, snapshot_id=77 if version == 1 else None)
    return entry


def kept(file: DataFile, *, snapshot_id: int = 5, number: int = 2) -> ManifestEntry:
    """A file that an earlier snapshot added."""
    file = replace(file, sequence_number=number, file_sequence_number=number)
    return ManifestEntry(data_file=file, status=EXISTING, snapshot_id=snapshot_id)


def removed(file: DataFile, *, snapshot_id: int = 77, number: int = 2) -> ManifestEntry:
    """A file that this snapshot removed."""
    return replace(kept(file, snapshot_id=snapshot_id, number=number), status=DELETED)


def read_entries(*read: tuple[ManifestFile, bytes], table: TableMetadata | None = None, **columns: Any) -> Entries:
    """The entries of manifests that decode to one batch."""
    [entries] = decode_manifests(read, table or table_of(), EntryColumns(**columns))
    return entries


def rewritten(
    data: bytes,
    *,
    schema: Callable[[dict[str, Any]], dict[str, Any]] = lambda written: written,
    record: Callable[[dict[str, Any]], dict[str, Any]] = lambda row: row,
    header: Callable[[dict[str, str]], dict[str, str]] = lambda keys: keys,
    codec: str = "deflate",
) -> bytes:
    """A container read and written again, its schema, records or header bent on the way."""
    reader = fastavro.reader(io.BytesIO(data))
    rows = [record(row) for row in reader]
    keys = {key: value for key, value in reader.metadata.items() if not key.startswith("avro.")}
    return container(schema(written_schema(data)), rows, header(keys), codec=codec)


def container(
    schema: dict[str, Any], rows: Iterable[dict[str, Any]], header: dict[str, str] | None = None, *, codec: str = "null"
) -> bytes:
    """An Avro container by fastavro alone."""
    out = io.BytesIO()
    fastavro.writer(out, schema, rows, metadata=header or {}, codec=codec)
    return out.getvalue()


def written_schema(data: bytes) -> dict[str, Any]:
    """The schema in a container's header, as JSON."""
    return json.loads(fastavro.reader(io.BytesIO(data)).metadata["avro.schema"])


def written_rows(data: bytes) -> list[dict[str, Any]]:
    """A container's records, read by fastavro."""
    return list(fastavro.reader(io.BytesIO(data)))  # type: ignore[arg-type]


def written_header(data: bytes) -> dict[str, str]:
    """The keys of a container's header that are not Avro's own."""
    metadata = fastavro.reader(io.BytesIO(data)).metadata
    return {key: value for key, value in metadata.items() if not key.startswith("avro.")}


def without_ids(schema: Any) -> Any:
    """The schema as a writer leaves it that knows nothing of ids, nor of arrays that stand for maps."""
    match schema:
        case dict():
            dropped = ("field-id", "element-id", "key-id", "value-id")
            kept = {key: without_ids(value) for key, value in schema.items() if key not in dropped}
            if kept.get("logicalType") == "map":
                del kept["logicalType"]
            return kept
        case list():
            return [without_ids(item) for item in schema]
        case _:
            return schema


def renamed_fields(schema: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """The schema with top-level fields under other names."""
    bent = copy.deepcopy(schema)
    for field in bent["fields"]:
        field["name"] = names.get(field["name"], field["name"])
    return bent


def without_fields(schema: dict[str, Any], *names: str) -> dict[str, Any]:
    """The schema without these fields, at the top or in the data file."""
    bent = copy.deepcopy(schema)
    bent["fields"] = [field for field in bent["fields"] if field["name"] not in names]
    for field in bent["fields"]:
        if field["name"] == "data_file":
            field["type"]["fields"] = [inner for inner in field["type"]["fields"] if inner["name"] not in names]
    return bent
