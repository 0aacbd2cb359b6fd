"""Columns from text: ``"id bigint not null, ts timestamp, tags map<string,string> comment 'free'"``.

The words are Spark's, and Iceberg's where Spark has none. Text has no field ids: every field comes out with id 0, for
the table to number.
"""

from __future__ import annotations

from dataclasses import replace

from esker.errors import InvalidInput
from esker.model.cast import TYPE_NAMES, cast
from esker.model.default_value import held_default
from esker.model.token_stream import Kind, Token, TokenStream, tokens_of
from esker.model.type_words import primitive_named
from esker.model.types import BOOLEAN, Field, ListType, MapType, StructType, Type, UnknownType
from esker.model.unbound import Literal

DEEPEST = 60  # levels of nesting; no table needs more, and every walk over types recurses
SUBJECT = "the columns"


def parse_columns(text: str) -> tuple[Field, ...]:
    """The columns a text lists, under id 0; ``InvalidInput`` names the place of what is none."""
    parser = _parser(text, SUBJECT)
    if parser.tokens.peek() is None:
        return ()
    wrapped = parser.tokens.take_sign("(")
    fields = parser.fields(0)
    if wrapped:
        parser.tokens.expect_sign(")")
    parser.expect_end()
    return fields


def parse_type(text: str) -> Type:
    """The type a text names: ``bigint``, ``struct<x: double, y: double>``; parts have id 0."""
    parser = _parser(text, "the type")
    found = parser.type(0)
    parser.expect_end()
    return found


def _parser(text: str, subject: str) -> _Parser:
    if not isinstance(text, str):
        raise InvalidInput(f"cannot read {subject} from {text!r}: give text")
    return _Parser(TokenStream(text, tokens_of(text, subject), subject))


class _Parser:
    """One reading, from left to right."""

    def __init__(self, tokens: TokenStream) -> None:
        self.tokens = tokens

    def expect_end(self) -> None:
        if (rest := self.tokens.peek()) is not None:
            raise self.refuse(rest, f"did not expect {rest.shown}")

    def fields(self, depth: int) -> tuple[Field, ...]:
        found = [self.field(depth)]
        while self.tokens.take_sign(","):
            found.append(self.field(depth))
        return tuple(found)

    def field(self, depth: int) -> Field:
        name = self.name()
        self.tokens.take_sign(":")  # Spark takes struct<a int> as well as struct<a: int>
        field = Field(id=0, name=name, type=self.type(depth))
        while (clause := self.tokens.peek()) is not None and clause.word in ("not", "null", "comment", "default"):
            field = self.clause(field, self.tokens.next())
        return field

    def clause(self, field: Field, clause: Token) -> Field:
        match clause.word:
            case "not":
                if not self.tokens.take_word("null"):
                    raise self.refuse(clause, "expected NOT NULL")
                if isinstance(field.type, UnknownType):
                    raise self.refuse(clause, f"column {field.name!r} of type unknown is always null")
                return replace(field, required=True)
            case "comment":
                text = self.tokens.next()
                if text.kind is not Kind.STRING:
                    raise self.refuse(text, f"expected the comment in quotes, not {text.shown}")
                return replace(field, doc=text.text)
            case "default":
                held = held_default(field, self.literal())
                return replace(field, initial_default=held, write_default=held)
            case _:
                return field

    def name(self) -> str:
        token = self.tokens.next()
        if token.is_quoted or (token.kind is Kind.WORD and token.text):
            return token.text
        raise self.refuse(token, f"expected the name of a column, not {token.shown}; put it in backticks")

    def type(self, depth: int) -> Type:
        token = self.tokens.next()
        if depth > DEEPEST:
            raise self.refuse(token, f"types are nested more than {DEEPEST} levels deep")
        match token.word:
            case "struct" if self.tokens.take_sign("<"):
                if self.tokens.take_sign(">"):
                    return StructType(())
                members = self.fields(depth + 1)
                return self.closed(StructType(members))
            case "array" | "list" if self.tokens.take_sign("<"):
                element, required = self.part(depth)
                return self.closed(ListType(element_id=0, element=element, element_required=required))
            case "map" if self.tokens.take_sign("<"):
                key, _ = self.part(depth)
                self.tokens.expect_sign(",")
                value, required = self.part(depth)
                return self.closed(MapType(key_id=0, key=key, value_id=0, value=value, value_required=required))
            case "struct" | "array" | "list" | "map":
                raise self.refuse(token, f"{token.word} needs its parts: {token.word}<…>")
            case None:
                raise self.refuse(token, f"expected a type, not {token.shown}")
            case word:
                return self.primitive(token, word)

    def part(self, depth: int) -> tuple[Type, bool]:
        """An element or value, and whether it may not be null."""
        found = self.type(depth + 1)
        if not self.tokens.take_word("not"):
            return found, False
        if not self.tokens.take_word("null"):
            raise self.refuse(self.tokens.expect("NULL"), "expected NOT NULL")
        return found, True

    def closed(self, found: Type) -> Type:
        self.tokens.expect_sign(">")
        return found

    def primitive(self, token: Token, word: str) -> Type:
        try:
            return primitive_named(word, self.parameters())
        except ValueError as error:
            raise self.refuse(token, str(error)) from None

    def parameters(self) -> list[str]:
        """What stands in the parentheses or brackets behind a type, cut at its commas."""
        if self.tokens.take_sign("("):
            end = ")"
        elif self.tokens.take_sign("["):
            end = "]"
        else:
            return []
        found = [""]
        while not self.tokens.take_sign(end):
            token = self.tokens.next()
            if token.is_sign and token.text == ",":
                found.append("")
            else:
                found[-1] += token.text
        return found

    def literal(self) -> Literal:
        start = self.tokens.expect("a default value")
        found = self.tokens.take_literal()
        if found is not None:
            return found
        if start.word in TYPE_NAMES and (text := self.tokens.take_text_after()) is not None:
            return cast(text, start.word, start.place)
        match start.word:
            case "true" | "false":
                self.tokens.next()
                return Literal(start.word == "true", BOOLEAN, start.place)
            case "null":
                self.tokens.next()
                return Literal(None, None, start.place)
        raise self.refuse(start, f"a default is a literal, not {start.shown}")

    def refuse(self, token: Token, reason: str) -> InvalidInput:
        return InvalidInput(f"cannot read {self.tokens.subject} at {token.place}: {reason}", place=token.place)
