"""Calls of Iceberg's functions in a statement: finds and checks them, and replaces them by expressions of Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esker.errors import InvalidInput
from esker.model.parsing.tokens import Kind, Token
from esker.model.predicates.predicate_sql import quote_name
from esker.model.predicates.transform_predicate import FUNCTIONS, MAX_SIZE, takes_size
from esker.spark.expressions.transform_text import REFUSED, plain_transform_text, transform_text
from esker.spark.session.spark_session import is_connect
from esker.spark.sql.grammar.table_references import Node
from esker.spark.sql.grammar.words import SUBJECT, Words
from esker.version import VERSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NAMESPACE = "system"
_VERSION = "iceberg_version"
_NAMES = frozenset((*FUNCTIONS, _VERSION))
_END = re.compile(r"[\])\n]")  # the end of a message in the text of a plan
_BEFORE_LIST = ("select", "distinct", "all")
_NOT_IN_LIST = frozenset(
    """from where group having order by values on using set case when then else in""".split()  # noqa: SIM905
)
_BEHIND_LIST = frozenset(
    """
    from where lateral group having order sort cluster distribute limit offset union except minus intersect window
    qualify
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call: its tokens from the namespace to the closing parenthesis, and the tokens of each argument."""

    name: str
    first: int
    last: int
    arguments: tuple[range, ...]


def local_calls(text: str, catalog: str) -> str:
    """Return the text with blanks in place of the lake's name before ``system.…(``, so that all places stay the same.

    Raises ``InvalidInput`` with the place of a call that has wrong arguments.
    """
    if _NAMESPACE not in text.lower():
        return text
    words = Words(text)
    tokens = words.tokens.tokens
    for at, token in enumerate(tokens[:-2]):
        is_lake = token.text.lower() == catalog.lower() and _is_dot(tokens[at + 1]) and not _follows_dot(tokens, at)
        if is_lake and _name_at(tokens, at + 2) is not None:
            blank = " " * (tokens[at + 1].end + 1 - token.start)
            return local_calls(text[: token.start] + blank + text[tokens[at + 1].end + 1 :], catalog)
    if tokens and tokens[0].word == "call":  # procedures have their own grammar
        return text
    for call in _calls(tokens, range(len(tokens))):
        _check(call, tokens)
    return text


def expanded(text: str) -> str:
    """Return the text, which may be a template, with every call replaced by an expression of Spark."""
    if _NAMESPACE not in text.lower():
        return text
    tokens = Words(text).tokens.tokens
    return text[: tokens[0].start] + _expanded(text, tokens, range(len(tokens))) + text[tokens[-1].end + 1 :]


def is_call(node: Node) -> bool:
    """Return whether a node of sqlglot's tree with a dot is a call of these functions, and not a member of a struct."""
    from sqlglot import exp

    return (
        isinstance(node.expression, exp.Anonymous)
        and node.this.name.lower() == _NAMESPACE
        and node.expression.name.lower() in _NAMES
    )


def check_types(frame: DataFrame) -> None:
    """Raise ``InvalidInput`` if the frame calls one of these functions with a type that the function does not accept.

    Otherwise the error would come with the first row. When the types are known, the optimizer keeps only one branch.
    """
    plan = _optimized_plan(frame)
    at = plan.find(REFUSED)
    if at >= 0:
        raise InvalidInput(_END.split(plan[at:])[0])


def _optimized_plan(frame: DataFrame) -> str:
    if is_connect(frame.sparkSession):
        return str(frame._explain_string(extended=True)).partition("== Optimized Logical Plan ==")[2]
    return str(frame._jdf.queryExecution().optimizedPlan().toString())


def _is_dot(token: Token) -> bool:
    return token.is_sign and token.text == "."


def _follows_dot(tokens: list[Token], at: int) -> bool:
    return at > 0 and _is_dot(tokens[at - 1])


def _name_at(tokens: list[Token], at: int) -> str | None:
    """Return the function that is called at ``system.name(``."""
    if at + 3 >= len(tokens) or tokens[at].text.lower() != _NAMESPACE or tokens[at].kind is Kind.STRING:
        return None
    name, opening = tokens[at + 2].text.lower(), tokens[at + 3]
    called = _is_dot(tokens[at + 1]) and opening.is_sign and opening.text == "("
    return name if called and name in _NAMES else None


