"""Structs into structs by the names of their members, at any depth, where both have the same ones.

Spark casts structs by place, and a source may have the members in another order.
"""

from __future__ import annotations

from dataclasses import replace

from esker.model.predicate_sql import quote_name
from esker.model.types import Field, ListType, MapType, StructType, Type


def in_order_of(source: Type, target: Type) -> Type:
    """The source's type with the members of its structs in the target's order, where they have the same names."""
    match source, target:
        case StructType(), StructType():
            pairs = _paired(source, target)
            if pairs is None:
                return source
            return StructType(tuple(replace(a, type=in_order_of(a.type, b.type)) for a, b in pairs))
        case ListType(), ListType():
            return replace(source, element=in_order_of(source.element, target.element))
        case MapType(), MapType():
            return replace(source, value=in_order_of(source.value, target.value))
        case _:
            return source


def reordered(expression: str, source: Type, target: Type, depth: int = 0) -> str:
    """The expression with members in the target's order; itself where they are."""
    if in_order_of(source, target) == source:
        return expression
    match source, target:
        case StructType(), StructType():
            pairs = _paired(source, target) or []
            members = ", ".join(
                f"{_literal(a.name)}, {reordered(f'{expression}.{quote_name(a.name)}', a.type, b.type, depth)}"
                for a, b in pairs
            )
            return f"IF({expression} IS NULL, NULL, named_struct({members}))"
        case ListType(), ListType():
            inner = reordered(f"x{depth}", source.element, target.element, depth + 1)
            return f"transform({expression}, x{depth} -> {inner})"
        case MapType(), MapType():
            inner = reordered(f"x{depth}", source.value, target.value, depth + 1)
            return f"transform_values({expression}, (k{depth}, x{depth}) -> {inner})"
        case _:
            return expression


def _paired(source: StructType, target: StructType) -> list[tuple[Field, Field]] | None:
    held = {f.name.lower(): f for f in source.fields}
    wanted = [f.name.lower() for f in target.fields]
    if len(held) != len(source.fields) or sorted(held) != sorted(wanted):
        return None
    return [(held[f.name.lower()], f) for f in target.fields]


def _literal(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"
