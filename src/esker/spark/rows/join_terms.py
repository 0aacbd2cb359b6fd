"""What of a merge's condition prunes the table's files: its equalities with the source, and what it asks of the table
alone. Only what is plainly so counts; Spark applies the whole condition anyway."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from esker.errors import EskerError
from esker.model.bind import bind
from esker.model.predicate import TRUE, Bound, all_of
from esker.model.schema import Schema
from esker.model.types import Field
from esker.spark.sql.functions.calls import is_call
from esker.spark.sql.references import Node, parse_query
from esker.spark.sql.spark_predicate import Reading, predicate_of


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

    # A way into a variant would be spelt as one into JSON text.
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
