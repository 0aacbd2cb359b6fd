"""A strict reader of a view's query: which tables it reads and which functions it calls, or a refusal.

It follows the clauses of Spark's grammar and nothing beyond them. Most words of Spark's SQL may also be names, so one
text can have two readings (``FROM a WHERE (b), c`` has a table ``a`` with the alias ``WHERE``). Here such a word is a
clause and never a name, unless it is in backticks, and a text that does not fit that is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from esker.spark.sql.guard import lexer
from esker.spark.sql.guard.expression_reader import ExpressionReader, Named
from esker.spark.sql.guard.lexer import Kind, tokens_of
from esker.spark.sql.guard.trust import FUNCTIONS, GENERATORS, Trust

_SIGNS_OF_OPERATORS = ("+", "-", "*", "/", "||", "%")


@dataclass(frozen=True, slots=True)
class Shape:
    """The tables and functions that a view's query uses."""

    tables: tuple[Named, ...]  # without common table expressions
    common: frozenset[str]  # names of common table expressions, in lower case
    calls: frozenset[str]  # in lower case
    trusted: frozenset[str]  # functions that are called because the reader allows them


def read_shape(text: str, trust: Trust) -> Shape:
    """Return the shape of a query without comments. Raises ``InvalidInput`` for what a view may not contain."""
    reader = _Reader(text, tokens_of(text), trust)
    reader.query()
    if reader.peek() is not None:
        raise reader.unexpected()
    return Shape(tuple(reader.tables), frozenset(reader.common), frozenset(reader.calls), frozenset(reader.trusted))


