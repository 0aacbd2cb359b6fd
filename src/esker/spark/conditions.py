"""Bound predicates as conditions of Spark's, which its readers can push down."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812

from esker.model.predicate import Always, And, Bound, Compare, InBucket, IsNaN, IsNull, Like, OneOf, Op, Or, StartsWith
from esker.model.types import DateType, DoubleType, Field, FloatType, TimestampType
from esker.spark.literals import is_beyond, number_of, plain_literal
from esker.spark.sql.functions.transform_text import bucket_column

if TYPE_CHECKING:
    from pyspark.sql import Column

ColumnOf = Callable[[Field], "Column"]


def condition(bound: Bound, column_of: ColumnOf, without_nan: ColumnOf | None = None) -> Column:
    """True for just the rows that the predicate selects; ``column_of`` gives a field as it is stored.

    ``without_nan`` gives it for terms that NaN does not meet: statistics are right about these in any file.
    """
    plain = without_nan or column_of
    match bound:
        case Always(value):
            return F.lit(value)
        case And(parts):
            settled = {part.field.id for part in parts if isinstance(part, Compare | OneOf) and not _nan_meets(part)}

            def of_part(field: Field) -> Column:  # one part that NaN does not meet is enough for all
                return plain(field) if field.id in settled else column_of(field)

            return reduce(and_, (condition(part, of_part, without_nan) for part in parts))
        case Or(parts):
            return reduce(or_, (condition(part, column_of, without_nan) for part in parts))
        case Compare(field, op, literal):
            column = column_of(field) if _nan_meets(bound) else plain(field)
            if _is_zero(field, literal):
                return _compared_with_zero(column, op)
            column, (value,) = _comparable(field, column, (literal,))
            return _compared(column, op, value)
        case OneOf(field, values, False) if any(_is_zero(field, value) for value in values):
            others = frozenset(value for value in values if not _is_zero(field, value))
            zero = _compared_with_zero(plain(field), Op.EQ)
            return zero | condition(OneOf(field, others), column_of, without_nan) if others else zero
        case OneOf(field, values, negated):
            column, literals = _comparable(
                field, column_of(field) if _nan_meets(bound) else plain(field), tuple(values)
            )
            among = column.isin(*literals)
            return ~among if negated else among
        case IsNull(field, negated):
            return plain(field).isNotNull() if negated else plain(field).isNull()
        case IsNaN(field, negated):
            return ~F.isnan(plain(field)) if negated else F.isnan(plain(field))
        case StartsWith(field, prefix, negated):
            starts = column_of(field).startswith(prefix)
            return ~starts if negated else starts
        case Like(field, pattern, escape, negated):
            like = F.like(column_of(field), F.lit(pattern), F.lit(escape))
            return ~like if negated else like
        case InBucket(field, buckets, values, negated):
            among = bucket_column(column_of(field), buckets).isin(*sorted(values))
            return ~among if negated else among


def _nan_meets(term: Compare | OneOf) -> bool:
    return term.op in (Op.GT, Op.GE, Op.NE) if isinstance(term, Compare) else term.negated


def _is_zero(field: Field, value: Any) -> bool:
    return isinstance(field.type, FloatType | DoubleType) and bool(value == 0)


def _compared_with_zero(column: Column, op: Op) -> Column:
    """There are two zeros, equal for Spark and in order for the statistics that it pushes a comparison down to: of
    them, the one that leaves no file out for holding the other."""
    match op:
        case Op.EQ:
            return (column >= F.lit(-0.0)) & (column <= F.lit(0.0))
        case Op.GE | Op.GT:
            return _compared(column, op, F.lit(-0.0))
        case _:
            return _compared(column, op, F.lit(0.0))


def _comparable(field: Field, column: Column, values: tuple[Any, ...]) -> tuple[Column, list[Column]]:
    """Column and values in a form that Spark compares without failing."""
    if isinstance(field.type, DateType | TimestampType) and any(is_beyond(field.type, value) for value in values):
        return number_of(field.type, column), [F.lit(value) for value in values]
    return column, [plain_literal(field.type, value) for value in values]


def _compared(column: Column, op: Op, literal: Column) -> Column:
    match op:
        case Op.EQ:
            return column == literal
        case Op.NE:
            return column != literal
        case Op.LT:
            return column < literal
        case Op.LE:
            return column <= literal
        case Op.GT:
            return column > literal
        case Op.GE:
            return column >= literal
