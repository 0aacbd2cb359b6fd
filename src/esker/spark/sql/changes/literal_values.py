"""INSERT … VALUES of plain literals: the rows as Arrow data, made without Spark.

Only what is surely the same in Spark is read here: whole numbers, decimals, strings without escapes, booleans, NULL,
dates and timestamps, each into a column that stores the value exactly. Everything else is left to Spark, also
everything that Spark would refuse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import pyarrow as pa

from esker.arrow.arrow_types import to_arrow_schema
from esker.errors import InvalidInput
from esker.model.parsing.tokens import Kind, Token
from esker.model.schema import Schema
from esker.model.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    Field,
    FloatType,
    IntType,
    LongType,
    StringType,
    TimestampType,
    Type,
)
from esker.spark.sql.grammar.words import Words

_WHOLE = re.compile(r"[0-9]{1,19}")
_DECIMAL = re.compile(r"[0-9]+\.[0-9]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?")
_MOST_DIGITS = 15  # of a decimal: then it is exact as a decimal of any row's type, and its double is the nearest one
_ZONES = ("UTC", "Etc/UTC")  # those whose local time needs no rules
_PLAIN = (IntType, LongType, FloatType, DoubleType, DecimalType, StringType, BooleanType, DateType, TimestampType)


Setting = Callable[[str], str | None]


class _Left(Exception):
    """Spark evaluates this statement."""


class _As(Enum):
    """The type that Spark gives a literal. Rows of one type have no other type in common."""

    NULL = "null"
    WHOLE = "whole"
    DECIMAL = "decimal"
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    ZONED = "timestamp with time zone"
    LOCAL = "timestamp without time zone"


@dataclass(frozen=True, slots=True)
class _Literal:
    kind: _As
    value: Any


def literal_rows(
    text: str, schema: Schema, targets: Sequence[Field], setting: Setting, get_zone: Callable[[], str]
) -> pa.Table | None:
    """Return the rows of ``VALUES …`` as the columns of the table. ``targets`` are the columns that the values go to.

    Returns None if Spark must evaluate the text, or would refuse it. ``setting`` and ``get_zone`` read settings of the
    session, which takes calls to the JVM. Only timestamps need them.
    """
    body = text.strip()
    if body[:6].lower() != "values":
        return None
    if "${" in body or not all(isinstance(field.type, _PLAIN) for field in schema.fields):  # Spark fills in variables
        return None
    try:
        return _table(_Rows(body, setting, get_zone).read(), schema, targets)
    except (_Left, InvalidInput):
        return None


class _Rows:
    """Reads ``VALUES (…), (…)``. Raises ``_Left`` at the first thing that is not a plain literal."""

    def __init__(self, text: str, setting: Setting, get_zone: Callable[[], str]) -> None:
        self._text = text
        self._words = Words(text)
        self._setting = setting
        self._get_zone = get_zone
        self._in_utc = False  # whether the session's settings were read, and are those of UTC

    def read(self) -> list[list[_Literal]]:
        words = self._words
        words.expect("values")
        rows = [self._row()]
        while words.take_sign(","):
            rows.append(self._row())
        if not words.is_over or any(len(row) != len(rows[0]) for row in rows):
            raise _Left
        return rows

    def _row(self) -> list[_Literal]:
        self._words.expect_sign("(")
        row = [self._literal()]
        while self._words.take_sign(","):
            row.append(self._literal())
        self._words.expect_sign(")")
        return row

    def _literal(self) -> _Literal:
        minus = self._words.take_sign("-")
        token = self._words.next()
        if token.kind is Kind.NUMBER:
            return self._number(token, minus)
        if minus:
            raise _Left
        if token.kind is Kind.STRING:
            return _Literal(_As.TEXT, self._string(token))
        match token.word:
            case "null":
                return _Literal(_As.NULL, None)
            case "true" | "false":
                return _Literal(_As.BOOLEAN, token.word == "true")
            case "date":
                return _Literal(_As.DATE, _parsed(date.fromisoformat, _DATE, self._string(self._words.next())))
            case "timestamp" | "timestamp_ltz" | "timestamp_ntz":
                return self._moment(token.word)
            case _:
                raise _Left

    def _number(self, token: Token, minus: bool) -> _Literal:
        text = self._text[token.start : token.end + 1]
        if _WHOLE.fullmatch(text):
            whole = -int(text) if minus else int(text)
            if not -(2**63) < whole < 2**63:
                raise _Left
            return _Literal(_As.WHOLE, whole)
        if not _DECIMAL.fullmatch(text) or len(text) > _MOST_DIGITS:
            raise _Left
        number = Decimal(text)
        return _Literal(_As.DECIMAL, -number if minus and number else number)  # a decimal has one zero

    def _string(self, token: Token) -> str:
        """Return the text between two single quotes, without anything that some setting of Spark reads differently."""
        text = self._text[token.start : token.end + 1]
        inside = text[1:-1]
        if token.kind is not Kind.STRING or len(text) < 2 or text[0] != "'" or text[-1] != "'":
            raise _Left
        if any(sign in inside for sign in ("'", "\\", "\0")) or not _is_unicode(inside):
            raise _Left
        return inside

    def _moment(self, word: str) -> _Literal:
        text = self._string(self._words.next())
        found = _parsed(datetime.fromisoformat, _MOMENT, text)
        if word == "timestamp_ntz":
            return _Literal(_As.LOCAL, found)
        if not self._in_utc:
            kind = self._setting("spark.sql.timestampType") or "TIMESTAMP_LTZ"
            if self._get_zone() not in _ZONES or kind.upper() != "TIMESTAMP_LTZ":
                raise _Left
            self._in_utc = True
        return _Literal(_As.ZONED, found.replace(tzinfo=UTC))


def _parsed(parse: Callable[[str], Any], pattern: re.Pattern[str], text: str) -> Any:
    if not pattern.fullmatch(text):
        raise _Left
    try:
        return parse(text)
    except ValueError:
        raise _Left from None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _table(rows: Sequence[Sequence[_Literal]], schema: Schema, targets: Sequence[Field]) -> pa.Table:
    if len(rows[0]) != len(targets) or len({field.id for field in targets}) != len(targets):
        raise _Left
    given: Mapping[int, list[_Literal]] = {field.id: [row[at] for row in rows] for at, field in enumerate(targets)}
    arrow = to_arrow_schema(schema.fields)
    columns = []
    for field, made in zip(schema.fields, arrow, strict=True):
        if field.id not in given and field.write_default is not None:
            raise _Left
        values = _column(given[field.id], field) if field.id in given else [None] * len(rows)
        if field.required and None in values:
            raise _Left
        columns.append(pa.array(values, made.type))
    return pa.Table.from_arrays(columns, schema=arrow)


def _column(literals: Sequence[_Literal], field: Field) -> list[Any]:
    kinds = {literal.kind for literal in literals} - {_As.NULL}
    if len(kinds) > 1:
        raise _Left
    return [None if literal.kind is _As.NULL else _stored(literal, field.type) for literal in literals]


def _stored(literal: _Literal, type_: Type) -> Any:
    """Return the value as the column stores it. Raises ``_Left`` if a cast would change or refuse it."""
    value = literal.value
    match literal.kind, type_:
        case _As.WHOLE, IntType() if -(2**31) <= value < 2**31:
            return value
        case _As.WHOLE, LongType():
            return value
        case _As.WHOLE, DoubleType() if abs(value) <= 2**53:
            return float(value)
        case _As.WHOLE, FloatType() if abs(value) <= 2**24:
            return float(value)
        case _As.WHOLE | _As.DECIMAL, DecimalType(precision=precision, scale=scale):
            number = Decimal(value)
            exponent = number.as_tuple().exponent
            if isinstance(exponent, int) and -exponent <= scale and abs(number) < Decimal(10) ** (precision - scale):
                return number
            raise _Left
        case _As.DECIMAL, DoubleType():
            return float(value)
        case _As.TEXT, StringType():
            return value
        case _As.BOOLEAN, BooleanType():
            return value
        case _As.DATE, DateType():
            return value
        case _As.ZONED, TimestampType(zoned=True, nanos=False):
            return value
        case _As.LOCAL, TimestampType(zoned=False, nanos=False):
            return value
        case _:
            raise _Left
