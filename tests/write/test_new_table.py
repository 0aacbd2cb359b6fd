"""A new table's metadata: what is taken, and what is refused before anything is made."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from esker.arrow.input.schema_from_arrow import schema_from_arrow
from esker.errors import EskerError, InvalidInput, Unsupported
from esker.iceberg.metadata.table_metadata import decode_table_metadata
from esker.iceberg.metadata.write_table_metadata import encode_table_metadata
from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.schema import Schema
from esker.model.transform import UnknownTransform
from esker.model.types import LONG, Field, StructType
from esker.tree.table_metadata import TableMetadata
from esker.write.definition.new_table import define_table, new_table_metadata, read_schema, read_type


def table(schema: object = "id bigint not null, ts timestamp, region string", **more: Any) -> TableMetadata:
    return define_table(schema=schema, location="memory://w/db/t", schema_from_arrow=_from_arrow, **more)


def _from_arrow(given: Any) -> Schema:
    return schema_from_arrow(given if isinstance(given, pa.Schema) else pa.schema(given))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_new_table_reads_back_as_it_was_made(version: int) -> None:
    made = table(
        partition_by=["day(ts)", "region"],
        sort_by=["ts desc", "id"],
        properties={"owner": "me", "write.target-file-size-bytes": "1000"},
        format_version=version,
        identifier_fields=["id"],
    )
    read = decode_table_metadata("t", encode_table_metadata(made))
    assert (read.schema, read.spec, read.sort_order) == (made.schema, made.spec, made.sort_order)
    assert read.schema.identifier_field_ids == {1}
    assert (read.uuid, read.properties) == (made.uuid, made.properties)
    assert (read.last_column_id, read.last_partition_id, read.sort_order.order_id) == (3, 1001, 1)
    assert (read.next_row_id, read.current_snapshot_id, len(read.snapshots)) == (0 if version == 3 else None, None, 0)


def test_an_unpartitioned_unsorted_table_has_ids_999_and_0() -> None:
    made = table()
    assert (made.last_partition_id, made.default_spec_id, made.default_sort_order_id) == (999, 0, 0)
    assert made.spec.is_unpartitioned
    assert made.sort_order.is_unsorted


def test_columns_come_from_text_arrow_spark_and_esker_alike() -> None:
    wanted = table("id bigint not null, xs array<int>").schema
    arrow = pa.schema([pa.field("id", pa.int64(), nullable=False), ("xs", pa.list_(pa.int32()))])
    assert table(arrow).schema == table(wanted).schema == table(StructType(wanted.fields)).schema == wanted
    assert table(list(wanted.fields)).schema == wanted
    with pytest.raises(InvalidInput, match="cannot make columns of a int: give DDL such as 'id bigint not null"):
        read_schema(5)
    with pytest.raises(InvalidInput, match="cannot make columns of a Schema"):
        read_schema(arrow)  # without someone who knows Arrow


def test_a_single_type_is_read_the_same_way() -> None:
    assert read_type("bigint") == read_type(LONG) == read_type(pa.int64(), _from_arrow) == LONG
    with pytest.raises(InvalidInput, match="cannot make a column of a float: give a type such as 'bigint'"):
        read_type(5.0)


def test_one_term_need_not_stand_in_a_list() -> None:
    assert [f.name for f in table(partition_by="day(ts)").spec.fields] == ["ts_day"]
    assert len(table(sort_by="ts desc").sort_order.fields) == 1


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"schema": ""}, InvalidInput, "cannot create a table without columns"),
        ({"schema": "a int, A int"}, InvalidInput, "columns 'a' and 'A' differ only in case"),
        ({"format_version": 0}, InvalidInput, "cannot use format version 0: it is 1, 2 or 3"),
        ({"format_version": True}, InvalidInput, "cannot use format version True"),
        ({"format_version": 4}, Unsupported, "cannot use format version 4: the newest known is 3"),
        ({"schema": "a timestamp_ns"}, InvalidInput, "column 'a' of type timestamp_ns in format version 2"),
        ({"schema": "a struct<b: variant>"}, InvalidInput, "column 'a.b' of type variant in format version 2"),
        ({"schema": "a int default 5"}, InvalidInput, "cannot give column 'a' a default in format version 2"),
        ({"partition_by": ["day(nope)"]}, InvalidInput, "cannot use 'day(nope)': no column 'nope'"),
        ({"partition_by": [5]}, InvalidInput, "cannot read partition_by [5]: give text"),
        ({"sort_by": ["id sideways"]}, InvalidInput, "did not expect 'sideways'"),
        ({"properties": {"a": 5}}, InvalidInput, "cannot set the property 'a' to 5: keys and values must be text"),
        ({"properties": {"format-version": "3"}}, InvalidInput, "cannot set format-version as a property: change it"),
        ({"properties": {"write.format.default": "orc"}}, Unsupported, "cannot honour write.format.default = 'orc'"),
        ({"identifier_fields": ["region"]}, InvalidInput, "cannot identify rows by column 'region': it is optional"),
        ({"identifier_fields": ["nope"]}, InvalidInput, "no column 'nope'"),
    ],
)
def test_a_table_that_cannot_be_is_refused(given: dict[str, Any], error: type[EskerError], said: str) -> None:
    with pytest.raises(error) as refusal:
        table(**given)
    assert said in refusal.value.message


def test_specs_given_as_such_are_held_to_the_columns() -> None:
    schema = Schema(fields=(Field(id=1, name="a", type=LONG),))

    def spec(source_id: int, transform: Any) -> PartitionSpec:
        return PartitionSpec(
            fields=(PartitionField(source_id=source_id, field_id=1000, name="p", transform=transform),)
        )

    for given, error, said in (
        (spec(9, UnknownTransform("x")), InvalidInput, "no column has the id 9"),
        (spec(1, UnknownTransform("x")), Unsupported, "cannot create a table with an unknown partition transform"),
    ):
        with pytest.raises(error, match=said):
            new_table_metadata(schema=schema, spec=given, location="x")
    with pytest.raises(InvalidInput, match="that is not a location"):
        new_table_metadata(schema=schema, location=" ")


def test_e4_a_default_of_a_new_table_is_both_defaults() -> None:
    field = table("a int not null default 5", format_version=3).schema.find("a")
    assert (field.initial_default, field.write_default) == (5, 5)
