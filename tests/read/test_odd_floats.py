"""Which float columns of a file may hold NaN or a zero, as its manifest tells."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

import esker
from esker.ports.engine import OddFloats
from esker.read.prune_manifest import MOST, float_columns

NAN = math.nan


def odd(values: list[float | None], **properties: str) -> tuple[bool, bool]:
    """Whether the one file of these values may hold NaN, and whether it may hold a zero."""
    lake = esker.connect("memory:")
    lake.create_namespace("a")
    table = lake.create_table("a.t", "id int, g double, s struct<g: float>", properties=properties)
    inner = pa.array([{"g": value} for value in values], pa.struct([("g", pa.float32())]))
    ids = pa.array(range(len(values)), pa.int32())
    table.append(pa.table({"id": ids, "g": pa.array(values, pa.float64()), "s": inner}))
    top, member = table.schema.find("g").id, table.schema.find("s.g").id
    (task,) = table.scan().spark_request().tasks
    found = task.odd_floats
    assert found is not None
    assert (top in found.nan, top in found.zero) == (member in found.nan, member in found.zero)
    return top in found.nan, top in found.zero


@pytest.mark.parametrize(
    ("values", "may"),
    [
        ([1.0, 2.0, None], (False, False)),
        ([-2.0, -1.0], (False, False)),
        ([1.0, NAN], (True, False)),
        ([NAN, NAN], (True, False)),
        ([0.0, 1.0], (False, True)),
        ([-1.0, -0.0], (False, True)),
        ([-1.0, 1.0], (False, True)),
        ([-math.inf, math.inf, NAN], (True, True)),
        ([None, None], (False, False)),
    ],
)
def test_counts_and_bounds_say_what_a_file_may_hold(values: list[float | None], may: tuple[bool, bool]) -> None:
    assert odd(values) == may


def test_without_statistics_a_file_may_hold_anything() -> None:
    assert odd([1.0], **{"write.metadata.metrics.default": "none"}) == (True, True)
    assert odd([1.0], **{"write.metadata.metrics.default": "counts"}) == (False, True)


def test_a_plan_that_nobody_asks_for_spark_examines_nothing() -> None:
    lake = esker.connect("memory:")
    lake.create_namespace("a")
    table = lake.create_table("a.t", "g double")
    table.append(pa.table({"g": [1.0]}))
    assert [task.odd_floats for task in table.scan().plan().tasks] == [None]
    assert [task.odd_floats for task in table.scan().spark_request().tasks] == [
        OddFloats(nan=frozenset(), zero=frozenset())
    ]


def test_columns_inside_lists_are_left_out_and_very_many_columns_are_not_examined() -> None:
    lake = esker.connect("memory:")
    lake.create_namespace("a")
    few = lake.create_table("a.few", "g double, many array<float>, s struct<f: float>, i int")
    assert [f.name for f in float_columns(few.schema)] == ["g", "f"]
    wide = lake.create_table("a.wide", ", ".join(f"c{at} double" for at in range(MOST + 1)))
    assert float_columns(wide.schema) == ()
