"""Values into columns, by Spark's rules of store assignment: what may lose no meaning is cast, the rest is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from esker.errors import InvalidInput
from esker.model.predicate_sql import quote_name
from esker.model.spark_schema import columns_from_spark
from esker.model.types import (
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
    from pyspark.sql import DataFrame

_NUMBERS = (IntType, LongType, FloatType, DoubleType, DecimalType)
_TIMES = (DateType, TimestampType)


def assigned(
    frame: DataFrame, targets: Sequence[Field], constants: Sequence[tuple[Field, str]], *, by_name: bool
) -> DataFrame:
    """The frame's columns, in order, as these columns; constants are added from their text.

    Members of structs are taken by their names, or by place as Spark does for any other INSERT.
    """
    sources = columns_from_spark(frame.schema)
    inner = [f"esker_{at}" for at in range(len(sources))]  # names of a query's columns need not be unique
    expressions = [
        _by_name(name, source, target) if by_name else _expression(name, source, target)
        for name, source, target in zip(inner, sources, targets, strict=True)
    ]
    for target, value in constants:
        cast = cast_text(target.type)
        expressions.append(f"{value if cast is None else f'CAST({value} AS {cast})'} AS {quote_name(target.name)}")
    return frame.toDF(*inner).selectExpr(*expressions)


def _by_name(name: str, source: Field, target: Field) -> str:
    try:
        ordered = replace(source, type=in_order_of(source.type, target.type, target.name))
        text = reordered(name, source.type, target.type, target.name)
    except InvalidInput as error:
        raise InvalidInput(
            f"cannot write column {source.name!r} into {target.name!r} by name: {error.message}", column=target.name
        ) from None
    return _expression(text, ordered, target)


def _expression(name: str, source: Field, target: Field) -> str:
    if not can_assign(source.type, target.type):
        raise InvalidInput(
            f"cannot write column {source.name!r} of type {type_text(source.type)} into {target.name!r} of type "
            f"{type_text(target.type)}: cast it in the query",
            column=target.name,
        )
    cast = cast_text(target.type)
    same = cast is None or cast == cast_text(source.type)
    return f"{name if same else f'CAST({name} AS {cast})'} AS {quote_name(target.name)}"


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
