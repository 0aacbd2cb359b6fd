"""Partition values in manifests: read from Avro columns, written as Avro records, summarised for the manifest list."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from esker.avro.schema import Fixed, Node, Primitive, Record, Union
from esker.errors import Corrupt, Unsupported
from esker.iceberg.manifests.avro_fields import AvroType, as_type, avro_name, optional, record
from esker.model.arrow_arrays import arrow_array, null_mask, numbers_of
from esker.model.transform import SECONDS_PER_DAY
from esker.model.types import (
    BINARY,
    BOOLEAN,
    DOUBLE,
    LONG,
    STRING,
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
    is_floating,
)
from esker.model.values import to_bytes, unscaled
from esker.tree.manifest_list import FieldSummary

# ---------------------------------------------------------------- Reading
#
# Whole numbers become int64, floats float64, decimals decimal128(38, scale); uuid, fixed and binary become binary. So a
# value that was written before its source was promoted (int, now long) reads like the others.


_OF_AVRO: dict[str, Type] = {
    "boolean": BOOLEAN,
    "int": LONG,
    "long": LONG,
    "float": DOUBLE,
    "double": DOUBLE,
    "string": STRING,
    "bytes": BINARY,
}


def held_arrow_type(type_: Type) -> pa.DataType:
    """The Arrow type of the held form of partition values of a type."""
    match type_:
        case BooleanType():
            return pa.bool_()
        case IntType() | LongType() | DateType() | TimeType() | TimestampType():
            return pa.int64()
        case FloatType() | DoubleType():
            return pa.float64()
        case DecimalType(scale=scale):
            return pa.decimal128(38, scale)
        case StringType():
            return pa.string()
        case UuidType() | FixedType() | BinaryType():
            return pa.binary()
        case _:
            return pa.null()


def held_partition(file: str, name: str, type_: Type, array: pa.Array, node: Node) -> pa.Array:
    """The values of one partition field in the held form. ``node`` is its declared type, without null."""
    what = f"partition field {name!r}"
    match type_:
        case DecimalType(scale=scale):
            return _decimals(file, what, array, scale)
        case UuidType() if pa.types.is_string(array.type):
            return _uuids(file, what, array)
        case TimestampType() if isinstance(node, Primitive) and node.kind == "int":
            # Written while the source was still a date.
            days = as_type(file, array, pa.int64(), what)
            ticks = SECONDS_PER_DAY * type_.ticks_per_second
            values = numbers_of(days, null=0) * ticks
            return arrow_array(values, null=null_mask(days))
        case _ if held_arrow_type(type_) == pa.null():
            # No schema has the source column any more: use the declared type of the writer.
            return held_partition(file, name, _declared(file, what, node), array, node)
        case _:
            return as_type(file, array, held_arrow_type(type_), what)


def member_nodes(schema: Record, names: Mapping[str, int]) -> dict[int, Node]:
    """The declared types of the partition fields by id, without null."""
    found: dict[int, Node] = {}
    data_file = _member(schema, 2, "data_file")
    partition = _member(data_file, 102, "partition") if isinstance(data_file, Record) else None
    for field in partition.fields if isinstance(partition, Record) else ():
        id_ = names.get(field.name) if field.id is None else field.id
        if id_ is not None:
            found[id_] = _not_null(field.type)
    return found


def _member(record: Record, id_: int, name: str) -> Node | None:
    by_id = [field for field in record.fields if field.id == id_]
    by_name = [field for field in record.fields if field.id is None and field.name == name]
    return _not_null((by_id or by_name)[0].type) if by_id or by_name else None


def _not_null(node: Node) -> Node:
    if isinstance(node, Union) and node.null_branch is not None:
        return node.branches[1 - node.null_branch]
    return node


def _declared(file: str, what: str, node: Node) -> Type:
    match node:
        case Fixed(logical=logical) if logical is not None and logical.name == "decimal":
            return DecimalType(38, logical.scale)
        case Fixed():
            return BINARY
        case Primitive(kind="bytes", logical=logical) if logical is not None and logical.name == "decimal":
            return DecimalType(38, logical.scale)
        case Primitive(kind=kind) if kind in _OF_AVRO:
            return _OF_AVRO[kind]
        case _:
            raise Corrupt(file, f"{what} is not of a primitive type")


def _decimals(file: str, what: str, array: pa.Array, scale: int) -> pa.Array:
    """Convert big-endian two's complement of any width to decimal128."""
    if pa.types.is_fixed_size_binary(array.type) and 1 <= array.type.byte_width <= 16:
        unscaled = _sign_extended(array)
    elif pa.types.is_binary(array.type):
        unscaled = _padded(file, what, array)
    else:
        raise Corrupt(file, f"{what} is {array.type} where a decimal belongs")
    valid = arrow_array(~null_mask(array)).buffers()[1]
    return pa.Array.from_buffers(
        pa.decimal128(38, scale), len(array), [valid, pa.py_buffer(unscaled)], array.null_count
    )


