"""Queries that metadata answers: ``SELECT count(*), min(c), max(c) FROM t``, with a condition that selects whole files.

Such a query becomes a query over ``VALUES``, with the names and types that Spark gives its columns. Reading it takes no
job. Any other query, and one whose answer is not exact in metadata, is left to Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from esker.model.predicates.predicate_sql import literal_sql
from esker.model.schema import Schema
from esker.model.types import DoubleType, Field, FloatType
from esker.read.exact_aggregates import Aggregate, exact_aggregates
from esker.read.scan import Scan
from esker.spark.expressions.ddl_text import cast_text
from esker.spark.sql.grammar.table_references import Node, Reference
from esker.spark.sql.queries.prune_conditions import conjunct_nodes

_SELECT = {"expressions", "from_", "from", "where"}
_TABLE = {"this", "db", "catalog", "alias"}
_FUNCTION = {"this", "big_int"}


@dataclass(frozen=True, slots=True)
class AskedAggregate:
    """A column of the answer: its name, and the aggregate."""

    name: str
    aggregate: Aggregate


def asked_aggregates(tree: Node, reference: Reference, schema: Schema) -> list[AskedAggregate] | None:
    """Return what a query asks, if it asks only for aggregates over one table. Otherwise None."""
    from sqlglot import exp

    source = tree.args.get("from_") or tree.args.get("from")
    if not isinstance(tree, exp.Select) or source is None or not _has_only(tree, _SELECT):
        return None
    if source.this is not reference.node or not _has_only(source.this, _TABLE):
        return None
    alias = source.this.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return None
    found = [_asked(node, source.this.alias_or_name, schema) for node in tree.expressions]
    known = [one for one in found if one is not None]
    return known if known and len(known) == len(found) else None


def conjunct_count(tree: Node) -> int:
    """Return how many conditions the query's WHERE joins by AND."""
    where = tree.args.get("where")
    return 0 if where is None else sum(1 for _ in conjunct_nodes(where.this))


def answer_text(scan: Scan, asked: Sequence[AskedAggregate]) -> str | None:
    """Return a query with the answer, or None if metadata does not have it exactly."""
    values = exact_aggregates(scan, [one.aggregate for one in asked])
    if values is None:
        return None
    terms = [_term(one.aggregate, value) for one, value in zip(asked, values, strict=True)]
    if None in terms:
        return None
    row = ", ".join(term for term in terms if term is not None)
    names = ", ".join(f"`{one.name.replace('`', '``')}`" for one in asked)
    return f"SELECT * FROM VALUES ({row}) AS answer({names})"


def _asked(node: Node, table: str, schema: Schema) -> AskedAggregate | None:
    from sqlglot import exp

    alias = None
    if isinstance(node, exp.Alias):
        alias, node = node.alias, node.this
    kinds: dict[type[Node], Literal["count", "min", "max"]] = {exp.Count: "count", exp.Min: "min", exp.Max: "max"}
    function = kinds.get(type(node))
    if function is None or not _has_only(node, _FUNCTION):
        return None
    if function == "count" and (isinstance(node.this, exp.Star) or _is_number(node.this)):
        text = "1" if isinstance(node.this, exp.Star) else node.this.name
        return AskedAggregate(alias or f"count({text})", Aggregate("count"))
    if not isinstance(node.this, exp.Column):
        return None
    parts = [part.name for part in node.this.parts]
    if len(parts) == 2 and parts[0] == table:
        parts = parts[1:]
    field = _field(schema, parts[0]) if len(parts) == 1 else None
    return None if field is None else AskedAggregate(alias or f"{function}({parts[0]})", Aggregate(function, field))


def _is_number(node: Node) -> bool:
    from sqlglot import exp

    return isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdecimal()


def _field(schema: Schema, name: str) -> Field | None:
    """Return the column of exactly this name, unless another has the same name in another case."""
    fits = [field for field in schema.fields if field.name.lower() == name.lower()]
    return fits[0] if len(fits) == 1 and fits[0].name == name else None


def _has_only(node: Node, names: set[str]) -> bool:
    return all(name in names for name, value in node.args.items() if value)


def _term(aggregate: Aggregate, value: Any) -> str | None:
    if aggregate.function == "count":
        return f"{value}L"
    assert aggregate.column is not None
    type_ = aggregate.column.type
    cast = cast_text(type_)
    if cast is None:
        return None
    literal = "NULL" if value is None else literal_sql(type_, value)
    if value is not None and isinstance(type_, FloatType | DoubleType):
        literal = f"'{value!r}'"  # as text: a literal of Spark is rounded twice on its way to a float
    return f"IF(true, CAST({literal} AS {cast}), NULL)"
