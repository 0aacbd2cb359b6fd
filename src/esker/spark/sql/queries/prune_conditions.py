"""Finds the conditions of a query that may prune a table's files.

A row may be left out of a table if every row that the query would make of it fails a condition, and if leaving it out
makes no other row pass. Anything that is not known to be safe prunes nothing, because Spark applies the whole condition
anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from esker.model.schema import Schema
from esker.spark.expressions.function_calls import is_call
from esker.spark.sql.grammar.table_references import Node, Reference, cte_of

# ---------------------------------------------------------------- sources
#
# A source is a table, or a table behind plain columns of a subquery. Anything with samples, pivots, limits or grouping
# is not a source, and its conditions prune nothing.


Schemas = Callable[[Reference], Schema | None]

_PLAIN_TABLE = {"this", "db", "catalog", "alias"}
_PLAIN_SUBQUERY = {"this", "alias"}
_PLAIN_SELECT = {"expressions", "from_", "from", "where", "order", "hint"}
_LONGEST = 4  # parts of a column that sqlglot keeps together


@dataclass(slots=True)
class Source:
    """A table, with the name and the columns that one SELECT uses for it."""

    reference: Reference
    name: str  # in lower case
    columns: dict[str, tuple[str, ...]]  # by name in lower case, the path in the table; empty if it is computed
    full_name: tuple[str, ...] = ()  # of a table without alias, in lower case
    nullable: bool = False  # whether an outer join may make its columns null

    def qualifier(self, parts: tuple[str, ...]) -> int:
        """Return how many leading parts name the source itself, with a column after them. 0 if they do not."""
        lower = tuple(part.lower() for part in parts)
        width = len(self.full_name)
        if width and len(parts) > width and lower[:width] == self.full_name and lower[width] in self.columns:
            return width
        return 1 if len(parts) > 1 and lower[0] == self.name and lower[1] in self.columns else 0

    def path(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """Return the column's path in the table. Empty if it is computed."""
        inner = parts[self.qualifier(parts) :]
        start = self.columns.get(inner[0].lower(), ())
        whole = (*start, *inner[1:])
        return whole if start and len(whole) <= _LONGEST else ()


class Sources:
    """Finds the source that a node of the tree means."""

    def __init__(self, tree: Node, references: list[Reference], schema_of: Schemas) -> None:
        from sqlglot import exp

        self._by_node = {id(reference.node): reference for reference in references}
        self._schema_of = schema_of
        ctes = [cte_of(table, table.name) for table in tree.find_all(exp.Table) if len(table.parts) == 1]
        self._uses = Counter(id(cte) for cte in ctes if cte is not None)

    def of(self, node: Node) -> Source | None:
        """Return a new source, or None if pruning does not support it."""
        from sqlglot import exp

        alias = node.args.get("alias")
        called = [column.name for column in alias.args.get("columns") or ()] if alias is not None else []
        if isinstance(node, exp.Subquery) and _has_only(node, _PLAIN_SUBQUERY):
            return self._through(node.this, node.alias, called)
        if called or not isinstance(node, exp.Table) or not _has_only(node, _PLAIN_TABLE):
            return None
        reference = self._by_node.get(id(node))
        return self._of_cte(node) if reference is None else self._of_table(reference)

    def _of_table(self, reference: Reference) -> Source | None:
        schema = self._schema_of(reference)
        if schema is None:
            return None
        columns = _unambiguous([(field.name, (field.name,)) for field in schema.fields])
        full_name = () if reference.alias else tuple(part.lower() for part in reference.parts)
        return Source(reference, (reference.alias or reference.parts[-1]).lower(), columns, full_name)

    def _of_cte(self, node: Node) -> Source | None:
        """Return the source of a CTE that is used once. With two uses, each could need rows that the other excludes."""
        cte = cte_of(node, node.name) if len(node.parts) == 1 else None
        if cte is None or self._uses[id(cte)] != 1 or cte.args["alias"].args.get("columns"):
            return None
        return self._through(cte.this, node.alias or node.name)

    def _through(self, select: Node, name: str, called: Sequence[str] = ()) -> Source | None:
        """Return the source of a subquery that only selects and renames columns. ``called`` are new names, in order."""
        from sqlglot import exp

        if not isinstance(select, exp.Select) or not _has_only(select, _PLAIN_SELECT):
            return None
        first = select.args.get("from_") or select.args.get("from")
        inner = None if first is None else self.of(first.this)
        if inner is None:
            return None
        shown: list[tuple[str, tuple[str, ...]]] = []
        for projection in select.expressions:
            if isinstance(projection, exp.Star) and _has_only(projection, set()):
                shown += [(column, path) for column, path in inner.columns.items()]
                continue
            column = projection.this if isinstance(projection, exp.Alias) else projection
            if isinstance(column, exp.Column) and not isinstance(column.this, exp.Star):
                shown.append((projection.alias or column.name, inner.path(tuple(part.name for part in column.parts))))
            elif _is_row_by_row(projection):
                shown.append((projection.alias_or_name, ()))
            else:
                return None
        if called and len(called) != len(shown):  # Spark refuses it, or two columns have the same name
            return None
        renamed = zip(called, (path for _, path in shown), strict=True) if called else shown
        return Source(inner.reference, name.lower(), _unambiguous(list(renamed)))


