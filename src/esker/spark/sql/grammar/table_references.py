"""Finds the tables that a query names, and what the query says about each.

sqlglot parses the query. Only two things of its tree are used: the places of table names in the text, and which
conditions of a SELECT concern which of its sources. The text itself is never generated from the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from esker.errors import InvalidInput
from esker.spark.sql.grammar.words import SUBJECT, Span

Node = Any  # a node of sqlglot, which mypy does not know


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """A table that a query reads rows from."""

    parts: tuple[str, ...]
    span: Span
    alias: str | None
    node: Node


def parse_query(text: str) -> Node:
    """Return sqlglot's tree of a query. Raises ``InvalidInput`` with the place if sqlglot cannot parse it."""
    from sqlglot.errors import SqlglotError

    try:
        trees = _trees(text)
    except SqlglotError as error:
        raise _refused(error) from None
    except RecursionError:
        raise InvalidInput(f"cannot read {SUBJECT}: it is nested too deeply") from None
    except (TypeError, ValueError, AttributeError, KeyError, IndexError) as error:  # an error in the parser itself
        raise InvalidInput(f"cannot read {SUBJECT}: {error}") from None
    if len(trees) != 1 or trees[0] is None:
        raise InvalidInput(f"cannot read {SUBJECT}: give one query")
    return trees[0]


def _trees(text: str) -> list[Node | None]:
    """Return all statements. sqlglot knows the variant path ``column:path`` of Spark only in the Databricks dialect."""
    import sqlglot
    from sqlglot.errors import ErrorLevel, SqlglotError

    try:
        return list(sqlglot.parse(text, read="spark", error_level=ErrorLevel.IMMEDIATE))
    except SqlglotError:
        if ":" not in text:
            raise
        with suppress(SqlglotError):
            return list(sqlglot.parse(text, read="databricks", error_level=ErrorLevel.IMMEDIATE))
        raise


def find_references(tree: Node, text: str) -> list[Reference]:
    """Return every table that is named, except visible common table expressions."""
    from sqlglot import exp

    found = []
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier | exp.Dot) or table.find_ancestor(exp.Hint) is not None:
            continue
        names = [part for part in table.parts if isinstance(part, exp.Identifier)]
        if not names or len(names) != len(table.parts) or not all(_stands(part, text) for part in names):
            continue
        parts = tuple(part.name for part in names)
        if len(parts) == 1 and cte_of(table, parts[0]) is not None:
            continue
        span = Span(min(part.meta["start"] for part in names), max(part.meta["end"] for part in names) + 1)
        found.append(Reference(parts, span, table.alias or None, table))
    return sorted(found, key=lambda reference: reference.span.start)


def _stands(identifier: Node, text: str) -> bool:
    """Return whether the name is where sqlglot says. Nodes that sqlglot generates have wrong places."""
    start, end = identifier.meta.get("start"), identifier.meta.get("end")
    if start is None or end is None:
        return False
    return text[start : end + 1].strip("`").replace("``", "`") == identifier.name


def cte_of(table: Node, name: str) -> Node | None:
    """Return the visible common table expression that a name means, or None.

    In a WITH, only earlier ones are visible.
    """
    from sqlglot import exp

    inside: Node = table
    at: Node = table.parent
    while at is not None:
        if isinstance(at, exp.With):
            before = at.expressions if at.args.get("recursive") else _before(at.expressions, inside)
            found = _named(before, name)
            inside, at = at, at.parent  # the query that has this WITH defines nothing else
        else:
            with_ = at.args.get("with_") or at.args.get("with")
            found = _named(with_.expressions, name) if with_ is not None and with_ is not inside else None
        if found is not None:
            return found
        inside, at = at, at.parent
    return None


def _before(ctes: list[Node], inside: Node) -> Iterator[Node]:
    for cte in ctes:
        if cte is inside:
            return
        yield cte


def _named(ctes: Iterable[Node], name: str) -> Node | None:
    return next((cte for cte in ctes if cte.alias.lower() == name.lower()), None)


def _refused(error: Exception) -> InvalidInput:
    details = getattr(error, "errors", None) or [{}]
    line, col = details[0].get("line"), details[0].get("col")
    why = details[0].get("description") or str(error).splitlines()[0]
    if why.startswith("Required keyword"):
        why = "something is missing here"
    if line is None or col is None:
        return InvalidInput(f"cannot read {SUBJECT}: {why}")
    place = f"line {line}, column {max(1, col - len(details[0].get('highlight') or ' ') + 1)}"
    return InvalidInput(f"cannot read {SUBJECT} at {place}: {why}", place=place)
