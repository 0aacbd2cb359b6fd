"""One predicate, three spellings: as SQL text, as an expression of ``esker.col``, as it stands."""

from __future__ import annotations

import datetime
import math
import uuid
from dataclasses import replace
from decimal import Decimal
from typing import Any

from esker import col
from esker.model.predicates.column import Column, Expression
from esker.model.predicates.predicate import Op
from esker.model.predicates.unbound_predicate import (
    AllOf,
    Among,
    AnyOf,
    Comparison,
    Constant,
    LikeTest,
    Literal,
    Name,
    NaNTest,
    Not,
    NullTest,
    Same,
    Unbound,
)
from esker.model.transform import BucketTransform, TruncateTransform
from esker.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    TimestampType,
    TimeType,
    UuidType,
)

_EPOCH = datetime.datetime(1970, 1, 1)
_FIRST, _LAST = (datetime.datetime.min - _EPOCH).days, (datetime.datetime.max - _EPOCH).days
_OPS = {
    Op.EQ: Column.__eq__, Op.NE: Column.__ne__, Op.LT: Column.__lt__,
    Op.LE: Column.__le__, Op.GT: Column.__gt__, Op.GE: Column.__ge__,
}  # fmt: skip


class CannotSpell(Exception):
    """The spelling has no way to say it."""


def about(node: Unbound, column: Name) -> Unbound:
    """The same predicate of another column."""
    match node:
        case Not(part):
            return Not(about(part, column))
        case AllOf(parts):
            return AllOf(tuple(about(part, column) for part in parts))
        case AnyOf(parts):
            return AnyOf(tuple(about(part, column) for part in parts))
        case Constant():
            return node
        case _:
            return replace(node, column=column)


# ---------------------------------------------------------------- SQL


def as_sql(node: Unbound) -> str:
    """The predicate as a user would write it in Spark's dialect."""
    match node:
        case Constant(value):
            return "NULL" if value is None else str(value)
        case Not(part):
            return f"NOT ({as_sql(part)})"
        case AllOf(parts):
            return " AND ".join(f"({as_sql(part)})" for part in parts)
        case AnyOf(parts):
            return " OR ".join(f"({as_sql(part)})" for part in parts)
        case NullTest(column):
            return f"{_name(column)} IS NULL"
        case NaNTest(column):
            return f"isnan({_name(column)})"
        case Comparison(column, op, literal):
            return f"{_name(column)} {op.value} {_literal(literal)}"
        case Same(column, literal):
            return f"{_name(column)} <=> {_literal(literal)}"
        case Among(column, literals):
            return f"{_name(column)} IN ({', '.join(map(_literal, literals))})"
        case LikeTest(column, pattern):
            return f"{_name(column)} LIKE {_text(pattern)}"


def _name(name: Name) -> str:
    column = ".".join("`" + part.replace("`", "``") + "`" for part in name.parts)
    match name.transform:
        case None:
            return column
        case BucketTransform(size):
            return f"system.bucket({size}, {column})"
        case TruncateTransform(size):
            return f"System.Truncate({size}, {column})"
        case other:
            return f"system.{other}s({column})"


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0") + "'"


def _literal(literal: Literal) -> str:
    match literal.type, literal.value:
        case None, _:
            return "NULL"
        case BooleanType(), value:
            return str(value).lower()
        case LongType(), int(value):
            return str(value)
        case DoubleType(), float(value):
            return f"{value!r}D" if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"
        case DecimalType(), Decimal() as value if sum(map(str.isdigit, f"{value:f}")) <= 38:
            return f"{value:f}BD"
        case DateType(), int(value) if _FIRST <= value <= _LAST:
            return f"DATE '{(_EPOCH + datetime.timedelta(value)).date().isoformat()}'"
        case TimestampType(zoned=zoned), int(value):
            return f"TIMESTAMP{'' if zoned else '_NTZ'} '{_moment(value)}{'+00:00' if zoned else ''}'"
        case TimeType(), int(value):
            return f"TIME '{_moment(value)[11:]}'"
        case StringType(), str(value):
            return _text(value)
        case UuidType(), bytes(value):
            return f"'{uuid.UUID(bytes=value)}'"
        case BinaryType(), bytes(value):
            return f"X'{value.hex()}'"
    raise CannotSpell(literal)


def _moment(nanos: int) -> str:
    micros, rest = divmod(nanos, 1000)
    if not _FIRST <= micros // 86_400_000_000 <= _LAST:
        raise CannotSpell(nanos)
    return (_EPOCH + datetime.timedelta(microseconds=micros)).isoformat(timespec="microseconds") + f"{rest:03}"


# ---------------------------------------------------------------- Python


def as_expression(node: Unbound) -> Expression:
    """The predicate as a user would build it in Python."""
    match node:
        case Constant():
            raise CannotSpell(node)
        case Not(part):
            return ~as_expression(part)
        case AllOf(parts):
            whole = as_expression(parts[0])
            for part in parts[1:]:
                whole = whole & as_expression(part)
            return whole
        case AnyOf(parts):
            whole = as_expression(parts[0])
            for part in parts[1:]:
                whole = whole | as_expression(part)
            return whole
        case _ if node.column.transform is not None:
            raise CannotSpell(node)
        case _:
            return _leaf(node, col(_name(node.column)))


def _leaf(node: Any, column: Column) -> Expression:
    match node:
        case NullTest():
            return column.is_null()
        case NaNTest():
            return column.is_nan()
        case Comparison(_, op, literal):
            return _OPS[op](column, _value(literal))
        case Same(_, literal):
            return column.eq_null_safe(_value(literal))
        case Among(_, literals):
            return column.isin([_value(literal) for literal in literals])
        case LikeTest(_, pattern, escape):
            return column.like(pattern, escape)
    raise AssertionError(node)


def _value(literal: Literal) -> Any:
    """The Python value a user has in hand; the literal itself where Python has none."""
    match literal.type, literal.value:
        case DateType(), int(days) if _FIRST <= days <= _LAST:
            return (_EPOCH + datetime.timedelta(days)).date()
        case TimestampType(zoned=zoned), int(nanos):
            micros, rest = divmod(nanos, 1000)
            if rest or not _FIRST <= micros // 86_400_000_000 <= _LAST:
                return literal
            moment = _EPOCH + datetime.timedelta(microseconds=micros)
            return moment.replace(tzinfo=datetime.UTC) if zoned else moment
        case TimeType(), int(nanos) if nanos % 1000 == 0:
            return (_EPOCH + datetime.timedelta(microseconds=nanos // 1000)).time()
        case UuidType(), bytes(value):
            return uuid.UUID(bytes=value)
        case ((DateType() | TimeType()), _):
            return literal
        case _, value:
            return value
