"""Partition members: every type, after evolution, from whatever form a writer gave them."""

from __future__ import annotations

import copy
import uuid
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from manifest_makers import BY_REGION, a_file, a_manifest, one_field, read_entries, rewritten, table_of, without_ids

from esker.errors import Corrupt, Unsupported
from esker.iceberg.manifests.avro_fields import avro_name
from esker.iceberg.manifests.partition_values import avro_type, decimal_width
from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.schema import Schema
from esker.model.transform import DAY, HOUR, IDENTITY, VOID, BucketTransform, Transform, UnknownTransform
from esker.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UUID,
    VARIANT,
    DecimalType,
    Field,
    FixedType,
    Type,
)

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
VALUES: list[tuple[Type, st.SearchStrategy[Any], pa.DataType]] = [
    (BOOLEAN, st.booleans(), pa.bool_()),
    (INT, INT32, pa.int64()),
    (LONG, INT64, pa.int64()),
    (FLOAT, st.floats(width=32, allow_nan=False), pa.float64()),
    (DOUBLE, st.floats(allow_nan=False), pa.float64()),
    (DATE, INT32, pa.int64()),
    (TIME, st.integers(0, 86_399_999_999), pa.int64()),
    (TIMESTAMP, INT64, pa.int64()),
    (TIMESTAMPTZ, INT64, pa.int64()),
    (TIMESTAMP_NS, INT64, pa.int64()),
    (TIMESTAMPTZ_NS, INT64, pa.int64()),
    (STRING, st.text(max_size=8), pa.string()),
    (UUID, st.binary(min_size=16, max_size=16), pa.binary()),
    (FixedType(3), st.binary(min_size=3, max_size=3), pa.binary()),
    (BINARY, st.binary(max_size=8), pa.binary()),
    (DecimalType(9, 2), st.decimals(-9_999_999, 9_999_999, places=2), pa.decimal128(38, 2)),
    (DecimalType(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal), pa.decimal128(38, 0)),
]


