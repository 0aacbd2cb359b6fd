"""Columns without a table's name, in a clause that sees one side of a merge alone."""

from __future__ import annotations

from collections.abc import Sequence, Set

from esker.model.token_stream import Kind, Token, tokens_of
from esker.ports.merging import SqlText
from esker.spark.rows.expressions import named

_QUERY = ("select", "with", "values", "from", "table")


def qualified(said: SqlText, side: str, columns: Set[str]) -> SqlText:
    """The expression with the side's name before each of its columns that stands alone.

    The other side may have columns of the same names: in the query that decides, both are there. Subqueries, and names
    that a lambda function binds, stay as they are. ``columns`` are in lower case.
    """
    text = said.text
    tokens = tokens_of(text, "the expression")
    found, done = "", 0
    for at in _standing_alone(tokens, columns):
        behind = tokens[at + 1] if at + 1 < len(tokens) else None
        if tokens[at].text.lower() == side.lower() and behind is not None and behind.text == ".":
            continue  # the side's name itself
        found += text[done : tokens[at].start] + f"{named(side)}."
        done = tokens[at].start
    return SqlText(found + text[done:], said.place)


def _standing_alone(tokens: Sequence[Token], names: Set[str]) -> list[int]:
    """The places of names that may be columns."""
    bound = _bound_by_lambdas(tokens)
    found, depth, inside = [], 0, None
    for at, token in enumerate(tokens):
        if token.is_sign and token.text in ("(", ")"):
            depth += 1 if token.text == "(" else -1
            if inside is None and token.text == "(" and at + 1 < len(tokens) and tokens[at + 1].word in _QUERY:
                inside = depth
            elif inside is not None and depth < inside:
                inside = None
        if inside is None and token.text.lower() in names - bound and _may_be_column(tokens, at):
            found.append(at)
    return found


def _may_be_column(tokens: Sequence[Token], at: int) -> bool:
    token = tokens[at]
    before = tokens[at - 1] if at else None
    behind = tokens[at + 1] if at + 1 < len(tokens) else None
    if not (token.is_quoted or token.kind is Kind.WORD):
        return False
    if before is not None and (
        (before.is_sign and before.text in (".", ":", "{"))
        or before.word == "as"
        or before.kind in (Kind.NUMBER, Kind.STRING, Kind.BYTES)  # INTERVAL 1 day
    ):
        return False
    if behind is None:
        return True
    is_call = behind.is_sign and behind.text in ("(", "=>", "->", "}")
    return not (is_call or behind.kind in (Kind.STRING, Kind.BYTES) or behind.word == "from")  # DATE '…', EXTRACT


def _bound_by_lambdas(tokens: Sequence[Token]) -> frozenset[str]:
    """``x -> …`` and ``(x, y) -> …``."""
    found: set[str] = set()
    for at, token in enumerate(tokens):
        if not (token.is_sign and token.text == "->") or at == 0:
            continue
        back = at - 1
        found.add(tokens[back].text.lower())
        while tokens[at - 1].text == ")" and back > 0 and tokens[back].text != "(":
            back -= 1
            found.add(tokens[back].text.lower())
    return frozenset(found)
