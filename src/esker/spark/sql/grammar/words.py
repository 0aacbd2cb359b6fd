"""Reads a statement from left to right: words, names, strings and parts of its text. Errors have the place in the text.

Also decides whether a name is the lake's or Spark's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

from esker.errors import InvalidInput, Unsupported
from esker.model.parsing.tokens import Kind, Token, TokenStream, tokens_of

SUBJECT = "the statement"
_WORD = re.compile(r"\w+")
_NOT_BLANK = re.compile(r"[^\n]")


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the text, from one offset up to another."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Named:
    """A name of one or several parts, and its place in the text."""

    parts: tuple[str, ...]
    span: Span
    place: str

    def __str__(self) -> str:
        return ".".join(self.parts)


class Words:
    """The tokens of one statement. ``take…`` moves on if it finds the words, ``expect…`` raises if it does not."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = TokenStream(text, _without_end(list(_split(text, tokens_of(text, SUBJECT)))), SUBJECT)

    def peek(self, ahead: int = 0) -> Token | None:
        """Return the next token, or a later one, without moving on."""
        return self.tokens.peek(ahead)

    def next(self, what: str = "more") -> Token:
        """Return the next token and move on."""
        self.tokens.expect(what)
        return self.tokens.next()

    def at(self, *words: str) -> bool:
        """Return whether these bare words are next."""
        return all((token := self.peek(ahead)) is not None and token.word == word for ahead, word in enumerate(words))

    def take(self, *words: str) -> bool:
        """Move on if these bare words are next. Returns whether they were."""
        found = self.at(*words)
        if found:
            self.tokens.at += len(words)
        return found

    def take_any(self, *words: str) -> str | None:
        """Move on if one of these words is next. Returns it, or None."""
        return next((word for word in words if self.take(word)), None)

    def expect(self, *words: str) -> None:
        """Move on. Raises ``InvalidInput`` if these bare words are not next."""
        if not self.take(*words):
            raise self.refuse(f"expected {' '.join(words).upper()}")

    def take_sign(self, sign: str) -> bool:
        """Move on if this sign is next. Returns whether it was."""
        return self.tokens.take_sign(sign)

    def expect_sign(self, sign: str) -> None:
        """Move on. Raises ``InvalidInput`` if this sign is not next."""
        if not self.take_sign(sign):
            raise self.refuse(f"expected {sign!r}")

    @property
    def is_over(self) -> bool:
        """Return whether no token is left."""
        return self.peek() is None

    def expect_end(self) -> None:
        """Raise ``InvalidInput`` if a token is left."""
        if not self.is_over:
            raise self.refuse("did not expect")

    def name(self, what: str = "a name") -> Named:
        """Parse ``a.b.c``. Any part may be in backticks."""
        first = self._part(what)
        parts, end = [first.text], first.end
        while (dot := self.peek()) is not None and dot.is_sign and dot.text == ".":
            self.next()
            part = self._part("a name after the dot")
            parts.append(part.text)
            end = part.end
        return Named(tuple(parts), Span(first.start, end + 1), first.place)

    def word(self, what: str) -> str:
        """Parse a name of one part."""
        return self._part(what).text

    def _part(self, what: str) -> Token:
        token = self.tokens.expect(what)
        if not (token.is_quoted or token.kind is Kind.WORD):
            raise self.refuse(f"expected {what}")
        return self.next()

    def string(self, what: str) -> str:
        """Parse text in quotes."""
        if self.tokens.expect(what).kind is not Kind.STRING:
            raise self.refuse(f"expected {what} in quotes")
        return self.next().text

    def whole_number(self, what: str) -> int:
        """Parse a whole number without a sign."""
        token = self.tokens.expect(what)
        if token.kind is not Kind.NUMBER or not (token.text.isascii() and token.text.isdecimal()):
            raise self.refuse(f"expected {what}")
        return int(self.next().text)

    def property_key(self) -> str:
        """Parse a property's name: in quotes, or as words with dots and dashes."""
        token = self.tokens.expect("the name of a property")
        if token.kind is Kind.STRING:
            return self.next().text
        start = end = token.start
        while (token := self.tokens.expect("more of the property")) and _in_key(token) and token.start == end:
            end = self.next().end + 1
        if start == end:
            raise self.refuse("expected the name of a property")
        return self.text[start:end].replace("`", "")

    def properties(self) -> dict[str, str]:
        """Parse ``('key' = 'value', 'more' 'its value', other.key = 5)``."""
        found: dict[str, str] = {}
        self.expect_sign("(")
        while True:
            key, value = self._property()
            found[key] = value
            if not self.take_sign(","):
                break
        self.expect_sign(")")
        return found

    def property_keys(self) -> tuple[str, ...]:
        """Parse ``('key', other.key)``."""
        self.expect_sign("(")
        found = [self.property_key()]
        while self.take_sign(","):
            found.append(self.property_key())
        self.expect_sign(")")
        return tuple(found)

    def _property(self) -> tuple[str, str]:
        token = self.tokens.expect("the name of a property")
        if len(token.pieces) == 2:  # two strings without a sign between them are one token
            self.next()
            return token.pieces[0], token.pieces[1]
        key = self.property_key()
        self.take_sign("=")
        return key, self._property_value()

    def _property_value(self) -> str:
        token = self.tokens.expect("the property's value")
        if token.kind is Kind.STRING or token.word in ("true", "false"):
            return self.next().text
        sign = "-" if self.take_sign("-") else ""
        if self.tokens.expect("the property's value").kind is not Kind.NUMBER:
            raise self.refuse("expected the property's value, in quotes, a number, true or false")
        return sign + self.next().text

    def parenthesised(self) -> Span:
        """Return the text between the next parenthesis and the one that closes it, and move on."""
        opening = self.tokens.expect("'('")
        self.expect_sign("(")
        depth = 1
        while True:
            token = self.next("the closing parenthesis")
            depth += _steps(token, "(", ")")
            if depth == 0:
                return Span(opening.end + 1, token.start)

    def until(self, *words: str) -> Span:
        """Return everything up to one of these words, a comma or a closing bracket at this level, or to the end."""
        start = end = self.tokens.expect("more").start
        depth = 0
        while (token := self.peek()) is not None:
            steps = _steps(token, "([<", ")]>")
            if depth == 0 and (steps < 0 or token.word in words or (token.is_sign and token.text == ",")):
                break
            depth += steps
            end = self.next().end + 1
        return Span(start, end)

    def rest(self) -> Span:
        """Return everything that is left, and move on."""
        start = self.tokens.expect("more").start
        end = self.tokens.tokens[-1].end + 1
        self.tokens.at = len(self.tokens.tokens)
        return Span(start, end)

    def terms(self, span: Span) -> tuple[str, ...]:
        """Return the items of a part that commas separate, as text."""
        inside = [token for token in self.tokens.tokens if span.start <= token.start < span.end]
        cuts, depth = [span.start - 1], 0
        for token in inside:
            depth += _steps(token, "([", ")]")
            if depth == 0 and token.is_sign and token.text == ",":
                cuts.append(token.start)
        cuts.append(span.end)
        return tuple(self.text[a + 1 : b].strip() for a, b in pairwise(cuts))

    def text_of(self, span: Span) -> str:
        """Return the part as it is written."""
        return self.text[span.start : span.end]

    def in_place(self, span: Span) -> str:
        """Return the part with blanks for the text before it, so that places in it are places in the statement."""
        return blanked(self.text[: span.start]) + self.text_of(span)

    @property
    def place(self) -> str:
        """The place of the next token."""
        token = self.peek()
        return self.tokens.end_place if token is None else token.place

    def refuse(self, reason: str) -> InvalidInput:
        """Return the error for a next token that the statement does not allow."""
        token = self.peek()
        shown = "" if token is None else f"{' ' if reason.startswith('did not') else ', not '}{token.shown}"
        return InvalidInput(f"cannot read {SUBJECT} at {self.place}: {reason}{shown}", place=self.place)

    def unsupported(self, feature: str, more: str = "", *, place: str | None = None) -> Unsupported:
        """Return the error for a statement that is understood but not executed."""
        where = place or self.place
        return Unsupported(
            f"cannot do {feature} (at {where}): {more or 'it is not taken here'}", feature=feature, place=where
        )


