"""Columns as a user defines them: from DDL text, or from the JSON form of a Spark ``StructType``.

The names of types are Spark's, and Iceberg's for types that Spark does not have. Fields get id 0; the table assigns
ids.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from esker.errors import InvalidInput
from esker.model.parsing.cast import TYPE_NAMES, cast, held_default
from esker.model.parsing.tokens import Kind, Token, TokenStream, tokens_of
from esker.model.predicates.unbound_predicate import Literal
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
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    Field,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    Type,
    UnknownType,
)

# ---------------------------------------------------------------- Primitive types
#
# ``timestamp`` is as in Spark: an instant, Iceberg's ``timestamptz``. The type without a zone is ``timestamp_ntz``.


MAX_PRECISION = 38
LARGEST_FIXED = (1 << 31) - 1
DEFAULT_CRS = "OGC:CRS84"
EDGE_ALGORITHMS = ("spherical", "vincenty", "thomas", "andoyer", "karney")

PLAIN: dict[str, PrimitiveType] = {
    "boolean": BOOLEAN,
    "tinyint": INT,  # Iceberg has no narrower integer; Spark reads the column as int
    "byte": INT,
    "smallint": INT,
    "short": INT,
    "int": INT,
    "integer": INT,
    "bigint": LONG,
    "long": LONG,
    "float": FLOAT,
    "real": FLOAT,
    "double": DOUBLE,
    "date": DATE,
    "time": TIME,
    "timestamp": TIMESTAMPTZ,
    "timestamp_ltz": TIMESTAMPTZ,
    "timestamptz": TIMESTAMPTZ,
    "timestamp_ntz": TIMESTAMP,
    "timestamp_ns": TIMESTAMP_NS,
    "timestamptz_ns": TIMESTAMPTZ_NS,
    "string": STRING,
    "uuid": UUID,
    "binary": BINARY,
    "unknown": UNKNOWN,
    "void": UNKNOWN,
    "variant": VARIANT,
    "geometry": GeometryType(),
    "geography": GeographyType(),
    "decimal": DecimalType(10, 0),  # Spark's default
    "dec": DecimalType(10, 0),
    "numeric": DecimalType(10, 0),
}


def primitive_named(word: str, parameters: Sequence[str] = ()) -> PrimitiveType:
    """The type with that name and these parameters. Raises ``ValueError`` if they are not valid."""
    name = word.lower()
    match name, tuple(parameters):
        case _, () if name in PLAIN:
            return PLAIN[name]
        case (("decimal" | "dec" | "numeric"), (precision,)):
            return _decimal(precision, "0")
        case (("decimal" | "dec" | "numeric"), (precision, scale)):
            return _decimal(precision, scale)
        case "fixed", (length,):
            return FixedType(_whole(length, 1, LARGEST_FIXED, "the length of a fixed"))
        case (("varchar" | "char"), (length,)):  # Iceberg and its engines do not limit the length of text
            _whole(length, 1, LARGEST_FIXED, f"the length of a {name}")
            return STRING
        case "time", (precision,) if precision.strip() in ("0", "1", "2", "3", "4", "5", "6"):
            return TIME
        case "geometry", (crs,):
            return GeometryType(_crs(crs))
        case "geography", (crs,):
            return GeographyType(_crs(crs))
        case "geography", (crs, algorithm):
            return GeographyType(_crs(crs), _algorithm(algorithm))
        case _, () if name in ("fixed", "varchar", "char"):
            raise ValueError(f"{name} needs a length: {name}(16)")
        case _, _ if name in PLAIN or name in ("fixed", "varchar", "char"):
            raise ValueError(f"{name} does not take the parameters ({', '.join(parameters)})")
        case _:
            raise ValueError(f"there is no type {word!r}")


def _decimal(precision: str, scale: str) -> DecimalType:
    digits = _whole(precision, 1, MAX_PRECISION, "the precision of a decimal")
    return DecimalType(digits, _whole(scale, 0, digits, "the scale of a decimal"))


def _whole(text: str, least: int, most: int, what: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 12 and least <= int(digits) <= most):
        raise ValueError(f"{what} is from {least} to {most}, not {text}")
    return int(digits)


def _crs(text: str) -> str | None:
    crs = text.strip()
    return None if not crs or crs.lower() == DEFAULT_CRS.lower() else crs


def _algorithm(text: str) -> str | None:
    name = text.strip().lower()
    if name not in EDGE_ALGORITHMS:
        raise ValueError(f"the edges of a geography are {', '.join(EDGE_ALGORITHMS)}, not {text.strip()}")
    return None if name == "spherical" else name


# ---------------------------------------------------------------- DDL text
#
# ``"id bigint not null, ts timestamp, tags map<string,string> comment 'free'"``.


DEEPEST = 60  # levels of nesting; no table needs more, and walks over types are recursive
SUBJECT = "the columns"


def parse_columns(text: str) -> tuple[Field, ...]:
    """The columns in the text, with id 0. Raises ``InvalidInput`` with the place of the fault."""
    parser = _parser(text, SUBJECT)
    if parser.tokens.peek() is None:
        return ()
    wrapped = parser.tokens.take_sign("(")
    fields = parser.fields(0)
    if wrapped:
        parser.tokens.expect_sign(")")
    parser.expect_end()
    return fields


def parse_type(text: str) -> Type:
    """The type in the text: ``bigint``, ``struct<x: double, y: double>``. Its parts have id 0."""
    parser = _parser(text, "the type")
    found = parser.type(0)
    parser.expect_end()
    return found


def _parser(text: str, subject: str) -> _Parser:
    if not isinstance(text, str):
        raise InvalidInput(f"cannot read {subject} from {text!r}: give text")
    return _Parser(TokenStream(text, tokens_of(text, subject), subject))


class _Parser:
    """Parses one text, from left to right."""

    def __init__(self, tokens: TokenStream) -> None:
        self.tokens = tokens

    def expect_end(self) -> None:
        if (rest := self.tokens.peek()) is not None:
            raise self.refuse(rest, f"did not expect {rest.shown}")

    def fields(self, depth: int) -> tuple[Field, ...]:
        found = [self.field(depth)]
        while self.tokens.take_sign(","):
            found.append(self.field(depth))
        return tuple(found)

    def field(self, depth: int) -> Field:
        name = self.name()
        self.tokens.take_sign(":")  # Spark accepts struct<a int> and struct<a: int>
        field = Field(id=0, name=name, type=self.type(depth))
        while (clause := self.tokens.peek()) is not None and clause.word in ("not", "null", "comment", "default"):
            field = self.clause(field, self.tokens.next())
        return field

    def clause(self, field: Field, clause: Token) -> Field:
        match clause.word:
            case "not":
                if not self.tokens.take_word("null"):
                    raise self.refuse(clause, "expected NOT NULL")
                if isinstance(field.type, UnknownType):
                    raise self.refuse(clause, f"column {field.name!r} of type unknown is always null")
                return replace(field, required=True)
            case "comment":
                text = self.tokens.next()
                if text.kind is not Kind.STRING:
                    raise self.refuse(text, f"expected the comment in quotes, not {text.shown}")
                return replace(field, doc=text.text)
            case "default":
                held = held_default(field, self.literal())
                return replace(field, initial_default=held, write_default=held)
            case _:
                return field

    def name(self) -> str:
        token = self.tokens.next()
        if token.is_quoted or (token.kind is Kind.WORD and token.text):
            return token.text
        raise self.refuse(token, f"expected the name of a column, not {token.shown}; put it in backticks")

    def type(self, depth: int) -> Type:
        token = self.tokens.next()
        if depth > DEEPEST:
            raise self.refuse(token, f"types are nested more than {DEEPEST} levels deep")
        match token.word:
            case "struct" if self.tokens.take_sign("<"):
                if self.tokens.take_sign(">"):
                    return StructType(())
                members = self.fields(depth + 1)
                return self.closed(StructType(members))
            case "array" | "list" if self.tokens.take_sign("<"):
                element, required = self.part(depth)
                return self.closed(ListType(element_id=0, element=element, element_required=required))
            case "map" if self.tokens.take_sign("<"):
                key, _ = self.part(depth)
                self.tokens.expect_sign(",")
                value, required = self.part(depth)
                return self.closed(MapType(key_id=0, key=key, value_id=0, value=value, value_required=required))
            case "struct" | "array" | "list" | "map":
                raise self.refuse(token, f"{token.word} needs its parts: {token.word}<…>")
            case None:
                raise self.refuse(token, f"expected a type, not {token.shown}")
            case word:
                return self.primitive(token, word)

    def part(self, depth: int) -> tuple[Type, bool]:
        """An element or value type, and whether it is required."""
        found = self.type(depth + 1)
        if not self.tokens.take_word("not"):
            return found, False
        if not self.tokens.take_word("null"):
            raise self.refuse(self.tokens.expect("NULL"), "expected NOT NULL")
        return found, True

    def closed(self, found: Type) -> Type:
        self.tokens.expect_sign(">")
        return found

    def primitive(self, token: Token, word: str) -> Type:
        try:
            return primitive_named(word, self.parameters())
        except ValueError as error:
            raise self.refuse(token, str(error)) from None

    def parameters(self) -> list[str]:
        """The text in the parentheses or brackets after a type, split at its commas."""
        if self.tokens.take_sign("("):
            end = ")"
        elif self.tokens.take_sign("["):
            end = "]"
        else:
            return []
        found = [""]
        while not self.tokens.take_sign(end):
            token = self.tokens.next()
            if token.is_sign and token.text == ",":
                found.append("")
            else:
                found[-1] += token.text
        return found

    def literal(self) -> Literal:
        start = self.tokens.expect("a default value")
        found = self.tokens.take_literal()
        if found is not None:
            return found
        if start.word in TYPE_NAMES and (text := self.tokens.take_text_after()) is not None:
            return cast(text, start.word, start.place)
        match start.word:
            case "true" | "false":
                self.tokens.next()
                return Literal(start.word == "true", BOOLEAN, start.place)
            case "null":
                self.tokens.next()
                return Literal(None, None, start.place)
        raise self.refuse(start, f"a default is a literal, not {start.shown}")

    def refuse(self, token: Token, reason: str) -> InvalidInput:
        return InvalidInput(f"cannot read {self.tokens.subject} at {token.place}: {reason}", place=token.place)


# ---------------------------------------------------------------- Spark's StructType, by its JSON form, so that pyspark
# is not needed


_PARAMETERS = re.compile(r"(\w+)\s*\((.*)\)")


def is_spark_type(given: object) -> bool:
    """Whether the object has the methods of a Spark type."""
    return callable(getattr(given, "jsonValue", None)) and callable(getattr(given, "simpleString", None))


def columns_from_spark(struct: Any) -> tuple[Field, ...]:
    """The columns of a ``StructType``, with id 0. Raises ``InvalidInput`` with a column that Iceberg has no type
    for."""
    document = struct.jsonValue()
    if not isinstance(document, dict) or document.get("type") != "struct":
        raise InvalidInput(f"cannot make a table of Spark's {struct.simpleString()}: give a StructType")
    return _fields(document, (), 0)


def type_from_spark(given: Any) -> Type:
    """One Spark type. Its parts have id 0."""
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
