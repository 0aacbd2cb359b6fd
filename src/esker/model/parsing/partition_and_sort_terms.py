"""Partition and sort terms from text: ``day(ts)``, ``bucket(16, id)``, ``region``, ``ts desc nulls last``."""

from __future__ import annotations

from dataclasses import dataclass

from esker.errors import InvalidInput
from esker.model.evolution.nested_fields import in_repeated, locate
from esker.model.parsing.tokens import Kind, TokenStream, tokens_of
from esker.model.partition_and_sort import SortField
from esker.model.predicates.unbound_predicate import Name
from esker.model.schema import Schema
from esker.model.transform import (
    DAY,
    HOUR,
    IDENTITY,
    MONTH,
    VOID,
    YEAR,
    BucketTransform,
    Transform,
    TruncateTransform,
    accepts,
)
from esker.model.types import Field, is_nested

_PLAIN: dict[str, Transform] = {
    "identity": IDENTITY,
    "year": YEAR,
    "years": YEAR,
    "month": MONTH,
    "months": MONTH,
    "day": DAY,
    "days": DAY,
    "date": DAY,
    "hour": HOUR,
    "hours": HOUR,
    "date_hour": HOUR,
    "void": VOID,
}
_SIZED: dict[str, type[BucketTransform | TruncateTransform]] = {
    "bucket": BucketTransform,
    "truncate": TruncateTransform,
}
LARGEST_SIZE = (1 << 31) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A transform of a column, as a user wrote it. ``label`` is the name after AS."""

    text: str
    transform: Transform
    column: Name
    descending: bool = False
    nulls_last: bool = False
    label: str | None = None

    def __str__(self) -> str:
        return self.text


def parse_partition_term(text: str) -> Term:
    """Parse ``day(ts)`` or ``bucket(16, id) as shard``. Raises ``InvalidInput`` if the text is not valid."""
    parser = _Parser(text, "the partition term")
    transform, column = parser.transformed()
    label = parser.name() if parser.tokens.take_word("as") else None
    parser.expect_end()
    return Term(text=text, transform=transform, column=column, label=label)


def parse_sort_term(text: str) -> Term:
    """Parse ``ts desc nulls last`` or ``bucket(4, id)``. By default nulls come first, and last if the order is
    descending."""
    parser = _Parser(text, "the sort term")
    transform, column = parser.transformed()
    descending = parser.tokens.take_word("desc")
    if not descending:
        parser.tokens.take_word("asc")
    nulls_last = descending
    if parser.tokens.take_word("nulls"):
        nulls_last = parser.tokens.take_word("last")
        if not nulls_last and not parser.tokens.take_word("first"):
            raise parser.refuse("expected NULLS FIRST or NULLS LAST")
    parser.expect_end()
    return Term(text=text, transform=transform, column=column, descending=descending, nulls_last=nulls_last)


def source_of(term: Term, schema: Schema) -> Field:
    """The column of a term. Raises `InvalidInput` if it does not exist or its type does not fit the transform."""
    try:
        path = locate(schema, term.column.parts)
    except InvalidInput as error:
        raise InvalidInput(f"cannot use {term.text!r}: {error.message}", column=str(term.column)) from None
    field = path[-1]
    if in_repeated(path):
        raise InvalidInput(
            f"cannot use {term.text!r}: column {str(term.column)!r} is in a list or map, where a row has many values",
            column=str(term.column),
        )
    if is_nested(field.type) or not accepts(term.transform, field.type):
        raise InvalidInput(
            f"cannot use {term.text!r}: {term.transform} cannot be used on a column of type {field.type}",
            column=str(term.column),
        )
    return field


def sort_field(term: Term, schema: Schema) -> SortField:
    """The sort key of a term on a schema."""
    return SortField(
        source_id=source_of(term, schema).id,
        transform=term.transform,
        descending=term.descending,
        nulls_last=term.nulls_last,
    )


class _Parser:
    """Parses one term."""

    def __init__(self, text: str, subject: str) -> None:
        if not isinstance(text, str):
            raise InvalidInput(f"cannot read {subject} {text!r}: give text, such as 'day(ts)'")
        self.subject = f"{subject} {text!r}" if len(text) <= 60 else subject
        self.tokens = TokenStream(text, tokens_of(text, self.subject), self.subject)

    def transformed(self) -> tuple[Transform, Name]:
        word = self.tokens.expect("a column or a transform").word
        if word is None or not self.tokens.opens_call():
            return IDENTITY, self.column()
        self.tokens.next()
        self.tokens.expect_sign("(")
        if word in _PLAIN:
            column = self.column()
            transform = _PLAIN[word]
        elif word in _SIZED:
            transform, column = self.sized(word)
        else:
            known = ", ".join(sorted(["identity", "year", "month", "day", "hour", "void", *_SIZED]))
            raise self.refuse(f"there is no transform {word!r}, only {known}")
        self.tokens.expect_sign(")")
        return transform, column

    def sized(self, word: str) -> tuple[Transform, Name]:
        """Parse ``bucket(16, id)``, or ``bucket(id, 16)``, which Spark accepts too."""
        column = None if self.at_number() else self.column()
        if column is not None:
            self.tokens.expect_sign(",")
        size = self.size(word)
        if column is None:
            self.tokens.expect_sign(",")
            column = self.column()
        return _SIZED[word](size), column

    def at_number(self) -> bool:
        token = self.tokens.expect("a number")
        return token.kind is Kind.NUMBER or (token.is_sign and token.text in "+-")

    def size(self, word: str) -> int:
        literal = self.tokens.take_literal()
        size = literal.value if literal is not None else None
        if not isinstance(size, int) or not 1 <= size <= LARGEST_SIZE:
            raise self.refuse(f"{word} takes a whole number from 1 to {LARGEST_SIZE}")
        return size

    def column(self) -> Name:
        parts = [self.name()]
        while self.tokens.take_sign("."):
            parts.append(self.name())
        return Name(tuple(parts))

    def name(self) -> str:
        token = self.tokens.next()
        if token.is_quoted or token.kind is Kind.WORD:
            return token.text
        raise self.refuse(f"expected the name of a column, not {token.shown}")

    def expect_end(self) -> None:
        if (rest := self.tokens.peek()) is not None:
            raise self.refuse(f"did not expect {rest.shown} at {rest.place}")

    def refuse(self, reason: str) -> InvalidInput:
        return InvalidInput(f"cannot read {self.subject}: {reason}")
