"""Random predicates over all columns of a table, with literals that its rows hold."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from hypothesis import strategies as st
from predicate_spelling import CannotSpell, about, as_expression, as_sql
from predicate_strategies import leaves, own_literal
from row_oracle import in_java, value_of
from schema_strategies import KEY, leaves_of

from esker.model.predicates.predicate import Op
from esker.model.predicates.unbound_predicate import AllOf, Among, AnyOf, Comparison, Name, Not, NullTest, Unbound
from esker.model.schema import Schema
from esker.model.transform import (
    DAY,
    HOUR,
    MONTH,
    YEAR,
    BucketTransform,
    TruncateTransform,
    accepts,
    result_type,
)
from esker.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    Field,
    FixedType,
    FloatType,
    IntType,
    LongType,
    StringType,
    StructType,
    Type,
    UuidType,
)
from esker.model.values import from_unscaled

CALLED = (
    *(YEAR, MONTH, DAY, HOUR, BucketTransform(3), BucketTransform(16), BucketTransform(8)),
    *(TruncateTransform(width) for width in (1, 2, 10, 1000)),
)
"""What a query may call of a column: the transforms that tables are partitioned by, and others."""

Path = tuple[Field, ...]


_LEAVES = cache(lambda type_: leaves(type_, [plain_value(type_)]))  # made once, for making costs more than drawing
_SHAPES = st.sampled_from(["leaf"] * 4 + ["not", "all", "any"])
_OP = st.sampled_from(Op)


def plain_value(type_: Type) -> Any:
    """A value that nobody would look at twice."""
    match type_:
        case BooleanType():
            return True
        case FloatType() | DoubleType():
            return 0.0
        case DecimalType(scale=scale):
            return from_unscaled(0, scale)
        case StringType():
            return "a"
        case UuidType() | FixedType() | BinaryType():
            return bytes(16 if isinstance(type_, UuidType) else getattr(type_, "length", 1))
        case _:
            return 0


@st.composite
def queries(draw: st.DrawFn, schema: Schema, rows: list[Any]) -> Unbound:
    """A condition on any columns of the schema, nested a little."""
    return _query(draw, list(leaves_of(schema.fields)), schema, rows, depth=0)


def _query(draw: st.DrawFn, paths: list[Path], schema: Schema, rows: list[Any], *, depth: int) -> Unbound:
    shape = "leaf" if depth == 2 else draw(_SHAPES)
    if shape == "leaf":
        return _test(draw, paths, schema, rows)
    parts = [_query(draw, paths, schema, rows, depth=depth + 1) for _ in range(1 if shape == "not" else 2)]
    return Not(parts[0]) if shape == "not" else (AllOf if shape == "all" else AnyOf)(tuple(parts))


def _test(draw: st.DrawFn, paths: list[Path], schema: Schema, rows: list[Any]) -> Unbound:
    structs = [f for f in schema if isinstance(f.type, StructType)]
    if len(paths) > 1 and draw(_OFTEN):  # the key is nobody's partition, and its statistics are plain
        paths = [path for path in paths if path[0] != KEY]
    at = draw(st.integers(0, len(paths) + len(structs) - 1))
    if at >= len(paths):
        return NullTest(Name((structs[at - len(paths)].name,)))
    path = paths[at]
    held = [value for row in rows if (value := value_of(row, path)) is not None]
    name, kind = Name(tuple(f.name for f in path)), path[-1].type
    fitting = [transform for transform in CALLED if accepts(transform, kind)]
    if fitting and draw(_SOMETIMES):
        transform = draw(st.sampled_from(fitting))
        name, held = replace(name, transform=transform), [in_java(transform, kind, value) for value in held]
        kind = result_type(transform, kind)
        if not held:
            return NullTest(name)
        if isinstance(kind, IntType | LongType | DateType):  # beside a unit as well as within it
            held += [value + 1 for value in held if abs(value) < 2**31 - 1]
    way = draw(_WAYS if name.transform is None else _EXACT) if held else "any"
    if way == "any":
        return about(draw(_LEAVES(kind)), name)
    if way == "compare":
        return Comparison(name, draw(_OP), own_literal(kind, draw(st.sampled_from(held))))
    return Among(name, tuple(own_literal(kind, value) for value in draw(st.lists(st.sampled_from(held), min_size=1))))


_WAYS = st.sampled_from(["any", "compare", "compare", "compare", "among"])
_EXACT = st.sampled_from(["compare", "compare", "among"])
_SOMETIMES = st.sampled_from([True, False, False])
_OFTEN = st.sampled_from([True, True, True, False])


def spelt(node: Unbound, way: str) -> Any:
    """The predicate as ``scan`` is given it; as it is, where the way cannot say it."""
    try:
        return as_sql(node) if way == "sql" else as_expression(node) if way == "python" else node
    except CannotSpell:
        return node
