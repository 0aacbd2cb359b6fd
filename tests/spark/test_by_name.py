"""Members of structs find their places by name where both sides have the same names, and by place where not."""

from __future__ import annotations

import pytest

from esker.model.ddl import parse_columns
from esker.model.types import Type
from esker.spark.rows.by_name import in_order_of, reordered


def type_of(text: str) -> Type:
    return parse_columns(f"c {text}")[0].type


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("struct<a: int, b: int>", "struct<a: int, b: int>", "s.c"),
        ("struct<x: int, y: int>", "struct<a: int, b: int>", "s.c"),  # other names: by place, as Spark has it
        ("int", "bigint", "s.c"),
        (
            "struct<b: int, A: int>",
            "struct<a: int, b: int>",
            "IF(s.c IS NULL, NULL, named_struct('A', s.c.A, 'b', s.c.b))",
        ),
        (
            "array<struct<b: int, a: int>>",
            "array<struct<a: int, b: int>>",
            "transform(s.c, x0 -> IF(x0 IS NULL, NULL, named_struct('a', x0.a, 'b', x0.b)))",
        ),
        (
            "map<string, struct<b: int, a: array<struct<d: int, c: int>>>>",
            "map<string, struct<a: array<struct<c: int, d: int>>, b: int>>",
            "transform_values(s.c, (k0, x0) -> IF(x0 IS NULL, NULL, named_struct('a', "
            "transform(x0.a, x1 -> IF(x1 IS NULL, NULL, named_struct('c', x1.c, 'd', x1.d))), 'b', x0.b)))",
        ),
    ],
)
def test_only_what_is_out_of_order_is_put_in_order(source: str, target: str, expected: str) -> None:
    assert reordered("s.c", type_of(source), type_of(target)) == expected


def test_the_type_that_is_assigned_has_the_targets_order() -> None:
    found = in_order_of(type_of("struct<b: int, a: string>"), type_of("struct<a: string, b: bigint>"))
    assert [member.name for member in found] == ["a", "b"]  # type: ignore[attr-defined]
