"""Which conditions of a query a table's files may be pruned by.

A row may be left out of a table when every row that the query would make of it fails a condition, and leaving it
out makes no other row pass. So a WHERE concerns each table that outer joins leave alone, and where they may make its
columns null, only by a condition that null does not meet; an ON concerns the sides whose rows must meet it to be
joined, and no side that is kept without a match. Whatever is not plainly so prunes nothing: Spark applies the whole
condition anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from esker.model.schema import Schema
from esker.spark.sql.references import Node, Reference


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on one table's columns as text, columns without qualifier."""

    text: str
    nullable: bool  # whether the columns may be null by an outer join, so that only null-rejecting terms count


@dataclass(slots=True)
class _Source:
    """One thing that a FROM or JOIN names, as far as pruning sees it."""

    reference: Reference
    name: str
    schema: Schema
    nullable: bool = False


@dataclass(slots=True)
class _Scope:
    """The sources of one SELECT, joined from left to right."""

    sources: list[_Source] = field(default_factory=list)
    using: set[str] = field(default_factory=set)  # names that stand for columns of several sources
    natural: bool = False


Schemas = Callable[[Reference], Schema | None]


def find_conditions(tree: Node, references: list[Reference], schema_of: Schemas) -> dict[Reference, list[Condition]]:
    """The conditions on each reference whose columns are known."""
    from sqlglot import exp

    by_node = {id(reference.node): reference for reference in references}
    found: dict[Reference, list[Condition]] = {}
    for select in tree.find_all(exp.Select):
        for source, condition in _of_select(select, by_node, schema_of):
            found.setdefault(source.reference, []).append(condition)
    return found


def _of_select(
    select: Node, by_node: Mapping[int, Reference], schema_of: Schemas
) -> Iterator[tuple[_Source, Condition]]:
    scope = _Scope()
    first = select.args.get("from_") or select.args.get("from")
    if first is None:
        return
    _enter(scope, first.this, by_node, schema_of)
    for join in select.args.get("joins") or ():
        yield from _of_join(scope, join, by_node, schema_of)
    where = select.args.get("where")
    if where is not None:
        yield from _owned(scope, where.this, scope.sources)


def _of_join(
    scope: _Scope, join: Node, by_node: Mapping[int, Reference], schema_of: Schemas
) -> Iterator[tuple[_Source, Condition]]:
    """An ON is about the columns as they are below its join: sides become nullable only above it."""
    left = list(scope.sources)
    right = _enter(scope, join.this, by_node, schema_of)
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


def _enter(scope: _Scope, node: Node, by_node: Mapping[int, Reference], schema_of: Schemas) -> list[_Source]:
    """The source of a FROM or JOIN; none where it is no plain reference to a table whose columns are known."""
    reference = by_node.get(id(node))
    if reference is None or any(node.args.get(extra) for extra in ("pivots", "sample", "joins", "laterals")):
        return []
    alias = node.args.get("alias")
    schema = schema_of(reference)
    if schema is None or (alias is not None and alias.args.get("columns")):
        return []
    source = _Source(reference, (reference.alias or reference.parts[-1]).lower(), schema)
    scope.sources.append(source)
    return [source]


def _owned(scope: _Scope, condition: Node, concerned: list[_Source]) -> Iterator[tuple[_Source, Condition]]:
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


def _owner(scope: _Scope, term: Node) -> _Source | None:
    """The one source that every column of the term is of."""
    from sqlglot import exp

    if term.find(exp.Query, exp.Dot, exp.Lambda, exp.Window) is not None:
        return None
    owners = [_source_of(scope, tuple(part.name for part in column.parts)) for column in term.find_all(exp.Column)]
    first = owners[0] if owners else None
    return first if first is not None and all(owner is first for owner in owners) else None


def _source_of(scope: _Scope, parts: tuple[str, ...]) -> _Source | None:
    """Spark's own order: a qualifier first, then a column, or a struct of that name."""
    qualified = [source for source in scope.sources if len(parts) > 1 and _skipped(source, parts)]
    if qualified:
        return qualified[0] if len(qualified) == 1 else None
    if scope.natural or parts[0].lower() in scope.using:
        return None
    having = [source for source in scope.sources if _has_column(source, parts[0])]
    return having[0] if len(having) == 1 else None


def _skipped(source: _Source, parts: tuple[str, ...]) -> int:
    """How many leading parts name the source itself, with a column of its behind them; 0 where they do not."""
    lower = tuple(part.lower() for part in parts)
    whole = tuple(part.lower() for part in source.reference.parts)
    if source.reference.alias is None and len(parts) > len(whole) and lower[: len(whole)] == whole:
        return len(whole) if _has_column(source, parts[len(whole)]) else 0
    return 1 if lower[0] == source.name and _has_column(source, parts[1]) else 0


def _has_column(source: _Source, name: str) -> bool:
    return any(column.name.lower() == name.lower() for column in source.schema.fields)


def _unqualified(term: Node, owner: _Source) -> str:
    from sqlglot import exp

    copy = term.copy()
    for column in list(copy.find_all(exp.Column)):
        names = [part.name for part in column.parts]
        kept = names[_skipped(owner, tuple(names)) if len(names) > 1 else 0 :]
        plain = exp.column(exp.to_identifier(kept[-1], quoted=True))
        for slot, name in zip(("table", "db", "catalog"), reversed(kept[:-1]), strict=False):
            plain.set(slot, exp.to_identifier(name, quoted=True))
        if column is copy:
            copy = plain
        else:
            column.replace(plain)
    return str(copy.sql(dialect="spark"))
