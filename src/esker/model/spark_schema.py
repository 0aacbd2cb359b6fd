"""Columns from a Spark ``StructType``, known by its JSON form, so that pyspark is not needed to read one."""

from __future__ import annotations

import re
from typing import Any

from esker.errors import InvalidInput
from esker.model.ddl import DEEPEST
from esker.model.type_words import primitive_named
from esker.model.types import Field, ListType, MapType, StructType, Type, UnknownType

_PARAMETERS = re.compile(r"(\w+)\s*\((.*)\)")


def is_spark_type(given: object) -> bool:
    """Whether it says of itself, as Spark's types do, what it is in JSON and in a string."""
    return callable(getattr(given, "jsonValue", None)) and callable(getattr(given, "simpleString", None))


def columns_from_spark(struct: Any) -> tuple[Field, ...]:
    """The columns of a ``StructType``, under id 0; ``InvalidInput`` names one that Iceberg has no type for."""
    document = struct.jsonValue()
    if not isinstance(document, dict) or document.get("type") != "struct":
        raise InvalidInput(f"cannot make a table of Spark's {struct.simpleString()}: give a StructType")
    return _fields(document, (), 0)


def type_from_spark(given: Any) -> Type:
    """A single Spark type; parts have id 0."""
    return _type(given.jsonValue(), ("the type",), 0)


def _fields(struct: dict[str, Any], above: tuple[str, ...], depth: int) -> tuple[Field, ...]:
    return tuple(_field(field, above, depth) for field in struct["fields"])


def _field(field: dict[str, Any], above: tuple[str, ...], depth: int) -> Field:
    path = (*above, field["name"])
    type_ = _type(field["type"], path, depth)
    return Field(
        id=0,
        name=field["name"],
        type=type_,
        required=not field.get("nullable", True) and not isinstance(type_, UnknownType),
        doc=(field.get("metadata") or {}).get("comment"),
    )


def _type(document: Any, path: tuple[str, ...], depth: int) -> Type:
    if depth > DEEPEST:
        raise _refused(path, f"types are nested more than {DEEPEST} levels deep")
    match document:
        case str(text):
            return _primitive(text, path)
        case {"type": "struct"}:
            return StructType(_fields(document, path, depth + 1))
        case {"type": "array", "elementType": element}:
            return ListType(
                element_id=0,
                element=_type(element, (*path, "element"), depth + 1),
                element_required=not document.get("containsNull", True),
            )
        case {"type": "map", "keyType": key, "valueType": value}:
            return MapType(
                key_id=0,
                key=_type(key, (*path, "key"), depth + 1),
                value_id=0,
                value=_type(value, (*path, "value"), depth + 1),
                value_required=not document.get("valueContainsNull", True),
            )
        case {"type": "udt", "sqlType": stored}:
            return _type(stored, path, depth + 1)
        case _:
            raise _refused(path, "Iceberg has no type for it")


def _primitive(text: str, path: tuple[str, ...]) -> Type:
    match = _PARAMETERS.fullmatch(text.strip())
    try:
        if match is None:
            return primitive_named(text.strip())
        return primitive_named(match[1], [part.strip() for part in match[2].split(",")])
    except ValueError as error:
        raise _refused(path, f"its Spark type is {text!r}, and {error}") from None


def _refused(path: tuple[str, ...], why: str) -> InvalidInput:
    name = ".".join(path)
    return InvalidInput(f"cannot make a column {name!r}: {why}", column=name)
