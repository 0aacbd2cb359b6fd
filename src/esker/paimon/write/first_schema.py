"""A new Paimon table: its first schema file, from the model's schema, partitioning, key and properties."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from itertools import count

from esker.errors import AlreadyExists, InvalidInput, Unsupported
from esker.model.schema import Schema
from esker.model.transform import IdentityTransform
from esker.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    DecimalType,
    Field,
    ListType,
    MapType,
    StructType,
    TimestampType,
    Type,
)
from esker.paimon.metadata.layout import Layout
from esker.paimon.metadata.table_schema import TableSchema, encode_schema
from esker.paimon.metadata.types import DataField, DataType, required
from esker.paimon.write.create_once import check_store
from esker.paimon.write.data_files import KEY, ROW_KIND, SEQUENCE
from esker.paimon.write.put_rows import check_writable
from esker.ports.storage import Storage
from esker.tree.table_metadata import TableMetadata

_LONGEST = 2147483647
_RESERVED = (SEQUENCE, ROW_KIND, "_LEVEL", "rowkind")
_PLAIN: dict[Type, DataType] = {
    BOOLEAN: DataType(root="BOOLEAN"),
    INT: DataType(root="INT"),
    LONG: DataType(root="BIGINT"),
    FLOAT: DataType(root="FLOAT"),
    DOUBLE: DataType(root="DOUBLE"),
    DATE: DataType(root="DATE"),
    TIME: DataType(root="TIME", precision=3),
    STRING: DataType(root="VARCHAR", precision=_LONGEST),
    BINARY: DataType(root="VARBINARY", precision=_LONGEST),
}


def create_table(storage: Storage, root: str, metadata: TableMetadata) -> TableSchema:
    """Write the first schema of a table. Partitions must be columns as they are, and the identifier columns are the
    primary key. The options ``primary-key`` and ``partition`` name columns too, as in Java.

    Raises ``AlreadyExists`` if the directory has a table, ``InvalidInput`` for names that no table can have, and
    ``Unsupported`` for what Paimon does not have or Esker does not write."""
    schema = new_schema(metadata)
    _check_names(schema)
    _check_bucket(schema)
    check_writable(schema)
    check_store(storage, root)
    try:
        storage.write_new(Layout(root).schema(0), encode_schema(schema))
    except AlreadyExists:
        raise AlreadyExists(f"cannot create a table at {root}: there is one already", location=root) from None
    return schema


def _check_names(schema: TableSchema) -> None:
    for name in schema.by_name:
        if name.startswith(KEY) or name in _RESERVED:
            raise InvalidInput(f"cannot create column {name!r}: Paimon's files have this name already", column=name)
    for name in schema.bucket_names:
        if name not in schema.by_name or name in schema.partition_keys:
            raise InvalidInput(
                f"cannot create a table with bucket-key {name!r}: it must be a column that is no partition", column=name
            )
        if schema.primary_keys and name not in schema.primary_keys:
            raise InvalidInput(
                f"cannot create a table with bucket-key {name!r}: it must be a column of the primary key", column=name
            )


def _check_bucket(schema: TableSchema) -> None:
    """Raise an error that says which option to give, if rows would have no bucket."""
    given = schema.options.get("bucket", "-1")
    if re.fullmatch(r"-?[0-9]+", given) is None:
        raise InvalidInput(f"cannot create a table with bucket {given!r}: give a whole number", option="bucket")
    if schema.primary_keys and schema.bucket < 1:
        raise Unsupported(
            f"cannot create a table with a primary key and bucket {given}: Esker writes a fixed number of buckets; "
            "give the property bucket, such as 'bucket' = '4'",
            feature="bucket",
        )
    if schema.bucket > 0 and not schema.primary_keys and not schema.bucket_names:
        raise Unsupported(
            f"cannot create a table with bucket {given} and no key: give the property primary-key, or bucket-key with "
            "the columns that decide the bucket, such as 'bucket-key' = 'id'",
            feature="bucket-key",
        )


def _named_columns(schema: Schema, options: dict[str, str], option: str, others: Sequence[str]) -> tuple[str, ...]:
    """The columns of a key: those that the option names, which is taken out of the options, or the ``others``. Raises
    ``InvalidInput`` for a wrong name, and if both are given and differ."""
    if option not in options:
        return tuple(others)
    named = tuple(name.strip() for name in options.pop(option).split(",") if name.strip())
    known = {field.name: field.type for field in schema.fields}
    for name in named:
        if name not in known:
            raise InvalidInput(
                f"cannot create a table with {option} {name!r}: it is no column; the columns are {', '.join(known)}",
                column=name,
            )
        if isinstance(known[name], StructType | ListType | MapType):
            raise InvalidInput(f"cannot create a table with {option} {name!r}: its type is {known[name]}", column=name)
    if len(set(named)) < len(named) or not named:
        raise InvalidInput(f"cannot create a table with {option} {', '.join(named)!r}: name each column once")
    if others and set(others) != set(named):
        raise InvalidInput(
            f"cannot create a table with {option} {', '.join(named)!r}: it is also given as {', '.join(others)!r}; "
            "give it once"
        )
    return named


def new_schema(metadata: TableMetadata) -> TableSchema:
    """The schema of a new table. Ids are given again, from 0, as Paimon gives them."""
    ids, options = count(), dict(metadata.properties)
    names = {field.id: field.name for field in metadata.schema.fields}
    identifiers = [name for id_, name in names.items() if id_ in metadata.schema.identifier_field_ids]
    keys = _named_columns(metadata.schema, options, "primary-key", identifiers)
    columns = tuple(_column(field, ids, is_key=field.name in keys) for field in metadata.schema.fields)
    partition = []
    for part in metadata.spec.fields:
        if not isinstance(part.transform, IdentityTransform) or part.source_id not in names:
            raise Unsupported(
                f"cannot partition a Paimon table by {part.name}: partitions are columns as they are",
                feature="partition transforms",
            )
        partition.append(names[part.source_id])
    return TableSchema(
        id=0,
        fields=columns,
        highest_field_id=next(ids) - 1,
        partition_keys=_named_columns(metadata.schema, options, "partition", partition),
        primary_keys=keys,
        options=options,
        time_ms=int(time.time() * 1000),
    )


def _column(field: Field, ids: Iterator[int], *, is_key: bool = False) -> DataField:
    number = next(ids)
    type_ = paimon_type(field.type, ids)
    wanted = required(type_) if field.required or is_key else type_
    return DataField(id=number, name=field.name, type=wanted, description=field.doc)


def paimon_type(type_: Type, ids: Iterator[int]) -> DataType:
    """Paimon's type with the same values; ``ids`` are for the fields of rows inside of it."""
    match type_:
        case DecimalType():
            return DataType(root="DECIMAL", precision=type_.precision, scale=type_.scale)
        case TimestampType():
            return DataType(root="TIMESTAMP_LTZ" if type_.zoned else "TIMESTAMP", precision=9 if type_.nanos else 6)
        case StructType():
            return DataType(root="ROW", fields=tuple(_column(field, ids) for field in type_.fields))
        case ListType():
            element = paimon_type(type_.element, ids)
            return DataType(root="ARRAY", element=required(element) if type_.element_required else element)
        case MapType():
            key, value = required(paimon_type(type_.key, ids)), paimon_type(type_.value, ids)
            return DataType(root="MAP", key=key, element=required(value) if type_.value_required else value)
        case _ if type_ in _PLAIN:
            return _PLAIN[type_]
        case _:
            raise Unsupported(f"cannot create a column of {type_}: Paimon does not have this type", feature=str(type_))
