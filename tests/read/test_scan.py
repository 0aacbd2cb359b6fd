"""A scan: what is chosen, filtered, projected, counted and handed out, and what is refused before a file is opened."""

from __future__ import annotations

import datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from counting_storage import CountingStorage
from table_maker import TableMaker

import esker
from esker.arrow.read.parquet_file import ParquetFile
from esker.errors import InvalidInput, NoSuchSnapshot
from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.schema import Schema
from esker.model.transform import IDENTITY, BucketTransform
from esker.model.types import LONG, STRING, Field, ListType, MapType, StructType
from esker.model.values import to_bytes
from esker.tree.data_file import Metrics

ADDRESS = StructType((Field(id=4, name="city", type=STRING), Field(id=5, name="zip", type=STRING)))
PEOPLE = Schema(
    fields=(
        Field(id=1, name="id", type=LONG),
        Field(id=2, name="name", type=STRING),
        Field(id=3, name="address", type=ADDRESS),
        Field(id=6, name="tags", type=ListType(element_id=7, element=STRING)),
        Field(id=8, name="attrs", type=MapType(key_id=9, key=STRING, value_id=10, value=LONG)),
    )
)
BY_NAME = PartitionSpec(fields=(PartitionField(source_id=2, field_id=1000, name="name", transform=IDENTITY),))


def person(id_: int, name: str | None = "Ada") -> dict[str, Any]:
    address = None if name is None else {"city": f"city {id_}", "zip": str(id_)}
    return {"id": id_, "name": name, "address": address, "tags": ["a", None], "attrs": [("x", id_)]}


def exact(low: int, high: int, rows: int) -> Metrics:
    bounds = {1: to_bytes(LONG, low)}, {1: to_bytes(LONG, high)}
    return Metrics(value_counts={1: rows}, null_counts={1: 0}, lower_bounds=bounds[0], upper_bounds=bounds[1])


def people(*, format_version: int = 2, files: int = 3, rows: int = 4) -> TableMaker:
    """Three files of four people, numbered on."""
    maker = TableMaker(PEOPLE, format_version=format_version)
    for at in range(files):
        first = at * rows
        some = [person(first + n) for n in range(rows)]
        maker.manifest([maker.data_file(some, metrics=exact(first, first + rows - 1, rows), row_group_size=2)])
    return maker


# ---------------------------------------------------------------- projection


def test_columns_come_in_the_order_asked() -> None:
    found = people().table().scan(columns=["name", "id"]).to_arrow()
    assert found.column_names == ["name", "id"]
    assert found.column("id").to_pylist() == list(range(12))


def test_a_column_asked_for_twice_comes_once() -> None:
    assert people().table().scan(columns=["id", "name", "id"]).to_arrow().column_names == ["id", "name"]


def test_names_are_found_without_case_as_spark_does() -> None:
    assert people().table().scan(columns=["ID"]).to_arrow().column_names == ["id"]


def test_no_columns_are_rows_without_columns() -> None:
    found = people().table().scan("id < 5", columns=[]).to_arrow()
    assert (found.num_rows, found.num_columns) == (5, 0)


def test_a_dotted_name_keeps_one_branch_of_its_struct() -> None:
    found = people().table().scan("id = 7", columns=["address.city", "id"]).to_arrow()
    assert found.to_pylist() == [{"address": {"city": "city 7"}, "id": 7}]


def test_two_members_of_one_struct_stay_together() -> None:
    found = people().table().scan("id = 7", columns=["address.zip", "id", "address.city"]).to_arrow()
    assert found.to_pylist() == [{"address": {"city": "city 7", "zip": "7"}, "id": 7}]


def test_lists_and_maps_come_whole() -> None:
    found = people().table().scan("id = 7", columns=["attrs", "tags"]).to_arrow()
    assert found.to_pylist() == [{"attrs": [("x", 7)], "tags": ["a", None]}]


def test_a_filter_may_ask_of_columns_that_are_not_wanted() -> None:
    found = people().table().scan("address.city = 'city 3' AND name = 'Ada'", columns=["id"]).to_arrow()
    assert found.to_pylist() == [{"id": 3}]


def test_the_schema_is_known_before_anything_is_read() -> None:
    maker = people()
    storage = CountingStorage(maker.storage)
    scan = maker.table(storage).scan(columns=["id", "_pos"])
    assert scan.schema.names == ["id", "_pos"]
    assert scan.schema.field("id").metadata == {b"PARQUET:field_id": b"1"}
    assert not storage.opened


def test_an_answer_of_no_rows_has_the_schema_all_the_same() -> None:
    table = people().table()
    assert table.scan("id > 100").to_arrow().schema.equals(table.scan().to_arrow().schema)
    assert TableMaker(PEOPLE).table().scan().to_arrow().schema.equals(table.scan().to_arrow().schema)


