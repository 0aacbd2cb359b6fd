"""Literals converted to a type: CAST, Spark's typed literals, and the default value of a column."""

from __future__ import annotations

import math
import re
import struct
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from esker.errors import InvalidInput
from esker.model.predicates.coerce import compare, describe
from esker.model.predicates.literal import (
    NANOS_PER_DAY,
    decimal_literal,
    literal_of,
    read_boolean,
    read_date,
    read_double,
    read_integer,
    read_time,
    read_timestamp,
    text_literal,
)
from esker.model.predicates.predicate import Compare, IsNaN, Op
from esker.model.predicates.unbound_predicate import Literal
from esker.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    LONG,
    TIME,
    TIMESTAMP_NS,
    TIMESTAMPTZ_NS,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    Field,
    FloatType,
    GeographyType,
    GeometryType,
    LongType,
    StringType,
    TimestampType,
    TimeType,
    UnknownType,
    VariantType,
    is_nested,
)

# ---------------------------------------------------------------- CAST, and Spark's typed literals, which are casts of
# a string


_BITS = {"tinyint": 8, "byte": 8, "smallint": 16, "short": 16, "int": 32, "integer": 32, "bigint": 64, "long": 64}
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)\s*(?:\(\s*(\d{1,2})\s*(?:,\s*(\d{1,2})\s*)?\))?")
_STRING = re.compile(r"string|(?:varchar|char)\s*\(\s*\d{1,9}\s*\)")
TYPE_NAMES = frozenset(
    [
        "tinyint",
        "byte",
        "smallint",
        "short",
        "int",
        "integer",
        "bigint",
        "long",
        "decimal",
        "numeric",
        "dec",
        "string",
        "varchar",
        "char",
        "boolean",
        "float",
        "real",
        "double",
        "date",
        "time",
        "timestamp",
        "timestamp_ltz",
        "timestamp_ntz",
        "binary",
    ]
)
_WIDE = Context(prec=200)


def cast(literal: Literal, type_name: str, place: str) -> Literal:
    """The literal as another type. Raises ``InvalidInput`` with the place if it cannot be converted."""
    try:
        converted = _cast(literal, " ".join(type_name.lower().split()))
    except (ValueError, OverflowError, InvalidOperation) as error:
        raise InvalidInput(f"cannot cast {describe(literal)} to {type_name} at {place}: {error}", place=place) from None
    return Literal(converted.value, converted.type, place)


def _cast(literal: Literal, name: str) -> Literal:
    if literal.type is None:
        return literal
    if name in _BITS:
        return _to_integer(literal, name)
    if match := _DECIMAL.fullmatch(name):
        return _to_decimal(literal, int(match[1] or 10), int(match[2] or 0))
    if _STRING.fullmatch(name):
        return _to_string(literal)
    match name:
        case "boolean":
            return _to_boolean(literal)
        case "double":
            return Literal(_number(literal), DOUBLE)
        case "float" | "real":
            return Literal(_to_float32(_number(literal)), FLOAT)
        case "date":
            return _to_date(literal)
        case "timestamp" | "timestamp_ltz" | "timestamp_ntz":
            return _to_timestamp(literal, zoned=name != "timestamp_ntz")
        case "time":
            return Literal(read_time(_text(literal)), TIME) if not isinstance(literal.type, TimeType) else literal
        case "binary":
            return literal if isinstance(literal.type, BinaryType) else Literal(_text(literal).encode(), BINARY)
        case _:
            raise ValueError("the type is not known")


def _to_integer(literal: Literal, name: str) -> Literal:
    match literal.type, literal.value:
        case StringType(), str(text):
            value = read_integer(text)
        case ((BooleanType() | LongType()), int(number)):
            value = int(number)
        case ((DecimalType() | FloatType() | DoubleType()), number) if number == number and abs(number) < 10**40:
            value = math.trunc(number)
        case _:
            raise ValueError("it is not a number that fits")
    limit = 2 ** (_BITS[name] - 1)
    if not -limit <= value < limit:
        raise ValueError("it is out of range")
    return Literal(value, LONG)


