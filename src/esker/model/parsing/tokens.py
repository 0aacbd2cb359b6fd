"""Tokens of SQL text (predicates, column lists, partition terms), each with its position, and a stream of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from typing import Any

from esker.errors import InvalidInput
from esker.model.parsing.cast import cast
from esker.model.predicates.literal import decimal_literal, text_literal
from esker.model.predicates.unbound_predicate import Literal
from esker.model.types import BINARY, DOUBLE, LONG

MAX_TEXT = 4_000_000  # characters; use a join instead of a longer filter

_WORD = re.compile(r"\w+")
_SUFFIXES = {"l": "bigint", "s": "smallint", "y": "tinyint", "d": "double", "f": "float"}


class Kind(Enum):
    """The kind of a token."""

    WORD = "word"
    QUOTED = "quoted name"
    STRING = "string"
    BYTES = "bytes"
    NUMBER = "number"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Token:
    """A token: its text, its first and last character, and its place as line and column."""

    kind: Kind
    text: str
    start: int
    end: int
    place: str
    suffix: str = ""  # of a number: L, D, BD …
    pieces: tuple[str, ...] = ()  # of a string: the neighbouring strings that it was joined from

    @property
    def word(self) -> str | None:
        """A word without quotes, in lower case."""
        return self.text.lower() if self.kind is Kind.WORD else None

    @property
    def is_sign(self) -> bool:
        """Whether it is punctuation or an operator."""
        return self.kind is Kind.SIGN

    @property
    def is_quoted(self) -> bool:
        """Whether it is a name in backticks."""
        return self.kind is Kind.QUOTED

    @property
    def shown(self) -> str:
        """The token as a message shows it."""
        return repr(self.text if len(self.text) <= 40 else self.text[:37] + "…")


def tokens_of(text: str, subject: str = "the predicate") -> list[Token]:
    """The tokens of a text. Raises ``InvalidInput`` with the subject and the place of the fault."""
    if len(text) > MAX_TEXT:
        raise InvalidInput(f"cannot read {subject}: it has {len(text)} characters, and {MAX_TEXT} is the most")
    import sqlglot
    from sqlglot.errors import SqlglotError

    opened = "(" + text  # a first word such as SHOW or CALL would make sqlglot read the rest as a command
    try:
        raw = sqlglot.tokenize(opened, read="spark")
    except SqlglotError as error:
        start = getattr(error, "start", None)
        place = "" if not isinstance(start, int) else f" at {_Places(text).of(max(start - 1, 0))}"
        unclosed = "a quote or comment is not closed, or a byte string is not hexadecimal"
        raise InvalidInput(f"cannot read {subject}{place}: {unclosed}") from None
    return list(_Cutter(opened, raw[1:]).tokens())


class _Places:
    """Offsets as lines and columns, requested in ascending order."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.line, self.line_start = 1, 0

    def of(self, offset: int) -> str:
        while (newline := self.text.find("\n", self.line_start, offset)) >= 0:
            self.line, self.line_start = self.line + 1, newline + 1
        return f"line {self.line}, column {offset - self.line_start + 1}"


class _Cutter:
    """Converts sqlglot's tokens: suffixes are joined to their numbers, neighbouring strings to one."""

    def __init__(self, text: str, raw: Sequence[Any]) -> None:
        self.text = text
        self.raw = raw
        self.places = _Places(text[1:])  # places are those of the original text

    def tokens(self) -> list[Token]:
        found: list[Token] = []
        at = 0
        while at < len(self.raw):
            token = self.raw[at]
            name = token.token_type.name
            if name in ("STRING", "RAW_STRING", "NATIONAL_STRING"):
                at = self._strings(at, found)
            elif name == "NUMBER" or self._is_bare_fraction(at):
                at = self._number(at, found)
            else:
                found.append(self._token(_kind(name, token.text), token.text, token.start, token.end))
                at += 1
        return found

    def _token(self, kind: Kind, text: str, start: int, end: int, suffix: str = "") -> Token:
        return Token(kind, text, start - 1, end - 1, self.places.of(start - 1), suffix)

    def _strings(self, at: int, found: list[Token]) -> int:
        """Join neighbouring strings. Without a space between them, the doubled quote is a quote."""
        first = self.raw[at]
        pieces, end = [first.text], first.end
        at += 1
        while at < len(self.raw) and self.raw[at].token_type.name == "STRING":
            token = self.raw[at]
            if token.start == end + 1 and self.text[token.start] == self.text[end]:
                pieces[-1] += self.text[end] + token.text
            else:
                pieces.append(token.text)
            end = token.end
            at += 1
        found.append(replace(self._token(Kind.STRING, "".join(pieces), first.start, end), pieces=tuple(pieces)))
        return at

    def _is_bare_fraction(self, at: int) -> bool:
        """``.5``: a dot directly before a number, without a name before the dot."""
        if self.raw[at].token_type.name != "DOT" or at + 1 == len(self.raw):
            return False
        dot, number = self.raw[at], self.raw[at + 1]
        follows_name = at > 0 and self.raw[at - 1].end == dot.start - 1 and _is_name(self.raw[at - 1])
        return number.token_type.name == "NUMBER" and number.start == dot.end + 1 and not follows_name

    def _number(self, at: int, found: list[Token]) -> int:
        start = self.raw[at].start
        text = ""
        if self.raw[at].token_type.name == "DOT":
            text, at = ".", at + 1
        number = self.raw[at]
        text, at, suffix = text + number.text, at + 1, ""
        if at + 1 < len(self.raw) and self.raw[at].token_type.name == "DCOLON" and self.raw[at].start == number.start:
            suffix, at = self.raw[at + 1].text, at + 2
        found.append(self._token(Kind.NUMBER, text, start, number.end, suffix))
        return at


