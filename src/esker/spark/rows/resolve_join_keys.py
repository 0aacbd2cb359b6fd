"""Step *resolve* of a row change: which files of the table the source of a merge can match.

Uses the equalities of the ON condition, the conditions on the table alone, and the source's keys. Only certain terms
are used for pruning; Spark applies the whole condition anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from esker.arrow.arrow_types import to_arrow
from esker.arrow.value_arrays import held_array
from esker.errors import EskerError
from esker.model.predicates.bind import bind
from esker.model.predicates.predicate import FALSE, TRUE, Bound, Compare, IsNull, OneOf, Op, all_of, any_of
from esker.model.predicates.predicate_sql import quote_name
from esker.model.schema import Schema
from esker.model.types import BooleanType, DateType, DecimalType, Field, IntType, LongType, StringType, TimestampType
from esker.spark.expressions.function_calls import is_call
from esker.spark.expressions.spark_predicate import Reading, predicate_of
from esker.spark.expressions.types import shown_type
from esker.spark.rows.resolve_expressions import escaped
from esker.spark.sql.grammar.table_references import Node, parse_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType


# ---------------------------------------------------------------- join terms
#
# What of a merge's condition prunes the table's files: its equalities with the source, and what it asks of the table
# alone. Only what is plainly so counts; Spark applies the whole condition anyway.


@dataclass(frozen=True, slots=True)
class JoinKey:
    """A column of the table that must equal an expression over the source."""

    field: Field
    expression: str
    null_safe: bool  # null equals null


@dataclass(frozen=True, slots=True)
class JoinTerms:
    """The parts of a condition that prune."""

    keys: tuple[JoinKey, ...] = ()
    alone: Bound = TRUE  # what must hold of the table's row by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Which name means which side: by qualifier, or by the one side that has such a column."""

    schema: Schema
    target: str
    source: str | None = None
    source_columns: frozenset[str] = frozenset()  # in lower case

    def side(self, parts: Sequence[str]) -> str | None:
        """``target`` or ``source``; None where that is not plain."""
        first, is_qualified = parts[0].lower(), len(parts) > 1
        mine, others = {f.name.lower() for f in self.schema.fields}, self.source_columns
        if is_qualified and first == self.target.lower():
            return "target" if parts[1].lower() in mine and first not in mine | others else None
        if is_qualified and self.source is not None and first == self.source.lower():
            return "source" if first not in mine | others else None
        if first in mine and first not in others:
            return "target"
        return "source" if first in others and first not in mine else None


def join_terms(text: str, names: Names, zone: str) -> JoinTerms:
    """The terms of a condition; none where it cannot be read."""
    from sqlglot import exp

    try:
        (condition,) = parse_query(f"SELECT {text}").expressions
    except (EskerError, ValueError):
        return JoinTerms()
    keys: list[JoinKey] = []
    alone: list[Bound] = []
    for term in _conjuncts(condition):
        sides = _sides(term, names)
        if sides == {"target"}:
            alone.extend(_bound(term, names, zone))
        elif isinstance(term, exp.EQ | exp.NullSafeEQ):
            for one, other in ((term.this, term.expression), (term.expression, term.this)):
                field = _column(one, names)
                if field is not None and _sides(other, names) == {"source"}:
                    text_of = str(other.sql(dialect="spark"))
                    keys.append(JoinKey(field, text_of, isinstance(term, exp.NullSafeEQ)))
    return JoinTerms(tuple(keys), all_of(alone))


def _conjuncts(condition: Node) -> Iterator[Node]:
    from sqlglot import exp

    waiting = [condition]
    while waiting:  # long chains lean to the left, so no recursion
        node = waiting.pop()
        if isinstance(node, exp.Paren | exp.Alias):
            waiting.append(node.this)
        elif isinstance(node, exp.And):
            waiting.extend((node.expression, node.this))
        else:
            yield node


