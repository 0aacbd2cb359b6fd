"""A table replaced as a whole: new columns and rows, the same table, and its past still readable."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from doors import MemoryLake
from orders import NAME, SCHEMA, orders, rows
from sound_tables import check_sound

import esker
from esker.errors import Conflict, NoSuchTable
from esker.lake import Lake
from esker.table import Table
from esker.tree.table_metadata import TableMetadata
from esker.write.definition.create_or_replace import replaced


@pytest.fixture
def lake() -> Lake:
    return MemoryLake().lake()


def made(lake: Lake, **how: Any) -> Table:
    table = orders(lake, partition_by=["region"], sort_by=["n"], properties={"mine": "kept", "other": "old"}, **how)
    table.append(rows([1, 2]))
    table.tag("before")
    return table


@pytest.mark.parametrize("version", [1, 2, 3])
def test_new_columns_and_rows_take_the_place_of_the_old(lake: Lake, version: int) -> None:
    old = made(lake, format_version=version)
    data = pa.table({"region": pa.array([5, 6], pa.int64()), "x": ["a", "b"]})
    new = lake.replace_table(NAME, "region bigint, x string", data, partition_by=["x"], properties={"other": "new"})
    assert new.scan().to_arrow().sort_by("region").to_pylist() == [{"region": 5, "x": "a"}, {"region": 6, "x": "b"}]
    assert (new.uuid, new.location) == (old.uuid, old.location)
    assert (new.properties["mine"], new.properties["other"]) == ("kept", "new")
    assert new.format_version == max(version, 2)
    assert [field.name for field in new.spec.fields] == ["x"]
    assert not new.sort_order.fields
    assert new.current_snapshot is not None
    assert new.current_snapshot.parent_snapshot_id is None
    was = lake.table(NAME).scan(ref="before").to_arrow()
    assert sorted(was["id"].to_pylist()) == [1, 2]
    assert was.column_names == ["id", "region", "n"]
    check_sound(lake, NAME)


def test_no_id_is_used_again_for_a_column_of_another_type(lake: Lake) -> None:
    old = made(lake)
    new = lake.replace_table(NAME, "id string, region binary", partition_by=["region"])
    assert not {field.id for field in old.schema.fields} & {field.id for field in new.schema.fields}
    assert not {field.field_id for field in old.spec.fields} & {field.field_id for field in new.spec.fields}
    assert new.scan().count() == 0
    new.append(pa.table({"id": ["a"], "region": [b"eu"]}))
    assert new.scan(esker.col("region") == b"eu").count() == 1
    check_sound(lake, NAME)


def test_a_column_of_the_same_name_and_a_fitting_type_keeps_its_id(lake: Lake) -> None:
    old = made(lake)
    new = lake.replace_table(NAME, "more string, n bigint, region string", partition_by=["n", "region"])
    assert [(field.id, field.name) for field in new.schema.fields] == [(4, "more"), (3, "n"), (2, "region")]
    assert [(f.source_id, f.field_id, f.name) for f in new.spec.fields] == [(3, 1001, "n"), (2, 1000, "region")]
    assert (new.schema.schema_id, new.spec.spec_id) == (1, 1)
    new.append(pa.table({"more": ["a"], "n": [7], "region": ["eu"]}))
    again = lake.replace_table(NAME, "id bigint not null, region string, n int", partition_by=["region"])
    assert [field.id for field in again.schema.fields] == [5, 2, 6]  # bigint cannot become int, and id was dropped
    assert again.spec == old.spec
    check_sound(lake, NAME)


def test_the_definition_that_a_table_had_before_is_that_definition_again(lake: Lake) -> None:
    old = made(lake)
    again = lake.replace_table(NAME, SCHEMA, partition_by=["region"], sort_by=["n"])
    assert (again.schema, again.spec, again.sort_order) == (old.schema, old.spec, old.sort_order)
    assert len(again.metadata.schemas) == len(again.metadata.specs) == 1
    again.append(rows([8]))
    assert again.scan().to_arrow()["id"].to_pylist() == [8]
    assert sorted(again.scan(ref="before").to_arrow()["id"].to_pylist()) == [1, 2]
    check_sound(lake, NAME)


def test_parts_of_nested_columns_keep_their_ids_by_name(lake: Lake) -> None:
    lake.create_namespace("sales", if_not_exists=True)
    old = lake.create_table("sales.deep", "s struct<a: int, b: string>, l array<int>, m map<string, int>, x int")
    new = lake.replace_table("sales.deep", "s struct<b: string, c: int>, l array<bigint>, m array<int>, x int")
    was, now = old.schema.id_by_name, new.schema.id_by_name
    for name in ("s", "s.b", "l", "l.element", "x"):
        assert now[name] == was[name], name
    for name in ("s.c", "m", "m.element"):
        assert now[name] > max(was.values()), name


def test_a_table_that_is_not_there_is_not_replaced(lake: Lake) -> None:
    orders(lake)
    with pytest.raises(NoSuchTable):
        lake.replace_table("sales.nothing", "id bigint")


def test_another_writer_is_not_overrun(lake: Lake) -> None:
    made(lake)

    def slow() -> Any:
        yield pa.record_batch({"id": pa.array([7], pa.int64())})
        lake.table(NAME).append(rows([3]))

    schema = pa.schema([("id", pa.int64())])
    with pytest.raises(Conflict, match="another writer has changed it"):
        lake.replace_table(NAME, "id bigint", pa.RecordBatchReader.from_batches(schema, slow()))
    assert sorted(lake.table(NAME).scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    check_sound(lake, NAME)


def test_another_writer_is_not_overrun_by_a_new_definition_alone(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    made(lake)

    def slow(old: TableMetadata, new: TableMetadata) -> TableMetadata:
        lake.table(NAME).append(rows([3]))
        return replaced(old, new)

    monkeypatch.setattr("esker.write.definition.create_or_replace.replaced", slow)
    with pytest.raises(Conflict, match="another writer has changed it"):
        lake.replace_table(NAME, "id bigint")
    assert sorted(lake.table(NAME).scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    check_sound(lake, NAME)
