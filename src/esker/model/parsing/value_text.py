"""Values from SQL text in Spark's dialect: the new value of a column in an update.

Columns, literals and arithmetic. Other expressions need an engine with full SQL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

from esker.errors import InvalidInput, Unsupported
from esker.model.parsing.cast import TYPE_NAMES, cast
from esker.model.parsing.predicate_text import MAX_NESTING
from esker.model.parsing.tokens import Token, TokenStream, tokens_of
from esker.model.predicates.unbound_predicate import Literal, Name
from esker.model.types import BOOLEAN, LONG

Sign: TypeAlias = OneOf["+", "-", "*", "/"]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left sign right``. Null if one side is null."""

    sign: Sign
    left: Value
    right: Value


Value: TypeAlias = Literal | Name | Arithmetic


def parse_value(text: str) -> Value:
    """The value of a text. Raises ``Unsupported`` with the place of anything except columns, literals and + - * /."""
    parser = _Parser(TokenStream(text, tokens_of(text, "the expression"), "the expression"), text)
    try:
        return parser.whole()
    except RecursionError:
        raise InvalidInput("cannot read the expression: it is nested too deeply; use fewer levels") from None


class _Parser:
    """Parses one text, from left to right: sums of products."""

    def __init__(self, tokens: TokenStream, text: str) -> None:
        self.tokens = tokens
        self.text = text
        self.depth = 0

    def whole(self) -> Value:
        value = self.sum()
        if (rest := self.tokens.peek()) is not None:
            raise self.refuse(rest)
        return value

    def sum(self) -> Value:
        return self.chain(self.product, ("+", "-"))

    def product(self) -> Value:
        return self.chain(self.operand, ("*", "/"))

    def chain(self, part: Callable[[], Value], signs: tuple[Sign, Sign]) -> Value:
        value = part()
        while (token := self.tokens.peek()) is not None and token.is_sign and token.text in signs:
            self.tokens.next()
            sign = signs[0] if token.text == signs[0] else signs[1]
            value = Arithmetic(sign, value, part())
        return value

    def operand(self) -> Value:
        tokens = self.tokens
        token = tokens.expect("a column or a value")
        if (literal := tokens.take_literal()) is not None:
            return literal
        if token.is_sign and token.text == "(":
            return self.parenthesised(token)
        if tokens.take_sign("-"):
            return self.negated(token)
        if token.is_quoted:
            return self.name()
        word = token.word
        if word in ("null", "true", "false"):
            tokens.next()
            return Literal(None, None, token.place) if word == "null" else Literal(word == "true", BOOLEAN, token.place)
        if word in TYPE_NAMES and (text := tokens.take_text_after()) is not None:
            return cast(text, word, token.place)
        if word == "cast" and tokens.opens_call():
            return self.cast_call(token)
        if word is None or word in _MORE or tokens.opens_call():
            raise self.refuse(token)
        return self.name()

    def negated(self, first: Token) -> Value:
        """Parse a sequence of signs at once. One by one, each would look past all the others for a number."""
        signs = 1
        while self.tokens.take_sign("-"):
            signs += 1
        if signs > MAX_NESTING:
            raise InvalidInput(f"cannot read the expression: signs are nested more than {MAX_NESTING} deep")
        value = self.operand()
        for _ in range(signs):
            value = Arithmetic("-", Literal(0, LONG, first.place), value)
        return value

    def parenthesised(self, opening: Token) -> Value:
        self.tokens.next()
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise InvalidInput(f"cannot read the expression: parentheses are nested more than {MAX_NESTING} deep")
        inside = self.sum()
        closing = self.tokens.peek()
        if closing is None or not self.tokens.take_sign(")"):
            raise self.refuse(closing or opening)
        self.depth -= 1
        return inside

    def cast_call(self, token: Token) -> Literal:
        self.tokens.next()
        self.tokens.expect_sign("(")
        literal = self.operand()
        if not isinstance(literal, Literal) or not self.tokens.take_word("as"):
            raise self.refuse(token)
        return cast(literal, self.tokens.take_type_name(), token.place)

    def name(self) -> Name:
        first = self.tokens.next()
        parts = [first.text]
        while self.tokens.take_sign("."):
            parts.append(self.tokens.next().text)
        return Name(tuple(parts), first.place)

    def refuse(self, token: Token) -> Unsupported:
        return Unsupported(
            f"cannot compute {self.text!r} without Spark: at {token.place}, {token.shown} is not one of columns, "
            "literals and + - * /; update the table with lake.sql('UPDATE …')",
            feature="SQL expressions",
            place=token.place,
        )


_MORE = frozenset(("and", "or", "not", "in", "is", "like", "between", "case", "when", "interval", "select", "exists"))
