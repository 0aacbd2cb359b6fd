"""Predicates from SQL text in Spark's dialect.

sqlglot's tokenizer reads the text, with Spark's quotes, escapes, comments and number suffixes. The grammar of a
predicate is small and is parsed here. So every error has its place, nesting is limited before it can exhaust the stack,
and a list of ten thousand values is a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from esker.errors import InvalidInput
from esker.model.parsing.cast import TYPE_NAMES, cast
from esker.model.parsing.tokens import MAX_TEXT, Token, TokenStream, tokens_of
from esker.model.predicates.coerce import compare_constants, describe
from esker.model.predicates.literal import text_literal
from esker.model.predicates.predicate import Op, escaped
from esker.model.predicates.transform_predicate import FUNCTIONS, MAX_SIZE, takes_size, transform_named
from esker.model.predicates.unbound_predicate import (
    AllOf,
    Among,
    AnyOf,
    Comparison,
    Constant,
    LikeTest,
    Literal,
    Name,
    NaNTest,
    Not,
    NullTest,
    Same,
    Unbound,
)
from esker.model.types import BOOLEAN, BooleanType, LongType, StringType

__all__ = ["MAX_NESTING", "MAX_TEXT", "parse"]

MAX_NESTING = 64  # parentheses within parentheses

_OPS = {"=": Op.EQ, "==": Op.EQ, "<>": Op.NE, "!=": Op.NE, "<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE}
_TRUE = Literal(True, BOOLEAN)
_KEYWORDS = frozenset(
    [
        "and",
        "or",
        "not",
        "in",
        "is",
        "like",
        "ilike",
        "rlike",
        "regexp",
        "between",
        "null",
        "true",
        "false",
        "escape",
        "case",
        "exists",
        "select",
        "when",
        "then",
        "else",
        "end",
        "interval",
        "distinct",
        "from",
    ]
)
_Parsed: TypeAlias = Unbound | Name | Literal


def parse(text: str) -> Unbound:
    """The predicate of a text. Raises ``InvalidInput`` with the place of the fault."""
    parser = _Parser(TokenStream(text, tokens_of(text)))
    try:
        return parser.whole()
    except RecursionError:
        raise InvalidInput("cannot read the predicate: it is nested too deeply; use fewer levels") from None


class _Parser:
    """Parses one text, from left to right: OR of AND of NOT of tests."""

    def __init__(self, tokens: TokenStream) -> None:
        self.tokens = tokens
        self.depth = 0

    def whole(self) -> Unbound:
        start = self.tokens.peek()
        parsed = self.condition(self.disjunction(), start)
        if (rest := self.tokens.peek()) is not None:
            raise self.refuse(rest, f"did not expect {rest.shown} after the predicate")
        return parsed

    # ------------------------------------------------------------ connectives

    def disjunction(self) -> _Parsed:
        return self.chain(self.conjunction, "or", AnyOf)

    def conjunction(self) -> _Parsed:
        return self.chain(self.negation, "and", AllOf)

    def chain(self, part: Callable[[], _Parsed], word: str, kind: type[AllOf] | type[AnyOf]) -> _Parsed:
        start = self.tokens.peek()
        first = part()
        if not self.tokens.at_word(word):
            return first
        parts = [self.condition(first, start)]
        while self.tokens.take_word(word):
            start = self.tokens.peek()
            parts.append(self.condition(part(), start))
        return kind(tuple(parts))

    def negation(self) -> _Parsed:
        count = 0
        while self.tokens.take_word("not") or self.tokens.take_sign("!"):
            count += 1
        start = self.tokens.peek()
        tested = self.test()
        if not count:
            return tested
        condition = self.condition(tested, start)
        return Not(condition) if count % 2 else condition

    # ------------------------------------------------------------ one test

    def test(self) -> _Parsed:
        start = self.tokens.expect("a column or a value")
        left = self.operand()
        while True:
            tested = self.tail(left, start)
            if tested is None:
                return left
            left = tested

    def tail(self, left: _Parsed, start: Token) -> Unbound | None:
        """The test that follows an operand. None if there is none."""
        tokens = self.tokens
        token = tokens.peek()
        if token is None:
            return None
        if token.is_sign and token.text in _OPS:
            tokens.next()
            return self.comparison(left, _OPS[token.text], start)
        if token.is_sign and token.text == "<=>":
            tokens.next()
            return self.same(left, start)
        if tokens.take_word("is"):
            return self.is_test(left, start)
        negated = tokens.at_word("not") and tokens.next() is not None
        test = self.word_test(left, start)
        if test is None and negated:
            raise self.refuse(tokens.peek(), "NOT here must be followed by IN, BETWEEN or LIKE")
        if test is None and not tokens.at_end_of_test():
            raise self.refuse(token, f"{token.shown} cannot be used in a predicate: {_HINT}")
        return Not(test) if test is not None and negated else test

    def word_test(self, left: _Parsed, start: Token) -> Unbound | None:
        if self.tokens.take_word("in"):
            return self.among(left, start)
        if self.tokens.take_word("between"):
            return self.between(left, start)
        if self.tokens.take_word("like"):
            return self.like(left, start)
        return None

    def comparison(self, left: _Parsed, op: Op, start: Token) -> Unbound:
        after = self.tokens.expect("a column or a value")
        right = self.operand()
        match left, right:
            case Name() as column, Literal() as literal:
                return Comparison(column, op, literal)
            case Literal() as literal, Name() as column:
                return Comparison(column, op.flipped, literal)
            case Literal() as one, Literal() as other:
                return Constant(compare_constants(one, op, other, start.place))
            case Name(), Name():
                raise self.refuse(after, "cannot compare two columns: one side must be a value")
            case _:
                raise self.refuse(start if not isinstance(left, Name | Literal) else after, "cannot compare conditions")

    def same(self, left: _Parsed, start: Token) -> Unbound:
        right = self.operand()
        match left, right:
            case (Name() as column, Literal() as literal) | (Literal() as literal, Name() as column):
                return Same(column, literal)
            case _:
                raise self.refuse(start, "<=> compares a column with a value")

    def is_test(self, left: _Parsed, start: Token) -> Unbound:
        negated = self.tokens.take_word("not")
        token = self.tokens.expect("NULL")
        word = token.word or ""
        self.tokens.next()
        if word == "distinct":
            if not self.tokens.take_word("from"):
                raise self.refuse(self.tokens.peek(), "expected FROM after IS DISTINCT")
            return self.same(left, start) if negated else Not(self.same(left, start))
        if isinstance(left, Literal) and word == "null":
            return Constant((left.type is None) != negated)
        column = self.column(left, start, "IS")
        tests = {"null": NullTest(column), "unknown": NullTest(column)}
        truths = {"true": Same(column, _TRUE), "false": Same(column, Literal(False, BOOLEAN))}
        test: Unbound | None = tests.get(word) or truths.get(word)
        if test is None:
            raise self.refuse(token, f"expected NULL, TRUE or FALSE after IS, not {token.shown}")
        return Not(test) if negated else test

    def among(self, left: _Parsed, start: Token) -> Unbound:
        column = self.column(left, start, "IN")
        self.tokens.expect_sign("(")
        literals = [self.literal("IN")]
        while self.tokens.take_sign(","):
            literals.append(self.literal("IN"))
        self.tokens.expect_sign(")")
        return Among(column, tuple(literals))

    def between(self, left: _Parsed, start: Token) -> Unbound:
        column = self.column(left, start, "BETWEEN")
        low = self.literal("BETWEEN")
        if not self.tokens.take_word("and"):
            raise self.refuse(self.tokens.peek(), "expected AND and an upper limit in BETWEEN")
        return AllOf((Comparison(column, Op.GE, low), Comparison(column, Op.LE, self.literal("BETWEEN"))))

    def like(self, left: _Parsed, start: Token) -> Unbound:
        column = self.column(left, start, "LIKE")
        pattern = self.literal("LIKE")
        escape = self.literal("ESCAPE") if self.tokens.take_word("escape") else text_literal("\\")
        if pattern.type is None:
            return Constant(None)
        if not isinstance(pattern.type, StringType) or not isinstance(escape.type, StringType):
            raise self.refuse(start, "LIKE takes a pattern in quotes")
        return LikeTest(column, pattern.value, escape.value)

    # ------------------------------------------------------------ operands

    def operand(self) -> _Parsed:
        tokens = self.tokens
        token = tokens.expect("a column or a value")
        if token.is_sign and token.text == "(":
            return self.parenthesised()
        if (literal := tokens.take_literal()) is not None:
            return literal
        if token.is_quoted:
            return self.name()
        word = token.word
        if word in ("null", "true", "false"):
            tokens.next()
            return Literal(None, None, token.place) if word == "null" else Literal(word == "true", BOOLEAN, token.place)
        if word in ("cast", "try_cast") and tokens.opens_call():
            return self.cast_call(token)
        if word in TYPE_NAMES and (text := tokens.take_text_after()) is not None:
            return self.typed(word, text, token)
        if word is not None and tokens.opens_call():
            return self.call(token, word)
        if word == "system" and self.opens_function():
            return self.transformed()
        if word is None or word in _KEYWORDS:
            raise self.refuse(token, f"expected a column or a value, not {token.shown}")
        return self.name()

    def opens_function(self) -> bool:
        """Whether ``.name(`` follows."""
        signs = [token is not None and token.is_sign and token.text for token in map(self.tokens.peek, (1, 3))]
        return signs == [".", "("]

    def transformed(self) -> Name:
        """Parse ``system.days(ts)`` or ``system.bucket(16, id)``: an Iceberg transform of a column."""
        first = self.tokens.next()
        self.tokens.expect_sign(".")
        name = self.tokens.next().text.lower()
        if name not in FUNCTIONS:
            raise self.refuse(first, f"there is no transform system.{name}: there are {', '.join(FUNCTIONS)}")
        self.tokens.expect_sign("(")
        size = None
        if takes_size(name):
            size = self.size(name)
            self.tokens.expect_sign(",")
        argument = self.tokens.expect("a column")
        column = self.column(self.operand(), argument, f"system.{name}")
        self.tokens.expect_sign(")")
        if column.transform is not None:
            raise self.refuse(argument, f"system.{name} needs a column")
        return replace(column, transform=transform_named(name, size))

    def size(self, name: str) -> int:
        token = self.tokens.expect("a whole number")
        literal = self.literal(f"system.{name}")
        if not isinstance(literal.type, LongType) or not 0 < literal.value <= MAX_SIZE:
            raise self.refuse(token, f"system.{name} takes a whole number from 1 to {MAX_SIZE} first")
        return int(literal.value)

    def parenthesised(self) -> _Parsed:
        opening = self.tokens.next()
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise self.refuse(opening, f"parentheses are nested more than {MAX_NESTING} deep")
        inside = self.disjunction()
        self.tokens.expect_sign(")")
        self.depth -= 1
        return inside

    def name(self) -> Name:
        first = self.tokens.next()
        parts = [first.text]
        while self.tokens.take_sign("."):
            part = self.tokens.expect("a name after the dot")
            if not part.is_quoted and part.word is None:
                raise self.refuse(part, f"expected a name after the dot, not {part.shown}")
            parts.append(self.tokens.next().text)
        return Name(tuple(parts), first.place)

    def typed(self, word: str, text: Literal, token: Token) -> Literal:
        """Parse ``DATE '…'`` and similar literals."""
        return cast(text, word, token.place)

    def cast_call(self, token: Token) -> Literal:
        self.tokens.next()
        self.tokens.expect_sign("(")
        literal = self.literal("CAST")
        if not self.tokens.take_word("as"):
            raise self.refuse(self.tokens.peek(), "expected AS and a type in CAST")
        type_name = self.tokens.take_type_name()
        return cast(literal, type_name, token.place)

    def call(self, token: Token, word: str) -> _Parsed:
        """Parse the few functions that are predicates, or types used as functions. Raises `InvalidInput` for any
        other."""
        if word not in ("isnan", "isnull", "isnotnull", "startswith", *TYPE_NAMES):
            raise self.refuse(token, f"the function {word} cannot be used in a predicate: {_HINT}")
        self.tokens.next()
        self.tokens.expect_sign("(")
        if word in TYPE_NAMES:
            literal = self.literal(word)
            self.tokens.expect_sign(")")
            return cast(literal, word, token.place)
        column = self.column(self.operand(), token, word)
        found = self.call_test(word, column, token)
        self.tokens.expect_sign(")")
        return found

    def call_test(self, word: str, column: Name, token: Token) -> Unbound:
        match word:
            case "isnan":
                return NaNTest(column)
            case "isnull":
                return NullTest(column)
            case "isnotnull":
                return Not(NullTest(column))
            case _:
                self.tokens.expect_sign(",")
                prefix = self.literal(word)
                if not isinstance(prefix.type, StringType):
                    raise self.refuse(token, "startswith takes a prefix in quotes")
                return LikeTest(column, escaped(prefix.value) + "%")

    # ------------------------------------------------------------ demands

    def literal(self, of: str) -> Literal:
        token = self.tokens.expect(f"a value for {of}")
        operand = self.operand()
        if isinstance(operand, Literal):
            return operand
        raise self.refuse(token, f"{of} takes values, not columns or conditions")

    def column(self, operand: _Parsed, token: Token, of: str) -> Name:
        if isinstance(operand, Name):
            return operand
        raise self.refuse(token, f"{of} needs a column")

    def condition(self, parsed: _Parsed, start: Token | None) -> Unbound:
        """The operand as a condition: a test, a boolean column or a boolean literal. Raises `InvalidInput` for
        others."""
        match parsed:
            case Name():
                return Comparison(parsed, Op.EQ, _TRUE)
            case Literal(value, type_) if type_ is None or isinstance(type_, BooleanType):
                return Constant(value)
            case Literal():
                raise self.refuse(start, f"{describe(parsed)} is not a condition")
            case _:
                return parsed

    def refuse(self, token: Token | None, reason: str) -> InvalidInput:
        place = self.tokens.end_place if token is None else token.place
        return InvalidInput(f"cannot read the predicate at {place}: {reason}", place=place)


_HINT = "compare a column with values, by = <> < <= > >= <=>, IN, BETWEEN, LIKE, IS NULL or isnan()"