# ---------------------------------------------------------------- metadata columns


def test_metadata_columns_tell_where_a_row_lies() -> None:
    found = people().table().scan("id >= 5 AND id < 7", columns=["id", "_file", "_pos", "_spec_id"]).to_arrow()
    assert found.to_pylist() == [
        {"id": 5, "_file": "mem:/t/data/00003.parquet", "_pos": 1, "_spec_id": 0},
        {"id": 6, "_file": "mem:/t/data/00003.parquet", "_pos": 2, "_spec_id": 0},
    ]


def test_the_partition_is_one_struct_over_the_fields_of_all_specs() -> None:
    by_id = PartitionField(source_id=1, field_id=1001, name="shard", transform=BucketTransform(4))
    newer = PartitionSpec(spec_id=1, fields=(by_id,))
    maker = TableMaker(PEOPLE, specs=[BY_NAME, newer])
    maker.manifest([maker.data_file([person(1)], partition=("Ada",), spec_id=0)])
    maker.manifest([maker.data_file([person(2)], partition=(3,), spec_id=1)])
    scan = maker.table().scan(columns=["_partition", "id", "_deleted"])
    assert scan.to_arrow().to_pylist() == [
        {"_partition": {"name": "Ada", "shard": None}, "id": 1, "_deleted": False},
        {"_partition": {"name": None, "shard": 3}, "id": 2, "_deleted": False},
    ]
    never = people().table().scan("id = 5", columns=["_partition"]).to_arrow()
    assert never.to_pylist() == [{"_partition": None}]


def test_deleted_rows_are_read_where_their_mark_is_asked_for_and_only_there() -> None:
    lake = esker.connect("memory:")
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint", properties={"write.delete.mode": "merge-on-read"})
    table.append({"id": [1, 2, 3, 4]})
    table.delete("id = 2")
    with table.transaction() as tx:
        tx.delete_by_key({"id": [4]}, on=["id"])
    marked = table.scan(columns=["id", "_deleted"])
    assert {row["id"]: row["_deleted"] for row in marked.to_arrow().to_pylist()} == {
        1: False,
        2: True,
        3: False,
        4: True,
    }
    assert marked.count() == 4
    assert table.scan("id > 3", columns=["id", "_deleted"]).to_arrow().to_pylist() == [{"id": 4, "_deleted": True}]
    assert table.scan(columns=["id"]).to_arrow()["id"].to_pylist() == [1, 3]


def test_positions_stay_right_where_row_groups_are_left_out() -> None:
    maker = TableMaker(PEOPLE)
    maker.manifest([maker.data_file([person(n) for n in range(10)], row_group_size=2)])
    assert maker.table().scan("id IN (3, 8)", columns=["_pos"]).to_arrow().column(0).to_pylist() == [3, 8]


def test_row_groups_that_no_row_can_match_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    maker = TableMaker(PEOPLE)
    maker.manifest([maker.data_file([person(n) for n in range(10)], row_group_size=2)])
    groups: list[int] = []
    batches = ParquetFile._batches

    def counted(self: ParquetFile, group: int, *how: Any) -> Any:
        groups.append(group)
        return batches(self, group, *how)

    monkeypatch.setattr(ParquetFile, "_batches", counted)
    assert maker.table().scan("id IN (3, 8)").count() == 2
    assert groups == [1, 4]


def test_i8_rows_of_v3_have_ids_and_the_number_of_their_commit() -> None:
    columns = ["id", "_row_id", "_last_updated_sequence_number"]
    found = people(format_version=3).table().scan("id IN (2, 5)", columns=columns).to_arrow()
    assert found.to_pylist() == [
        {"id": 2, "_row_id": 2, "_last_updated_sequence_number": 1},
        {"id": 5, "_row_id": 5, "_last_updated_sequence_number": 1},
    ]


def test_i8_rows_of_v2_have_no_ids() -> None:
    found = people().table().scan("id = 2", columns=["_row_id", "_last_updated_sequence_number"]).to_arrow()
    assert found.to_pylist() == [{"_row_id": None, "_last_updated_sequence_number": None}]


def test_a_column_of_the_tables_own_goes_before_a_metadata_column() -> None:
    schema = Schema(fields=(Field(id=1, name="_pos", type=STRING),))
    maker = TableMaker(schema)
    maker.manifest([maker.data_file([{"_pos": "mine"}])])
    assert maker.table().scan(columns=["_pos"]).to_arrow().to_pylist() == [{"_pos": "mine"}]


def test_metadata_columns_alone_still_read_every_row() -> None:
    assert people().table().scan(columns=["_pos"]).to_arrow().column(0).to_pylist() == [0, 1, 2, 3] * 3


# ---------------------------------------------------------------- limit and count


