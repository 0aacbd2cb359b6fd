"""A query read: its tokens, sqlglot's tree of it, and the tables that it names."""

from __future__ import annotations

from dataclasses import dataclass

from esker.model.token_stream import Token
from esker.spark.sql.references import Node, Reference, find_references, parse_query
from esker.spark.sql.statements import Query
from esker.spark.sql.time_travel import Travel, find_travels, without_travels
from esker.spark.sql.words import Words, blanked

_SET_WORDS = ("union", "all", "except", "minus", "intersect", "distinct")


@dataclass(frozen=True, slots=True)
class QueryText:
    """A query whose text is not read yet, with what sqlglot does not know blanked out of it."""

    words: Words
    readable: str
    travels: dict[int, Travel]  # by the offset at which the name before each ends
    bare: dict[int, int]  # where a name stands behind TABLE, a query by itself that takes no alias: from where it does

    @classmethod
    def of(cls, query: Query) -> QueryText:
        """The query as sqlglot knows SQL, every place kept.

        Time travel becomes blanks, and ``TABLE t``, a query by itself, becomes ``FROM  t``.
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
        """The tree and its references; ``InvalidInput`` with the place where it is none that sqlglot knows."""
        tree = parse_query(self.readable)
        return tree, find_references(tree, self.readable)

    def end_of(self, reference: Reference) -> int:
        """Where what is read ends: behind the clause that says which version of it."""
        travel = self.travels.get(reference.span.end)
        return reference.span.end if travel is None else travel.span.end


def is_name(token: Token) -> bool:
    """Whether a name may begin there."""
    return token.is_quoted or token.word is not None
