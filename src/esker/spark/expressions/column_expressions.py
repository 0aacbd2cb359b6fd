"""Values and bound predicates as Spark column expressions, which no session setting changes.

Spark's readers can push the predicates down.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812  # as every PySpark program calls it  # noqa: N812

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
    Op,
    Or,
    StartsWith,
)
from esker.model.predicates.predicate_sql import literal_sql
from esker.model.types import (
    BinaryType,
    DateType,
    DoubleType,
    Field,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
    VariantType,
)
from esker.spark.expressions.transform_text import bucket_column
from esker.spark.expressions.types import stored_type

if TYPE_CHECKING:
    from pyspark.sql import Column


# ---------------------------------------------------------------- literals
#
# Held values as expressions of Spark's, none of which a session setting can bend.


_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999  # the years from 1 to 9999
_DAY = 86_400_000_000
_BYTES = BinaryType | FixedType | UuidType | GeometryType | GeographyType


def stored_literal(type_: Type, value: Any) -> Column:
    """A held value in the type that files are read in."""
    if isinstance(type_, UnknownType):
        return F.lit(None)
    stored = stored_type(type_)
    if value is None:
        return F.lit(None).cast(stored)
    match type_:
        case StructType(fields):
            held = dict(value)
            kept = [f for f in fields if not isinstance(f.type, UnknownType)]
            return F.struct(
                *(stored_literal(f.type, held.get(f.id, f.initial_default)).alias(f.name) for f in kept)
            ).cast(stored)
        case ListType():
            return F.array(*(stored_literal(type_.element, item) for item in value)).cast(stored)
        case MapType():
            pairs = [
                part
                for key, item in value
                for part in (stored_literal(type_.key, key), stored_literal(type_.value, item))
            ]
            return F.create_map(*pairs).cast(stored)
        case _:
            return plain_literal(type_, value).cast(stored)


def plain_literal(type_: Type, value: Any) -> Column:
    """A held value to compare a column of the type with. Floats stay doubles, as the comparison is made in these."""
    match type_:
        case DateType() if is_beyond(type_, value):
            return F.date_from_unix_date(F.lit(value))
        case TimestampType(zoned) if is_beyond(type_, value):
            return F.timestamp_micros(F.lit(value)) if zoned else F.timestamp_add("MICROSECOND", F.lit(value), _epoch())
        case DateType() | TimeType() | TimestampType():
            return F.expr(literal_sql(type_, value))
        case BinaryType() | FixedType() | UuidType() | GeometryType() | GeographyType():
            return F.lit(bytearray(value))
        case _:
            return F.lit(value)


def is_beyond(type_: Type, value: Any) -> bool:
    """Whether it is a time outside the years that Spark vouches for: it can hold it, and stumbles over it as text or
    when a filter is pushed down."""
    match type_:
        case DateType():
            return not _FIRST <= value * _DAY <= _LAST
        case TimestampType():
            return not _FIRST <= value <= _LAST
        case _:
            return False


def number_of(type_: DateType | TimestampType, column: Column) -> Column:
    """A time as the number that it is held as, which the session's zone does not touch."""
    if isinstance(type_, DateType):
        return F.unix_date(column)
    return F.unix_micros(column) if type_.zoned else _micros_without_zone(column)


def _micros_without_zone(column: Column) -> Column:
    """By days and what is left of the day: ``timestamp_diff`` would go by the session's zone, with its summer times,
    and fails for values at the ends of the range. In decimals, because the first of its days begins below them."""
    days = F.unix_date(column.cast("date")).cast("decimal(20,0)") * F.lit(Decimal(86_400_000_000))
    minutes = (F.hour(column) * 60 + F.minute(column)).cast("decimal(20,0)") * F.lit(Decimal(60_000_000))
    seconds = F.date_part(F.lit("SECOND"), column) * F.lit(Decimal(1_000_000))
    return (days + minutes + seconds).cast("bigint")


def _epoch() -> Column:
    return F.expr("TIMESTAMP_NTZ '1970-01-01 00:00:00'")


def default_sql(type_: Type, value: Any) -> str | None:
    """The text of a default that Spark's readers fill in for a column a file lacks; None where they cannot.

    They take no binary value, and a parser setting decides what a backslash in a string means.
    """
    if isinstance(type_, _BYTES | StructType | ListType | MapType | VariantType | UnknownType):
        return None
    if is_beyond(type_, value):
        return None
    text = literal_sql(type_, value)
    if isinstance(type_, StringType) and "\\" in text:
        return None
    return f"CAST({text} AS {stored_type(type_).simpleString()})"


# ---------------------------------------------------------------- conditions
#
# Bound predicates as conditions of Spark's, which its readers can push down.


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
