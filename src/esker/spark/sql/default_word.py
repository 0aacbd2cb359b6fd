"""DEFAULT as a value: what a column gets where INSERT, UPDATE or MERGE says it. It stands alone or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from esker.errors import InvalidInput, Unsupported
from esker.model.predicate_sql import literal_sql
from esker.model.token_stream import Token
from esker.model.types import Field, is_nested
from esker.spark.sql.statements import Query
from esker.spark.sql.type_text import cast_text
from esker.spark.sql.words import Span, Words

_WORD = "default"
_SET_WORDS = ("union", "except", "intersect", "minus")
_BEHIND_LIST = ("from", "where", "group", "having", "order", "limit", "offset", "lateral", "window", "sort", "cluster")
_Run = Sequence[Token]


def default_text(field: Field, verb: str, otherwise: str) -> str:
    """What writers fill in: the column's default as SQL of its type, or null.

    ``InvalidInput`` where the column needs a value and has no default; ``otherwise`` says why it gets none.
    """
    cast = cast_text(field.type)
    if field.write_default is None:
        if field.required:
            raise InvalidInput(
                f"cannot {verb}: column {field.name!r} must have a value, and {otherwise}", column=field.name
            )
        return "NULL" if cast is None else f"CAST(NULL AS {cast})"
    if is_nested(field.type):
        raise Unsupported(
            f"cannot {verb}: give column {field.name!r} a value, its default has parts",
            feature="nested defaults in SQL",
        )
    text = literal_sql(field.type, field.write_default)
    return text if cast is None else f"CAST({text} AS {cast})"


def is_default(expression: str, place: str | None, verb: str) -> bool:
    """Whether the expression is DEFAULT; ``InvalidInput`` where DEFAULT is a part of it, as Spark refuses it too."""
    return _WORD in expression.lower() and _is_whole(Words(expression).tokens.tokens, verb, place)


def with_defaults(query: Query, targets: Sequence[Field] | None) -> Query:
    """The query of an INSERT, each DEFAULT of its VALUES or of its SELECT list replaced by the value that the column of
    its place gets; ``targets`` is None where columns are taken by name, which DEFAULT has none of."""
    if _WORD not in query.text.lower():
        return query
    tokens = [token for token in Words(query.text).tokens.tokens if token.start >= query.body.start]
    while len(tokens) > 1 and _is_sign(tokens[0], "(") and _closing(tokens, 0) == len(tokens) - 1:
        tokens = tokens[1:-1]
    edits: list[tuple[Token, str]] = []
    for row in _rows(tokens):
        edits += _replaced(row, targets)
    text = query.text
    for token, new in reversed(edits):
        text = text[: token.start] + new + text[token.end + 1 :]
    return Query(text, Span(query.body.start, query.body.end + len(text) - len(query.text)))


@dataclass(frozen=True, slots=True)
class _Row:
    terms: Sequence[_Run]
    is_list: bool  # of SELECT, where a word may be a column's name


def _rows(tokens: _Run) -> list[_Row]:
    """The rows of VALUES, or the list of one SELECT; nothing of a query that DEFAULT has no place in."""
    first = tokens[0].word if tokens else None
    if first == "values":
        rows = _terms(tokens[1:])
        wrapped = [len(row) > 1 and _is_sign(row[0], "(") and _closing(row, 0) == len(row) - 1 for row in rows]
        return [
            _Row(_terms(row[1:-1]) if is_tuple else [row], is_list=False)
            for row, is_tuple in zip(rows, wrapped, strict=True)
        ]
    outer = [at for at, depth in enumerate(_depths(tokens)) if depth == 0]
    if first != "select" or any(tokens[at].word in _SET_WORDS for at in outer):
        return []
    end = next((at for at in outer if tokens[at].word in _BEHIND_LIST), len(tokens))
    listed = tokens[1:end]
    return [] if not listed or listed[0].word == "distinct" else [_Row(_terms(listed), is_list=True)]


def _replaced(row: _Row, targets: Sequence[Field] | None) -> list[tuple[Token, str]]:
    found = []
    for at, term in enumerate(row.terms):
        if row.is_list and any(token.word == "select" for token in term):
            continue
        if not _is_whole(term, "insert", None):
            continue
        token = next(token for token in term if token.word == _WORD)
        if targets is None:
            raise _refused(token, "insert", "columns are taken by name, and it has none; leave the column out")
        if any(_is_sign(one[-1], "*") for one in row.terms[:at] if one):
            raise _refused(token, "insert", "it is behind *, so its column is not known here; name the columns")
        if at < len(targets):
            found.append((token, default_text(targets[at], "insert", "its DEFAULT is null")))
    return found


def _is_whole(tokens: _Run, verb: str, place: str | None) -> bool:
    """Whether DEFAULT is all that is there, in parentheses or not."""
    said = [at for at, token in enumerate(tokens) if token.word == _WORD and not (at and _is_sign(tokens[at - 1], "."))]
    if not said or any(token.word == "select" for token in tokens):
        return False
    if any(token.word != _WORD and not (token.is_sign and token.text in "()") for token in tokens) or len(said) > 1:
        raise _refused(tokens[said[0]], verb, "it must be the whole value, not a part of an expression", place)
    return True


def _refused(token: Token, verb: str, why: str, place: str | None = None) -> InvalidInput:
    where = place or token.place
    return InvalidInput(f"cannot {verb} DEFAULT (at {where}): {why}", place=where)


def _terms(tokens: _Run) -> list[_Run]:
    """What the commas outside of brackets divide."""
    cuts = [at for at, depth in enumerate(_depths(tokens)) if depth == 0 and _is_sign(tokens[at], ",")]
    return [tokens[a + 1 : b] for a, b in zip([-1, *cuts], [*cuts, len(tokens)], strict=True)]


def _depths(tokens: _Run) -> list[int]:
    """How many brackets are open at each token; one that opens or closes is inside."""
    found, depth = [], 0
    for token in tokens:
        opens = token.is_sign and token.text in ("(", "[")
        depth += opens
        found.append(depth)
        depth -= token.is_sign and token.text in (")", "]")
    return found


def _closing(tokens: _Run, opening: int) -> int:
    depths = _depths(tokens)
    return next(at for at in range(opening, len(tokens)) if depths[at] == depths[opening] and tokens[at].text == ")")


def _is_sign(token: Token, sign: str) -> bool:
    return token.is_sign and token.text == sign