def _kind(name: str, text: str) -> Kind:
    if name == "IDENTIFIER":
        return Kind.QUOTED
    if name == "HEX_STRING":
        return Kind.BYTES
    return Kind.WORD if _WORD.fullmatch(text) else Kind.SIGN


def _is_name(token: Any) -> bool:
    return _kind(token.token_type.name, token.text) in (Kind.WORD, Kind.QUOTED)


class TokenStream:
    """The tokens from left to right. ``peek`` looks, ``take_…`` consumes a match, ``expect_…`` raises if there is
    none."""

    def __init__(self, text: str, tokens: list[Token], subject: str = "the predicate") -> None:
        self.tokens = tokens
        self.at = 0
        self.subject = subject
        self.end_place = f"{_Places(text).of(len(text))} (the end)"

    def peek(self, ahead: int = 0) -> Token | None:
        """The next token, or one after it. None at the end."""
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else None

    def next(self) -> Token:
        """Consume and return the next token."""
        token = self.expect("more")
        self.at += 1
        return token

    def expect(self, what: str) -> Token:
        """Consume and return the next token. Raises `InvalidInput` at the end."""
        token = self.peek()
        if token is None:
            raise InvalidInput(f"cannot read {self.subject}: expected {what} at {self.end_place}", place=self.end_place)
        return token

    def at_word(self, word: str) -> bool:
        """Whether this word is next."""
        token = self.peek()
        return token is not None and token.word == word

    def take_word(self, word: str) -> bool:
        """Consume this word, if it is next. Returns whether it was."""
        found = self.at_word(word)
        self.at += found
        return found

    def take_sign(self, sign: str) -> bool:
        """Consume this sign, if it is next. Returns whether it was."""
        token = self.peek()
        found = token is not None and token.is_sign and token.text == sign
        self.at += found
        return found

    def expect_sign(self, sign: str) -> None:
        """Consume this sign. Raises `InvalidInput` if it is not next."""
        if not self.take_sign(sign):
            token = self.expect(repr(sign))
            reason = f"expected {sign!r}, not {token.shown}"
            raise InvalidInput(f"cannot read {self.subject} at {token.place}: {reason}", place=token.place)

    def opens_call(self) -> bool:
        """Whether a parenthesis follows the next token."""
        token = self.peek(1)
        return token is not None and token.is_sign and token.text == "("

    def at_end_of_test(self) -> bool:
        """Whether a test ends here: at AND or OR, at a closing parenthesis, or at the end."""
        token = self.peek()
        return token is None or token.word in ("and", "or") or (token.is_sign and token.text == ")")

    def take_text_after(self) -> Literal | None:
        """Consume a type's name and the string after it, as in ``DATE '…'``. Returns the string, or None."""
        token = self.peek(1)
        if token is None or token.kind is not Kind.STRING:
            return None
        self.at += 2
        return text_literal(token.text, token.place)

    def take_type_name(self) -> str:
        """Consume a type's name and the parenthesis that closes its CAST. Returns the name."""
        words: list[str] = []
        depth = 0
        while depth or not (self.peek() is not None and self.expect(")").text == ")"):
            token = self.next()
            depth += (token.text == "(") - (token.text == ")")
            words.append(token.text)
            if len(words) > 12:
                raise InvalidInput(
                    f"cannot read {self.subject} at {token.place}: this is not a type", place=token.place
                )
        self.next()
        return "".join(words)

    def take_literal(self) -> Literal | None:
        """Consume a number with its sign, a string or bytes, if one is next."""
        ahead = 0
        negative = False
        while (token := self.peek(ahead)) is not None and token.is_sign and token.text in ("-", "+"):
            negative ^= token.text == "-"
            ahead += 1
        if token is None or token.kind not in (Kind.NUMBER, Kind.STRING, Kind.BYTES):
            return None
        if ahead and token.kind is not Kind.NUMBER:
            return None
        self.at += ahead + 1
        if token.kind is Kind.STRING:
            return text_literal(token.text, token.place)
        if token.kind is Kind.BYTES:
            return Literal(bytes.fromhex(token.text if len(token.text) % 2 == 0 else "0" + token.text), BINARY)
        return _number(token, self.subject, negative=negative)


def _number(token: Token, subject: str, *, negative: bool) -> Literal:
    """A number by Spark's rules: an exponent makes a double, a point a decimal, a suffix its own type."""
    text = ("-" if negative else "") + token.text
    if not re.fullmatch(r"-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text, re.ASCII):
        raise InvalidInput(f"cannot read {subject} at {token.place}: {token.shown} is not a number")
    suffix = token.suffix.lower()
    exponent = "e" in text.lower()
    if suffix in _SUFFIXES:
        return cast(text_literal(text), _SUFFIXES[suffix], token.place)
    if exponent and suffix != "bd":
        return Literal(float(text), DOUBLE, token.place)
    if len(token.text) > 80:
        raise InvalidInput(f"cannot read {subject} at {token.place}: {token.shown} has too many digits")
    if "." in text or suffix == "bd" or not -(2**63) <= int(text) < 2**63:
        literal = decimal_literal(Decimal(text))
        return Literal(literal.value, literal.type, token.place)
    return Literal(int(text), LONG, token.place)
