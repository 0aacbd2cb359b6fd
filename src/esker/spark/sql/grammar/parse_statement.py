"""Parses the text of a statement. The first words select the grammar that parses the rest.

Queries, EXPLAIN and CALL are parsed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from esker.errors import InvalidInput, Unsupported
from esker.model.parsing.tokens import Kind, Token
from esker.spark.sql.grammar.parse_alter import read_alter
from esker.spark.sql.grammar.parse_definitions import QUERY_WORDS, read_comment, read_create, read_drop, read_replace
from esker.spark.sql.grammar.parse_row_changes import read_delete, read_insert, read_merge, read_truncate, read_update
from esker.spark.sql.grammar.parse_show import (
    read_cache,
    read_describe,
    read_refresh,
    read_show,
    read_uncache,
    read_use,
)
from esker.spark.sql.grammar.statements import (
    Argument,
    Call,
    Constant,
    CreateTable,
    Delete,
    Explain,
    Foreign,
    Insert,
    Merge,
    Query,
    Statement,
    Update,
)
from esker.spark.sql.grammar.words import SUBJECT, Elsewhere, Span, Territory, Words

_CONSTANTS = {"true": True, "false": False, "null": None}


def read_call(words: Words) -> Call:
    """Parse the rest of CALL. ``catalog.system.name`` is accepted for any catalog except Spark's own."""
    name = words.name("the name of a procedure")
    if name.parts[0].lower() == "spark_catalog":
        raise Elsewhere
    if len(name.parts) < 2 or name.parts[-2].lower() != "system":
        raise words.unsupported(f"CALL {name}", "procedures are named system.<name>", place=name.place)
    words.expect_sign("(")
    found: list[Argument] = []
    while not words.take_sign(")"):
        if found:
            words.expect_sign(",")
        found.append(_argument(words))
    words.expect_end()
    return Call(name=name.parts[-1].lower(), arguments=tuple(found), place=name.place)


def _argument(words: Words) -> Argument:
    place = words.place
    arrow = words.peek(1)
    name = None
    if arrow is not None and arrow.is_sign and arrow.text == "=>":
        name = words.word("the name of an argument").lower()
        words.expect_sign("=>")
    span = words.until()
    text = words.text_of(span)
    if not text.strip():
        raise words.refuse("expected a value")
    return Argument(name, text, place, *_constant(words, span))


def _constant(words: Words, span: Span) -> tuple[bool, Constant | Mapping[Constant, Constant]]:
    """Return whether the value is a constant or a map of constants, and its value. Spark computes anything else."""
    inside = [token for token in words.tokens.tokens if span.start <= token.start < span.end]
    signs = [token.text if token.is_sign else None for token in inside]
    if inside[0].word != "map" or len(inside) < 3 or signs[1] != "(" or signs[-1] != ")":
        return _single(inside)
    members: list[list[Token]] = [[]]
    for token, sign in zip(inside[2:-1], signs[2:-1], strict=True):
        if sign == ",":
            members.append([])
        else:
            members[-1].append(token)
    found = [_single(member) if member else (False, None) for member in members]
    if len(found) % 2 or not all(is_constant for is_constant, _ in found) or None in {key for _, key in found[::2]}:
        return False, None
    return True, {key: value for (_, key), (_, value) in zip(found[::2], found[1::2], strict=True)}


def _single(inside: Sequence[Token]) -> tuple[bool, Constant]:
    negative = len(inside) == 2 and inside[0].is_sign and inside[0].text == "-"
    token = inside[-1]
    if len(inside) > 1 + negative:
        return False, None
    if token.kind is Kind.NUMBER and token.text.isascii() and token.text.isdecimal():
        return True, int(token.text) * (-1 if negative else 1)
    if token.kind is Kind.STRING and not negative:
        return True, token.text
    if token.word in _CONSTANTS and not negative:
        return True, _CONSTANTS[str(token.word)]
    return False, None


_AFTER_CTES: dict[str, Callable[..., Statement]] = {
    "insert": read_insert,
    "update": read_update,
    "delete": read_delete,
    "merge": read_merge,
}
_SETTINGS = ("set", "reset", "add", "list", "declare")  # no table follows these words


def read_statement(text: str, territory: Territory) -> Statement:
    """Return the statement. Raises ``InvalidInput`` or ``Unsupported`` with the place of what is not accepted."""
    if not isinstance(text, str):
        raise InvalidInput(f"cannot read {SUBJECT} {text!r}: give text")
    words = Words(text)
    if words.is_over:
        raise InvalidInput(f"cannot read {SUBJECT}: it is empty")
    try:
        return _read(words, territory)
    except Elsewhere:
        return _into_spark(Words(text)) or _foreign(Words(text), territory)


