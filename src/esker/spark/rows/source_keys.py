"""The keys of a merge's source as a predicate on the table: which files may hold a row that one of them matches.

One aggregate over the source tells the least and the largest of each key, whether one is null and about how many there
are; where they are few, a second look lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from esker.arrow.held import held_array
from esker.arrow.types import to_arrow
from esker.model.predicate import FALSE, TRUE, Bound, Compare, IsNull, OneOf, Op, all_of, any_of
from esker.model.types import (
    BooleanType,
    DateType,
    DecimalType,
    Field,
    IntType,
    LongType,
    StringType,
    TimestampType,
)
from esker.spark.rows.expressions import escaped
from esker.spark.rows.join_terms import JoinKey
from esker.spark.types import shown_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

FEW = 256  # so many keys are looked for one by one; more, between the least and the largest
_ROUGHLY = 300  # what Spark may say of so many
_WHOLE = ("byte", "short", "integer", "long")
_INT = 1 << 31


@dataclass(frozen=True, slots=True)
class SourceKeys:
    """What a look at the source's keys told."""

    predicate: Bound = TRUE  # of every row of the table that may match; FALSE where the source has no rows
    rows: int | None = None
    have_nulls: bool = True  # some of them, as far as is known

    @classmethod
    def of(cls, source: DataFrame, name: str, keys: Sequence[JoinKey]) -> SourceKeys:
        """One job over the source, and one more for each key that has few values."""
        session = source.sparkSession
        every = ", ".join(f"({key.expression}) AS k{at}" for at, key in enumerate(keys))
        frame = session.sql(f"SELECT {escaped(every)} FROM {{esker_source}} AS {name}", esker_source=source)
        usable = [(at, key) for at, key in enumerate(keys) if _compares(key.field, frame.schema[at].dataType)]
        if not usable:
            return cls()
        made = ("min", "max", "count", "approx_count_distinct")
        told = frame.selectExpr("count(*) AS rows", *(f"{f}(k{at}) AS {f}_{at}" for at, _ in usable for f in made))
        table = told.toArrow()
        rows = table.column("rows")[0].as_py()
        if rows == 0:
            return cls(FALSE, 0)
        have_nulls = len(usable) < len(keys) or any(table.column(f"count_{at}")[0].as_py() < rows for at, _ in usable)
        return cls(all_of(_one_key(frame, at, key, table) for at, key in usable), rows, have_nulls)


def _one_key(rows: DataFrame, at: int, key: JoinKey, told: pa.Table) -> Bound:
    count, about = (told.column(f"{made}_{at}")[0].as_py() for made in ("count", "approx_count_distinct"))
    null = IsNull(key.field) if key.null_safe and count < told.column("rows")[0].as_py() else FALSE
    if count == 0:
        return null
    if about <= _ROUGHLY:
        listed = rows.selectExpr(f"k{at}").where(f"k{at} IS NOT NULL").distinct().limit(FEW + 1).toArrow()
        if listed.num_rows <= FEW:
            values = _held(key.field, listed.column(0))
            return any_of((OneOf(key.field, frozenset(values)) if values else FALSE, null))
    low, high = (_held(key.field, told.column(f"{made}_{at}"), clamp=True)[0] for made in ("min", "max"))
    between = all_of((Compare(key.field, Op.GE, low), Compare(key.field, Op.LE, high)))
    return any_of((between, null))


def _compares(field: Field, found: DataType) -> bool:
    """Whether Spark compares the two as they are, so that least and largest mean the same to both."""
    match field.type:
        case IntType() | LongType():
            return found.typeName() in _WHOLE
        case StringType() | DateType() | BooleanType() | DecimalType() | TimestampType(nanos=False):
            return found == shown_type(field.type, field.name)
        case _:
            return False


def _held(field: Field, values: pa.ChunkedArray, *, clamp: bool = False) -> list[Any]:
    """The values as the table holds them; those that it cannot hold are left out, or made the nearest that it can."""
    if isinstance(field.type, IntType):
        found = values.to_pylist()
        return [min(max(n, -_INT), _INT - 1) for n in found if clamp or -_INT <= n < _INT]
    return list(held_array(values.combine_chunks().cast(to_arrow(field.type)), field.type).to_pylist())
