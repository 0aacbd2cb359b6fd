"""Python values and PySpark columns as SQL text: parameters of a statement, partition terms and conditions.

A parameter becomes a literal in the text. So it prunes files like a typed literal, and statements that the lake
executes itself need no Spark.
"""

from __future__ import annotations

import datetime
import string
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from esker.errors import InvalidInput, Unsupported
from esker.model.parsing.tokens import Kind, Token, tokens_of
from esker.model.predicates.predicate_sql import literal_sql
from esker.model.types import BINARY, STRING

Args = Mapping[str, Any] | Sequence[Any]


def with_parameters(text: str, args: Args) -> str:
    """Return the text with the values in place of its markers ``:name`` and ``?``.

    Raises ``InvalidInput`` for a marker without a value, for unused positional values, and for a value that has no
    literal in SQL.
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
    """Return whether this is a marker ``:name``, and not the path ``v:name`` of a variant, which follows its column
    directly."""
    if at + 1 >= len(tokens) or tokens[at + 1].kind is not Kind.WORD or tokens[at + 1].start != tokens[at].end + 1:
        return False
    before = tokens[at - 1] if at else None
    if before is None or before.end + 1 != tokens[at].start:
        return True
    return before.is_sign and before.text not in (")", "]", ":")


def formatted(text: str, given: Mapping[str, Any], view_of: Callable[[Any], str]) -> str:
    """Return the text with ``{name}`` replaced as ``spark.sql`` does: a DataFrame by a view, a value by a literal."""

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
    """Return a Python value as SQL text. Raises ``InvalidInput`` if SQL has no literal for it."""
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
            instant = value.astimezone(datetime.UTC)  # a value without a zone is in this machine's zone, as in PySpark
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
    """Return the number with a blank before a minus, because two of them start a comment."""
    return f" {text}" if text.startswith("-") else text


_TERMS = {"years": "year", "months": "month", "days": "day", "hours": "hour"}  # Spark names transforms in the plural
_SIGNS = {"==": "=", "=": "=", "<=>": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "and": "AND", "or": "OR"}
_BEHIND = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}


def column_text(column: Any) -> str:
    """Return the text of a name or of a column. Raises ``Unsupported`` for a column that has no text."""
    if isinstance(column, str):
        return column
    java = getattr(column, "_jc", None)
    if java is not None:
        return _node_text(java.node())
    expression = getattr(column, "_expr", None)
    if expression is None:
        raise InvalidInput(f"cannot use {column!r} as a column")
    return expression_text(expression.to_plan(None))


def _node_text(node: Any) -> str:
    """Return the text of a classic column. In Spark's own text, operators are before their operands."""
    if node.getClass().getSimpleName() != "UnresolvedFunction":
        return str(node.sql())
    arguments = node.arguments()
    return _called(str(node.functionName()), [_node_text(arguments.apply(at)) for at in range(arguments.size())])


def expression_text(proto: Any) -> str:
    """Return the text of an expression of Spark Connect. Raises ``Unsupported`` for other expressions."""
    match proto.WhichOneof("expr_type"):
        case "unresolved_attribute":
            return str(proto.unresolved_attribute.unparsed_identifier)
        case "literal":
            return literal_text(_literal(proto.literal))
        case "expression_string":
            return f"({proto.expression_string.expression})"
        case "unresolved_function":
            given = [expression_text(one) for one in proto.unresolved_function.arguments]
            return _called(str(proto.unresolved_function.function_name), given)
    raise Unsupported("cannot use this column here: write the condition as text", feature="columns as conditions")


def _called(name: str, given: Sequence[str]) -> str:
    folded = name.lower()
    if folded in _SIGNS and len(given) == 2:
        return f"({given[0]} {_SIGNS[folded]} {given[1]})"
    if folded in ("not", "!") and len(given) == 1:
        return f"(NOT {given[0]})"
    if folded in _BEHIND and len(given) == 1:
        return f"({given[0]} {_BEHIND[folded]})"
    if folded == "in":
        return f"({given[0]} IN ({', '.join(given[1:])}))"
    return f"{_TERMS.get(folded, name)}({', '.join(given)})"


def _literal(proto: Any) -> Any:
    kind = proto.WhichOneof("literal_type")
    if kind == "null":
        return None
    if kind not in ("boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary"):
        raise Unsupported(
            f"cannot use a literal of type {kind} here: write it as text", feature="columns as conditions"
        )
    return getattr(proto, kind)
