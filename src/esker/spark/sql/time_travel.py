"""Time travel in a query: ``VERSION AS OF``, ``TIMESTAMP AS OF`` and their two spellings with SYSTEM.

The clauses are found in the tokens and blanked out before sqlglot reads the query, so that places stay what they are
and every spelling is taken alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from esker.model.token_stream import Kind, Token
from esker.spark.sql.words import Span, Words, blanked

_VERSIONS = ("version", "system_version")
_TIMES = ("timestamp", "system_time")
_OPERATORS = frozenset(("+", "-", "*", "/", "||", "%"))
_UNITS = ("year", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")


@dataclass(frozen=True, slots=True)
class Travel:
    """Where to in the past: a snapshot's id, a ref's name, or the text of an expression for a time."""

    span: Span  # the whole clause
    snapshot_id: int | None = None
    ref: str | None = None
    time: str | None = None


def find_travels(words: Words, body: Span) -> dict[int, Travel]:
    """The clauses of a query, by the offset at which the name before each ends."""
    found: dict[int, Travel] = {}
    tokens = words.tokens.tokens
    for at in range(1, len(tokens)):
        if tokens[at].start < body.start:
            continue
        head = at - 1 if tokens[at - 1].word == "for" else at
        if head > 0 and _is_name(tokens[head - 1]) and (travel := _clause(words, head, at)) is not None:
            found[tokens[head - 1].end + 1] = travel
    return found


def without_travels(text: str, travels: dict[int, Travel]) -> str:
    """The text with blanks for the clauses."""
    for travel in travels.values():
        text = text[: travel.span.start] + blanked(text[travel.span.start : travel.span.end]) + text[travel.span.end :]
    return text


def _clause(words: Words, head: int, at: int) -> Travel | None:
    tokens = words.tokens.tokens
    if len(tokens) <= at + 3 or [tokens[at + 1].word, tokens[at + 2].word] != ["as", "of"]:
        return None
    value = tokens[at + 3]
    span = Span(tokens[head].start, value.end + 1)
    if tokens[at].word in _VERSIONS:
        if value.kind is Kind.NUMBER and value.text.isdecimal():
            return Travel(span, snapshot_id=int(value.text))
        return Travel(span, ref=value.text) if value.kind is Kind.STRING else None
    if tokens[at].word in _TIMES:
        end = _expression_end(tokens, at + 3)
        if end is None:
            return None
        span = Span(span.start, tokens[end - 1].end + 1)
        return Travel(span, time=words.text[value.start : span.end])
    return None


def _is_name(token: Token) -> bool:
    return token.is_quoted or token.kind is Kind.WORD


def _expression_end(tokens: list[Token], at: int) -> int | None:
    """Behind an expression of operands and operators; an alias after an operand ends it."""
    end = _operand_end(tokens, at)
    while end is not None and end < len(tokens) and tokens[end].is_sign and tokens[end].text in _OPERATORS:
        end = _operand_end(tokens, end + 1)
    return end


def _operand_end(tokens: list[Token], at: int) -> int | None:
    if at >= len(tokens):
        return None
    token = tokens[at]
    if token.is_sign and token.text in ("-", "+"):
        return _operand_end(tokens, at + 1)
    if token.is_sign and token.text == "(":
        return _closed(tokens, at)
    if token.kind in (Kind.STRING, Kind.NUMBER):
        return at + 1
    follows = tokens[at + 1] if at + 1 < len(tokens) else None
    if token.word == "interval":
        return _interval_end(tokens, at + 1)
    if token.word is None or follows is None:
        return None
    if follows.kind is Kind.STRING:  # TIMESTAMP '…'
        return at + 2
    return _closed(tokens, at + 1) if follows.is_sign and follows.text == "(" else None


def _interval_end(tokens: list[Token], at: int) -> int | None:
    """``INTERVAL 1 DAY 2 HOURS``, ``INTERVAL '1' DAY``, ``INTERVAL '1 day'``."""
    end = at
    while end < len(tokens) and tokens[end].kind in (Kind.STRING, Kind.NUMBER):
        end += 1
        if end < len(tokens) and (tokens[end].word or "").removesuffix("s") in _UNITS:
            end += 1
    return end if end > at else None


def _closed(tokens: list[Token], at: int) -> int | None:
    depth = 0
    for end in range(at, len(tokens)):
        if tokens[end].is_sign and tokens[end].text in ("(", ")"):
            depth += 1 if tokens[end].text == "(" else -1
        if depth == 0:
            return end + 1
    return None
