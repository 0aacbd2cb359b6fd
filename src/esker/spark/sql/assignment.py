"""Values into columns, by Spark's rules of store assignment: what may lose no meaning is cast, the rest is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from esker.errors import InvalidInput
from esker.model.predicate_sql import literal_sql, quote_name
from esker.model.spark_schema import columns_from_spark
from esker.model.types import (
    STRING,
    DateType,
    DecimalType,
    DoubleType,
    Field,
    FloatType,
    IntType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    Type,
    UnknownType,
    is_nested,
)
from esker.spark.rows.by_name import in_order_of, reordered
from esker.spark.sql.type_text import cast_text, type_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NUMBERS = (IntType, LongType, FloatType, DoubleType, DecimalType)
_EXACT = (IntType, LongType, DecimalType)  # too large a number fits none of them
_TIMES = (DateType, TimestampType)


def assigned(
    frame: DataFrame, targets: Sequence[Field], constants: Sequence[tuple[Field, str]], *, by_name: bool
) -> DataFrame:
    """The frame's columns, in order, as these columns; constants are added from their text.

    Members of structs are taken by their names, or by place as Spark does for any other INSERT.
    """
    sources = columns_from_spark(frame.schema)
    ansi = casts_are_ansi(frame.sparkSession)
    inner = [f"esker_{at}" for at in range(len(sources))]  # names of a query's columns need not be unique
    expressions = [
        _by_name(name, source, target, ansi) if by_name else _expression(name, source, target, ansi)
        for name, source, target in zip(inner, sources, targets, strict=True)
    ]
    for target, value in constants:
        cast = _leaf(value, target.type, target.name, ansi)
        expressions.append(f"{cast} AS {quote_name(target.name)}")
    return frame.toDF(*inner).selectExpr(*expressions)


def _by_name(name: str, source: Field, target: Field, ansi: bool) -> str:
    try:
        ordered = replace(source, type=in_order_of(source.type, target.type, target.name))
        text = reordered(name, source.type, target.type, target.name)
    except InvalidInput as error:
        raise InvalidInput(
            f"cannot write column {source.name!r} into {target.name!r} by name: {error.message}", column=target.name
        ) from None
    return _expression(text, ordered, target, ansi)


def _expression(name: str, source: Field, target: Field, ansi: bool) -> str:
    if not can_assign(source.type, target.type):
        raise InvalidInput(
            f"cannot write column {source.name!r} of type {type_text(source.type)} into {target.name!r} of type "
            f"{type_text(target.type)}: cast it in the query",
            column=target.name,
        )
    same = cast_text(target.type) == cast_text(source.type)
    text = name if same else stored(name, source.type, target.type, target.name, ansi=ansi)
    return f"{text} AS {quote_name(target.name)}"


def casts_are_ansi(session: SparkSession) -> bool:
    """Whether a cast of the session fails where a value does not fit, as store assignment must in any session."""
    return str(session.conf.get("spark.sql.ansi.enabled", "true")).lower() == "true"


def stored(expression: str, source: Type, target: Type, name: str, *, ansi: bool, depth: int = 0) -> str:
    """The expression cast to the type of column ``name``, so that a value that does not fit ends the job.

    Without ``ansi``, a plain cast would wrap the value or make it null.
    """
    if ansi or not _may_fail(source, target):
        cast = cast_text(target)
        return expression if cast is None else f"CAST({expression} AS {cast})"
    match source, target:
        case StructType(), StructType():
            members = ", ".join(
                f"{literal_sql(STRING, b.name)}, "
                + stored(
                    f"{expression}.{quote_name(a.name)}", a.type, b.type, f"{name}.{b.name}", ansi=ansi, depth=depth
                )
                for a, b in zip(source.fields, target.fields, strict=True)
            )
            return f"IF({expression} IS NULL, NULL, named_struct({members}))"
        case ListType(), ListType():
            return _each(expression, source.element, target.element, f"{name}.element", depth)
        case MapType(), MapType():
            keys = _each(f"map_keys({expression})", source.key, target.key, f"{name}.key", depth)
            values = _each(f"map_values({expression})", source.value, target.value, f"{name}.value", depth)
            return f"map_from_arrays({keys}, {values})"
        case _:
            return _leaf(expression, target, name, ansi)


def _each(expression: str, source: Type, target: Type, name: str, depth: int) -> str:
    inner = stored(f"y{depth}", source, target, name, ansi=False, depth=depth + 1)
    return f"transform({expression}, y{depth} -> {inner})"


def _leaf(expression: str, target: Type, name: str, ansi: bool) -> str:
    cast = cast_text(target)
    if cast is None or ansi:
        return expression if cast is None else f"CAST({expression} AS {cast})"
    why = literal_sql(STRING, f"cannot write a value into column '{name}': it does not fit {cast}")
    otherwise = f"IF({expression} IS NULL, NULL, CAST(raise_error({why}) AS {cast}))"
    return f"coalesce(try_cast({expression} AS {cast}), {otherwise})"


def _may_fail(source: Type, target: Type) -> bool:
    match source, target:
        case StructType(), StructType():
            return any(_may_fail(a.type, b.type) for a, b in zip(source.fields, target.fields, strict=True))
        case ListType(), ListType():
            return _may_fail(source.element, target.element)
        case MapType(), MapType():
            return _may_fail(source.key, target.key) or _may_fail(source.value, target.value)
        case IntType(), LongType():
            return False
        case _:
            return isinstance(source, _NUMBERS) and isinstance(target, _EXACT) and source != target


def can_assign(source: Type, target: Type) -> bool:
    """Whether Spark's ANSI policy lets such a value into such a column."""
    match source, target:
        case UnknownType(), _:
            return True
        case StructType(), StructType():
            pairs = zip(source.fields, target.fields, strict=False)
            return len(source.fields) == len(target.fields) and all(can_assign(a.type, b.type) for a, b in pairs)
        case ListType(), ListType():
            return can_assign(source.element, target.element)
        case MapType(), MapType():
            return can_assign(source.key, target.key) and can_assign(source.value, target.value)
        case _ if isinstance(source, _NUMBERS) and isinstance(target, _NUMBERS):
            return True
        case _ if isinstance(source, _TIMES) and isinstance(target, _TIMES):
            return True
        case _, StringType():
            return not is_nested(source)
        case _:
            return cast_text(source) == cast_text(target)
