"""Structs into structs by the names of their members, at any depth, as Spark has it for ``BY NAME``, UPDATE and MERGE.

A cast of Spark's takes members by place, so they are put in order before it. Names that do not fit are refused.
"""

from __future__ import annotations

from dataclasses import replace

from esker.errors import InvalidInput
from esker.model.predicate_sql import quote_name
from esker.model.types import Field, ListType, MapType, StructType, Type


def in_order_of(source: Type, target: Type, name: str) -> Type:
    """The source's type with the members of its structs in the target's order.

    ``InvalidInput`` says which member of the column ``name`` has no value, or which value has no member.
    """
    match source, target:
        case StructType(), StructType():
            pairs = _paired(source, target, name)
            return StructType(tuple(replace(a, type=in_order_of(a.type, b.type, f"{name}.{b.name}")) for a, b in pairs))
        case ListType(), ListType():
            return replace(source, element=in_order_of(source.element, target.element, f"{name}.element"))
        case MapType(), MapType():
            key = in_order_of(source.key, target.key, f"{name}.key")
            return replace(source, key=key, value=in_order_of(source.value, target.value, f"{name}.value"))
        case _:
            return source


def reordered(expression: str, source: Type, target: Type, name: str, depth: int = 0) -> str:
    """The expression with members in the target's order; itself where they are. Raises as ``in_order_of`` does."""
    if in_order_of(source, target, name) == source:
        return expression
    match source, target:
        case StructType(), StructType():
            members = ", ".join(
                f"{_literal(a.name)}, "
                + reordered(f"{expression}.{quote_name(a.name)}", a.type, b.type, f"{name}.{b.name}", depth)
                for a, b in _paired(source, target, name)
            )
            return f"IF({expression} IS NULL, NULL, named_struct({members}))"
        case ListType(), ListType():
            return _each(expression, source.element, target.element, name, depth)
        case MapType(), MapType():
            if in_order_of(source.key, target.key, name) == source.key:
                inner = reordered(f"x{depth}", source.value, target.value, name, depth + 1)
                return f"transform_values({expression}, (k{depth}, x{depth}) -> {inner})"
            keys = _each(f"map_keys({expression})", source.key, target.key, name, depth)
            values = _each(f"map_values({expression})", source.value, target.value, name, depth)
            return f"map_from_arrays({keys}, {values})"
        case _:
            return expression


def _each(expression: str, source: Type, target: Type, name: str, depth: int) -> str:
    return f"transform({expression}, x{depth} -> {reordered(f'x{depth}', source, target, name, depth + 1)})"


def _paired(source: StructType, target: StructType, name: str) -> list[tuple[Field, Field]]:
    """Each member of the target with its own in the source: of the same spelling, else without regard to case."""
    left = list(source.fields)
    pairs: list[tuple[Field, Field]] = []
    for field in sorted(target.fields, key=lambda one: all(other.name != one.name for other in source.fields)):
        exact = [one for one in left if one.name == field.name]
        fits = exact or [one for one in left if one.name.lower() == field.name.lower()]
        if len(fits) != 1:
            has = "several members" if fits else "no member"
            raise InvalidInput(f"its struct has {has} {field.name!r} for {name}.{field.name}")
        left.remove(fits[0])
        pairs.append((fits[0], field))
    if left:
        raise InvalidInput(f"its struct has a member {left[0].name!r}, and {name} has none of that name")
    return sorted(pairs, key=lambda pair: target.fields.index(pair[1]))


def _literal(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"
