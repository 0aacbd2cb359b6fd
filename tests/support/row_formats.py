"""The same rows as ORC and Avro, for tables whose files are not all Parquet."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa

from esker.model.schema import Schema
from esker.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    Field,
    FixedType,
    FloatType,
    IntType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    Type,
    UuidType,
    children,
)


def fits_orc(schema: Schema) -> bool:
    """Whether pyarrow writes these types to ORC, and reads back every value of them."""
    return not any(_beyond_orc(f.type) for f in schema.by_id.values())


def _beyond_orc(type_: Type) -> bool:
    plain = BooleanType | IntType | LongType | FloatType | DoubleType | DecimalType | DateType | StringType | BinaryType
    return not isinstance(type_, plain | StructType | ListType)


def orc_table(table: pa.Table) -> pa.Table:
    """The table with its ids where ORC keeps them."""
    fields = [_orc_field(f) for f in table.schema]
    return pa.Table.from_arrays(
        [_renamed(c.combine_chunks(), f.type) for c, f in zip(table.columns, fields, strict=True)],
        schema=pa.schema(fields),
    )


def _renamed(array: pa.Array, type_: pa.DataType) -> pa.Array:
    return array.cast(type_) if array.type != type_ or pa.types.is_nested(type_) else array


def _orc_field(f: pa.Field) -> pa.Field:
    type_ = f.type
    if pa.types.is_struct(type_):
        type_ = pa.struct([_orc_field(type_.field(at)) for at in range(type_.num_fields)])
    elif pa.types.is_list(type_):
        type_ = pa.list_(_orc_field(type_.value_field))
    return pa.field(f.name, type_, f.nullable, metadata={"iceberg.id": f.metadata[b"PARQUET:field_id"]})


def fits_avro(schema: Schema) -> bool:
    """Whether the schema has only what is written here as Avro."""
    names_fit = all(f.name.isascii() and f.name.isidentifier() for f in schema.by_id.values())
    return names_fit and not any(isinstance(f.type, MapType) for f in schema.by_id.values())


def avro_bytes(schema: Schema, rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows of held values as an Avro data file with field ids."""
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(_record("table", schema.fields)), rows)
    return out.getvalue()


def _record(name: str, fields: Sequence[Field]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f.name, "type": ["null", _avro(f)], "default": None, "field-id": f.id} for f in fields],
    }


def _avro(f: Field) -> Any:
    match f.type:
        case StructType(fields):
            return _record(f"r{f.id}", fields)
        case ListType():
            [element] = children(f.type)
            return {"type": "array", "items": ["null", _avro(element)], "element-id": element.id}
        case DecimalType(precision, scale):
            size = (10**precision).bit_length() // 8 + 1
            fixed = {"type": "fixed", "name": f"d{f.id}", "size": size}
            return {**fixed, "logicalType": "decimal", "precision": precision, "scale": scale}
        case UuidType():
            return {"type": "fixed", "name": f"u{f.id}", "size": 16}
        case FixedType(length):
            return {"type": "fixed", "name": f"f{f.id}", "size": length}
        case TimestampType() | LongType():
            return "long"
        case IntType() | DateType():
            return "int"
        case StringType() | BooleanType() | FloatType() | DoubleType():
            return str(f.type)
        case BinaryType():
            return "bytes"
        case _:
            return "long"