def _sign_extended(array: pa.Array) -> bytes:
    width = array.type.byte_width
    stored = array.buffers()[1]
    start = array.offset * width
    raw = np.frombuffer(stored, np.uint8)[start : start + len(array) * width].reshape(len(array), width)
    wide = np.empty((len(array), 16), np.uint8)
    wide[:, :] = np.where(raw[:, :1] >= 0x80, 0xFF, 0)
    wide[:, 16 - width :] = raw
    return wide[:, ::-1].tobytes()


def _padded(file: str, what: str, array: pa.Array) -> bytes:
    try:
        return b"".join(
            int.from_bytes(value or b"", "big", signed=True).to_bytes(16, "little", signed=True)
            for value in array.to_pylist()
        )
    except OverflowError:
        raise Corrupt(file, f"{what} has a decimal of more than 16 bytes") from None


def _uuids(file: str, what: str, array: pa.Array) -> pa.Array:
    """Uuids as bytes. One writer writes them as text."""
    try:
        spelled = [None if value is None else uuid.UUID(value).bytes for value in array.to_pylist()]
    except ValueError:
        raise Corrupt(file, f"{what} has text that is not a uuid") from None
    return pa.array(spelled, pa.binary())


# ---------------------------------------------------------------- Writing


def partition_record(partition_type: StructType) -> AvroType:
    """The record ``r102`` (checklist A4): required, with each field optional and under its own id."""
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
    """A function that converts partition values to their record."""
    members = [(avro_name(field.name), field.type) for field in partition_type]

    def write(partition: tuple[Any, ...]) -> dict[str, Any]:
        return {name: _stored(type_, value) for (name, type_), value in zip(members, partition, strict=True)}

    return write


def avro_type(type_: Type) -> AvroType:
    """The Avro type of a primitive type (checklist A10). Raises `Unsupported`."""
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
            return "int"  # always null: the source is gone or never had a type
        case _:
            raise Unsupported(
                f"cannot partition by a {type_}: no Avro type holds its values",
                feature=f"partition values of type {type_}",
            )


def decimal_width(precision: int) -> int:
    """The fewest bytes of two's complement for so many digits."""
    return int((10**precision - 1).bit_length()) // 8 + 1


def _defined_once(type_: AvroType, defined: set[str]) -> AvroType:
    """The type, with each name defined once and referred to afterwards, as Avro requires."""
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


# ---------------------------------------------------------------- Summaries for the manifest list (checklist C3, C4)


def summarise_partitions(partition_type: StructType, partitions: Iterable[tuple[Any, ...]]) -> tuple[FieldSummary, ...]:
    """One summary per field, over the partitions of every entry. Bounds are never shortened."""
    seen: list[set[Any]] = [set() for _ in partition_type]
    for partition in partitions:
        for values, value in zip(seen, partition, strict=True):
            values.add(_distinct(value))
    return tuple(_summary(field.type, values) for field, values in zip(partition_type, seen, strict=True))


def _distinct(value: Any) -> Any:
    """A key for sets in which -0.0 and +0.0 are two values."""
    return (value, math.copysign(1.0, value)) if isinstance(value, float) else value


def _summary(type_: Type, values: set[Any]) -> FieldSummary:
    if is_floating(type_):
        # (value, sign): -0.0 sorts before +0.0, so the bounds include both zeros.
        pairs = [pair for pair in values if pair is not None and not math.isnan(pair[0])]
        nans = len(pairs) + (None in values) < len(values)
        bounds = (min(pairs)[0], max(pairs)[0]) if pairs else None
    else:
        known = [value for value in values if value is not None]
        nans = False
        bounds = (min(known), max(known)) if known else None
    return FieldSummary(
        contains_null=None in values,
        contains_nan=nans,
        lower_bound=None if bounds is None else to_bytes(type_, bounds[0]),
        upper_bound=None if bounds is None else to_bytes(type_, bounds[1]),
    )