@pytest.mark.parametrize(("limit", "rows"), [(0, 0), (1, 1), (4, 4), (5, 5), (12, 12), (99, 12)])
def test_a_limit_gives_that_many_rows_and_never_more(limit: int, rows: int) -> None:
    scan = people().table().scan(limit=limit)
    assert scan.to_arrow().column("id").to_pylist() == list(range(rows))
    assert scan.count() == rows


def test_a_limit_opens_no_file_it_does_not_need() -> None:
    maker = people()
    storage = CountingStorage(maker.storage)
    maker.table(storage).scan(limit=3).to_arrow()
    assert storage.opened_like("/data/") == ["mem:/t/data/00001.parquet"]


def test_a_limit_of_nothing_opens_no_data_file() -> None:
    maker = people()
    storage = CountingStorage(maker.storage)
    assert maker.table(storage).scan(limit=0).to_arrow().num_rows == 0
    assert storage.opened_like("/data/") == []


@pytest.mark.parametrize(
    ("where", "rows"), [(None, 12), ("id >= 4", 8), ("id >= 0 AND id < 100", 12), ("id < 0", 0), ("id >= 8", 4)]
)
def test_a_count_from_metadata_opens_no_data_file(where: str | None, rows: int) -> None:
    maker = people()
    storage = CountingStorage(maker.storage)
    assert maker.table(storage).scan(where).count() == rows
    assert storage.opened_like("/data/") == []


def test_a_count_opens_only_the_files_that_are_in_doubt() -> None:
    maker = people()
    storage = CountingStorage(maker.storage)
    assert maker.table(storage).scan("id >= 6").count() == 6
    assert storage.opened_like("/data/") == ["mem:/t/data/00003.parquet"]


def test_a_count_by_partition_needs_no_statistics() -> None:
    maker = TableMaker(PEOPLE, specs=[BY_NAME])
    for name in ("Ada", "Bob", None):
        maker.manifest([maker.data_file([person(1, name), person(2, name)], partition=(name,))])
    storage = CountingStorage(maker.storage)
    table = maker.table(storage)
    assert [table.scan(where).count() for where in ("name = 'Ada'", "name IS NULL", "name <> 'Ada'")] == [2, 2, 2]
    assert storage.opened_like("/data/") == []


def test_a_vector_is_counted_without_being_opened() -> None:
    maker = TableMaker(PEOPLE, format_version=3)
    data_file = maker.data_file([person(n) for n in range(5)])
    maker.manifest([data_file])
    maker.manifest([maker.vector([1, 3], data_file)])
    storage = CountingStorage(maker.storage)
    table = maker.table(storage)
    assert table.scan().count() == 3
    assert storage.opened_like("/data/") == []
    assert table.scan().to_arrow().column("id").to_pylist() == [0, 2, 4]


def test_position_deletes_are_counted_by_reading_them() -> None:
    """They may name a row twice, or rows of other files."""
    maker = TableMaker(PEOPLE)
    data_file = maker.data_file([person(n) for n in range(5)])
    maker.manifest([data_file])
    maker.manifest([maker.position_deletes([(data_file.path, 1), (data_file.path, 1), ("mem:/elsewhere", 0)])])
    assert maker.table().scan().count() == 4


# ---------------------------------------------------------------- ways out


def test_batches_stream_in_file_order() -> None:
    reader = people().table().scan("id > 1").to_batches()
    assert isinstance(reader, pa.RecordBatchReader)
    assert [batch.num_rows for batch in reader if batch.num_rows] != [10]  # more than one
    again = people().table().scan("id > 1").to_batches().read_all()
    assert again.column("id").to_pylist() == list(range(2, 12))


def test_a_stream_opens_a_file_when_its_turn_comes() -> None:
    maker = people()
    storage = CountingStorage(maker.storage)
    reader = maker.table(storage).scan().to_batches()
    assert storage.opened_like("/data/") == []
    reader.read_next_batch()
    assert storage.opened_like("/data/") == ["mem:/t/data/00001.parquet"]
    reader.close()


def test_rows_go_to_pandas_polars_and_duckdb() -> None:
    scan = people().table().scan("id < 2", columns=["id", "name"])
    rows = [{"id": 0, "name": "Ada"}, {"id": 1, "name": "Ada"}]
    assert scan.to_pandas().to_dict("records") == rows
    assert scan.to_polars().to_dicts() == rows
    assert scan.to_duckdb().fetchall() == [(0, "Ada"), (1, "Ada")]


def test_duckdb_queries_a_scan_under_a_name() -> None:
    connection = duckdb.connect()
    relation = people().table().scan(columns=["id"]).to_duckdb(connection)
    assert relation.query("people", "SELECT sum(id), count(*) FROM people").fetchall() == [(66, 12)]


