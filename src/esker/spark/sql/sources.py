"""What a FROM or JOIN names, as far as pruning sees it: a table, or a table seen through plain columns of a subquery.

Only what is known to be harmless is let through: a source with anything unusual about it (samples, pivots, limits,
grouping) is none, and its conditions prune nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from esker.model.schema import Schema
from esker.spark.sql.references import Node, Reference, cte_of

Schemas = Callable[[Reference], Schema | None]

_PLAIN_TABLE = {"this", "db", "catalog", "alias"}
_PLAIN_SUBQUERY = {"this", "alias"}
_PLAIN_SELECT = {"expressions", "from_", "from", "where", "order", "hint"}
_LONGEST = 4  # parts of a column that sqlglot keeps together


@dataclass(slots=True)
class Source:
    """A table under the name and the columns by which one SELECT knows it."""

    reference: Reference
    name: str  # in lower case
    columns: dict[str, tuple[str, ...]]  # by name in lower case, the path in the table; empty where it is computed
    full_name: tuple[str, ...] = ()  # of a table without alias, in lower case
    nullable: bool = False  # an outer join may make its columns null

    def qualifier(self, parts: tuple[str, ...]) -> int:
        """How many leading parts name the source itself, with a column of its behind them; 0 where they do not."""
        lower = tuple(part.lower() for part in parts)
        width = len(self.full_name)
        if width and len(parts) > width and lower[:width] == self.full_name and lower[width] in self.columns:
            return width
        return 1 if len(parts) > 1 and lower[0] == self.name and lower[1] in self.columns else 0

    def path(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """The column's path in the table; empty for what the table has not as it is."""
        inner = parts[self.qualifier(parts) :]
        start = self.columns.get(inner[0].lower(), ())
        whole = (*start, *inner[1:])
        return whole if start and len(whole) <= _LONGEST else ()


class Sources:
    """Finds the source behind a node of the tree."""

    def __init__(self, tree: Node, references: list[Reference], schema_of: Schemas) -> None:
        from sqlglot import exp

        self._by_node = {id(reference.node): reference for reference in references}
        self._schema_of = schema_of
        ctes = [cte_of(table, table.name) for table in tree.find_all(exp.Table) if len(table.parts) == 1]
        self._uses = Counter(id(cte) for cte in ctes if cte is not None)

    def of(self, node: Node) -> Source | None:
        """A new source; None for what pruning does not look into."""
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
        """Only where it is used once: of two uses, each would need rows that the other leaves out."""
        cte = cte_of(node, node.name) if len(node.parts) == 1 else None
        if cte is None or self._uses[id(cte)] != 1 or cte.args["alias"].args.get("columns"):
            return None
        return self._through(cte.this, node.alias or node.name)

    def _through(self, select: Node, name: str, called: Sequence[str] = ()) -> Source | None:
        """A subquery that only chooses and renames columns of one source; ``called`` names them once more, in order."""
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
        if called and len(called) != len(shown):  # Spark refuses it, or two columns of one name were seen as one
            return None
        renamed = zip(called, (path for _, path in shown), strict=True) if called else shown
        return Source(inner.reference, name.lower(), _unambiguous(list(renamed)))


def _is_row_by_row(projection: Node) -> bool:
    """Whether it is computed of its own row alone: no window, aggregate or generator, which see or make other rows."""
    from sqlglot import exp

    harmless = (exp.Alias, exp.Binary, exp.Boolean, exp.Cast, exp.Column, exp.DataType, exp.Identifier, exp.Literal)
    signs = (exp.Neg, exp.Not, exp.Null, exp.Paren)
    functions = (exp.Array, exp.Coalesce, exp.Hex, exp.Lambda, exp.Lower, exp.LowerHex, exp.Transform, exp.Upper)
    return all(isinstance(node, (*harmless, *signs, *functions)) for node in projection.walk())


def _has_only(node: Node, expected: set[str]) -> bool:
    return all(key in expected for key, value in node.args.items() if value)


def _unambiguous(columns: list[tuple[str, tuple[str, ...]]]) -> dict[str, tuple[str, ...]]:
    """The columns by name; of those that share one, it is not known which is meant."""
    counts = Counter(name.lower() for name, _ in columns)
    return {name.lower(): path if counts[name.lower()] == 1 else () for name, path in columns}