def _read(words: Words, territory: Territory) -> Statement:
    if at_query(words):
        return _query_or_change(words, territory)
    first = words.next().word
    match first:
        case "explain":
            return _explained(words, territory)
        case "create":
            return read_create(words, territory)
        case "replace":
            return read_replace(words, territory)
        case "drop":
            return read_drop(words, territory)
        case "comment":
            return read_comment(words, territory)
        case "alter":
            return read_alter(words, territory)
        case "insert":
            return read_insert(words, territory)
        case "delete":
            return read_delete(words, territory)
        case "truncate":
            return read_truncate(words, territory)
        case "update":
            return read_update(words, territory)
        case "merge":
            return read_merge(words, territory)
        case "call":
            return read_call(words)
        case _:
            return _look(words, territory, first)


def _look(words: Words, territory: Territory, first: str | None) -> Statement:
    match first:
        case "show":
            return read_show(words, territory)
        case "describe" | "desc":
            if words.take("query") or at_query(words):
                return _query(words)
            return read_describe(words, territory)
        case "use":
            return read_use(words, territory)
        case "refresh":
            return read_refresh(words, territory)
        case "cache":
            return read_cache(words, territory)
        case "uncache":
            return read_uncache(words, territory)
        case "analyze":
            raise _analyze(words, territory)
        case _:
            raise Elsewhere


def at_query(words: Words) -> bool:
    """Return whether a query is next. DESCRIBE TABLE t looks like the query TABLE t; the word before it decides."""
    ahead = 0
    while (token := words.peek(ahead)) is not None and token.is_sign and token.text == "(":
        ahead += 1
    after_describe = words.tokens.at > 0 and words.tokens.tokens[words.tokens.at - 1].word in ("describe", "desc")
    return token is not None and token.word in QUERY_WORDS and not (after_describe and token.word == "table")


def _query(words: Words) -> Query:
    return Query(words.text, words.rest())


def _explained(words: Words, territory: Territory) -> Statement:
    kind = words.take_any("extended", "codegen", "cost", "formatted") or ""
    if words.is_over:
        raise Elsewhere
    at = words.tokens.at
    inner = _read(Words(words.in_place(words.rest())), territory)
    words.tokens.at = at
    match inner:
        case Query():
            return _query(words)
        case Insert() | Delete() | Update() | Merge():
            return Explain(inner, kind)
        case CreateTable() if inner.query is not None:
            return Explain(inner, kind)
        case _:
            raise Elsewhere


def _analyze(words: Words, territory: Territory) -> Unsupported:
    """Return the error for ANALYZE of a table of the lake. Raises ``Elsewhere`` if the table is Spark's."""
    if not words.take("table"):  # ANALYZE TABLES IN a database in Spark
        raise Elsewhere
    name = territory.table(words.name("the name of a table"))
    more = f"every file of {name} records its bounds and counts when it is written, and plans read these"
    return words.unsupported("ANALYZE TABLE", f"{more}, so there is nothing to compute", place=name.place)


def _query_or_change(words: Words, territory: Territory) -> Statement:
    """Parse a query, or CTEs and the statement that uses them."""
    tokens, depth = words.tokens.tokens, 0
    for at, token in enumerate(tokens):
        if token.is_sign and token.text in ("(", ")"):
            depth += 1 if token.text == "(" else -1
        if depth or at == 0:
            continue
        follows = words.peek(at + 1)
        if token.word == "insert" and follows is not None and follows.word in ("into", "overwrite"):
            if tokens[0].word != "with":
                raise words.unsupported("a query before INSERT", place=token.place)
        elif token.word in QUERY_WORDS and tokens[0].word == "with" and tokens[at - 1].text == ")":
            break  # from here on it is a query, and any word may be a name
        elif token.word not in _AFTER_CTES or tokens[0].word != "with" or tokens[at - 1].text != ")":
            continue
        words.tokens.at = at + 1
        return _AFTER_CTES[str(token.word)](words, territory, before=words.text[: token.start])
    return Query(words.text, Span(0, words.rest().end))


def _into_spark(words: Words) -> Query | None:
    """Return a statement that writes rows into a table of Spark, from any tables: INSERT, or CREATE TABLE with a
    query."""
    if not (words.take("insert") or words.take("create", "table")):
        return None
    words.take("with", "schema", "evolution")
    depth = 0
    while (token := words.peek()) is not None:
        if token.is_sign and token.text in ("(", ")"):
            depth += 1 if token.text == "(" else -1
        if depth == 0 and token.word in ("select", "with", "values", "from"):
            return Query(words.text, words.rest())
        words.next()
    return None


def _foreign(words: Words, territory: Territory) -> Foreign:
    """Raise ``Unsupported`` if a statement for Spark names a table of the lake, which Spark does not know."""
    first = words.next()
    if first.word in _SETTINGS:
        return Foreign(words.text)
    kind = words.peek()
    while (token := words.peek()) is not None:
        if not (token.is_quoted or token.word is not None):
            words.next()
            continue
        try:
            found = words.name()
        except InvalidInput:  # a name and a dot, with no name after it
            continue
        if territory.holds(found.parts):
            what = f"{first.text} {kind.text if kind is not None else ''}".strip().upper()
            hint = "; give the view a namespace of the lake, or USE one" if what == "CREATE VIEW" else ""
            raise words.unsupported(what, f"{found} is a table of the lake{hint}", place=found.place)
    return Foreign(words.text)
