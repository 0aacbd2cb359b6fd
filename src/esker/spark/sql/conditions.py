"""Which conditions of a query a table's files may be pruned by.

A row may be left out of a table when every row that the query would make of it fails a condition, and leaving it
out makes no other row pass. So a WHERE concerns each table that outer joins leave alone, and where they may make its
columns null, only by a condition that null does not meet; an ON concerns the sides whose rows must meet it to be
joined, and no side that is kept without a match. Whatever is not plainly so prunes nothing: Spark applies the whole
condition anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from esker.spark.sql.functions.calls import is_call
from esker.spark.sql.references import Node, Reference
from esker.spark.sql.sources import Schemas, Source, Sources


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on one table's columns as text, columns without qualifier."""

    text: str
    nullable: bool  # whether the columns may be null by an outer join, so that only null-rejecting terms count


@dataclass(slots=True)
class _Scope:
    """The sources of one SELECT, joined from left to right."""

    sources: list[Source] = field(default_factory=list)
    using: set[str] = field(default_factory=set)  # names that stand for columns of several sources
    unknown: set[str] = field(default_factory=set)  # names of what pruning does not look into
    natural: bool = False

    def enter(self, node: Node, sources: Sources) -> list[Source]:
        """What a FROM or JOIN adds: one source, or none that pruning knows."""
        source = sources.of(node)
        if source is None:
            self.unknown.add(node.alias_or_name.lower())
            return []
        self.sources.append(source)
        return [source]


def find_conditions(tree: Node, references: list[Reference], schema_of: Schemas) -> dict[Reference, list[Condition]]:
    """The conditions on each reference whose columns are known."""
    from sqlglot import exp

    sources = Sources(tree, references, schema_of)
    found: dict[Reference, list[Condition]] = {}
    for select in tree.find_all(exp.Select):
        for source, condition in _of_select(select, sources):
            found.setdefault(source.reference, []).append(condition)
    return found


def _of_select(select: Node, sources: Sources) -> Iterator[tuple[Source, Condition]]:
    scope = _Scope()
    first = select.args.get("from_") or select.args.get("from")
    if first is None:
        return
    scope.enter(first.this, sources)
    for join in select.args.get("joins") or ():
        yield from _of_join(scope, join, sources)
    where = select.args.get("where")
    if where is not None:
        yield from _owned(scope, where.this, scope.sources)


def _of_join(scope: _Scope, join: Node, sources: Sources) -> Iterator[tuple[Source, Condition]]:
    """An ON is about the columns as they are below its join: sides become nullable only above it."""
    left = list(scope.sources)
    right = scope.enter(join.this, sources)
    scope.natural |= str(join.method or "").upper() == "NATURAL"
    scope.using |= {column.name.lower() for column in join.args.get("using") or ()}
    kind = _kind(join)
    on = join.args.get("on")
    if on is not None:
        met = {"inner": left + right, "semi": left + right, "left": right, "anti": right, "right": left}.get(kind, [])
        yield from _owned(scope, on, met)
    if kind in ("right", "full"):
        for source in left:
            source.nullable = True
    if kind in ("left", "full"):
        for source in right:
            source.nullable = True
    if kind in ("semi", "anti"):  # no column of the right side is seen above
        scope.sources[:] = left


def _kind(join: Node) -> str:
    side, kind = str(join.side or "").upper(), str(join.kind or "").upper()
    if kind in ("SEMI", "ANTI"):
        return kind.lower()
    if side in ("LEFT", "RIGHT", "FULL"):
        return side.lower()
    return "inner" if kind in ("", "INNER", "CROSS") else "other"


def _owned(scope: _Scope, condition: Node, concerned: list[Source]) -> Iterator[tuple[Source, Condition]]:
    for term in _conjuncts(condition):
        owner = _owner(scope, term)
        if owner is not None and any(owner is source for source in concerned):
            yield owner, Condition(_unqualified(term, owner), owner.nullable)


def _conjuncts(condition: Node) -> Iterator[Node]:
    """A AND B AND C, however it is put in parentheses; long chains lean to the left, so no recursion."""
    from sqlglot import exp

    waiting = [condition]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Paren):
            waiting.append(node.this)
        elif isinstance(node, exp.And):
            waiting.extend((node.expression, node.this))
        else:
            yield node


def _owner(scope: _Scope, term: Node) -> Source | None:
    """The one source that every column of the term is of."""
    from sqlglot import exp

    if term.find(exp.Query, exp.Lambda, exp.Window) is not None or not all(map(is_call, term.find_all(exp.Dot))):
        return None
    columns = [tuple(part.name for part in column.parts) for column in term.find_all(exp.Column)]
    owner = _source_of(scope, columns[0]) if columns else None
    if owner is None or not all(_source_of(scope, parts) is owner and owner.path(parts) for parts in columns):
        return None
    return owner


def _source_of(scope: _Scope, parts: tuple[str, ...]) -> Source | None:
    """Spark's own order: a qualifier first, then a column, or a struct of that name."""
    qualified = [source for source in scope.sources if source.qualifier(parts)]
    if qualified:
        return qualified[0] if len(qualified) == 1 else None
    if scope.natural or parts[0].lower() in scope.using or (len(parts) > 1 and parts[0].lower() in scope.unknown):
        return None
    having = [source for source in scope.sources if parts[0].lower() in source.columns]
    return having[0] if len(having) == 1 else None


def _unqualified(term: Node, owner: Source) -> str:
    """The term with the columns that the table itself has."""
    from sqlglot import exp

    copy = term.copy()
    for column in list(copy.find_all(exp.Column)):
        path = owner.path(tuple(part.name for part in column.parts))
        plain = exp.column(exp.to_identifier(path[-1], quoted=True))
        for slot, name in zip(("table", "db", "catalog"), reversed(path[:-1]), strict=False):
            plain.set(slot, exp.to_identifier(name, quoted=True))
        if column is copy:
            copy = plain
        else:
            column.replace(plain)
    return str(copy.sql(dialect="spark"))
