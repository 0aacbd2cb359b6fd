"""From Esker's types to Spark's.

Each type has two forms: as Spark's file readers are asked for it (stored), and as a user sees it (shown). They differ
for a uuid, stored as 16 bytes and shown as text, and for unknown, which no file has. What Spark has no form of is
refused by name: nanoseconds, which its timestamps would cut.

| Iceberg | shown | stored |
| --- | --- | --- |
| boolean, int, long, float, double, decimal, date, string | the same | the same |
| timestamp, timestamptz | TIMESTAMP_NTZ, TIMESTAMP | the same |
| time | TIME(6) | the same |
| uuid | STRING | BINARY |
| fixed, binary, geometry, geography | BINARY | BINARY |
| variant | VARIANT | VARIANT |
| unknown | VOID | nothing |
| timestamp_ns, timestamptz_ns | refused | |
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import types as spark

from esker.errors import Unsupported
from esker.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    Field,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntType,
    ListType,
    LongType,
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

FIELD_ID = "parquet.field.id"


def shown_schema(fields: Iterable[Field]) -> spark.StructType:
    """Return the schema of a frame with these columns. Every column is nullable, as Spark assumes for files."""
    return spark.StructType(
        [spark.StructField(f.name, shown_type(f.type, f.name), True, comment_of(f)) for f in fields]
    )


def comment_of(field: Field) -> dict[str, str]:
    """Return a column's comment as the metadata in which Spark looks for it."""
    return {"comment": field.doc} if field.doc else {}


def shown_type(type_: Type, name: str) -> spark.DataType:
    """Return the type as a user sees it. Raises ``Unsupported`` with the column's name if Spark has no such type."""
    match type_:
        case StructType(fields):
            return spark.StructType(
                [spark.StructField(f.name, shown_type(f.type, f"{name}.{f.name}"), True, comment_of(f)) for f in fields]
            )
        case ListType():
            return spark.ArrayType(shown_type(type_.element, f"{name}.element"), True)
        case MapType():
            return spark.MapType(shown_type(type_.key, f"{name}.key"), shown_type(type_.value, f"{name}.value"), True)
        case UuidType():
            return spark.StringType()
        case _:
            return stored_primitive(type_, name)


def stored_type(type_: Type, name: str = "") -> spark.DataType:
    """Return the type that Spark's Parquet reader is asked for. Members have their ids; unknown ones are left out."""
    match type_:
        case StructType(fields):
            return spark.StructType([stored_field(f, f.name) for f in fields if not isinstance(f.type, UnknownType)])
        case ListType():
            return spark.ArrayType(stored_type(type_.element, name), True)
        case MapType():
            return spark.MapType(stored_type(type_.key, name), stored_type(type_.value, name), True)
        case _:
            return stored_primitive(type_, name)


def stored_field(field: Field, name: str) -> spark.StructField:
    """Return a column that is found by its id, under any name in the file."""
    return spark.StructField(name, stored_type(field.type, field.name), True, {FIELD_ID: field.id})


def stored_primitive(type_: Type, name: str) -> spark.DataType:
    """Return a type without parts. ``name`` is the column's, for the error."""
    match type_:
        case TimestampType(nanos=True):
            raise Unsupported(
                f"cannot give column {name!r} to Spark: its timestamps have microseconds and would cut {type_}; "
                "leave the column out of columns=[…], or read with to_arrow()",
                feature=str(type_),
                column=name,
            )
        case TimestampType(zoned):
            return spark.TimestampType() if zoned else spark.TimestampNTZType()
        case DecimalType(precision, scale):
            return spark.DecimalType(precision, scale)
        case TimeType():
            return _newer("TimeType", type_, name)
        case VariantType():
            return _newer("VariantType", type_, name)
        case _:
            return _PLAIN[type(type_)]()


_PLAIN: dict[type, type[spark.DataType]] = {
    BooleanType: spark.BooleanType,
    IntType: spark.IntegerType,
    LongType: spark.LongType,
    FloatType: spark.FloatType,
    DoubleType: spark.DoubleType,
    DateType: spark.DateType,
    StringType: spark.StringType,
    UuidType: spark.BinaryType,
    FixedType: spark.BinaryType,
    BinaryType: spark.BinaryType,
    GeometryType: spark.BinaryType,
    GeographyType: spark.BinaryType,
    UnknownType: spark.NullType,
}


def _newer(kind: str, type_: Type, name: str) -> spark.DataType:
    """Return a type that older releases of Spark do not have."""
    found = getattr(spark, kind, None)
    if found is None:
        import pyspark

        raise Unsupported(
            f"cannot give column {name!r} to Spark: release {pyspark.__version__} has no {type_}",
            feature=str(type_),
            column=name,
        )
    return found()