def test_options_of_pandas_are_passed_on() -> None:
    frame = people().table().scan("id = 1", columns=["id"]).to_pandas(types_mapper={pa.int64(): None}.get)
    assert list(frame["id"]) == [1]


def test_a_scan_stays_with_the_snapshot_it_was_made_for() -> None:
    maker = people()
    table = maker.table()
    scan = table.scan()
    maker.manifest([maker.data_file([person(99)])])
    maker.snapshot()
    assert scan.count() == 12
    assert maker.table().scan().count() == 13


def test_a_filter_of_python_equals_one_of_sql() -> None:
    table = people().table()
    by_text = table.scan("id BETWEEN 2 AND 4 OR address.zip LIKE '1%'").to_arrow()
    by_python = table.scan(esker.col("id").between(2, 4) | esker.col("address.zip").startswith("1")).to_arrow()
    assert by_text.equals(by_python)
    assert by_text.column("id").to_pylist() == [1, 2, 3, 4, 10, 11]


# ---------------------------------------------------------------- time travel


def two_snapshots() -> TableMaker:
    maker = TableMaker(Schema(fields=PEOPLE.fields[:2]))
    maker.manifest([maker.data_file([{"id": 1, "name": "Ada"}])])
    maker.snapshot()
    maker.evolve(Schema(fields=(PEOPLE.fields[0], Field(id=2, name="full_name", type=STRING))))
    maker.manifest([maker.data_file([{"id": 2, "full_name": "Bob"}])])
    maker.snapshot()
    return maker


def test_k4_an_older_snapshot_reads_with_its_own_schema() -> None:
    table = two_snapshots().table()
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "full_name": "Ada"}, {"id": 2, "full_name": "Bob"}]
    assert table.scan(snapshot_id=1000).to_arrow().to_pylist() == [{"id": 1, "name": "Ada"}]
    assert table.scan("name = 'Ada'", snapshot_id=1000).count() == 1


def test_k1_a_time_reads_what_was_current_then() -> None:
    table = two_snapshots().table()
    between = datetime.datetime.fromtimestamp(1_700_000_000.5, datetime.UTC)
    assert table.scan(as_of=between).count() == 1
    assert table.scan(as_of=between.isoformat()).count() == 1
    assert table.scan(as_of=1_700_000_001_000).count() == 2


def test_k1_a_time_before_the_table_is_refused_naming_the_oldest() -> None:
    with pytest.raises(
        NoSuchSnapshot, match=r"no snapshot as of 2001-01-01 .* the oldest from 2023-11-14 22:13:20 UTC"
    ):
        two_snapshots().table().scan(as_of="2001-01-01")


# ---------------------------------------------------------------- refusals


def test_a_typo_in_a_column_gets_a_suggestion() -> None:
    with pytest.raises(InvalidInput, match=r"no column 'nmae': did you mean 'name'\?"):
        people().table().scan(columns=["nmae"])


def test_a_typo_in_a_filter_gets_a_suggestion_and_its_place() -> None:
    with pytest.raises(InvalidInput, match=r"no column 'nmae': did you mean 'name'\? at line 1, column 10"):
        people().table().scan("id=1 AND nmae = 'Ada'")


def test_columns_as_one_string_is_a_mistake() -> None:
    with pytest.raises(InvalidInput, match=r"columns='id': give a list of names: \['id'\]"):
        people().table().scan(columns="id")


@pytest.mark.parametrize("limit", [-1, 1.5, "3", True])
def test_a_limit_is_a_whole_number_from_zero(limit: Any) -> None:
    with pytest.raises(InvalidInput, match=r"cannot read .* rows: limit must be a whole number from 0"):
        people().table().scan(limit=limit)


def test_a_snapshot_is_chosen_once() -> None:
    with pytest.raises(InvalidInput, match="cannot choose a snapshot twice"):
        people().table().scan(snapshot_id=1, ref="main")


@pytest.mark.parametrize(("where", "what"), [(5, "int"), (["id = 1"], "list"), ({"id": 1}, "dict"), (True, "bool")])
def test_a_filter_is_text_or_an_expression(where: Any, what: str) -> None:
    with pytest.raises(InvalidInput, match=rf"cannot filter by .*{what}"):
        people().table().scan(where)


@pytest.mark.parametrize("columns", [[1], [None], [b"id"], 5, {"id": 1}.items()])
def test_columns_are_names(columns: Any) -> None:
    with pytest.raises(InvalidInput, match="cannot select columns="):
        people().table().scan(columns=columns)


def test_a_column_below_a_list_cannot_be_filtered_by() -> None:
    with pytest.raises(InvalidInput, match=r"cannot filter by tags.element.*: it is inside a list or map"):
        people().table().scan("tags.element = 'a'")
