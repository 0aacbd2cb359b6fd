"""Values are cast to their columns' types so that one that does not fit ends the job, whatever a session's casts do."""

from __future__ import annotations

import pyarrow as pa
import pytest

from esker.arrow.input.fit_columns import Leniency, members
from esker.errors import InvalidInput
from esker.model.parsing.column_definitions import parse_columns
from esker.model.types import Type
from esker.spark.rows.store_assignment import stored


def type_of(text: str) -> Type:
    return parse_columns(f"c {text}")[0].type


def checked(expression: str, name: str) -> str:
    why = f"cannot write a value into column \\'{name}\\': it does not fit int"
    return f"coalesce(try_cast({expression} AS int), IF({expression} IS NULL, NULL, CAST(raise_error('{why}') AS int)))"


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("int", "bigint", "CAST(c AS bigint)"),
        ("bigint", "double", "CAST(c AS double)"),
        ("int", "string", "CAST(c AS string)"),
        ("bigint", "int", checked("c", "v")),
        ("array<bigint>", "array<int>", f"transform(slice(c, 1, 2147483647), y0 -> {checked('y0', 'v.element')})"),
        ("struct<b: bigint>", "struct<a: int>", f"IF(c IS NULL, NULL, named_struct('a', {checked('c.b', 'v.a')}))"),
    ],
)
def test_a_cast_that_can_fail_is_checked_where_the_session_would_not(source: str, target: str, expected: str) -> None:
    assert stored("c", type_of(source), type_of(target), "v", ansi=False) == expected


def test_a_session_with_ansi_casts_needs_no_check() -> None:
    assert stored("c", type_of("array<bigint>"), type_of("array<int>"), "v", ansi=True) == "CAST(c AS array<int>)"


@pytest.mark.parametrize("column", ["array<struct<a: bigint, b: bigint>>", "struct<a: bigint, b: bigint>"])
def test_a_missing_member_is_refused_where_structs_must_be_whole(column: str) -> None:
    fields = parse_columns(f"c {column}, d int")
    held: pa.DataType = pa.struct([("a", pa.int64())])
    found = [pa.field("c", pa.list_(held) if column.startswith("array") else held)]
    assert len(members(fields, found, (), Leniency())) == 2
    with pytest.raises(InvalidInput, match=r"the member 'c\.(element\.)?b' is missing"):
        members(fields, found, (), Leniency(whole_structs=True))