def _is_row_by_row(projection: Node) -> bool:
    """Return whether it is computed from its own row alone: it has no window, aggregate or generator."""
    from sqlglot import exp

    harmless = (exp.Alias, exp.Binary, exp.Boolean, exp.Cast, exp.Column, exp.DataType, exp.Identifier, exp.Literal)
    signs = (exp.Neg, exp.Not, exp.Null, exp.Paren)
    functions = (exp.Array, exp.Coalesce, exp.Hex, exp.Lambda, exp.Lower, exp.LowerHex, exp.Transform, exp.Upper)
    return all(isinstance(node, (*harmless, *signs, *functions)) for node in projection.walk())


def _has_only(node: Node, expected: set[str]) -> bool:
    return all(key in expected for key, value in node.args.items() if value)


def _unambiguous(columns: list[tuple[str, tuple[str, ...]]]) -> dict[str, tuple[str, ...]]:
    """Return the columns by name. A name that several columns share is left out."""
    counts = Counter(name.lower() for name, _ in columns)
    return {name.lower(): path if counts[name.lower()] == 1 else () for name, path in columns}


# ---------------------------------------------------------------- conditions
#
# A WHERE applies to each table that no outer join changes. If an outer join may make its columns null, only a condition
# that null does not match applies. An ON applies to the sides whose rows must match it to be joined, and not to a side
# that is kept without a match.


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on one table's columns, as text without qualifiers."""

    text: str
    nullable: bool  # whether an outer join may make the columns null, so that only null-rejecting terms count
    node: Node = field(default=None, compare=False, repr=False)  # in the tree of the query


@dataclass(slots=True)
class _Scope:
    """The sources of one SELECT, joined from left to right."""

    sources: list[Source] = field(default_factory=list)
    using: set[str] = field(default_factory=set)  # names that mean columns of several sources
    unknown: set[str] = field(default_factory=set)  # names of sources that pruning does not support
    natural: bool = False

    def enter(self, node: Node, sources: Sources) -> list[Source]:
        """Add what a FROM or JOIN names: a source, or an unknown name."""
        source = sources.of(node)
        if source is None:
            self.unknown.add(node.alias_or_name.lower())
            return []
        self.sources.append(source)
        return [source]


def find_conditions(tree: Node, references: list[Reference], schema_of: Schemas) -> dict[Reference, list[Condition]]:
    """Return the conditions on each reference whose columns are known."""
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
    """Return the conditions of an ON. It uses the columns as they are before the join makes a side nullable."""
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
    if kind in ("semi", "anti"):  # no column of the right side is visible after the join
        scope.sources[:] = left


def _kind(join: Node) -> str:
    side, kind = str(join.side or "").upper(), str(join.kind or "").upper()
    if kind in ("SEMI", "ANTI"):
        return kind.lower()
    if side in ("LEFT", "RIGHT", "FULL"):
        return side.lower()
    return "inner" if kind in ("", "INNER", "CROSS") else "other"


def _owned(scope: _Scope, condition: Node, concerned: list[Source]) -> Iterator[tuple[Source, Condition]]:
    for term in conjunct_nodes(condition):
        owner = _owner(scope, term)
        if owner is not None and any(owner is source for source in concerned):
            yield owner, Condition(_unqualified(term, owner), owner.nullable, term)


def conjunct_nodes(condition: Node) -> Iterator[Node]:
    """Yield the terms of A AND B AND C, in order. Long chains are nested to the left, so there is no recursion."""
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
    """Return the one source to which every column of the term belongs, or None."""
    from sqlglot import exp

    if term.find(exp.Query, exp.Lambda, exp.Window) is not None or not all(map(is_call, term.find_all(exp.Dot))):
        return None
    columns = [tuple(part.name for part in column.parts) for column in term.find_all(exp.Column)]
    owner = _source_of(scope, columns[0]) if columns else None
    if owner is None or not all(_source_of(scope, parts) is owner and owner.path(parts) for parts in columns):
        return None
    return owner


def _source_of(scope: _Scope, parts: tuple[str, ...]) -> Source | None:
    """Return the source of a column, in Spark's order: first a qualifier, then a column or a struct of that name."""
    qualified = [source for source in scope.sources if source.qualifier(parts)]
    if qualified:
        return qualified[0] if len(qualified) == 1 else None
    if scope.natural or parts[0].lower() in scope.using or (len(parts) > 1 and parts[0].lower() in scope.unknown):
        return None
    having = [source for source in scope.sources if parts[0].lower() in source.columns]
    return having[0] if len(having) == 1 else None


def _unqualified(term: Node, owner: Source) -> str:
    """Return the term with the table's own columns."""
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
