"""Tables that appear with their first rows, in every kind of catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import esker
from esker.errors import AlreadyExists, InvalidInput, NoSuchNamespace
from esker.lake import Lake


@pytest.fixture(params=["memory", "sqlite", "directory"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    uris = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/c.db", "directory": f"file://{tmp_path}/warehouse"}
    warehouse = str(tmp_path / "warehouse") if request.param == "sqlite" else None
    lake = esker.connect(uris[request.param], warehouse=warehouse)
    lake.create_namespace("sales")
    return lake


def test_a_table_made_with_rows_is_a_table_like_any_other(lake: Lake) -> None:
    table = lake.create_table_as(
        "sales.orders",
        "id bigint, region string",
        pa.table({"id": [1, 2], "region": ["eu", "us"]}),
        partition_by=["region"],
        properties={"owner": "ann"},
        format_version=3,
    )
    assert table.scan("region = 'eu'").to_arrow().column("id").to_pylist() == [1]
    assert [s.operation for s in table.snapshots] == ["append"]
    assert (table.properties["owner"], table.format_version, len(table.history)) == ("ann", 3, 1)
    table.append(pa.table({"id": [3]}))
    assert lake.table("sales.orders").scan().count() == 3


def test_a_table_whose_rows_cannot_be_written_is_never_there(lake: Lake, tmp_path: Path) -> None:
    def broken() -> Any:
        yield pa.record_batch({"id": [1]})
        raise RuntimeError("the source gave up")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), broken())
    with pytest.raises(RuntimeError, match="the source gave up"):
        lake.create_table_as("sales.orders", "id bigint", reader)
    with pytest.raises(InvalidInput, match="does not fit"):
        lake.create_table_as("sales.orders", "id bigint", pa.table({"id": ["x"]}))
    assert lake.tables("sales") == []
    assert not list(tmp_path.rglob("*.parquet"))
    lake.create_table("sales.orders", "id bigint")  # the name is as free as it was


def test_of_two_that_make_a_table_one_wins_and_the_other_takes_back_its_files(lake: Lake, tmp_path: Path) -> None:
    def overtaken() -> Any:
        yield pa.record_batch({"id": [1]})
        lake.create_table("sales.orders", "id bigint").append(pa.table({"id": [7]}))

    reader = pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), overtaken())
    with pytest.raises(AlreadyExists, match=r"sales\.orders"):
        lake.create_table_as("sales.orders", "id bigint", reader)
    table = lake.table("sales.orders")
    assert table.scan().to_arrow().column("id").to_pylist() == [7]
    left = {path.name for path in tmp_path.rglob("*.parquet")}
    assert left == {task.data_file.path.rpartition("/")[2] for task in table.scan().plan().tasks} or not left


def test_a_namespace_that_is_not_there_is_said_before_anything_is_written(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(NoSuchNamespace, match="the catalog has sales"):
        lake.create_table_as("nowhere.orders", "id bigint", pa.table({"id": [1]}))
    assert not list(tmp_path.rglob("*.parquet"))
