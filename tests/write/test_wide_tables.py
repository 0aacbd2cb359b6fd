"""The cost of a verb grows with the number of columns, and not with its square: counted in calls, not in seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import esker
from esker.arrow.arrow_types import FIELD_ID, to_arrow_schema
from esker.arrow.input.fit_data import fit, fit_batches
from esker.arrow.input.schema_from_arrow import schema_from_arrow
from esker.arrow.read.file_columns import every_column, file_columns
from esker.errors import InvalidInput
from esker.model.evolution.schema_rules import MOST_FILE_LEVELS
from esker.model.parsing.column_definitions import DEEPEST
from esker.table import Table

NARROW, WIDE = 120, 240
MOST = 2.3  # twice the columns cost twice the calls, and a little


def rows(width: int) -> pa.Table:
    return pa.table({**{f"c{at}": [at, at + 1] for at in range(width - 1)}, "k": [1, 2]})


def alter_at_once(table: Table) -> None:
    with table.alter() as change:
        for at in range(20):
            change.add_column(f"new{at}", "int")
        for at in range(20):
            change.rename_column(f"new{at}", f"newer{at}")
        for at in range(20):
            change.drop_column(f"newer{at}")


def add_files(table: Table) -> None:
    file = Path(table.location) / "data" / "brought.parquet"
    pq.write_table(rows(len(table.schema.fields)), file)
    table.add_files([str(file)])


VERBS: dict[str, Callable[[Table], object]] = {
    "append": lambda table: table.append(rows(len(table.schema.fields))),
    "scan": lambda table: table.scan().to_arrow(),
    "scan a few": lambda table: table.scan("k = 1", columns=["k", "c0"]).to_arrow(),
    "scan all by other names": lambda table: table.scan(
        "K = 1", columns=[field.name.upper() for field in table.schema]
    ).to_arrow(),
    "overwrite": lambda table: table.overwrite(rows(len(table.schema.fields)), where="k = 1"),
    "delete": lambda table: table.delete("c0 = 0"),
    "update": lambda table: table.update({"c0": "c0 + 1"}, where="k = 1"),
    "upsert": lambda table: table.upsert(rows(len(table.schema.fields)), on=["k"]),
    "add_files": add_files,
    "alter": alter_at_once,
    "inspect.files": lambda table: table.inspect.files(),
    "inspect.partitions": lambda table: table.inspect.partitions(),
    "scan_changes": lambda table: table.scan_changes(table.snapshots[0].snapshot_id).to_arrow(),
}


def calls_of(do: Callable[[], object]) -> int:
    """How many functions, of Python and of C, were called."""
    count = 0

    def see(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        do()
    finally:
        sys.setprofile(None)
    return count


def table_of(folder: Path, width: int) -> Table:
    lake = esker.connect(f"sqlite:///{folder}/{width}/catalog.db")
    lake.create_namespace("a")
    table = lake.create_table("a.wide", rows(width).schema)
    table.append(rows(width))
    table.append(rows(width))
    return table


QUICK = ("append", "scan", "alter")


@pytest.mark.parametrize(
    "verb", [verb if verb in QUICK else pytest.param(verb, marks=pytest.mark.slow) for verb in VERBS]
)
def test_twice_the_columns_cost_twice_the_calls(tmp_path: Path, verb: str) -> None:
    VERBS[verb](table_of(tmp_path / "first", 3))  # whatever is loaded or remembered once
    narrow, wide = table_of(tmp_path, NARROW), table_of(tmp_path, WIDE)
    few = calls_of(lambda: VERBS[verb](narrow))
    many = calls_of(lambda: VERBS[verb](wide))
    assert many <= MOST * few, f"{few} calls for {NARROW} columns, {many} for {WIDE}"


def struct_rows(width: int) -> pa.Table:
    return pa.table({"s": pa.array([{f"m{at}": at for at in range(width)}] * 2), "k": [1, 2]})


def deep_rows(depth: int) -> pa.Table:
    value: object = 1
    for at in range(depth):
        value = {f"level{at}": value}
    return pa.table({"s": pa.array([value, value]), "k": [1, 2]})


def work_through(folder: Path, data: pa.Table) -> None:
    lake = esker.connect(f"sqlite:///{folder}/catalog.db")
    lake.create_namespace("a")
    table = lake.create_table("a.nested", data.schema)
    table.append(data)
    file = Path(table.location) / "data" / "brought.parquet"
    pq.write_table(data, file)
    table.add_files([str(file)])
    table.update({"k": "k + 1"}, where="k = 1")
    table.upsert(data, on=["k"])
    assert table.scan("k >= 1").to_arrow().num_rows == 5
    table.inspect.files()


@pytest.mark.slow
def test_twice_the_members_of_a_struct_cost_twice_the_calls(tmp_path: Path) -> None:
    work_through(tmp_path / "first", struct_rows(3))
    few = calls_of(lambda: work_through(tmp_path / "few", struct_rows(NARROW)))
    many = calls_of(lambda: work_through(tmp_path / "many", struct_rows(WIDE)))
    assert many <= MOST * few, f"{few} calls for {NARROW} members, {many} for {WIDE}"


@pytest.mark.slow
def test_a_struct_as_deep_as_is_taken_goes_through_every_verb(tmp_path: Path) -> None:
    work_through(tmp_path, deep_rows(DEEPEST - 1))


@pytest.mark.parametrize("depth", [DEEPEST, 100, 200])
def test_a_struct_that_could_be_written_and_not_read_is_refused(tmp_path: Path, depth: int) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db")
    lake.create_namespace("a")
    with pytest.raises(InvalidInput, match=rf"its types are nested more than {DEEPEST} levels deep, in 's\.level"):
        lake.create_table("a.nested", deep_rows(depth).schema)


DEEP: dict[str, tuple[str, int]] = {  # a type around another, and how many of them are taken
    "struct": ("struct<x: {}>", DEEPEST - 1),
    "array": ("array<{}>", (MOST_FILE_LEVELS - 1) // 2),
    "map": ("map<string, {}>", (MOST_FILE_LEVELS - 1) // 2),
}


def nested(around: str, depth: int) -> str:
    found = "bigint"
    for _ in range(depth):
        found = around.format(found)
    return found


def value_of(kind: str, depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"struct": {"x": value}, "array": [value], "map": [("k", value)]}[kind]
    return value


@pytest.mark.parametrize("kind", list(DEEP))
def test_what_may_be_made_may_be_written_and_read_and_what_is_deeper_is_refused(tmp_path: Path, kind: str) -> None:
    around, most = DEEP[kind]
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db")
    lake.create_namespace("a")
    table = lake.create_table("a.deep", f"s {nested(around, most)}")
    table.append(pa.table({"s": [value_of(kind, most)]}, schema=to_arrow_schema(table.schema.fields)))
    assert table.scan().to_arrow()["s"].to_pylist() == [value_of(kind, most)]
    deeper = nested(around, most + 1)
    with pytest.raises(InvalidInput, match="cannot make a column 's': its types are nested more than"):
        lake.create_table("a.deeper", f"s {deeper}")
    with pytest.raises(InvalidInput, match="cannot make a column 't': its types are nested more than"):
        table.alter().add_column("t", deeper)


def test_members_that_are_added_step_by_step_go_no_deeper(tmp_path: Path) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db")
    lake.create_namespace("a")
    table = lake.create_table("a.deep", "s struct<x: int>")
    path = "s"
    with table.alter() as change:
        for _ in range(2, DEEPEST):
            path = f"{path}.y"
            change.add_column(path, "struct<x: int>")
        change.add_column(f"{path}.z", "int")
        for name, type_ in ((f"{path}.y", "struct<x: struct<z: int>>"), (f"{path}.q", "array<array<int>>")):
            with pytest.raises(InvalidInput, match=rf"nested more than {DEEPEST} levels deep, in 's\.y\.y'"):
                change.add_column(name, type_)
    assert max(map(len, table.schema.path_by_id.values())) == DEEPEST
    table.append(pa.table({"s": [None]}, schema=to_arrow_schema(table.schema.fields)))
    assert table.scan().to_arrow()["s"].to_pylist() == [None]


def test_columns_of_a_file_are_walked_once_each_whatever_their_depth() -> None:
    few, many = (file_columns(deep_rows(depth).schema, FIELD_ID) for depth in (20, 40))
    assert calls_of(lambda: list(every_column(many))) <= MOST * calls_of(lambda: list(every_column(few)))


class Watched:
    """A batch that counts how often all of its columns are made, which Arrow does at every look."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self.looks = 0

    @property
    def columns(self) -> list[pa.Array]:
        self.looks += 1
        columns: list[pa.Array] = self._batch.columns
        return columns

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)


def test_rows_are_fitted_with_one_look_at_their_columns() -> None:
    (batch,) = rows(WIDE).to_batches()
    schema = schema_from_arrow(batch.schema)
    watched = Watched(batch)
    (fitted,) = fit_batches(schema, [watched])  # type: ignore[list-item]
    assert fitted.num_columns == WIDE
    assert watched.looks <= 3
    assert fit(schema, batch).read_all().num_columns == WIDE
