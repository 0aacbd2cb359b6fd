"""Bound predicates as SQL text, for users and for Spark."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from esker.model.predicates.predicate import (
    Always,
    And,
    Bound,
    Compare,
    InBucket,
    IsNaN,
    IsNull,
    Like,
    OneOf,
    Or,
    StartsWith,
    escaped,
)
from esker.model.transform import civil_month, days_from_month
from esker.model.types import (
    INT,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    Field,
    FixedType,
    FloatType,
    StringType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
)

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset(("and", "or", "not", "in", "is", "like", "between", "null", "true", "false", "escape", "case"))


def to_sql(bound: Bound, names: Mapping[int, str] | None = None, *, most_values: int | None = None) -> str:
    """The predicate in Spark's dialect.

    ``names`` has dotted names by field id (``Schema.name_by_id``). Without it, a struct field has only its own name.
    ``most_values`` shortens long IN lists for a reader; the text is then not valid SQL.
    """
    match bound:
        case Always(value):
            return "true" if value else "false"
        case And(parts):
            return " AND ".join(_inside(part, names, most_values) for part in parts)
        case Or(parts):
            return " OR ".join(_inside(part, names, most_values) for part in parts)
        case _:
            return _term(bound, _name(bound.field, names), most_values)


def _inside(part: Bound, names: Mapping[int, str] | None, most_values: int | None) -> str:
    text = to_sql(part, names, most_values=most_values)
    return f"({text})" if isinstance(part, And | Or) else text


def _term(term: Bound, name: str, most_values: int | None) -> str:
    match term:
        case Compare(field, op, literal):
            return f"{name} {op.value} {literal_sql(field.type, literal)}"
        case OneOf(field, values, negated):
            return f"{name} {'NOT ' if negated else ''}IN ({_values(field.type, values, most_values)})"
        case IsNull(_, negated):
            return f"{name} IS {'NOT ' if negated else ''}NULL"
        case IsNaN(_, negated):
            return f"{'NOT ' if negated else ''}isnan({name})"
        case StartsWith(_, prefix, negated):
            return f"{name} {'NOT ' if negated else ''}LIKE {_quoted(escaped(prefix) + '%')}"
        case Like(_, pattern, escape, negated):
            with_escape = "" if escape == "\\" else f" ESCAPE {_quoted(escape)}"
            return f"{name} {'NOT ' if negated else ''}LIKE {_quoted(pattern)}{with_escape}"
        case InBucket(_, buckets, values, negated):
            shown = _values(INT, values, most_values)
            return f"system.bucket({buckets}, {name}) {'NOT ' if negated else ''}IN ({shown})"
        case _:
            raise TypeError(f"{term!r} is no term")


def _values(type_: Type, values: Iterable[Any], most: int | None) -> str:
    ordered = sorted(values)
    shown = ordered if most is None else ordered[:most]
    more = f", … {len(ordered) - len(shown)} more" if len(shown) < len(ordered) else ""
    return ", ".join(literal_sql(type_, value) for value in shown) + more


def _name(field: Field, names: Mapping[int, str] | None) -> str:
    if names is None or field.id not in names:
        return quote_name(field.name)
    dotted = names[field.id]
    if dotted.split(".")[-1] != field.name:  # a name with a dot: it is not known which dot separates
        return quote_name(dotted)
    return ".".join(map(quote_name, dotted.split(".")))


def quote_name(name: str) -> str:
    """A name for SQL: in backticks unless it is a plain word."""
    if _PLAIN_NAME.fullmatch(name) and name.lower() not in _RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


def literal_sql(type_: Type, value: Any) -> str:
    """A held value as a literal of Spark's dialect."""
    match type_:
        case BooleanType():
            return "true" if value else "false"
        case FloatType() | DoubleType():
            return f"{value!r}D" if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"
        case DecimalType():
            return f"{value:f}BD"
        case DateType():
            return f"DATE '{date_text(value)}'"
        case TimeType():
            return f"TIME '{_clock(value * 1000)}'"
        case TimestampType():
            return _timestamp_sql(type_, value)
        case StringType():
            return _quoted(value)
        case UuidType():
            return f"'{uuid.UUID(bytes=value)}'"
        case FixedType() | BinaryType():
            return f"X'{value.hex()}'"
        case _:
            return str(value)


def date_text(days: int) -> str:
    """A day number from 1970 as an ISO date. Years of more than four digits have a sign."""
    year, month = civil_month(days)
    day = days - days_from_month((year - 1970) * 12 + month - 1) + 1
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def _timestamp_sql(type_: TimestampType, value: int) -> str:
    nanos = value * (1_000_000_000 // type_.ticks_per_second)
    days, rest = divmod(nanos, 86_400_000_000_000)
    zone = "+00:00" if type_.zoned else ""
    return f"TIMESTAMP{'' if type_.zoned else '_NTZ'} '{date_text(days)} {_clock(rest)}{zone}'"


def _clock(nanos: int) -> str:
    seconds, fraction = divmod(nanos, 1_000_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    text = f"{hour:02}:{minute:02}:{second:02}"
    return text if not fraction else f"{text}.{fraction:09}".removesuffix("000").removesuffix("000")


_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"})


def _quoted(text: str) -> str:
    return f"'{text.translate(_ESCAPES)}'"
