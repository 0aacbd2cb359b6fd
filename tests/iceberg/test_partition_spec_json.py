"""Partition specs and sort orders in the JSON of table metadata."""

from __future__ import annotations

from typing import Any

import pytest

from esker.errors import Corrupt
from esker.iceberg.metadata.partition_and_sort import (
    decode_partition_fields,
    decode_partition_spec,
    decode_partition_specs,
    decode_sort_order,
    decode_sort_orders,
    encode_partition_spec,
    encode_sort_order,
)
from esker.model.partition_and_sort import PartitionField, PartitionSpec, SortField, SortOrder
from esker.model.transform import DAY, IDENTITY, BucketTransform, UnknownTransform


def part(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "transform": "identity", "source-id": 1, **more}


def key(**more: Any) -> dict[str, Any]:
    return {"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first", **more}


def test_f1_fields_without_ids_are_counted_from_1000_by_position() -> None:
    fields = decode_partition_fields("m.json", [part("a"), part("b", transform="day"), part("c")])
    assert [(field.name, field.field_id) for field in fields] == [("a", 1000), ("b", 1001), ("c", 1002)]
    assert fields[1].transform == DAY


def test_f1_ids_that_are_there_are_kept() -> None:
    fields = decode_partition_fields("m.json", [part("a", **{"field-id": 1005}), part("b", **{"field-id": 1002})])
    assert [field.field_id for field in fields] == [1005, 1002]


def test_f9_an_unknown_transform_is_kept_as_it_is_written() -> None:
    spec = decode_partition_spec("m", {"spec-id": 3, "fields": [part("z", transform="zorder(4)")]})
    assert spec.fields[0].transform == UnknownTransform("zorder(4)")
    assert not spec.is_writable
    assert encode_partition_spec(spec)["fields"][0]["transform"] == "zorder(4)"


def test_a_transform_of_several_columns_keeps_them_all() -> None:
    json = {"name": "h", "transform": "bucket[4]", "source-ids": [3, 5, 6], "field-id": 1000}
    (field,) = decode_partition_fields("m", [json])
    expected = PartitionField(source_id=3, other_sources=(5, 6), name="h", field_id=1000, transform=BucketTransform(4))
    assert field == expected
    assert encode_partition_spec(PartitionSpec(fields=(field,)))["fields"] == [json]


def test_specs_and_sort_orders_read_back_as_they_were_written() -> None:
    spec = PartitionSpec(
        spec_id=2,
        fields=(
            PartitionField(source_id=1, field_id=1000, name="a", transform=BucketTransform(16)),
            PartitionField(source_id=2, field_id=1001, name="b", transform=DAY),
        ),
    )
    order = SortOrder(
        order_id=3,
        fields=(
            SortField(source_id=2, transform=IDENTITY),
            SortField(source_id=3, transform=BucketTransform(4), descending=True, nulls_last=True),
            SortField(source_id=3, other_sources=(4,), transform=UnknownTransform("zorder"), nulls_last=True),
        ),
    )
    assert decode_partition_spec("m", encode_partition_spec(spec)) == spec
    assert decode_sort_order("m", encode_sort_order(order)) == order


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([part("a", **{"field-id": 1000}), part("b")], "the partition spec: 1 of its 2 fields have no 'field-id'"),
        ([part("a", **{"field-id": 1000})] * 2, "two of its fields have the same 'field-id'"),
        ([{"name": "a", "transform": "day"}], "field 0 of the partition spec: 'source-id' is missing"),
        ([{"name": "a", "source-id": 1}], "'transform' is missing"),
        ([part("a", transform=5)], "'transform' must be a string, not 5"),
        (["day(ts)"], "field 0 of the partition spec must be a JSON object, not 'day"),
        ([part("a", **{"source-ids": "1"})], "'source-ids' must be an array, not '1'"),
    ],
)
def test_broken_partition_fields_are_refused(fields: list[Any], reason: str) -> None:
    with pytest.raises(Corrupt, match=reason):
        decode_partition_fields("m.json", fields)


@pytest.mark.parametrize(
    ("json", "reason"),
    [
        ({"order-id": 1}, "the sort order: 'fields' is missing"),
        ({"fields": []}, "the sort order: 'order-id' is missing"),
        ({"order-id": 1, "fields": [key(direction="up")]}, "'direction' must be 'asc' or 'desc', not 'up'"),
        ({"order-id": 1, "fields": [key(**{"null-order": None})]}, "'null-order' is missing"),
        ({"order-id": 1, "fields": [key(**{"null-order": "last"})]}, "'null-order' must be 'nulls-first' or"),
    ],
)
def test_broken_sort_orders_are_refused(json: Any, reason: str) -> None:
    with pytest.raises(Corrupt, match=reason):
        decode_sort_order("m.json", json)


def test_the_case_of_a_direction_does_not_matter() -> None:
    json = {"order-id": 1, "fields": [key(direction="DESC", **{"null-order": "NULLS-LAST"})]}
    (field,) = decode_sort_order("m", json).fields
    assert field.descending
    assert field.nulls_last


def test_two_specs_or_orders_under_one_id_must_say_the_same() -> None:
    one, other = {"spec-id": 0, "fields": []}, {"spec-id": 0, "fields": [part("a")]}
    assert len(decode_partition_specs("m", [one, one])) == 1
    with pytest.raises(Corrupt, match="two different partition specs have the id 0"):
        decode_partition_specs("m", [one, other])
    with pytest.raises(Corrupt, match="two different sort orders have the id 1"):
        decode_sort_orders("m", [{"order-id": 1, "fields": []}, {"order-id": 1, "fields": [key()]}])
