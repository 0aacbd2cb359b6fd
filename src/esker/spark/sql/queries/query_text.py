"""The text of a query: its tokens, its tree, its table names and time travel clauses, and replacements by place.

Time travel clauses are found in the tokens and replaced by blanks before sqlglot parses the query. So places stay the
same and every form of the clause is accepted. Text that is not replaced stays unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from esker.model.parsing.tokens import Kind, Token
from esker.model.predicates.predicate_sql import quote_name
from esker.spark.sql.grammar.statements import Query
from esker.spark.sql.grammar.table_references import Node, Reference, find_references, parse_query
from esker.spark.sql.grammar.words import Span, Words, blanked
from esker.spark.sql.guard.lexer import CLAUSES

_VERSIONS = ("version", "system_version")
_TIMES = ("timestamp", "system_time")
_OPERATORS = frozenset(("+", "-", "*", "/", "||", "%"))
_UNITS = ("year", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")


@dataclass(frozen=True, slots=True)
class Travel:
    """A version in the past: a snapshot's id, a ref's name, or the text of an expression for a time."""

    span: Span  # the whole clause
    snapshot_id: int | None = None
    ref: str | None = None
    time: str | None = None


def find_travels(words: Words, body: Span) -> dict[int, Travel]:
    """Return the clauses of a query, by the offset at which the name before each ends."""
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
    """Return the text with blanks for the clauses."""
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
    """Return the end of an expression of operands and operators. An alias after an operand ends it."""
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
    """Return the end of ``INTERVAL 1 DAY 2 HOURS``, ``INTERVAL '1' DAY`` or ``INTERVAL '1 day'``."""
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


_SET_WORDS = ("union", "all", "except", "minus", "intersect", "distinct")


@dataclass(frozen=True, slots=True)
class QueryText:
    """A query that is not parsed yet, with blanks for what sqlglot does not know."""

    words: Words
    readable: str
    travels: dict[int, Travel]  # by the offset at which the name before each ends
    bare: dict[int, int]  # for a name after TABLE, which accepts no alias: where TABLE is

    @classmethod
    def of(cls, query: Query) -> QueryText:
        """Return the query in a form that sqlglot can parse, with all places unchanged.

        Time travel becomes blanks, and ``TABLE t``, a query by itself, becomes ``FROM t``.
        """
        words = Words(query.text)
        travels = find_travels(words, query.body)
        text = without_travels(query.text, travels)
        text = blanked(text[: query.body.start]) + text[query.body.start :]
        bare: dict[int, int] = {}
        tokens = words.tokens.tokens
        for at, token in enumerate(tokens[:-1]):
            if token.word != "table" or token.start < query.body.start or not is_name(tokens[at + 1]):
                continue
            before = tokens[at - 1] if at else None
            opens = before is None or before.start < query.body.start or before.text == "(" or before.word in _SET_WORDS
            if opens:
                text = text[: token.start] + "FROM " + text[token.end + 1 :]
                bare[tokens[at + 1].start] = token.start
        return cls(words, text, travels, bare)

    def parsed(self) -> tuple[Node, list[Reference]]:
        """Return the tree and its references. Raises ``InvalidInput`` with the place if sqlglot cannot parse it."""
        tree = parse_query(self.readable)
        return tree, find_references(tree, self.readable)

    def end_of(self, reference: Reference) -> int:
        """Return where a reference ends, including its time travel clause."""
        travel = self.travels.get(reference.span.end)
        return reference.span.end if travel is None else travel.span.end


def is_name(token: Token) -> bool:
    """Return whether a name may begin with this token."""
    return token.is_quoted or token.word is not None


class Edits:
    """Replaces references in the text. Each keeps the alias that it has by itself."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._edits: list[tuple[int, int, str]] = []

    def replace(self, start: int, end: int, new: str) -> None:
        """Replace a part of the text."""
        self._edits.append((start, end, new))

    def add_alias(self, reference: Reference, end: int, before: str = "") -> None:
        """Add the name's last part as alias at the end of the reference, unless the query has an alias."""
        alias = f" AS {quoted_word(reference.parts[-1])}" if reference.alias is None else ""
        if before or alias:
            at = self.behind_sample(end)
            self._edits.append((at, at, before + alias))

    def shorten_columns(self, reference: Reference) -> None:
        """Change ``sales.orders.id`` to ``orders.id``, because the frame has only the table's last name."""
        wanted = [part.lower() for part in reference.parts]
        tokens = self._words.tokens.tokens
        spans = {start for start, _, _ in self._edits}
        width = 2 * len(wanted)
        for at in range(len(tokens) - width + 1):
            run = tokens[at : at + width]
            names = [token.text.lower() for token in run[::2]]
            dots = all(token.is_sign and token.text == "." for token in run[1::2])
            follows = at > 0 and tokens[at - 1].is_sign and tokens[at - 1].text == "."
            if dots and names == wanted and not follows and run[0].start not in spans and len(wanted) > 1:
                self._edits.append((run[0].start, run[-2].start, ""))

    def with_true(self, spans: Sequence[Span]) -> Edits:
        """Return the same replacements, and TRUE for these parts of the text."""
        found = Edits(self._words)
        found._edits = [
            (start, end, new)
            for start, end, new in self._edits
            if not any(span.start <= start and end <= span.end for span in spans)
        ]
        for span in spans:
            found.replace(span.start, span.end, "TRUE")
        return found

    def done(self, keep: Callable[[str], str] = str) -> str:
        """Return the new text. ``keep`` is applied to the parts that are not replaced."""
        pieces, at = [], 0
        for start, end, new in sorted(self._edits):
            pieces += [keep(self._words.text[at:start]), new]
            at = end
        return "".join([*pieces, keep(self._words.text[at:])])

    def behind_sample(self, end: int) -> int:
        """Return the place for an alias, which is after TABLESAMPLE (…) [REPEATABLE (…)]."""
        tokens = self._words.tokens.tokens
        at = next((n for n, token in enumerate(tokens) if token.start >= end), len(tokens))
        while at < len(tokens) and tokens[at].word in ("tablesample", "repeatable"):
            closing = _closing(tokens, at + 1)
            if closing is None:
                break
            end, at = tokens[closing].end + 1, closing + 1
        return end


def quoted_word(name: str) -> str:
    """Return a name for SQL, in backticks if it could be read as a clause."""
    return f"`{name}`" if name.lower() in CLAUSES else quote_name(name)


def _closing(tokens: list[Token], opening: int) -> int | None:
    """Return the parenthesis that closes the one at ``opening``."""
    depth = 0
    for at in range(opening, len(tokens)):
        depth += (tokens[at].text == "(") - (tokens[at].text == ")") if tokens[at].is_sign else 0
        if depth == 0:
            return at
    return None
