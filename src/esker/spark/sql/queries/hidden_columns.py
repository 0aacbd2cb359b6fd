"""Metadata columns in a query: which tables must have them, and which stars must not show them.

A frame has them as ordinary columns, so each ``*`` that would show them excludes them by name. A query that would show
them in another way is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from esker.errors import Unsupported
from esker.model.parsing.tokens import Token
from esker.read.metadata_columns import METADATA_COLUMN_NAMES
from esker.spark.sql.grammar.table_references import Node, Reference, cte_of, find_references, parse_query
from esker.spark.sql.queries.query_text import Edits, QueryText, is_name, quoted_word

_MARK = "esker_star_"
_BEFORE_STAR = ("select", "distinct", "all")


@dataclass(slots=True)
class HiddenColumns:
    """The metadata columns that a query needs, and the stars to change."""

    place: str = ""  # the place of the first name that is one
    of: dict[Reference, list[str]] = field(default_factory=dict)  # names of metadata columns, each once
    stars: list[tuple[Token, list[str]]] = field(default_factory=list)  # with the columns that each must exclude

    def refused(self, where: str, instead: str) -> Unsupported:
        """Return the error for a query in which metadata columns cannot be read."""
        return Unsupported(
            f"cannot read a metadata column (at {self.place}) in {where}: {instead}",
            feature="metadata columns",
            place=self.place,
        )

    def write(self, edits: Edits, tokens: Sequence[Token]) -> None:
        """Let the stars exclude what is hidden. If a star excludes columns already, its list gets longer."""
        for star, names in self.stars:
            opening = _except_list(star, tokens)
            if opening is None:
                edits.replace(star.end + 1, star.end + 1, f" EXCEPT ({', '.join(names)})")
            else:
                edits.replace(opening.end + 1, opening.end + 1, f"{', '.join(names)}, ")


@dataclass(slots=True, eq=False)
class _Source:
    """A table of the lake in the FROM of one SELECT, and its hidden columns there."""

    reference: Reference
    node: Node
    own: frozenset[str]  # the columns that it shows, in lower case
    shown: bool  # whether the SELECT's star has its columns: not after a semi or anti join
    hidden: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.reference.alias or self.reference.parts[-1]

    def is_called(self, qualifier: Sequence[str]) -> bool:
        """Return whether the qualifier of a column names this source. An empty qualifier names any."""
        words = tuple(word.lower() for word in qualifier)
        full = () if self.reference.alias else tuple(part.lower() for part in self.reference.parts)
        return words in ((), (self.name.lower(),), full)


def find_hidden_columns(
    read: QueryText, references: Sequence[Reference], columns_of: Callable[[Reference], Sequence[str] | None]
) -> HiddenColumns:
    """Return the metadata columns that a query names. ``columns_of`` returns the columns of a table, or None.

    Raises ``Unsupported`` if the query would show one of them to all.
    """
    tokens = read.words.tokens.tokens
    mentions = [token for token in tokens if is_name(token) and token.text.lower() in METADATA_COLUMN_NAMES]
    if not mentions or not references:
        return HiddenColumns()
    return _Query(read, references, columns_of, mentions[0].place).hidden()


class _Query:
    """Return the query with a column in place of each star, because sqlglot does not report where a star is."""

    def __init__(
        self,
        read: QueryText,
        references: Sequence[Reference],
        columns_of: Callable[[Reference], Sequence[str] | None],
        place: str,
    ) -> None:
        self._found = HiddenColumns(place)
        self._tokens = read.words.tokens.tokens
        self._stars = [token for token in _stars(self._tokens) if read.readable[token.start] == "*"]
        text = _marked(read.readable, self._stars, self._tokens)
        self._tree = parse_query(text)
        first = {reference.span.start: reference for reference in references}
        _, every = read.parsed()
        again = find_references(self._tree, text)
        if [one.parts for one in every] != [one.parts for one in again]:
            raise self._found.refused("this query", "name the columns in place of *")
        self._sources: dict[int, _Source] = {}  # by the id of a node
        for was, now in zip(every, again, strict=True):
            reference = first.get(was.span.start)
            columns = None if reference is None else columns_of(reference)
            if reference is not None and columns is not None and was.span.start not in read.bare:
                own = frozenset(name.lower() for name in columns)
                self._sources[id(now.node)] = _Source(reference, now.node, own, not _is_filter(now.node))

    def hidden(self) -> HiddenColumns:
        for names, node in self._names():
            self._resolve(names, node)
        found = self._found
        for source in self._sources.values():
            if source.hidden:
                self._check(source)
                found.of[source.reference] = sorted(source.hidden)
        if found.of and any(token.is_sign and token.text == "|>" for token in self._tokens):
            raise self._found.refused("a query of pipes", "write it as SELECT … FROM …")
        for column in self._columns():
            if column.name.startswith(_MARK):
                star = self._stars[int(column.name.removeprefix(_MARK))]
                if names := self._left_out(column):
                    found.stars.append((star, names))
        return found

    def _columns(self) -> Iterator[Node]:
        from sqlglot import exp

        return (column for column in self._tree.find_all(exp.Column) if isinstance(column.this, exp.Identifier))

    def _names(self) -> Iterator[tuple[list[str], Node]]:
        """Yield every name of a column in the query, as its parts."""
        from sqlglot import exp

        for column in self._columns():
            yield [part.name for part in column.parts], column
        for dot in self._tree.find_all(exp.Dot):  # names of more than four parts
            if isinstance(dot.find(exp.Column), exp.Column):
                yield [part.name for part in dot.parts if isinstance(part, exp.Identifier)], dot

    def _resolve(self, names: list[str], node: Node) -> None:
        """Record the metadata column that a name means.

        As in Spark, the nearest SELECT decides, and a column that a source shows has precedence over a hidden one.
        """
        for at, name in enumerate(names):
            if name.lower() not in METADATA_COLUMN_NAMES:
                continue
            for select in _selects_around(node):
                if at == 0 and self._shows(select, name.lower()):
                    break
                called = [source for source in self._of(select) if source.is_called(names[:at])]
                for source in called:
                    if name.lower() not in (*source.own, *source.hidden):
                        source.hidden.append(name.lower())
                if called:
                    break

    def _of(self, select: Node) -> list[_Source]:
        """Return the tables in the FROM of a SELECT that have hidden columns there."""
        from sqlglot import exp

        tables = (table for table in select.find_all(exp.Table) if table.find_ancestor(exp.Select) is select)
        sources = (self._sources.get(id(table)) for table in tables)
        return [source for source in sources if source is not None and not _is_renamed(source.node, select)]

    def _shows(self, node: Node | None, name: str) -> bool:
        """Return whether the sources of a SELECT have a column of that name that is not hidden."""
        from sqlglot import exp

        if not isinstance(node, exp.Select):
            return False
        inner = (exp.Table, exp.Subquery, exp.Values, exp.Lateral, exp.Unnest)
        return any(self._has(one, name) for one in node.find_all(*inner) if _is_source(one, node))

    def _has(self, source: Node, name: str) -> bool:
        """Return whether a source has a column of that name that is not hidden. Spark's own tables are not checked."""
        from sqlglot import exp

        alias = source.args.get("alias")
        called = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
        if called:
            return name in [column.name.lower() for column in called]
        if isinstance(source, exp.Subquery):
            return self._gives(source.this, name)
        if not isinstance(source, exp.Table):
            return False
        known = self._sources.get(id(source))
        if known is not None:
            return name in known.own
        cte = cte_of(source, source.name) if len(source.parts) == 1 else None
        if cte is None or any(cte is above for above in _above(source)):  # a recursive one has nothing more
            return False
        called = cte.args["alias"].args.get("columns")
        return name in [column.name.lower() for column in called] if called else self._gives(cte.this, name)

    def _gives(self, query: Node, name: str) -> bool:
        """Return whether a query has a column of that name."""
        from sqlglot import exp

        while isinstance(query, exp.SetOperation | exp.Subquery):
            query = query.this
        if not isinstance(query, exp.Select):
            return False
        for one in query.expressions:
            if one.alias_or_name.lower() == name:
                return True
            if one.alias_or_name.startswith(_MARK) and self._shows(query, name):
                return True
        return False

    def _left_out(self, star: Node) -> list[str]:
        """Return the columns that a star must exclude, each with its table's name."""
        if _is_count(star):
            return []
        qualifier = [part.name for part in star.parts][:-1]
        for select in _selects_around(star):
            called = [source for source in self._of(select) if source.is_called(qualifier)]
            if called or not qualifier:
                return [
                    f"{quoted_word(source.name)}.{name}"
                    for source in called
                    for name in sorted(source.hidden)
                    if source.shown
                ]
        return []

    def _check(self, source: _Source) -> None:
        from sqlglot import exp

        if source.node.args.get("pivots"):
            raise self._found.refused("PIVOT or UNPIVOT", "choose the columns in a subquery first")
        select = source.node.find_ancestor(exp.Select)
        for join in select.find_all(exp.Join):
            natural = str(join.method or "").upper() == "NATURAL" and join.find_ancestor(exp.Select) is select
            if natural:
                raise self._found.refused("a NATURAL JOIN, which joins by every column", "join with USING or ON")


