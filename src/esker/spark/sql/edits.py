"""Replacements in the text of a query, by place; everything else stays as it is written."""

from __future__ import annotations

from collections.abc import Callable

from esker.model.predicate_sql import quote_name
from esker.model.token_stream import Token
from esker.spark.sql.guard.words import CLAUSES
from esker.spark.sql.references import Reference
from esker.spark.sql.words import Words


class Edits:
    """References replaced by something else under the alias that each has by itself."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._edits: list[tuple[int, int, str]] = []

    def replace(self, start: int, end: int, new: str) -> None:
        """A stretch of the text by another."""
        self._edits.append((start, end, new))

    def add_alias(self, reference: Reference, end: int, before: str = "") -> None:
        """The name's last part as alias, where what is read ends; none where the query gives one."""
        alias = f" AS {quoted_word(reference.parts[-1])}" if reference.alias is None else ""
        if before or alias:
            at = self.behind_sample(end)
            self._edits.append((at, at, before + alias))

    def shorten_columns(self, reference: Reference) -> None:
        """``sales.orders.id`` becomes ``orders.id``: what stands for the table has its last name only."""
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

    def done(self, keep: Callable[[str], str] = str) -> str:
        """The new text; ``keep`` is what becomes of the stretches that stay."""
        pieces, at = [], 0
        for start, end, new in sorted(self._edits):
            pieces += [keep(self._words.text[at:start]), new]
            at = end
        return "".join([*pieces, keep(self._words.text[at:])])

    def behind_sample(self, end: int) -> int:
        """An alias stands behind TABLESAMPLE (…) [REPEATABLE (…)]."""
        tokens = self._words.tokens.tokens
        at = next((n for n, token in enumerate(tokens) if token.start >= end), len(tokens))
        while at < len(tokens) and tokens[at].word in ("tablesample", "repeatable"):
            closing = _closing(tokens, at + 1)
            if closing is None:
                break
            end, at = tokens[closing].end + 1, closing + 1
        return end


def quoted_word(name: str) -> str:
    """A name that others chose: in backticks also where it could be taken for a clause."""
    return f"`{name}`" if name.lower() in CLAUSES else quote_name(name)


def _closing(tokens: list[Token], opening: int) -> int | None:
    """The parenthesis that closes the one at ``opening``."""
    depth = 0
    for at in range(opening, len(tokens)):
        depth += (tokens[at].text == "(") - (tokens[at].text == ")") if tokens[at].is_sign else 0
        if depth == 0:
            return at
    return None