def _calls(tokens: list[Token], within: range) -> Iterator[_Call]:
    """Return every call, also calls in the arguments of another."""
    for at in within:
        if _name_at(tokens, at) is not None and not _follows_dot(tokens, at):
            yield _call_at(tokens, at)


def _call_at(tokens: list[Token], at: int) -> _Call:
    depth, starts = 0, [at + 4]
    for place in range(at + 3, len(tokens)):
        token = tokens[place]
        if not token.is_sign:
            continue
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        if depth == 0:
            ends = [*(start - 1 for start in starts[1:]), place]
            found = tuple(range(start, end) for start, end in zip(starts, ends, strict=True))
            return _Call(tokens[at + 2].text.lower(), at, place, found if place > at + 4 else ())
        if depth == 1 and token.text == ",":
            starts.append(place + 1)
    raise _refused(tokens[at], "expected the parenthesis that closes the call")


def _check(call: _Call, tokens: list[Token]) -> None:
    name = f"{_NAMESPACE}.{call.name}"
    expected = 0 if call.name == _VERSION else 2 if takes_size(call.name) else 1
    if len(call.arguments) != expected or not all(call.arguments):
        raise _refused(tokens[call.first], f"{name} takes {expected} arguments, not {len(call.arguments)}")
    if not takes_size(call.name):
        return
    first = [tokens[at] for at in call.arguments[0]]
    text = first[0].text
    if len(first) != 1 or first[0].kind is not Kind.NUMBER or not (text.isascii() and text.isdecimal()):
        raise _refused(first[0], f"{name} takes a whole number first, written as it is")
    if not 0 < int(text) <= MAX_SIZE:
        raise _refused(first[0], f"{name} takes a whole number from 1 to {MAX_SIZE} first")


def _refused(token: Token, why: str) -> InvalidInput:
    return InvalidInput(f"cannot read {SUBJECT} at {token.place}: {why}", place=token.place)


def _expanded(text: str, tokens: list[Token], within: range) -> str:
    pieces, at, done = [], within.start, tokens[within.start].start
    while at < within.stop:
        if _name_at(tokens, at) is None or _follows_dot(tokens, at):
            at += 1
            continue
        call = _call_at(tokens, at)
        pieces += [text[done : tokens[at].start], _call_text(text, tokens, call)]
        done, at = tokens[call.last].end + 1, call.last + 1
    return "".join([*pieces, text[done : tokens[within.stop - 1].end + 1]])


def _call_text(text: str, tokens: list[Token], call: _Call) -> str:
    if call.name == _VERSION:
        made = f"'esker {VERSION}'"
    else:
        size = int(tokens[call.arguments[0].start].text) if takes_size(call.name) else 0
        argument = _expanded(text, tokens, call.arguments[-1])
        plain = _is_plain(tokens, call.arguments[-1]) and "esker_" not in argument
        made = (plain_transform_text if plain else transform_text)(call.name, size, argument)
    alias = ""
    written = text[tokens[call.first].start : tokens[call.last].end + 1]
    if "{" not in written and _is_column(tokens, call):
        alias = f" AS {quote_name(written)}"
    return f"({made}){alias}"


def _is_plain(tokens: list[Token], argument: range) -> bool:
    """Return whether the argument is a plain column, which can be repeated."""
    return all(_is_dot(tokens[at]) or tokens[at].is_quoted or tokens[at].kind is Kind.WORD for at in argument) and (
        len(argument) % 2 == 1
    )


def _is_column(tokens: list[Token], call: _Call) -> bool:
    """Return whether the call is a whole column of a SELECT list without an alias. Its text is then its name."""
    before = tokens[call.first - 1] if call.first else None
    behind = tokens[call.last + 1] if call.last + 1 < len(tokens) else None
    ends = behind is None or behind.word in _BEHIND_LIST or (behind.is_sign and behind.text in (",", ")", "|>"))
    begins = before is not None and (before.word in _BEFORE_LIST or (before.is_sign and before.text == ","))
    return begins and ends and _in_select_list(tokens, call.first)


def _in_select_list(tokens: list[Token], at: int) -> bool:
    depth = 0
    for token in reversed(tokens[:at]):
        if token.is_sign:
            depth += (token.text in (")", "]")) - (token.text in ("(", "["))
        if depth < 0 or (depth == 0 and token.word in _NOT_IN_LIST):
            return False
        if depth == 0 and token.word == "select":
            return True
    return False