def _selects_around(node: Node) -> Iterator[Node]:
    """Yield the SELECTs in which a name may be resolved, the innermost first."""
    from sqlglot import exp

    select = node.find_ancestor(exp.Select)
    while select is not None:
        yield select
        select = select.find_ancestor(exp.Select)


def _above(node: Node) -> Iterator[Node]:
    at = node.parent
    while at is not None:
        yield at
        at = at.parent


def _is_source(node: Node, select: Node) -> bool:
    """Return whether the node is in the FROM of a SELECT, and not in one of its expressions."""
    from sqlglot import exp

    for at in _above(node):
        if at is select:
            return True
        if not isinstance(at, exp.From | exp.Join | exp.Lateral | exp.Subquery | exp.Table):
            return False
    return False


def _is_filter(table: Node) -> bool:
    """Return whether the table is after a semi or anti join, so that no star shows it."""
    from sqlglot import exp

    for at in _above(table):
        if isinstance(at, exp.Select):
            break
        if isinstance(at, exp.Join) and str(at.kind or "").upper() in ("SEMI", "ANTI"):
            return True
    return False


def _is_renamed(table: Node, select: Node) -> bool:
    """Return whether a list of columns, or an alias of a join in parentheses, hides these columns, as in Spark."""
    from sqlglot import exp

    alias = table.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return True
    for at in _above(table):
        if at is select:
            break
        if isinstance(at, exp.Subquery) and at.args.get("alias") is not None:
            return True
    return False