def read_members(schema: Schema, spec: PartitionSpec, *partitions: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    files = [a_file(str(at), spec_id=spec.spec_id, partition=partition) for at, partition in enumerate(partitions)]
    read = read_entries(a_manifest(files, schema=schema, spec=spec), table=table_of(spec, schemas=(schema,)))
    return [read.partition_tuple(row) for row in range(len(read))]


@pytest.mark.parametrize(("type_", "values", "arrow"), VALUES, ids=lambda given: str(given)[:24])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a10_every_type_reads_back_in_held_form(
    type_: Type, values: st.SearchStrategy[Any], arrow: pa.DataType, data: st.DataObject
) -> None:
    column = data.draw(st.lists(st.none() | values, max_size=5))
    schema, spec = one_field(type_)
    files = [a_file(str(at), partition=(value,)) for at, value in enumerate(column)]
    read = read_entries(a_manifest(files, schema=schema, spec=spec), table=table_of(spec, schemas=(schema,)))
    assert read.partition[0].type == arrow
    assert read.partition[0].to_pylist() == column


@pytest.mark.parametrize(
    ("type_", "written"),
    [
        (DATE, {"type": "int", "logicalType": "date"}),
        (TIMESTAMP, {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False}),
        (TIMESTAMPTZ_NS, {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True}),
        (UUID, {"type": "fixed", "size": 16, "logicalType": "uuid", "name": "uuid_fixed"}),
    ],
)
def test_a10_logical_types_are_written_as_the_spec_says(type_: Type, written: dict[str, Any]) -> None:
    assert avro_type(type_) == written


@pytest.mark.parametrize(("precision", "width"), [(1, 1), (2, 1), (3, 2), (4, 2), (9, 4), (18, 8), (19, 9), (38, 16)])
def test_a10_a_decimal_takes_the_fewest_bytes(precision: int, width: int) -> None:
    assert decimal_width(precision) == width


def test_two_members_of_one_named_type_are_defined_once() -> None:
    schema = Schema(fields=(Field(id=1, name="a", type=UUID), Field(id=2, name="b", type=UUID)))
    fields = tuple(
        PartitionField(source_id=at, field_id=999 + at, name=name, transform=IDENTITY)
        for at, name in ((1, "a"), (2, "b"))
    )
    assert read_members(schema, PartitionSpec(fields=fields), (bytes(16), b"\xff" * 16)) == [(bytes(16), b"\xff" * 16)]


def test_a_variant_cannot_be_partitioned_by() -> None:
    with pytest.raises(Unsupported, match="cannot partition by a variant"):
        avro_type(VARIANT)


def plain(data: bytes, avro: Any, value: Any) -> bytes:
    """The manifest with its one partition member under another Avro type."""

    def bent(schema: dict[str, Any]) -> dict[str, Any]:
        out = copy.deepcopy(schema)
        [partition] = [f for f in out["fields"][-1]["type"]["fields"] if f["name"] == "partition"]
        partition["type"]["fields"][0]["type"] = avro
        del partition["type"]["fields"][0]["default"]
        return out

    def stored(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "data_file": {**row["data_file"], "partition": {"x_part": value}}}

    return rewritten(data, schema=bent, record=stored)


def member_stored_as(type_: Type, avro: Any, value: Any, transform: Transform = IDENTITY) -> Any:
    schema, spec = one_field(type_, transform)
    row, data = a_manifest([a_file(partition=(None,))], schema=schema, spec=spec)
    read = read_entries((row, plain(data, avro, value)), table=table_of(spec, schemas=(schema,)))
    return read.partition_tuple(0)[0]


@pytest.mark.parametrize("avro", ["int", "long", {"type": "int", "logicalType": "date"}])
def test_f4_a_day_is_read_from_a_date_or_a_plain_number(avro: Any) -> None:
    assert member_stored_as(TIMESTAMP, avro, 19000, DAY) == 19000


def test_a_required_member_is_read_too() -> None:
    assert member_stored_as(TIME, {"type": "long", "logicalType": "time-micros"}, 7) == 7


@pytest.mark.parametrize(
    ("type_", "avro", "stored", "held"),
    [
        (LONG, "int", 5, 5),
        (DOUBLE, "float", 0.5, 0.5),
        (TIMESTAMP, {"type": "int", "logicalType": "date"}, 2, 2 * 86_400_000_000),
        (TIMESTAMP_NS, "int", -1, -86_400_000_000_000),
        (DecimalType(18, 2), {"type": "fixed", "size": 2, "name": "d"}, b"\xff\x7f", Decimal("-1.29")),
    ],
)
def test_e6_a_member_written_before_a_promotion_reads_as_the_new_type(
    type_: Type, avro: Any, stored: Any, held: Any
) -> None:
    assert member_stored_as(type_, avro, stored) == held


@pytest.mark.parametrize(
    ("type_", "avro", "stored", "held"),
    [
        (DecimalType(9, 2), "bytes", b"\x05\x8c", Decimal("14.20")),
        (UUID, "string", "00000000-0000-0000-0000-0000000000ff", uuid.UUID(int=255).bytes),
        (STRING, "bytes", b"eu", "eu"),
        (BINARY, {"type": "fixed", "size": 2, "name": "f"}, b"ab", b"ab"),
    ],
)
def test_a_member_in_an_unusual_form_is_understood(type_: Type, avro: Any, stored: Any, held: Any) -> None:
    assert member_stored_as(type_, avro, stored) == held


@pytest.mark.parametrize(
    ("type_", "avro", "stored", "reason"),
    [
        (LONG, "string", "5", "partition field 'x_part' is string where int64 belongs"),
        (DecimalType(9, 2), "long", 5, "partition field 'x_part' is int64 where a decimal belongs"),
        (DecimalType(38, 2), "bytes", b"\x01" * 17, "partition field 'x_part' has a decimal of more than 16 bytes"),
        (UUID, "string", "nonsense", "partition field 'x_part' has text that is not a uuid"),
    ],
)
def test_a_member_of_the_wrong_kind_is_corrupt(type_: Type, avro: Any, stored: Any, reason: str) -> None:
    with pytest.raises(Corrupt, match=rf"m\.avro is corrupt: {reason}"):
        member_stored_as(type_, avro, stored)


def test_a_dropped_field_is_null_whatever_was_written() -> None:
    assert member_stored_as(LONG, "long", 5, VOID) is None


@pytest.mark.parametrize("transform", [UnknownTransform("zorder[3]"), BucketTransform(4), HOUR])
def test_f9_members_of_any_transform_are_read(transform: Transform) -> None:
    assert member_stored_as(TIMESTAMP, "long", 5, transform) == 5


@pytest.mark.parametrize(
    ("avro", "stored", "held"),
    [
        ("int", 5, 5),
        ("string", "eu", "eu"),
        ("boolean", True, True),
        ("double", 0.5, 0.5),
        ("bytes", b"ab", b"ab"),
        ({"type": "fixed", "size": 2, "name": "f"}, b"ab", b"ab"),
        (
            {"type": "fixed", "size": 2, "name": "d", "logicalType": "decimal", "precision": 4, "scale": 1},
            b"\x00\x0f",
            Decimal("1.5"),
        ),
    ],
)
def test_a_member_whose_source_is_gone_is_read_as_it_was_declared(avro: Any, stored: Any, held: Any) -> None:
    schema, spec = one_field(LONG)
    row, data = a_manifest([a_file(partition=(None,))], schema=schema, spec=spec)
    table = table_of(spec, schemas=(Schema(fields=(Field(id=9, name="other", type=LONG),)),))
    assert read_entries((row, plain(data, avro, stored)), table=table).partition_tuple(0) == (held,)


def test_a_member_that_the_writer_did_not_have_is_null() -> None:
    grown = replace(
        BY_REGION,
        fields=(*BY_REGION.fields, PartitionField(source_id=1, field_id=1001, name="id", transform=IDENTITY)),
    )
    row, data = a_manifest([a_file(spec_id=3, partition=("eu",))], spec=BY_REGION)
    assert read_entries((row, data), table=table_of(grown)).partition_tuple(0) == ("eu", None)


def test_members_are_found_by_id_when_the_spec_orders_them_anew() -> None:
    schema = Schema(fields=(Field(id=1, name="a", type=LONG), Field(id=2, name="b", type=STRING)))
    a = PartitionField(source_id=1, field_id=1000, name="a", transform=IDENTITY)
    b = PartitionField(source_id=2, field_id=1001, name="b", transform=IDENTITY)
    row, data = a_manifest([a_file(partition=(5, "x"))], schema=schema, spec=PartitionSpec(fields=(a, b)))
    turned = table_of(PartitionSpec(fields=(b, replace(a, name="renamed"))), schemas=(schema,))
    assert read_entries((row, data), table=turned).partition_tuple(0) == ("x", 5)


def test_a_partition_field_may_have_the_id_of_a_manifest_field() -> None:
    schema = Schema(fields=(Field(id=1, name="a", type=LONG), Field(id=2, name="b", type=STRING)))
    fields = (
        PartitionField(source_id=1, field_id=103, name="a", transform=IDENTITY),
        PartitionField(source_id=2, field_id=1000, name="b", transform=IDENTITY),
    )
    assert read_members(schema, PartitionSpec(fields=fields), (5, "x")) == [(5, "x")]


def test_an_odd_name_is_written_as_avro_allows_and_found_again_without_ids() -> None:
    schema = Schema(fields=(Field(id=1, name="a.b c", type=STRING),))
    spec = PartitionSpec(fields=(PartitionField(source_id=1, field_id=1000, name="a.b c", transform=IDENTITY),))
    row, data = a_manifest([a_file(partition=("eu",))], schema=schema, spec=spec)
    read = read_entries((row, rewritten(data, schema=without_ids)), table=table_of(spec, schemas=(schema,)))
    assert read.partition_tuple(0) == ("eu",)


@pytest.mark.parametrize(
    ("name", "written"), [("plain_1", "plain_1"), ("a.b", "a_x2Eb"), ("1st", "_1st"), ("é", "_xE9"), ("a-b", "a_x2Db")]
)
def test_names_are_spelled_as_java_spells_them(name: str, written: str) -> None:
    assert avro_name(name) == written
