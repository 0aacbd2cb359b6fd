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
    DecimalType,
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


_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999  # the years 1 to 9999
_DAY = 86_400_000_000
_BYTES = BinaryType | FixedType | UuidType | GeometryType | GeographyType


def stored_literal(type_: Type, value: Any) -> Column:
    """Return a value as a column of the stored type."""
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
    """Return a value to compare a column of the type with. Floats become doubles, because Spark compares doubles."""
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
    """Return whether a time is outside the years that Spark supports.

    Spark can store it, but fails on it as text and in filters.
    """
    match type_:
        case DateType():
            return not _FIRST <= value * _DAY <= _LAST
        case TimestampType():
            return not _FIRST <= value <= _LAST
        case _:
            return False


def number_of(type_: DateType | TimestampType, column: Column) -> Column:
    """Return a time, computed from its stored number. The session's time zone has no effect."""
    if isinstance(type_, DateType):
        return F.unix_date(column)
    return F.unix_micros(column) if type_.zoned else _micros_without_zone(column)


def _micros_without_zone(column: Column) -> Column:
    """Return a time, computed from its days and the rest of the day.

    ``timestamp_diff`` would use the session's time zone and fails at both ends of the range. Decimals are used because
    the first day begins before the first value.
    """
    days = F.unix_date(column.cast("date")).cast("decimal(20,0)") * F.lit(Decimal(86_400_000_000))
    minutes = (F.hour(column) * 60 + F.minute(column)).cast("decimal(20,0)") * F.lit(Decimal(60_000_000))
    seconds = F.date_part(F.lit("SECOND"), column) * F.lit(Decimal(1_000_000))
    return (days + minutes + seconds).cast("bigint")


def _epoch() -> Column:
    return F.expr("TIMESTAMP_NTZ '1970-01-01 00:00:00'")


_LONG_DIGITS = 18  # of a decimal that Spark holds as a long number
_ALL = 2**31 - 1


def each(column: Column, of: Callable[[Column], Column]) -> Column:
    """Return the array with another value for each item.

    Spark's compiled ``transform`` reads an item before it looks whether the item is null. In an array that comes
    straight from a Parquet file whose items are all null, this fails: the dictionary has no value. ``slice`` makes a
    copy that can be read.
    """
    return F.transform(F.slice(column, 1, _ALL), of)


def default_sql(type_: Type, value: Any) -> str | None:
    """Return the text of a default that Spark's readers fill in for a missing column. Returns None if they cannot.

    They accept no binary value and no decimal of more than 18 digits, and a setting of the parser decides what a
    backslash in a string means.
    """
    if isinstance(type_, DecimalType) and type_.precision > _LONG_DIGITS:
        return None
    if isinstance(type_, _BYTES | StructType | ListType | MapType | VariantType | UnknownType):
        return None
    if is_beyond(type_, value):
        return None
    text = literal_sql(type_, value)
    if isinstance(type_, StringType) and "\\" in text:
        return None
    return f"CAST({text} AS {stored_type(type_).simpleString()})"


ColumnOf = Callable[[Field], "Column"]


def condition(bound: Bound, column_of: ColumnOf, without_nan: ColumnOf | None = None) -> Column:
    """Return a condition that is true for exactly the rows that the predicate selects. ``column_of`` returns the stored
    column.

    ``without_nan`` returns the column for terms that NaN does not match. Statistics are right for these in any file.
    """
    plain = without_nan or column_of
    match bound:
        case Always(value):
            return F.lit(value)
        case And(parts):
            settled = {part.field.id for part in parts if isinstance(part, Compare | OneOf) and not _nan_meets(part)}

            def of_part(field: Field) -> Column:  # one part that NaN does not match is enough
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
    """Return the zero to compare with. Spark treats the two zeros as equal, but file statistics order them.

    The result is the zero that excludes no file with the other one.
    """
    match op:
        case Op.EQ:
            return (column >= F.lit(-0.0)) & (column <= F.lit(0.0))
        case Op.GE | Op.GT:
            return _compared(column, op, F.lit(-0.0))
        case _:
            return _compared(column, op, F.lit(0.0))


def _comparable(field: Field, column: Column, values: tuple[Any, ...]) -> tuple[Column, list[Column]]:
    """Return column and values in a form that Spark compares without an error."""
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