def _is_count(star: Node) -> bool:
    """Return whether this is ``count(*)``, which counts rows with any columns."""
    from sqlglot import exp

    return isinstance(star.parent, exp.Count) and len(star.parts) == 1


def _stars(tokens: Sequence[Token]) -> list[Token]:
    """Return the stars that mean columns. A multiplication sign has an operand before it."""
    return [
        star
        for before, star in pairwise(tokens)
        if star.is_sign
        and star.text == "*"
        and (
            before.word in _BEFORE_STAR
            or (before.is_sign and (before.text in (",", "(", ".") or before.text.startswith("/*")))
        )
    ]


def _marked(text: str, stars: Sequence[Token], tokens: Sequence[Token]) -> str:
    """Return the text with a column in place of each star and its exclusions."""
    pieces, at = [], 0
    for number, star in enumerate(stars):
        pieces += [text[at : star.start], f"{_MARK}{number}"]
        opening = _except_list(star, tokens)
        at = star.end + 1 if opening is None else _closing(opening, tokens).end + 1
    return "".join([*pieces, text[at:]])


def _except_list(star: Token, tokens: Sequence[Token]) -> Token | None:
    """Return the place of the names that a star excludes, as in ``* EXCEPT (a, b)``. Returns None if there are none."""
    at = next(n for n, token in enumerate(tokens) if token is star)
    if len(tokens) < at + 4 or tokens[at + 1].word != "except" or tokens[at + 2].text != "(":
        return None
    return None if tokens[at + 3].word in ("select", "with", "values", "table", "from") else tokens[at + 2]


def _closing(opening: Token, tokens: Sequence[Token]) -> Token:
    at = next(n for n, token in enumerate(tokens) if token is opening)
    return next((token for token in tokens[at:] if token.is_sign and token.text == ")"), tokens[-1])
