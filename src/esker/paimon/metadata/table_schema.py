"""A schema file: columns, keys and options of a Paimon table. One file for each version, never changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from esker.errors import Corrupt, Unsupported
from esker.model.schema import Schema
from esker.paimon.metadata.types import DataField, decode_field, encode_field, model_field

VERSION = 3


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """One version of a table's definition. Options are the table's properties."""

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    time_ms: int = 0
    version: int = VERSION

    @cached_property
    def by_name(self) -> Mapping[str, DataField]:
        """The columns by name."""
        return {column.name: column for column in self.fields}

    @cached_property
    def by_id(self) -> Mapping[int, DataField]:
        """The columns by id."""
        return {column.id: column for column in self.fields}

    @cached_property
    def partition_fields(self) -> tuple[DataField, ...]:
        """The partition columns, in the order of the partition."""
        return tuple(self.by_name[name] for name in self.partition_keys)

    @cached_property
    def key_fields(self) -> tuple[DataField, ...]:
        """The primary key without partition columns: the key of files."""
        return tuple(self.by_name[name] for name in self.primary_keys if name not in self.partition_keys)

    @cached_property
    def bucket_fields(self) -> tuple[DataField, ...]:
        """The columns whose hash is the bucket, for tables with a fixed number of buckets."""
        named = self.bucket_names
        return tuple(self.by_name[name] for name in named) if named else self.key_fields

    @property
    def bucket_names(self) -> tuple[str, ...]:
        """The columns in the option ``bucket-key``."""
        return tuple(name.strip() for name in self.options.get("bucket-key", "").split(",") if name.strip())

    @property
    def bucket(self) -> int:
        """The ``bucket`` option: a number of buckets, -1 or -2."""
        return int(self.options.get("bucket", "1" if self.version == 1 else "-1"))

    @property
    def file_format(self) -> str:
        """The format of new data files."""
        return self.options.get("file.format", "orc" if self.version < 3 else "parquet").lower()

    @cached_property
    def model(self) -> Schema:
        """The columns as the model has them, under this schema's id."""
        return Schema(fields=tuple(map(model_field, self.fields)), schema_id=self.id)

    def option(self, name: str, default: str = "") -> str:
        """The value of an option."""
        return self.options.get(name, default)

    def is_set(self, name: str) -> bool:
        """Whether an option of true or false is true."""
        return self.options.get(name, "false").strip().lower() == "true"


def decode_schema(file: str, data: bytes) -> TableSchema:
    """The schema in a schema file. Raises ``Corrupt`` if it is not one."""
    try:
        given = msgspec.json.decode(data)
        version = int(given.get("version", 1))
        if version > VERSION:
            raise Unsupported(f"cannot read {file}: schema version {version} is not known", feature="schema version")
        found = TableSchema(
            id=int(given["id"]),
            fields=tuple(map(decode_field, given["fields"])),
            highest_field_id=int(given["highestFieldId"]),
            partition_keys=tuple(given.get("partitionKeys") or ()),
            primary_keys=tuple(given.get("primaryKeys") or ()),
            options={str(name): str(value) for name, value in (given.get("options") or {}).items()},
            comment=given.get("comment"),
            time_ms=int(given.get("timeMillis") or 0),
            version=version,
        )
    except (msgspec.DecodeError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Corrupt(file, f"it is no Paimon schema: {error!r}") from None
    check_keys(found, file)
    return found


def check_keys(schema: TableSchema, file: str) -> None:
    """Raise ``Corrupt`` if a column of a key does not exist."""
    named = (*schema.partition_keys, *schema.primary_keys, *schema.bucket_names)
    missing = next((name for name in named if name not in schema.by_name), None)
    if missing is not None:
        raise Corrupt(file, f"its key {missing!r} is no column")


def encode_schema(schema: TableSchema) -> bytes:
    """The content of a schema file."""
    given: dict[str, Any] = {
        "version": schema.version,
        "id": schema.id,
        "fields": [encode_field(column) for column in schema.fields],
        "highestFieldId": schema.highest_field_id,
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
        **({} if schema.comment is None else {"comment": schema.comment}),
        "timeMillis": schema.time_ms,
    }
    return msgspec.json.format(msgspec.json.encode(given), indent=2)
