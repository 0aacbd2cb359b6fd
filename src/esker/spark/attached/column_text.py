"""A column of PySpark's as SQL text, as far as partition terms and conditions need it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from esker.errors import InvalidInput, Unsupported
from esker.spark.sql.parameters import literal_text

_TERMS = {"years": "year", "months": "month", "days": "day", "hours": "hour"}  # Spark calls transforms by the plural
_SIGNS = {"==": "=", "=": "=", "<=>": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "and": "AND", "or": "OR"}
_BEHIND = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}


def column_text(column: Any) -> str:
    """The text of a name, or of a column. Raises ``Unsupported`` for what has no text."""
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
    """Of a classic column: Spark's own text has every operator before its operands."""
    if node.getClass().getSimpleName() != "UnresolvedFunction":
        return str(node.sql())
    arguments = node.arguments()
    return _called(str(node.functionName()), [_node_text(arguments.apply(at)) for at in range(arguments.size())])


def expression_text(proto: Any) -> str:
    """The text of an expression of Spark Connect's. Raises ``Unsupported`` for what has none here."""
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
