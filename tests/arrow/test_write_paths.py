"""Where data files lie and what they are called, as Iceberg's own writers would have it."""

from __future__ import annotations

from typing import Any

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from write_tables import table_of, write

from esker.arrow.write.file_locations import data_locations, partition_path
from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.transform import DAY, HOUR, IDENTITY, MONTH, VOID, YEAR, BucketTransform, Transform, TruncateTransform
from esker.model.types import BINARY, BOOLEAN, DATE, LONG, STRING, TIMESTAMPTZ, UUID, Field, Type


def folder(type_: Type, transform: Transform, value: Any, name: str = "p") -> str:
    spec = PartitionSpec(fields=(PartitionField(source_id=1, field_id=1000, name=name, transform=transform),))
    return partition_path(spec, {1: Field(id=1, name="c", type=type_)}, (value,))


@pytest.mark.parametrize(
    ("type_", "transform", "value", "expected"),
    [
        (STRING, IDENTITY, "a b/c=d", "p=a+b%2Fc%3Dd"),
        (STRING, IDENTITY, "é~*._-", "p=%C3%A9%7E*._-"),
        (STRING, IDENTITY, "", "p="),
        (STRING, IDENTITY, None, "p=null"),
        (STRING, TruncateTransform(2), "ab", "p=ab"),
        (STRING, BucketTransform(4), 3, "p=3"),
        (BOOLEAN, IDENTITY, True, "p=true"),
        (DATE, IDENTITY, 19723, "p=2024-01-01"),
        (TIMESTAMPTZ, YEAR, 54, "p=2024"),
        (TIMESTAMPTZ, MONTH, -1, "p=1969-12"),
        (TIMESTAMPTZ, DAY, -1, "p=1969-12-31"),
        (TIMESTAMPTZ, HOUR, -1, "p=1969-12-31-23"),
        (UUID, IDENTITY, bytes(16), "p=00000000-0000-0000-0000-000000000000"),
        (BINARY, IDENTITY, b"\xff\xfe", "p=%2F%2F4%3D"),
        (LONG, VOID, None, "p=null"),
    ],
)
def test_folders_are_named_for_people(type_: Type, transform: Transform, value: Any, expected: str) -> None:
    assert folder(type_, transform, value) == expected


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8"), min_size=1))
def test_s13_no_value_leaves_its_folder(value: str, name: str) -> None:
    found = folder(STRING, IDENTITY, value, name)
    assert "/" not in found
    assert "\\" not in found
    assert "\0" not in found
    assert found not in (".", "..")
    assert len(found.encode()) <= 200


def test_long_values_are_cut_and_still_told_apart() -> None:
    one, other = folder(STRING, IDENTITY, "x" * 500 + "a"), folder(STRING, IDENTITY, "x" * 500 + "b")
    assert one != other
    assert len(one) == len(other) == 200


def test_partitions_nest_below_the_data_folder() -> None:
    metadata = table_of(
        Field(id=1, name="a", type=LONG), Field(id=2, name="b", type=STRING), partition=[(1, IDENTITY), (2, IDENTITY)]
    )
    (file,) = write(metadata, {"a": [1], "b": ["x y"]}).files
    assert file.path == "mem:/t/data/a_0=1/b_1=x+y/00000-0-op-00001.parquet"


def test_the_data_path_may_lie_elsewhere() -> None:
    metadata = table_of(Field(id=1, name="a", type=LONG), properties={"write.data.path": "mem:/elsewhere/"})
    (file,) = write(metadata, {"a": [1]}).files
    assert file.path == "mem:/elsewhere/00000-0-op-00001.parquet"
    older = table_of(Field(id=1, name="a", type=LONG), properties={"write.folder-storage.path": "mem:/older"})
    assert write(older, {"a": [1]}).files[0].path.startswith("mem:/older/")


def hashed(way: str) -> str:
    bits = format(mmh3.hash(way, 0, signed=False) & 0xFFFFF, "020b")
    return f"{bits[:4]}/{bits[4:8]}/{bits[8:12]}/{bits[12:]}"


OBJECT = {"write.object-storage.enabled": "true"}


def test_the_object_layout_spreads_files_by_a_hash() -> None:
    metadata = table_of(Field(id=1, name="a", type=LONG), partition=[(1, IDENTITY)], properties=OBJECT)
    way = "a_0=1/00000-0-op-00001.parquet"
    assert write(metadata, {"a": [1]}).files[0].path == f"mem:/t/data/{hashed(way)}/{way}"


def test_the_object_layout_may_leave_partitions_out() -> None:
    properties = {**OBJECT, "write.object-storage.partitioned-paths": "false"}
    metadata = table_of(Field(id=1, name="a", type=LONG), partition=[(1, IDENTITY)], properties=properties)
    name = "00000-0-op-00001.parquet"
    assert write(metadata, {"a": [1]}).files[0].path == f"mem:/t/data/{hashed(name)}-{name}"


def test_the_object_layout_names_the_table_where_several_share_a_place() -> None:
    properties = {**OBJECT, "write.data.path": "s3://bucket/shared"}
    metadata = table_of(Field(id=1, name="a", type=LONG), properties=properties, location="s3://bucket/db/orders")
    found = data_locations(metadata).location("", "f.parquet")
    assert found == f"s3://bucket/shared/{hashed('f.parquet')}/db/orders/f.parquet"
    older = table_of(
        Field(id=1, name="a", type=LONG),
        properties={**OBJECT, "write.object-storage.path": "s3://b/x"},
        location="s3://b/x/t",
    )
    assert data_locations(older).base == "s3://b/x"


@pytest.mark.interop
def test_pyiceberg_hashes_alike() -> None:
    from pyiceberg.table.locations import ObjectStoreLocationProvider

    provider = ObjectStoreLocationProvider("mem:/t", {})
    metadata = table_of(Field(id=1, name="a", type=LONG), properties=OBJECT)
    for name in ("a.parquet", "00000-0-op-00001.parquet", "z"):
        assert data_locations(metadata).location("", name) == provider.new_data_location(name)
