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


def reordered(expression: str, source: Type, target: Type, name: str) -> str:
    """The expression with members in the target's order; itself where they are. Raises as ``in_order_of`` does."""
    return _reordered(expression, source, target, name, 0) or expression


def _reordered(expression: str, source: Type, target: Type, name: str, depth: int) -> str | None:
    """None where the members are in the target's order, at every depth."""
    match source, target:
        case StructType(), StructType():
            pairs = _paired(source, target, name)
            parts = [f"{expression}.{quote_name(a.name)}" for a, _ in pairs]
            new = [
                _reordered(part, a.type, b.type, f"{name}.{b.name}", depth)
                for part, (a, b) in zip(parts, pairs, strict=True)
            ]
            if not any(new) and all(a is held for (a, _), held in zip(pairs, source.fields, strict=True)):
                return None
            members = ", ".join(
                f"{_literal(a.name)}, {inner or part}" for (a, _), inner, part in zip(pairs, new, parts, strict=True)
            )
            return f"IF({expression} IS NULL, NULL, named_struct({members}))"
        case ListType(), ListType():
            inner = _reordered(f"x{depth}", source.element, target.element, f"{name}.element", depth + 1)
            return None if inner is None else _each(expression, inner, depth)
        case MapType(), MapType():
            key = _reordered(f"x{depth}", source.key, target.key, f"{name}.key", depth + 1)
            value = _reordered(f"x{depth}", source.value, target.value, f"{name}.value", depth + 1)
            if key is None:
                return None if value is None else f"transform_values({expression}, (k{depth}, x{depth}) -> {value})"
            keys = _each(f"map_keys({expression})", key, depth)
            values = _each(f"map_values({expression})", value or f"x{depth}", depth)
            return f"map_from_arrays({keys}, {values})"
        case _:
            return None


def _each(expression: str, inner: str, depth: int) -> str:
    return f"transform({expression}, x{depth} -> {inner})"


def _paired(source: StructType, target: StructType, name: str) -> list[tuple[Field, Field]]:
    """Each member of the target with its own in the source: of the same spelling, else without regard to case."""
    wanted = {field.name for field in target.fields}
    exact: dict[str, list[Field]] = {}
    folded: dict[str, list[Field]] = {}
    for one in source.fields:
        if one.name in wanted:
            exact.setdefault(one.name, []).append(one)
        else:
            folded.setdefault(one.name.lower(), []).append(one)
    pairs: list[tuple[Field, Field]] = []
    for field in target.fields:
        fits = exact.get(field.name) or folded.pop(field.name.lower(), [])
        if len(fits) != 1:
            has = "several members" if fits else "no member"
            raise InvalidInput(f"its struct has {has} {field.name!r} for {name}.{field.name}")
        pairs.append((fits[0], field))
    left = next((one for rest in folded.values() for one in rest), None)
    if left is not None:
        raise InvalidInput(f"its struct has a member {left.name!r}, and {name} has none of that name")
    return pairs


def _literal(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"