def _to_decimal(literal: Literal, precision: int, scale: int) -> Literal:
    if not 1 <= precision <= 38 or scale > precision:
        raise ValueError("a decimal has at most 38 digits, and its scale at most as many")
    match literal.type, literal.value:
        case StringType(), str(text) if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", text.strip()):
            exact = Decimal(text.strip())
        case ((LongType() | DecimalType()), number):
            exact = Decimal(number)
        case ((FloatType() | DoubleType()), float(number)) if math.isfinite(number):
            exact = Decimal(repr(number))
        case _:
            raise ValueError("it is not a number")
    rounded = exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _WIDE)
    if abs(rounded) >= Decimal(10) ** (precision - scale):
        raise ValueError("it has too many digits")
    return decimal_literal(rounded)


def _to_string(literal: Literal) -> Literal:
    match literal.type, literal.value:
        case StringType(), _:
            return literal
        case ((LongType() | DecimalType()), number):
            return text_literal(f"{number:f}" if isinstance(number, Decimal) else str(number))
        case BooleanType(), bool(value):
            return text_literal("true" if value else "false")
        case BinaryType(), bytes(value):
            return text_literal(value.decode())
        case _:
            raise ValueError("write it as a string")


def _to_boolean(literal: Literal) -> Literal:
    match literal.type, literal.value:
        case BooleanType(), _:
            return literal
        case LongType(), int(value):
            return Literal(value != 0, BOOLEAN)
        case _:
            return Literal(read_boolean(_text(literal)), BOOLEAN)


def _number(literal: Literal) -> float:
    match literal.type, literal.value:
        case ((LongType() | DecimalType() | FloatType() | DoubleType()), number):
            return float(number)
        case _:
            return read_double(_text(literal))


def _to_float32(value: float) -> float:
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def _to_date(literal: Literal) -> Literal:
    match literal.type, literal.value:
        case DateType(), _:
            return literal
        case TimestampType(), int(nanos):
            return Literal(nanos // NANOS_PER_DAY, DATE)
        case _:
            return Literal(read_date(_text(literal)), DATE)


def _to_timestamp(literal: Literal, *, zoned: bool) -> Literal:
    kind = TIMESTAMPTZ_NS if zoned else TIMESTAMP_NS
    match literal.type, literal.value:
        case TimestampType(), int(nanos):
            return Literal(nanos, kind)
        case DateType(), int(days):
            return Literal(days * NANOS_PER_DAY, kind)
        case _:
            moment = read_timestamp(_text(literal))
            return Literal(moment.instant if zoned else moment.wall, kind)


def _text(literal: Literal) -> str:
    if isinstance(literal.type, StringType):
        return literal.value
    raise ValueError("only a string can be cast to this type")


# ---------------------------------------------------------------- The default value of a column


_ONLY_NULL = (UnknownType, VariantType, GeometryType, GeographyType)


def held_default(field: Field, value: Any) -> Any:
    """The held form of a default. None is no default. Raises ``InvalidInput`` with the column if the value does not
    fit."""
    literal = literal_of(value)
    if literal.type is None:
        return None
    if isinstance(field.type, _ONLY_NULL) or is_nested(field.type):
        raise InvalidInput(
            f"cannot give column {field.name!r} a default: a {field.type} can have no default except null",
            column=field.name,
        )
    try:
        match compare(field, Op.EQ, literal):  # if the column equals exactly one value, this is the value
            case Compare(_, Op.EQ, held):
                return _single(held) if isinstance(field.type, FloatType) else held
            case IsNaN(negated=False):
                return math.nan
    except (InvalidInput, OverflowError):
        pass
    raise InvalidInput(
        f"cannot give column {field.name!r} the default {describe(literal)}: it is not a valid {field.type}",
        column=field.name,
    )


def _single(value: float) -> float:
    """The nearest value of a 32-bit float."""
    return struct.unpack("<f", struct.pack("<f", value))[0]