@dataclass(slots=True)
class _Reader(ExpressionReader):
    """Reads queries, the relations in them, and their joins."""

    def query(self) -> None:
        """Read WITH …, terms, and the clauses that order and limit them."""
        with self.deeper():
            self.in_sight.append(set())
            if self.take("with"):
                self.common_tables()
            self.query_term()
            self.query_tail()
            self.in_sight.pop()

    def common_tables(self) -> None:
        recursive = self.word() == "recursive" and (token := self.peek(1)) is not None and token.is_name
        self.at += recursive
        while True:
            name = self.name().name.lower()
            self.common.add(name)
            if recursive:
                self.in_sight[-1].add(name)
            if self.sign("(") and self.word(1) not in lexer.QUERIES and not self.sign("(", ahead=1):
                self.names_in_parentheses()
            self.take("as")
            self.expect_sign("(")
            self.query()
            self.expect_sign(")")
            self.in_sight[-1].add(name)
            if not self.sign(","):
                return
            self.at += 1

    def query_term(self) -> None:
        if self.take("select"):
            self.select()
        elif self.take("values"):
            self.rows()
            self.alias()
        elif self.take("table"):
            self.table()
        elif self.sign("("):
            self.at += 1
            self.query()
            self.expect_sign(")")
        else:
            raise self.unexpected()

    def query_tail(self) -> None:
        while self.word() in lexer.SET_OPERATIONS:
            self.at += 1
            if self.word() in ("all", "distinct"):
                self.at += 1
            self.query_term()
        while True:
            if self.word() in lexer.ORDERINGS and self.word(1) == "by":
                self.at += 2
                self.expression(commas=True)
            elif self.word() == "window":
                self.windows()
            elif self.take("limit"):
                if not self.take("all"):
                    self.expression()
            elif self.take("offset"):
                self.expression()
            else:
                return

    def select(self) -> None:
        if self.word() in ("distinct", "all"):
            self.at += 1
        self.expression(commas=True)
        if self.take("from"):
            self.relation()
            while self.sign(","):
                self.at += 1
                self.relation()
        while self.word() == "lateral":
            self.lateral_view()
        if self.take("where"):
            self.expression()
        if self.word() == "group" and self.word(1) == "by":
            self.at += 2
            self.expression(commas=True)
            if self.take("with"):
                if self.word() not in ("rollup", "cube"):
                    raise self.unexpected()
                self.at += 1
        for clause in ("having", "qualify"):
            if self.take(clause):
                self.expression()

    def windows(self) -> None:
        self.at += 1
        while True:
            self.name()
            if not self.take("as"):
                raise self.unexpected()
            self.expect_sign("(")
            self.parenthesis("over")
            if not self.sign(","):
                return
            self.at += 1

    def relation(self) -> None:
        """Read a table, a query, rows or a function that returns rows, and its joins."""
        with self.deeper():
            self.primary()
            self.joined()

    def primary(self) -> None:
        if self.word() == "lateral":
            self.at += 1
        if self.sign("("):
            self.at += 1
            self.relation_in_parentheses()
        elif self.take("values"):
            self.rows()
        elif self.sign("(", ahead=1):
            token = self.name()
            self.at += 1
            self.call(token, GENERATORS)
            self.parenthesis()
        else:
            self.table(behind_from=True)
            self.travel()
        if self.take("tablesample"):
            self.expect_sign("(")
            self.parenthesis()
            if self.take("repeatable"):
                self.expect_sign("(")
                self.parenthesis()
        if self.word() in ("pivot", "unpivot") and self.word(1) in ("", "include", "exclude"):
            self.at += 1
            if self.word() in ("include", "exclude"):
                self.at += 2
            self.expect_sign("(")
            self.parenthesis()
        self.alias()

    def relation_in_parentheses(self) -> None:
        """Read what follows an opening parenthesis: a query, or a relation with its joins."""
        with self.deeper():
            if self.word() in lexer.QUERIES:
                self.query()
            elif self.sign("("):
                self.at += 1
                self.relation_in_parentheses()
                if self.word() in lexer.SET_OPERATIONS or self.word() in ("order", "limit"):
                    self.query_tail()
                else:
                    self.alias()
                    self.joined()
            else:
                self.relation()
            self.expect_sign(")")

    def joined(self) -> None:
        while self.at_join():
            while self.word() != "join":
                self.at += 1
            self.at += 1
            self.primary()
            if self.take("on"):
                self.expression()
            elif self.take("using"):
                self.names_in_parentheses()

    def table(self, *, behind_from: bool = False) -> None:
        """Read a table by its name. After FROM, JOIN or a comma, the word TABLE is a name."""
        if self.word() == "stream":  # STREAM t would read another table
            raise self.unexpected()
        first = self.next() if behind_from and self.word() == "table" else self.name()
        parts, end = [first.name], first.end
        while self.sign("."):
            self.at += 1
            part = self.next()
            if not part.is_name:
                self.at -= 1
                raise self.unexpected()
            parts.append(part.name)
            end = part.end
        if len(parts) == 1 and any(parts[0].lower() in names for names in self.in_sight):
            return
        self.tables.append(Named(tuple(parts), first.start, end))

    def travel(self) -> None:
        """Read ``[FOR] VERSION AS OF …`` and similar clauses."""
        ahead = int(self.word() == "for")
        kind = self.word(ahead)
        if kind not in lexer.TRAVELS or [self.word(ahead + 1), self.word(ahead + 2)] != ["as", "of"]:
            return
        self.at += ahead + 3
        if kind in ("version", "system_version"):
            token = self.next()
            if token.kind not in (Kind.NUMBER, Kind.STRING):
                self.at -= 1
                raise self.unexpected()
            return
        self.operand()
        while self.sign(*_SIGNS_OF_OPERATORS):
            self.at += 1
            self.operand()

    def operand(self) -> None:
        """Read one of the operands that may be a time."""
        if self.sign("+", "-"):
            self.at += 1
        if self.sign("(", ahead=1):
            self.term()
            return
        if self.take("interval"):
            while (token := self.peek()) is not None and token.kind in (Kind.NUMBER, Kind.STRING):
                self.at += 1
                self.at += self.word().removesuffix("s") in lexer.UNITS
            return
        if self.word() in ("timestamp", "date", "timestamp_ltz", "timestamp_ntz"):
            self.at += 1
        token = self.next()
        if token.is_sign("("):
            self.parenthesis()
        elif token.kind not in (Kind.NUMBER, Kind.STRING):
            self.at -= 1
            raise self.unexpected()

    def alias(self) -> None:
        """Read ``[AS] name [(columns)]``, if it is there."""
        token = self.peek()
        said = self.take("as")
        if not said and (token is None or not token.is_name or token.word in lexer.CLAUSES or self.at_join()):
            return
        self.name()
        if self.sign("("):
            self.names_in_parentheses()

    def lateral_view(self) -> None:
        self.at += 1
        if not self.take("view"):
            raise self.unexpected()
        self.take("outer")
        token = self.name()
        self.expect_sign("(")
        self.call(token, GENERATORS | FUNCTIONS)
        self.parenthesis()
        name = self.peek()
        if name is not None and name.is_name and name.word not in lexer.CLAUSES:
            self.at += 1
        if self.take("as"):
            self.name()
            while self.sign(","):
                self.at += 1
                self.name()

    def rows(self) -> None:
        """Read rows of VALUES. They must be constants, because a name there could be a table."""
        while True:
            start = self.at
            if self.sign("("):
                self.at += 1
                self.parenthesis()
            elif (token := self.peek()) is not None and (
                token.kind in (Kind.NUMBER, Kind.STRING) or token.word in ("null", "true", "false")
            ):
                self.at += 1
            else:
                raise self.unexpected()
            for at in range(start, self.at):
                if self.tokens[at].kind is Kind.QUOTED or self.tokens[at].is_sign("."):
                    self.at = at
                    raise self.unexpected()
            if not self.sign(","):
                return
            self.at += 1
