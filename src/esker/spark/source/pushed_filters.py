"""Filters that Spark pushes down, as Esker's predicates. They prune files; Spark applies them again to every row."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from esker.errors import InvalidInput
from esker.model.predicates.literal import literal_of
from esker.model.predicates.predicate import Op, escaped
from esker.model.predicates.unbound_predicate import Among, Comparison, LikeTest, Name, Not, NullTest, Same, Unbound
from esker.model.schema import Schema
from esker.model.types import StructType, TimestampType, Type, UuidType

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_COMPARISONS = {
    "EqualTo": Op.EQ,
    "GreaterThan": Op.GT,
    "GreaterThanOrEqual": Op.GE,
    "LessThan": Op.LT,
    "LessThanOrEqual": Op.LE,
}
_OF_TEXT = ("EqualTo", "In", "IsNull", "IsNotNull")  # filters that mean the same for a uuid and for its text, or less


def unbound_filters(filters: Iterable[Filter], schema: Schema) -> Iterator[Unbound]:
    """Yield the filters that mean the same in Esker and in Spark. Spark alone evaluates the others."""
    for filter_ in filters:
        try:
            found = _unbound(filter_, schema)
        except InvalidInput:  # Esker has no literal for the value
            continue
        if found is not None:
            yield found


def _unbound(filter_: Any, schema: Schema) -> Unbound | None:
    kind = type(filter_).__name__
    if kind == "Not":
        inner = filter_.child
        if isinstance(_type_of(inner, schema), UuidType) and type(inner).__name__ not in ("IsNull", "IsNotNull"):
            return None  # the text of a uuid can be written in several ways; Spark compares only one
        found = _unbound(inner, schema)
        return None if found is None else Not(found)
    type_ = _type_of(filter_, schema)
    if type_ is None or (isinstance(type_, UuidType) and kind not in _OF_TEXT):
        return None
    value: Any = getattr(filter_, "value", None)
    for one in value if kind == "In" else (value,):
        if isinstance(one, datetime.datetime) and not _same_kind(type_, one):
            return None
    return _leaf(kind, Name(tuple(filter_.attribute)), value)


def _leaf(kind: str, name: Name, value: Any) -> Unbound | None:
    match kind:
        case _ if kind in _COMPARISONS:
            return Comparison(name, _COMPARISONS[kind], literal_of(value))
        case "EqualNullSafe":
            return Same(name, literal_of(value))
        case "In":
            return Among(name, tuple(map(literal_of, value)))
        case "IsNull":
            return NullTest(name)
        case "IsNotNull":
            return Not(NullTest(name))
        case "StringStartsWith":
            return LikeTest(name, escaped(value) + "%")
        case "StringEndsWith":
            return LikeTest(name, "%" + escaped(value))
        case "StringContains":
            return LikeTest(name, "%" + escaped(value) + "%")
        case _:
            return None


def _type_of(filter_: Any, schema: Schema) -> Type | None:
    """Return the type of the filter's column. Returns None if no column has exactly that name."""
    fields, type_ = schema.fields, None
    for part in getattr(filter_, "attribute", ()):
        found = next((field for field in fields if field.name == part), None)
        if found is None:
            return None
        type_ = found.type
        fields = type_.fields if isinstance(type_, StructType) else ()
    return type_


def _same_kind(type_: Type, value: datetime.datetime) -> bool:
    return isinstance(type_, TimestampType) and type_.zoned == (value.tzinfo is not None)