def blanked(text: str) -> str:
    """Return blanks of the same length, with the same lines."""
    return _NOT_BLANK.sub(" ", text)


def _steps(token: Token, opening: str, closing: str) -> int:
    """Return 1 if the token opens a bracket, -1 if it closes one, else 0."""
    if not token.is_sign or len(token.text) != 1:
        return 0
    return (token.text in opening) - (token.text in closing)


def _in_key(token: Token) -> bool:
    return token.kind in (Kind.WORD, Kind.QUOTED, Kind.NUMBER) or (token.is_sign and token.text in (".", "-", ":"))


def _split(text: str, tokens: list[Token]) -> Iterator[Token]:
    """Return single words and signs. sqlglot makes one token of GROUP BY and of double angle brackets."""
    for token in tokens:
        written = text[token.start : token.end + 1]
        if token.is_sign and written in ("<<", ">>"):
            yield from (
                replace(token, text=written[0], start=token.start + at, end=token.start + at) for at in range(2)
            )
        elif token.is_sign and _WORD.match(written):
            for word in _WORD.finditer(written):
                start = token.start + word.start()
                yield replace(token, kind=Kind.WORD, text=word[0], start=start, end=start + len(word[0]) - 1)
        else:
            yield token


def _without_end(tokens: list[Token]) -> list[Token]:
    """Remove a semicolon at the end. Raises ``InvalidInput`` if anything follows it."""
    while tokens and _is_semicolon(tokens[-1]):
        tokens.pop()
    more = next((at for at, token in enumerate(tokens) if _is_semicolon(token)), None)
    if more is not None:
        place = tokens[more + 1].place
        raise InvalidInput(f"cannot read {SUBJECT} at {place}: give one statement at a time", place=place)
    return tokens


def _is_semicolon(token: Token) -> bool:
    return token.is_sign and token.text == ";"


class Elsewhere(Exception):
    """The statement is not about the lake: Spark executes it unchanged."""


class Territory(Protocol):
    """Decides, while a statement is parsed, whether a name is the lake's or Spark's."""

    def table(self, name: Named) -> Named:
        """Return the name if it is a table of the lake, or should be one. Raises ``Elsewhere`` if it is Spark's."""
        ...

    def namespace(self, name: Named) -> Named:
        """Return the name if it is a namespace of the lake, or should be one. Raises ``Elsewhere`` if it is Spark's."""
        ...

    def new(self, name: Named) -> Named:
        """Return the name of a new object. Raises ``Elsewhere`` if it is created in Spark's own catalog."""
        ...

    def holds(self, parts: tuple[str, ...]) -> bool:
        """Return whether the lake has a table, or a metadata table, of that name."""
        ...

    def is_called(self, parts: tuple[str, ...]) -> bool:
        """Return whether the name starts with the lake's own name, and this is not a namespace of the lake."""
        ...
