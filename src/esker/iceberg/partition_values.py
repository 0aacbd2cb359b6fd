"""Partition members as Avro columns, brought to the form values are held in.

Every number of the int family is held as int64, floats as float64, decimals as decimal128(38, scale), uuid, fixed and
binary as binary: a member that was written before its source was promoted (int, now long) reads like the rest.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from esker.avro.schema import Fixed, Node, Primitive, Record, Union
from esker.errors import Corrupt
from esker.iceberg.found_columns import as_type
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
    TimestampType,
    TimeType,
    Type,
    UuidType,
)

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
    """The Arrow type that partition values of a type are held in."""
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
    """One member's values in held form. ``node`` is how the writer declared it, the null branch left out."""
    what = f"partition field {name!r}"
    match type_:
        case DecimalType(scale=scale):
            return _decimals(file, what, array, scale)
        case UuidType() if pa.types.is_string(array.type):
            return _uuids(file, what, array)
        case TimestampType() if isinstance(node, Primitive) and node.kind == "int":
            # written while the source was still a date
            days = as_type(file, array, pa.int64(), what)
            ticks = SECONDS_PER_DAY * type_.ticks_per_second
            values = numbers_of(days, null=0) * ticks
            return arrow_array(values, null=null_mask(days))
        case _ if held_arrow_type(type_) == pa.null():
            # no schema knows the source any more: the writer's own declaration must do
            return held_partition(file, name, _declared(file, what, node), array, node)
        case _:
            return as_type(file, array, held_arrow_type(type_), what)


def member_nodes(schema: Record, names: Mapping[str, int]) -> dict[int, Node]:
    """The writer's declarations of the partition members by id, null branches left out."""
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
            raise Corrupt(file, f"{what} is of no primitive type")


def _decimals(file: str, what: str, array: pa.Array, scale: int) -> pa.Array:
    """Big-endian two's complement of any width, as decimal128."""
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
        raise Corrupt(file, f"{what} holds a decimal of more than 16 bytes") from None


def _uuids(file: str, what: str, array: pa.Array) -> pa.Array:
    """One writer spells uuids out."""
    try:
        spelled = [None if value is None else uuid.UUID(value).bytes for value in array.to_pylist()]
    except ValueError:
        raise Corrupt(file, f"{what} holds text that is no uuid") from None
    return pa.array(spelled, pa.binary())
