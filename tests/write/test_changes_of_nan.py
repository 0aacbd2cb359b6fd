"""Deletes and updates of rows with NaN in files whose statistics do not show it."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import esker
from esker.table import Table

NAN = math.nan


@pytest.fixture(params=["copy-on-write", "merge-on-read"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    """One file of another writer: its bounds are 1.0 and 1.0, and nobody counted NaN."""
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    lake.create_namespace("a")
    modes = {f"write.{verb}.mode": request.param for verb in ("delete", "update")}
    table = lake.create_table("a.t", "g double, v int", properties=modes)
    path = tmp_path / "warehouse" / "given.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"g": [1.0, NAN, 1.0], "v": pa.array([1, 2, 3], pa.int32())}), path)
    table.add_files([str(path)])
    (file,) = table.inspect.files().to_pylist()
    assert not file["nan_value_counts"]
    return table


def held(table: Table) -> list[tuple[str, int]]:
    return sorted((repr(row["g"]), row["v"]) for row in table.scan().to_arrow().to_pylist())


@pytest.mark.parametrize("where", ["g = 1", "g <= 1", "g < 5", "g IN (1.0D, 2.0D)", "NOT (g > 1)"])
def test_what_every_bound_matches_is_no_proof_about_nan(table: Table, where: str) -> None:
    table.delete(where)
    assert held(table) == [("nan", 2)]


@pytest.mark.parametrize("where", ["g > 5", "g <> 1", "g = CAST('NaN' AS DOUBLE)", "g >= CAST('NaN' AS DOUBLE)"])
def test_rows_with_nan_are_found_beyond_every_bound(table: Table, where: str) -> None:
    table.update({"v": "v + 10"}, where)
    assert held(table) == [("1.0", 1), ("1.0", 3), ("nan", 12)]
    table.delete(where)
    assert held(table) == [("1.0", 1), ("1.0", 3)]


def test_a_condition_that_nan_meets_too_takes_the_whole_file(table: Table) -> None:
    table.delete("g >= 1")
    assert held(table) == []
