"""Held values as expressions of Spark's, none of which a session setting can bend."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812  # as every PySpark program calls it

from esker.model.predicate_sql import literal_sql
from esker.model.types import (
    BinaryType,
    DateType,
    FixedType,
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
from esker.spark.types import stored_type

if TYPE_CHECKING:
    from pyspark.sql import Column

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
