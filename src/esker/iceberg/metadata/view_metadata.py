"""View metadata to and from JSON, as in Iceberg's view spec."""

from __future__ import annotations

from typing import Any

from esker.errors import Corrupt, Unsupported
from esker.iceberg.json_document import GZIP_MAGIC, JsonObject, decode_json, decompress
from esker.iceberg.metadata.schema import decode_schema, decode_schemas, encode_schema
from esker.model.schema import Schema
from esker.tree.view_metadata import (
    OtherRepresentation,
    Representation,
    SqlRepresentation,
    VersionLogEntry,
    ViewMetadata,
    ViewVersion,
)

FORMAT_VERSION = 1
LARGEST_DOCUMENT = 64 << 20  # decompressed; a view is a few texts


def decode_view_metadata(file: str, content: bytes) -> ViewMetadata:
    """The metadata in a file's content. It may be gzipped, whatever the name of the file. Raises `Corrupt`."""
    if content[:2] == GZIP_MAGIC:
        content = decompress(file, "the file", content, "gzip", limit=LARGEST_DOCUMENT)
    if not content.strip():
        raise Corrupt(file, "the file is empty")
    document = JsonObject(file, "", _object(file, decode_json(file, content, "view metadata")))
    if "view-uuid" not in document and "table-uuid" in document:
        raise Corrupt(file, "it describes a table, not a view")
    version = document.integer("format-version", at_least=1)
    if version > FORMAT_VERSION:
        raise Unsupported(
            f"cannot read {file}: it has view format version {version}, the newest known is {FORMAT_VERSION}",
            feature=f"view format version {version}",
            file=file,
        )
    return _checked(file, _view(document, version))


def _object(file: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Corrupt(file, "view metadata must be a JSON object")
    return value


def _view(document: JsonObject, format_version: int) -> ViewMetadata:
    schemas = document.items("schemas")
    return ViewMetadata(
        uuid=document.string("view-uuid"),
        format_version=format_version,
        location=document.string("location"),
        schemas=decode_schemas(document.file, schemas),
        current_version_id=document.integer("current-version-id"),
        versions=tuple(_version(one) for one in _each(document, "versions", "version")),
        version_log=tuple(_log_entry(one) for one in _each(document, "version-log", "entry of the version log")),
        properties=dict(document.strings("properties")),
        rest=document.rest(),
        origin=schemas,
    )


def _each(document: JsonObject, name: str, singular: str) -> list[JsonObject]:
    document.items(name)  # raises if it is missing or not an array
    return list(document.objects(name, singular))


def _version(document: JsonObject) -> ViewVersion:
    namespace = document.items("default-namespace")
    if not all(isinstance(level, str) for level in namespace):
        raise document.corrupt("'default-namespace' must be an array of strings")
    return ViewVersion(
        version_id=document.integer("version-id"),
        schema_id=document.integer("schema-id"),
        timestamp_ms=document.integer("timestamp-ms"),
        summary=dict(document.strings("summary")),
        representations=tuple(_representation(one) for one in _each(document, "representations", "representation")),
        default_namespace=tuple(namespace),
        default_catalog=document.string_or_none("default-catalog"),
        rest=document.rest(),
    )


def _representation(document: JsonObject) -> Representation:
    kind = document.string("type")
    if kind.lower() != "sql":
        return OtherRepresentation(kind=kind, rest=document.rest())
    return SqlRepresentation(sql=document.string("sql"), dialect=document.string("dialect"), rest=document.rest())


def _log_entry(document: JsonObject) -> VersionLogEntry:
    return VersionLogEntry(timestamp_ms=document.integer("timestamp-ms"), version_id=document.integer("version-id"))


def _checked(file: str, metadata: ViewMetadata) -> ViewMetadata:
    """Check that versions and schemas that are referred to exist. The log may name versions that have expired."""
    ids = [version.version_id for version in metadata.versions]
    if len(set(ids)) != len(ids):
        raise Corrupt(file, "two of its versions have the same id")
    if metadata.current_version_id not in ids:
        raise Corrupt(file, f"the current version {metadata.current_version_id} is not among its versions")
    known = {schema.schema_id for schema in metadata.schemas}
    for version in metadata.versions:
        if version.schema_id not in known:
            raise Corrupt(file, f"the schema {version.schema_id} of version {version.version_id} is not among its own")
        if len(set(version.dialects)) != len(version.dialects):
            raise Corrupt(file, f"version {version.version_id} has two queries in one dialect")
    return metadata


# ---------------------------------------------------------------- Writing


def encode_view_metadata(metadata: ViewMetadata) -> bytes:
    """The metadata as the bytes of a file. Unknown fields are written back unchanged."""
    import msgspec

    return msgspec.json.encode(
        {
            "view-uuid": metadata.uuid,
            "format-version": metadata.format_version,
            "location": metadata.location,
            "properties": dict(metadata.properties),
            "schemas": [_schema_json(schema, metadata.origin or ()) for schema in metadata.schemas],
            "current-version-id": metadata.current_version_id,
            "versions": [_version_json(version) for version in metadata.versions],
            "version-log": [
                {"timestamp-ms": entry.timestamp_ms, "version-id": entry.version_id} for entry in metadata.version_log
            ],
            **metadata.rest,
        }
    )


def _schema_json(schema: Schema, known: Any) -> dict[str, Any]:
    for document in known:
        if document.get("schema-id", 0) == schema.schema_id and decode_schema("", document) == schema:
            return dict(document)
    return encode_schema(schema)


def _version_json(version: ViewVersion) -> dict[str, Any]:
    document: dict[str, Any] = {
        "version-id": version.version_id,
        "timestamp-ms": version.timestamp_ms,
        "schema-id": version.schema_id,
        "summary": dict(version.summary),
    }
    if version.default_catalog is not None:
        document["default-catalog"] = version.default_catalog
    return document | {
        "default-namespace": list(version.default_namespace),
        "representations": [_representation_json(one) for one in version.representations],
        **version.rest,
    }


def _representation_json(representation: Representation) -> dict[str, Any]:
    match representation:
        case SqlRepresentation(sql=sql, dialect=dialect, rest=rest):
            return {"type": "sql", "sql": sql, "dialect": dialect, **rest}
        case OtherRepresentation(kind=kind, rest=rest):
            return {"type": kind, **rest}
