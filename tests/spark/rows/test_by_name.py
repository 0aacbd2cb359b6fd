"""Members of structs find their places by name, at any depth; names that do not fit are refused."""

from __future__ import annotations

import pytest

from esker.errors import InvalidInput
from esker.model.parsing.column_definitions import parse_columns
from esker.model.types import Type
from esker.spark.rows.store_assignment import in_order_of, reordered


def type_of(text: str) -> Type:
    return parse_columns(f"c {text}")[0].type


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("struct<a: int, b: int>", "struct<a: int, b: int>", "s.c"),
        ("int", "bigint", "s.c"),
        (
            "struct<b: int, A: int>",
            "struct<a: int, b: int>",
            "IF(s.c IS NULL, NULL, named_struct('A', s.c.A, 'b', s.c.b))",
        ),
        (
            "array<struct<b: int, a: int>>",
            "array<struct<a: int, b: int>>",
            "transform(slice(s.c, 1, 2147483647), x0 -> IF(x0 IS NULL, NULL, named_struct('a', x0.a, 'b', x0.b)))",
        ),
        (
            "map<string, struct<b: int, a: array<struct<d: int, c: int>>>>",
            "map<string, struct<a: array<struct<c: int, d: int>>, b: int>>",
            "transform_values(s.c, (k0, x0) -> IF(x0 IS NULL, NULL, named_struct('a', "
            "transform(slice(x0.a, 1, 2147483647), x1 -> IF(x1 IS NULL, NULL, named_struct('c', x1.c, 'd', x1.d))), "
            "'b', x0.b)))",
        ),
    ],
)
def test_only_what_is_out_of_order_is_put_in_order(source: str, target: str, expected: str) -> None:
    assert reordered("s.c", type_of(source), type_of(target), "c") == expected


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        ("struct<x: int, y: int>", "struct<a: int, b: int>", "its struct has no member 'a' for c.a"),
        ("struct<a: int, x: int>", "struct<a: int, b: int>", "its struct has no member 'b' for c.b"),
        ("struct<a: int>", "struct<a: int, b: int>", "its struct has no member 'b' for c.b"),
        ("struct<a: int, b: int, x: int>", "struct<b: int, a: int>", "its struct has a member 'x', and c has none"),
        ("array<struct<x: int>>", "array<struct<a: int>>", r"no member 'a' for c\.element\.a"),
        ("map<int, struct<x: int>>", "map<int, struct<a: int>>", r"no member 'a' for c\.value\.a"),
        ("map<struct<x: int>, int>", "map<struct<a: int>, int>", r"no member 'a' for c\.key\.a"),
        ("struct<a: struct<x: int>>", "struct<a: struct<b: int>>", r"no member 'b' for c\.a\.b"),
        ("struct<A: int, a: int>", "struct<a: int, b: int>", "no member 'b'"),
    ],
)
def test_a_member_without_its_name_on_the_other_side_is_refused(source: str, target: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        reordered("s.c", type_of(source), type_of(target), "c")


def test_the_type_that_is_assigned_has_the_targets_order() -> None:
    found = in_order_of(type_of("struct<b: int, a: string>"), type_of("struct<a: string, b: bigint>"), "c")
    assert [member.name for member in found] == ["a", "b"]  # type: ignore[attr-defined]
