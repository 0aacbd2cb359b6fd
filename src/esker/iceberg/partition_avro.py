"""Partition members as a manifest writes them: Avro types, and held values in their form."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from esker.errors import Unsupported
from esker.iceberg.avro_name import avro_name
from esker.iceberg.column import AvroType, optional, record
from esker.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntType,
    LongType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
)
from esker.model.values import unscaled


def partition_record(partition_type: StructType) -> AvroType:
    """The record ``r102`` (checklist A4): itself required, each member optional and under its own id."""
    defined: set[str] = set()
    return record(
        "r102",
        [
            {
                "name": avro_name(field.name),
                "type": optional(_defined_once(avro_type(field.type), defined)),
                "default": None,
                "field-id": field.id,
            }
            for field in partition_type
        ],
    )


def partition_writer(partition_type: StructType) -> Callable[[tuple[Any, ...]], dict[str, Any]]:
    """A function from a partition tuple to its record."""
    members = [(avro_name(field.name), field.type) for field in partition_type]

    def write(partition: tuple[Any, ...]) -> dict[str, Any]:
        return {name: _stored(type_, value) for (name, type_), value in zip(members, partition, strict=True)}

    return write


def avro_type(type_: Type) -> AvroType:
    """A primitive's Avro type (checklist A10)."""
    match type_:
        case BooleanType() | IntType() | LongType() | FloatType() | DoubleType() | StringType():
            return str(type_)
        case DateType():
            return {"type": "int", "logicalType": "date"}
        case TimeType():
            return {"type": "long", "logicalType": "time-micros"}
        case TimestampType(zoned=zoned, nanos=nanos):
            kind = "timestamp-nanos" if nanos else "timestamp-micros"
            return {"type": "long", "logicalType": kind, "adjust-to-utc": zoned}
        case UuidType():
            return {"type": "fixed", "size": 16, "logicalType": "uuid", "name": "uuid_fixed"}
        case FixedType(length=length):
            return {"type": "fixed", "size": length, "name": f"fixed_{length}"}
        case BinaryType():
            return "bytes"
        case DecimalType(precision=precision, scale=scale):
            return {
                "type": "fixed",
                "size": decimal_width(precision),
                "logicalType": "decimal",
                "precision": precision,
                "scale": scale,
                "name": f"decimal_{precision}_{scale}",
            }
        case UnknownType():
            return "int"  # only ever null: the source is gone or never had a type
        case _:
            raise Unsupported(f"cannot partition by a {type_}", feature=f"partition values of type {type_}")


def decimal_width(precision: int) -> int:
    """The fewest bytes of two's complement that hold that many digits."""
    return int((10**precision - 1).bit_length()) // 8 + 1


def _defined_once(type_: AvroType, defined: set[str]) -> AvroType:
    """Avro defines a name once and refers to it after."""
    if isinstance(type_, str) or "name" not in type_:
        return type_
    name: str = type_["name"]
    if name in defined:
        return name
    defined.add(name)
    return type_


def _stored(type_: Type, value: Any) -> Any:
    if isinstance(type_, DecimalType) and isinstance(value, Decimal):
        return unscaled(value, type_.scale).to_bytes(decimal_width(type_.precision), "big", signed=True)
    return value