def _sides(term: Node, names: Names) -> set[str | None]:
    """The sides its columns are of; None among them for what is not plainly of one."""
    from sqlglot import exp

    # A way into a variant would be written as one into JSON text.
    unclear = (exp.Query, exp.Lambda, exp.Window, exp.AggFunc, exp.Placeholder, exp.JSONExtract)
    if term.find(*unclear) is not None or not all(map(is_call, term.find_all(exp.Dot))):
        return {None}
    return {names.side([part.name for part in column.parts]) for column in term.find_all(exp.Column)}


def _column(node: Node, names: Names) -> Field | None:
    """A top-level column of the table, as it is."""
    from sqlglot import exp

    if not isinstance(node, exp.Column):
        return None
    parts = [part.name for part in node.parts]
    if names.side(parts) != "target":
        return None
    path = parts[1:] if len(parts) > 1 and parts[0].lower() == names.target.lower() else parts
    fits = [f for f in names.schema.fields if f.name.lower() == path[0].lower()]
    return fits[0] if len(path) == 1 and len(fits) == 1 else None


def _bound(term: Node, names: Names, zone: str) -> Iterator[Bound]:
    """The term as Esker understands it, if it does as Spark would."""
    try:
        text = str(term.sql(dialect="spark"))
        found = predicate_of(text, names.schema, Reading(zone=zone, strict=True), [names.target])
        yield bind(found, names.schema)
    except EskerError:
        return


# ---------------------------------------------------------------- source keys
#
# The keys of a merge's source as a predicate on the table: which files may hold a row that one of them matches.
#
# One aggregate over the source gives the least and the largest value of each key, whether one is null and about how
# many there are; where they are few, a second query lists them.


FEW = 256  # so many keys are looked for one by one; more, between the least and the largest
_ROUGHLY = 300  # what Spark may say of so many
_WHOLE = ("byte", "short", "integer", "long")
_INT = 1 << 31


@dataclass(frozen=True, slots=True)
class SourceKeys:
    """What is known of the source's keys."""

    predicate: Bound = TRUE  # of every row of the table that may match; FALSE where the source has no rows
    rows: int | None = None
    have_nulls: bool = True  # some of them, as far as is known
    source_bytes: int | None = None  # about how much memory the whole source takes; None where that is not known

    @classmethod
    def of(cls, source: DataFrame, name: str, keys: Sequence[JoinKey]) -> SourceKeys:
        """One job over the source, and one more for each key that has few values."""
        session = source.sparkSession
        size = row_bytes(source.schema)
        every = ", ".join(
            (*(f"({key.expression}) AS k{at}" for at, key in enumerate(keys)), f"{size or 'NULL'} AS size")
        )
        frame = session.sql(f"SELECT {escaped(every)} FROM {{esker_source}} AS {name}", esker_source=source)
        usable = [(at, key) for at, key in enumerate(keys) if _compares(key.field, frame.schema[at].dataType)]
        if not usable:
            return cls()
        made = ("min", "max", "count", "approx_count_distinct")
        whole = ("count(*) AS rows", "CAST(sum(size) AS BIGINT) AS size")
        told = frame.selectExpr(*whole, *(f"{f}(k{at}) AS {f}_{at}" for at, _ in usable for f in made))
        table = told.toArrow()
        rows = table.column("rows")[0].as_py()
        if rows == 0:
            return cls(FALSE, 0)
        have_nulls = len(usable) < len(keys) or any(table.column(f"count_{at}")[0].as_py() < rows for at, _ in usable)
        predicate = all_of(_one_key(frame, at, key, table) for at, key in usable)
        return cls(predicate, rows, have_nulls, table.column("size")[0].as_py())


_ROW, _VALUE = 32, 8  # bytes of a row in Spark's memory without its values, and of a value


def row_bytes(schema: StructType) -> str | None:
    """An expression for about how many bytes a row takes in Spark's memory. None if a column is nested."""
    lengths = []
    for field in schema.fields:
        kind = field.dataType.typeName()
        if kind in ("struct", "array", "map", "variant"):
            return None
        if kind in ("string", "char", "varchar", "binary"):
            lengths.append(f"coalesce(octet_length({quote_name(field.name)}), 0)")
    return " + ".join((str(_ROW + _VALUE * len(schema.fields)), *lengths))


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
