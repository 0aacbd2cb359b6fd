"""The tokens and keywords of a view's query.

The text is cut into tokens by Spark's own lexical rules. A text that could be cut in two ways is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from esker.errors import InvalidInput


def _of(text: str) -> frozenset[str]:
    return frozenset(text.split())


QUERIES = _of("select with values table from")
SET_OPERATIONS = _of("union except minus intersect")
ORDERINGS = _of("order sort cluster distribute")
JOINS = _of("natural inner cross left right full outer semi anti")
TRAVELS = _of("version system_version timestamp system_time")
UNITS = _of("year month week day hour minute second millisecond microsecond")
TYPES = _of("decimal dec numeric varchar char character string binary time timestamp")

OPERATORS = _of("+ - * / % = == != <> < <= > >= <=> >>> || -> => ! ~ & | ^")

CLAUSES = (
    QUERIES
    | SET_OPERATIONS
    | ORDERINGS
    | JOINS
    | _of(
        "where group having qualify window limit offset join on using lateral pivot unpivot tablesample for as by to "
        "set insert update delete merge into create drop alter call execute begin declare describe explain show use "
        "cache and or not in is between like ilike rlike regexp case when then else end null distinct all exists"
    )
)
"""Words that are names only in backticks."""

WITHIN_EXPRESSIONS = JOINS | _of(
    "and or not in is between like ilike rlike regexp case when then else end null distinct all exists as by for to "
    "set window offset pivot unpivot sort cluster distribute update call show use cache describe explain begin"
)
"""Those of them that continue an expression, or are the name of a column in one."""

NAMES_BEHIND_AS = WITHIN_EXPRESSIONS - _of("as by")

REFUSED = _of("using insert delete merge into execute declare table")
"""Words that no expression contains. ``USING`` gives rows to a program."""

OPENERS = _of(
    "select distinct all where having qualify on by and or not in is between like ilike rlike regexp case when then "
    "else from escape div interval as using values"
)
"""Words that an operand follows."""

BEFORE_PARENTHESES = _of(
    "and or not in on when then else case between like ilike rlike regexp any some all exists over filter group by "
    "distinct div escape interval sets within is from where having select values as"
)
"""Words that may have a parenthesis after them without being a call."""

CLAUSES_OF_CALLS = {"from": _of("extract trim substring substr overlay"), "where": _of("filter")}


class Kind(Enum):
    """The kind of a token."""

    WORD = "word"
    QUOTED = "quoted name"
    STRING = "string"
    NUMBER = "number"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Token:
    """A part of the text, from one offset up to another."""

    kind: Kind
    text: str  # as written
    start: int
    end: int

    @property
    def word(self) -> str:
        """A bare word in lower case. Empty for any other token."""
        return self.text.lower() if self.kind is Kind.WORD else ""

    @property
    def is_name(self) -> bool:
        """Whether it is a bare word, or a name in backticks."""
        return self.kind in (Kind.WORD, Kind.QUOTED)

    @property
    def name(self) -> str:
        """The name without its backticks."""
        return self.text[1:-1].replace("``", "`") if self.kind is Kind.QUOTED else self.text

    def is_sign(self, *signs: str) -> bool:
        """Return whether it is one of these signs."""
        return self.kind is Kind.SIGN and self.text in signs


_TOKEN = re.compile(
    r"""
      (?P<blank>[ \t\r\n]+)
    | (?P<comment>--(?:\\\n|[^\r\n])*)
    | (?P<opens>/\*)
    | (?P<string>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:[bB][dD]|[lLsSyYdDfF])?(?![A-Za-z0-9_]))
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign><=>|>>>|\|\||\|>|->|=>|::|==|!=|<>|<=|>=|[()\[\],.+\-*/%=<>!~&|^:])
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_KINDS = {"string": Kind.STRING, "quoted": Kind.QUOTED, "number": Kind.NUMBER, "word": Kind.WORD, "sign": Kind.SIGN}
SUBSTITUTED = "${"  # Spark replaces this by settings and variables of the process before it parses


def without_comments(text: str) -> str:
    """Return the text with a blank or a line end for every comment and hint, so that they cannot be read
    differently."""
    pieces, at = [], 0
    for start, end, is_comment in _stretches(text):
        if is_comment:
            pieces += [text[at:start], "\n" if "\n" in text[start:end] else " "]
            at = end
    return "".join([*pieces, text[at:]]).strip().rstrip(";").rstrip()


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a text without comments.

    Raises ``InvalidInput`` with the first character that is in no token.
    """
    if SUBSTITUTED in text:
        raise InvalidInput("it contains ${…}, which Spark would replace by a setting of the reader's session")
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup in ("comment", "opens"):
            raise InvalidInput(f"it has {text[at]!r} in it, at {place(text, at)}, which no query of a view may have")
        if match.lastgroup in _KINDS:
            found.append(Token(_KINDS[match.lastgroup], match[0], at, match.end()))
        at = match.end()
    return found


def place(text: str, offset: int) -> str:
    """Return an offset as line and column."""
    before = text[:offset]
    return f"line {before.count(chr(10)) + 1}, column {offset - before.rfind(chr(10))}"


def _stretches(text: str) -> list[tuple[int, int, bool]]:
    """Yield every token, blank and comment. Anything else is a part of one character."""
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            end, is_comment = at + 1, False
        elif match.lastgroup == "opens":
            end, is_comment = _comment_end(text, at), True
        else:
            end, is_comment = match.end(), match.lastgroup == "comment"
        found.append((at, end, is_comment))
        at = end
    return found


def _comment_end(text: str, at: int) -> int:
    """Return the end of a block comment. Comments can be nested. Raises ``InvalidInput`` if it is not closed."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, at):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    raise InvalidInput(f"it has a comment at {place(text, at)} that is not closed")
