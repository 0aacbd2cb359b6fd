"""A table's schema from an Arrow schema, with new ids. An error names the column for a type that Iceberg does not
have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count

import pyarrow as pa

from esker.errors import InvalidInput
from esker.model.parsing.column_definitions import DEEPEST
from esker.model.schema import Schema
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
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    Field,
    FixedType,
    ListType,
    MapType,
    StructType,
    TimestampType,
    Type,
)

MAX_PRECISION = 38
NextId = Callable[[], int]


def schema_from_arrow(schema: pa.Schema, *, first_id: int = 1) -> Schema:
    """A table schema for these Arrow columns.

    Ids are new and are assigned level by level, as in Iceberg: all columns first, then what is inside each. Ids in the
    Arrow metadata are from another table and are ignored.
    """
    numbers = count(first_id)
    return Schema(fields=_fields(list(schema), (), lambda: next(numbers)))


def _fields(fields: list[pa.Field], above: tuple[str, ...], next_id: NextId) -> tuple[Field, ...]:
    twice = sorted(name for name, times in Counter(field.name for field in fields).items() if times > 1)
    if twice:
        raise InvalidInput(
            f"cannot make a table: column {_dotted((*above, twice[0]))!r} is there twice",
            column=_dotted((*above, twice[0])),
        )
    ids = [next_id() for _ in fields]
    return tuple(
        Field(
            id=id_,
            name=field.name,
            type=_type_of(field, (*above, field.name), next_id),
            required=not field.nullable and not pa.types.is_null(field.type),  # unknown is always optional (E11)
            doc=_doc(field),
        )
        for id_, field in zip(ids, fields, strict=True)
    )


def _type_of(field: pa.Field, path: tuple[str, ...], next_id: NextId) -> Type:
    """The type of a field. A struct may be marked as a variant, by the name of Arrow's extension type."""
    said = (field.metadata or {}).get(b"ARROW:extension:name")
    if said == b"arrow.parquet.variant" and pa.types.is_struct(field.type):
        return VARIANT
    return _type(field.type, path, next_id)


def _doc(field: pa.Field) -> str | None:
    text = (field.metadata or {}).get(b"doc")
    return None if text is None else text.decode(errors="replace")


def _type(type_: pa.DataType, path: tuple[str, ...], next_id: NextId) -> Type:
    kinds = pa.types
    if len(path) > DEEPEST:  # Arrow writes deeper files than it reads
        shown = ".".join(path[:3])
        raise InvalidInput(
            f"cannot make a column {path[0]!r}: its types are nested more than {DEEPEST} levels deep, in {shown!r}",
            column=path[0],
        )
    if kinds.is_struct(type_):
        return StructType(_fields([type_.field(at) for at in range(type_.num_fields)], path, next_id))
    if kinds.is_map(type_):
        key_id, value_id = next_id(), next_id()
        return MapType(
            key_id=key_id,
            key=_type(type_.key_type, (*path, "key"), next_id),
            value_id=value_id,
            value=_type_of(type_.item_field, (*path, "value"), next_id),
            value_required=not type_.item_field.nullable,
        )
    if _is_list(type_):
        element_id = next_id()
        return ListType(
            element_id=element_id,
            element=_type_of(type_.value_field, (*path, "element"), next_id),
            element_required=not type_.value_field.nullable,
        )
    if kinds.is_dictionary(type_):
        return _type(type_.value_type, path, next_id)
    return _primitive(type_, path)


def _is_list(type_: pa.DataType) -> bool:
    kinds = pa.types
    plain = kinds.is_list(type_) or kinds.is_large_list(type_) or kinds.is_fixed_size_list(type_)
    return bool(plain or kinds.is_list_view(type_) or kinds.is_large_list_view(type_))


def _primitive(type_: pa.DataType, path: tuple[str, ...]) -> Type:
    kinds = pa.types
    found = _PLAIN.get(type_)
    if found is not None:
        return found
    if kinds.is_timestamp(type_):
        return TimestampType(zoned=type_.tz is not None, nanos=type_.unit == "ns")
    if kinds.is_decimal(type_):
        if type_.precision > MAX_PRECISION or not 0 <= type_.scale <= type_.precision:
            raise _refused(type_, path, f"a decimal has at most {MAX_PRECISION} digits and a scale within them")
        return DecimalType(type_.precision, type_.scale)
    if kinds.is_fixed_size_binary(type_):
        return FixedType(type_.byte_width)
    if isinstance(type_, pa.BaseExtensionType) and type_.extension_name == "arrow.json":
        return STRING
    raise _refused(type_, path, _WHY.get(type_, "Iceberg has no type for it"))


_PLAIN: dict[pa.DataType, Type] = {
    pa.null(): UNKNOWN,
    pa.bool_(): BOOLEAN,
    pa.int8(): INT,
    pa.int16(): INT,
    pa.int32(): INT,
    pa.uint8(): INT,
    pa.uint16(): INT,
    pa.uint32(): LONG,
    pa.int64(): LONG,
    pa.float32(): FLOAT,
    pa.float64(): DOUBLE,
    pa.date32(): DATE,
    pa.date64(): DATE,
    pa.time32("s"): TIME,
    pa.time32("ms"): TIME,
    pa.time64("us"): TIME,
    pa.string(): STRING,
    pa.large_string(): STRING,
    pa.string_view(): STRING,
    pa.binary(): BINARY,
    pa.large_binary(): BINARY,
    pa.binary_view(): BINARY,
    pa.uuid(): UUID,
}
_WHY = {
    pa.uint64(): "its values may exceed a long; cast it to int64 or decimal128(20, 0)",
    pa.float16(): "cast it to float32",
    pa.time64("ns"): "a time has microseconds; cast it to time64('us')",
}


def _refused(type_: pa.DataType, path: tuple[str, ...], why: str) -> InvalidInput:
    return InvalidInput(f"cannot make a column {_dotted(path)!r} of Arrow type {type_}: {why}", column=_dotted(path))


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(path)
