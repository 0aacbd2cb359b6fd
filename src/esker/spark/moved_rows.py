"""Rows that a commit took out and put in unchanged, taken out of a feed by Spark itself; and updates, told by keys.

Equal rows cancel out one for one, so each row is numbered among its equals of one side, and as many as the other side
has are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import Window

from esker.model.schema import Schema
from esker.model.types import (
    DoubleType,
    Field,
    FloatType,
    ListType,
    MapType,
    StructType,
    Type,
    UnknownType,
    VariantType,
)
from esker.ports.changes import CHANGE_COLUMNS, DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from esker.spark.stored_columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KIND, ORDINAL, _ = (field.name for field in CHANGE_COLUMNS)
_DELETED, _INSERTED, _PLACE = "__esker_deleted", "__esker_inserted", "__esker_place"


def without_moved(frame: DataFrame, schema: Schema) -> DataFrame:
    """The frame, which has the columns of the schema and of the feed, without rows that are on both sides."""
    keys = [F.col(ORDINAL), *(_comparable(F.col(quoted(f.name)), f.type) for f in schema if _tells(f.type))]
    counted = _counted(frame, keys)
    place = F.row_number().over(Window.partitionBy(*keys, F.col(KIND)).orderBy(F.lit(1)))
    numbered = counted.withColumn(_PLACE, place)
    return numbered.filter(f"{_PLACE} > least({_DELETED}, {_INSERTED})").drop(_PLACE, _DELETED, _INSERTED)


def with_updates(frame: DataFrame, keys: Sequence[Field]) -> DataFrame:
    """The frame with a row that was taken out and put in under one key told as an update."""
    names = ", ".join(field.name for field in keys)
    counted = _counted(frame, [F.col(ORDINAL), *(_comparable(F.col(quoted(f.name)), f.type) for f in keys)])
    several = F.raise_error(f"cannot tell updates by {names}: several rows that one snapshot changed have the same key")
    pair = F.when(F.col(KIND) == DELETE, F.lit(UPDATE_BEFORE)).otherwise(F.lit(UPDATE_AFTER))
    both = (F.col(_DELETED) > 0) & (F.col(_INSERTED) > 0)
    kind = F.when(~both, F.col(KIND)).when(F.col(_DELETED) + F.col(_INSERTED) == 2, pair).otherwise(several)
    return counted.withColumn(KIND, kind).drop(_DELETED, _INSERTED)


def _counted(frame: DataFrame, keys: Sequence[Column]) -> DataFrame:
    """How many rows with these values each side has, beside each row."""
    alike = Window.partitionBy(*keys)
    sides = ((_DELETED, DELETE), (_INSERTED, INSERT))
    counts = {name: F.count(F.when(F.col(KIND) == kind, 1)).over(alike) for name, kind in sides}
    return frame.withColumns(counts)


def _tells(type_: Type) -> bool:
    return not isinstance(type_, UnknownType)


def _comparable(column: Column, type_: Type) -> Column:
    """The value in a form that Spark groups by, and of which two are equal only where the values are."""
    match type_:
        case FloatType() | DoubleType():  # as numbers the two zeros were one
            return column.cast("string")
        case VariantType():
            return F.concat_ws(" ", F.schema_of_variant(column), F.to_json(column))
        case StructType(fields):
            members = [_comparable(column.getField(f.name), f.type).alias(f"m{f.id}") for f in fields if _tells(f.type)]
            return F.when(column.isNotNull(), F.struct(*members) if members else F.lit(True))
        case ListType():
            return F.transform(column, lambda item: _comparable(item, type_.element)) if _differs(type_) else column
        case MapType():
            return F.transform(
                F.map_entries(column),
                lambda entry: F.struct(
                    _comparable(entry.getField("key"), type_.key).alias("key"),
                    _comparable(entry.getField("value"), type_.value).alias("value"),
                ),
            )
        case _:
            return column


def _differs(type_: Type) -> bool:
    match type_:
        case FloatType() | DoubleType() | VariantType() | MapType():
            return True
        case StructType(fields):
            return any(_differs(f.type) for f in fields)
        case ListType():
            return _differs(type_.element)
        case _:
            return False
