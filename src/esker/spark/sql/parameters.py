"""Parameters of a statement made literals of its text: ``:name`` and ``?``, and ``{name}`` as PySpark has it.

A literal prunes files as one that was typed does, and statements that the lake does itself need no Spark for it.
"""

from __future__ import annotations

import datetime
import string
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from esker.errors import InvalidInput
from esker.model.predicate_sql import literal_sql
from esker.model.token_stream import Kind, Token, tokens_of
from esker.model.types import BINARY, STRING

Args = Mapping[str, Any] | Sequence[Any]


def with_parameters(text: str, args: Args) -> str:
    """The text with the values in place of its markers.

    Raises ``InvalidInput`` for a marker without a value, for values that are left over by place, and for a value that
    has no literal in SQL.
    """
    by_name = args if isinstance(args, Mapping) else None
    by_place = list(args) if by_name is None else []
    found, done, used = "", 0, 0
    tokens = tokens_of(text, "the statement")
    for at, token in enumerate(tokens):
        if not token.is_sign or token.start < done:
            continue
        if token.text == "?" and by_name is None:
            if used >= len(by_place):
                raise InvalidInput(f"cannot bind ? at {token.place}: {len(by_place)} values are given")
            value, end = by_place[used], token.end + 1
            used += 1
        elif token.text == ":" and by_name is not None and _is_marker(text, tokens, at):
            name = tokens[at + 1].text
            if name not in by_name:
                raise InvalidInput(f"cannot bind :{name} at {token.place}: no value of that name is given")
            value, end = by_name[name], tokens[at + 1].end + 1
        else:
            continue
        found += text[done : token.start] + literal_text(value)
        done = end
    if used < len(by_place):
        raise InvalidInput(f"cannot bind {len(by_place)} values: the statement has {used} markers (?)")
    return found + text[done:]


def _is_marker(text: str, tokens: Sequence[Token], at: int) -> bool:
    """``:name``, and not the path of a variant, ``v:name``, which follows its column without a blank."""
    if at + 1 >= len(tokens) or tokens[at + 1].kind is not Kind.WORD or tokens[at + 1].start != tokens[at].end + 1:
        return False
    before = tokens[at - 1] if at else None
    if before is None or before.end + 1 != tokens[at].start:
        return True
    return before.is_sign and before.text not in (")", "]", ":")


def formatted(text: str, given: Mapping[str, Any], view_of: Callable[[Any], str]) -> str:
    """The text with ``{name}`` replaced as ``spark.sql`` does it: a DataFrame by a view, a text by a literal."""

    class Formatter(string.Formatter):
        def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
            value, first = super().get_field(field_name, args, kwargs)
            if hasattr(value, "createOrReplaceTempView"):
                return view_of(value), first
            if type(value).__name__ == "Column":
                raise InvalidInput(f"cannot put the column {{{field_name}}} into the statement: write its name as text")
            return literal_text(value) if isinstance(value, str) else value, first

    return Formatter().vformat(text, (), given)


def literal_text(value: Any) -> str:
    """A value of Python's as SQL; ``InvalidInput`` where there is no literal for it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            kind = "" if -(2**31) <= value < 2**31 else "L" if -(2**63) <= value < 2**63 else "BD"
            return _number(f"{value}{kind}")
        case float():
            is_finite = value == value and abs(value) != float("inf")
            return _number(f"{value!r}D") if is_finite else f"CAST('{value}' AS DOUBLE)"
        case Decimal():
            return _number(f"{value:f}BD")
        case str():
            return literal_sql(STRING, value)
        case bytes() | bytearray():
            return literal_sql(BINARY, bytes(value))
        case datetime.datetime():
            instant = value.astimezone(datetime.UTC)  # without a zone it is this machine's, as in PySpark
            return f"TIMESTAMP '{instant.isoformat(sep=' ')}'"
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
        case list() | tuple():
            return f"array({', '.join(map(literal_text, value))})"
        case dict():
            pairs = (part for item in value.items() for part in item)
            return f"map({', '.join(map(literal_text, pairs))})"
    raise InvalidInput(f"cannot use a value of type {type(value).__name__} as a parameter: it has no literal in SQL")


def _number(text: str) -> str:
    """With a blank before a minus: two of them in a row begin a comment."""
    return f" {text}" if text.startswith("-") else text
