"""Reads the expressions in a view's query.

Every call is recorded or refused; nested queries are read like any other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from esker.errors import InvalidInput
from esker.spark.sql.guard import lexer
from esker.spark.sql.guard.lexer import Kind, Token, place
from esker.spark.sql.guard.trust import FUNCTIONS, GENERATORS, ICEBERG_FUNCTIONS, Trust

_DEEPEST = 100


@dataclass(frozen=True, slots=True)
class Named:
    """A table that a query reads, and the place of its name in the text."""

    parts: tuple[str, ...]
    start: int
    end: int


@dataclass(slots=True)
class ExpressionReader(ABC):
    """Reads tokens from left to right, and expressions in them."""

    text: str
    tokens: list[Token]
    trust: Trust
    at: int = 0
    depth: int = 0
    tables: list[Named] = field(default_factory=list)
    common: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)
    trusted: set[str] = field(default_factory=set)
    in_sight: list[set[str]] = field(default_factory=list)

    def peek(self, ahead: int = 0) -> Token | None:
        at = self.at + ahead
        return self.tokens[at] if 0 <= at < len(self.tokens) else None

    def word(self, ahead: int = 0) -> str:
        token = self.peek(ahead)
        return "" if token is None else token.word

    def sign(self, *signs: str, ahead: int = 0) -> bool:
        token = self.peek(ahead)
        return token is not None and token.is_sign(*signs)

    def next(self) -> Token:
        token = self.peek()
        if token is None:
            raise InvalidInput("its query ends too early")
        self.at += 1
        return token

    def take(self, *wanted: str) -> bool:
        found = all(self.word(ahead) == word for ahead, word in enumerate(wanted))
        self.at += len(wanted) if found else 0
        return found

    def expect_sign(self, sign: str) -> None:
        if not self.sign(sign):
            raise self.unexpected()
        self.at += 1

    def name(self) -> Token:
        """Return a name that cannot be the start of a clause."""
        token = self.peek()
        if token is None or not token.is_name or token.word in lexer.CLAUSES:
            raise self.unexpected()
        return self.next()

    def unexpected(self) -> InvalidInput:
        token = self.peek()
        if token is None:
            return InvalidInput("its query ends too early")
        where = place(self.text, token.start)
        return InvalidInput(
            f"{token.text[:40]} at {where} is not understood, and only what is understood can be trusted; "
            "write names that are words of SQL in backticks, or connect with trusted_views=True"
        )

    @contextmanager
    def deeper(self) -> Iterator[None]:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise InvalidInput("its query is nested too deeply")
        yield
        self.depth -= 1

    def at_join(self) -> bool:
        ahead = 0
        while self.word(ahead) in lexer.JOINS and ahead < 4:
            ahead += 1
        return self.word(ahead) == "join"

    def names_in_parentheses(self) -> None:
        self.expect_sign("(")
        self.name()
        while self.sign(","):
            self.at += 1
            self.name()
        self.expect_sign(")")

    @abstractmethod
    def query(self) -> None:
        """Read a whole query."""

    @abstractmethod
    def query_tail(self) -> None:
        """Read what may follow the first term of a query."""

    def expression(self, *, commas: bool = False) -> None:
        """Read an expression up to the next clause. Raises ``InvalidInput`` if it is empty."""
        with self.deeper():
            count = 0
            while (token := self.peek()) is not None:
                if token.is_sign(")", "]") or self.at_clause():
                    break
                if token.is_sign(","):
                    if not commas:
                        break
                    if count == 0:
                        raise self.unexpected()
                    self.at += 1
                    count = 0
                    continue
                self.term()
                count += 1
            if count == 0 or self.wants_operand():  # after an operator, the clause could be the name of a function
                raise self.unexpected()

    def at_clause(self) -> bool:
        """Return whether a clause starts here, and the expression does not continue."""
        word, before = self.word(), self.peek(-1)
        if not word or (before is not None and before.is_sign(".")):
            return False
        if word in ("sort", "cluster", "distribute"):
            return self.word(1) == "by"
        if word in ("window", "offset", "pivot", "unpivot"):
            return not self.wants_operand() and not self.sign("(", ".", ",", ahead=1)
        if word in lexer.JOINS:
            return self.at_join()
        if word == "from":
            return not (self.word(-1) == "distinct" and self.word(-2) in ("is", "not"))
        if word == "group" and self.word(-1) == "within":
            return False
        if word == "except" and before is not None and before.is_sign("*") and not self.wants_operand():
            return self.word(2) in lexer.QUERIES or self.sign("(", ahead=2)
        return word in lexer.CLAUSES - lexer.WITHIN_EXPRESSIONS

    def wants_operand(self) -> bool:
        """Return whether the previous token needs an operand after it."""
        before = self.peek(-1)
        if before is None or before.kind in (Kind.STRING, Kind.NUMBER, Kind.QUOTED):
            return False
        member = self.peek(-2)
        if before.is_sign("*"):  # all columns, unless it multiplies
            return member is not None and not (
                member.is_sign(",", "(", ".") or member.word in ("select", "distinct", "all")
            )
        if before.is_sign(">"):
            return not self.closes_type()
        if before.kind is Kind.SIGN:
            return not before.is_sign(")", "]")
        return before.word in lexer.OPENERS and not (member is not None and member.is_sign("."))

    def closes_type(self) -> bool:
        """Return whether the last bracket closes a type such as ``array<int>``."""
        depth = 0
        for at in range(self.at - 1, 0, -1):
            token = self.tokens[at]
            depth += token.is_sign(">") - token.is_sign("<")
            if depth == 0:
                return self.tokens[at - 1].word in ("array", "map", "struct")
            if not (token.is_name or token.kind is Kind.NUMBER or token.is_sign("<", ">", ",", ":", "(", ")")):
                return False
        return False

    def term(self) -> None:
        """Read one token of an expression, and what is in its parentheses."""
        token = self.next()
        if token.is_sign("("):
            self.parenthesis()
        elif token.is_sign("["):
            self.expression(commas=True)
            self.expect_sign("]")
        elif token.is_sign("|>"):
            self.at -= 1
            raise self.unexpected()
        elif token.is_sign(":"):
            self.member_of_variant()
        elif token.word == "as":
            following = self.peek()
            self.at -= 1
            if self.wants_operand():
                raise self.unexpected()
            self.at += 1
            if following is None or (following.word in lexer.CLAUSES - lexer.NAMES_BEHIND_AS):
                raise self.unexpected()
        elif token.word == "using":
            raise InvalidInput(f"it gives rows to a program (USING at {place(self.text, token.start)})")
        elif token.word in lexer.REFUSED:
            self.at -= 1
            raise self.unexpected()
        elif token.word == "except" and (star := self.peek(-2)) is not None and star.is_sign("*"):
            self.names_in_parentheses()
        elif self.sign("(") and not token.is_sign(*lexer.OPERATORS):  # otherwise the parenthesis is the operand
            if not (token.is_name or token.kind is Kind.STRING):
                raise self.unexpected()
            self.called(token)

    def member_of_variant(self) -> None:
        """Read ``v:a.b``. With nothing before it, the colon would start a parameter."""
        before = self.peek(-2)
        if (
            before is None
            or not (before.is_name or before.is_sign(")", "]"))
            or before.word in lexer.OPENERS | {"limit", "offset"}
        ):
            self.at -= 1
            raise self.unexpected()

    def called(self, token: Token) -> None:
        """Read a word with a parenthesis after it."""
        before = self.peek(-2)
        qualified = before is not None and before.is_sign(".")
        if token.word in lexer.TYPES and before is not None and (before.word == "as" or not before.is_name):
            self.calls.add(token.word)
            self.at += 1
            self.parenthesis()
            return
        self.at += 1
        if qualified or token.word not in lexer.BEFORE_PARENTHESES:
            self.call(token, FUNCTIONS | GENERATORS, qualified=qualified)
        else:
            self.calls.add(token.word)
        self.parenthesis(token.word)

    def call(self, token: Token, allowed: frozenset[str], *, qualified: bool = False) -> None:
        """Record a call, or refuse it by its name."""
        bare = token.kind is Kind.WORD and not qualified
        name = token.name if bare else self._qualified(token)
        if self.trust.allows(name):
            self.trusted.add(name.lower())
        elif bare and token.word in allowed:
            self.calls.add(token.word)
        elif name.lower() in ICEBERG_FUNCTIONS:
            self.calls.add(name.lower())
        else:
            raise InvalidInput(
                f"it calls {name} (at {place(self.text, token.start)}), which a view may not call; "
                f"connect with trusted_views=[{name.lower()!r}] to allow it",
                function=name,
            )

    def _qualified(self, token: Token) -> str:
        """Return the whole dotted name that ends in this token."""
        at = self.tokens.index(token)
        parts = [token.name]
        while at >= 2 and self.tokens[at - 1].is_sign(".") and self.tokens[at - 2].is_name:
            at -= 2
            parts.insert(0, self.tokens[at].name)
        return ".".join(parts)

    def parenthesis(self, inside: str = "") -> None:
        """Read up to the closing parenthesis: a query, or expressions with the clauses that calls and windows have."""
        with self.deeper():
            if self.word() in lexer.QUERIES:
                self.query()
                self.expect_sign(")")
                return
            if self.sign("("):
                self.at += 1
                self.parenthesis()
                if self.word() in lexer.SET_OPERATIONS:
                    self.query_tail()
                    self.expect_sign(")")
                    return
            while not self.sign(")"):
                self.item(inside)
            self.at += 1

    def item(self, inside: str) -> None:
        """Read the next item inside parentheses."""
        word, before = self.word(), self.peek(-1)
        is_member = before is not None and before.is_sign(".")
        if self.sign(","):
            self.at += 1
        elif word in lexer.ORDERINGS | {"partition"} and self.word(1) == "by":
            self.at += 2
        elif not is_member and inside in lexer.CLAUSES_OF_CALLS.get(word, ()):
            self.at += 1
        elif self.at_clause():
            raise self.unexpected()
        else:
            self.term()
