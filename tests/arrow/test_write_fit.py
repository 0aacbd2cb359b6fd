"""What fits a table and what does not: refused by the column's name, and by the row where a value is to blame."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from write_tables import PRIMITIVES, held_values

from esker.arrow.arrow_types import to_arrow, to_arrow_schema
from esker.arrow.input.fit_data import fit
from esker.arrow.value_arrays import array_of
from esker.errors import InvalidInput
from esker.model.schema import Schema
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
    UNKNOWN,
    UUID,
    DecimalType,
    Field,
    FixedType,
    ListType,
    MapType,
    StructType,
    Type,
)


def schema_of(*fields: Field) -> Schema:
    return Schema(fields=fields)


def one(type_: Type, **more: Any) -> Schema:
    return schema_of(Field(id=1, name="c", type=type_, **more))


def fitted(schema: Schema, data: object) -> list[dict[str, Any]]:
    table = fit(schema, data).read_all()
    assert table.schema.equals(to_arrow_schema(schema.fields), check_metadata=True)
    table.validate(full=True)
    return table.to_pylist()


def column(type_: Type, array: pa.Array) -> list[Any]:
    return [row["c"] for row in fitted(one(type_), pa.table({"c": array}))]


WIDENINGS = [
    (pa.array([1, None], pa.int8()), INT, [1, None]),
    (pa.array([1], pa.int16()), LONG, [1]),
    (pa.array([255], pa.uint8()), INT, [255]),
    (pa.array([2**32 - 1], pa.uint32()), LONG, [2**32 - 1]),
    (pa.array([7], pa.int64()), INT, [7]),
    (pa.array([2**63 - 1], pa.uint64()), LONG, [2**63 - 1]),
    (pa.array([1.5], pa.float32()), DOUBLE, [1.5]),
    (pa.array([3], pa.int64()), DOUBLE, [3.0]),
    (pa.array([3], pa.int32()), FLOAT, [3.0]),
    (pa.array([Decimal("1.2")], pa.decimal128(2, 1)), DecimalType(9, 2), [Decimal("1.20")]),
    (pa.array([Decimal("1.20")], pa.decimal256(40, 2)), DecimalType(3, 1), [Decimal("1.2")]),
    (pa.array([12]), DecimalType(4, 2), [Decimal("12.00")]),
    (pa.array([dt.date(2024, 1, 2)], pa.date64()), DATE, [dt.date(2024, 1, 2)]),
    (pa.array([5], pa.time32("s")), TIME, [dt.time(0, 0, 5)]),
    (pa.array([5000], pa.time64("ns")), TIME, [dt.time(0, 0, 0, 5)]),
    (pa.array([1], pa.timestamp("s")), TIMESTAMP, [dt.datetime(1970, 1, 1, 0, 0, 1)]),
    (pa.array([1000], pa.timestamp("ns")), TIMESTAMP, [dt.datetime(1970, 1, 1, 0, 0, 0, 1)]),
    (pa.array(["a", None], pa.large_string()), STRING, ["a", None]),
    (pa.array(["a"], pa.string_view()), STRING, ["a"]),
    (pa.array(["a", "b", "a"]).dictionary_encode(), STRING, ["a", "b", "a"]),
    (pa.array([b"a"], pa.large_binary()), BINARY, [b"a"]),
    (pa.array([b"ab"], pa.binary(2)), BINARY, [b"ab"]),
    (pa.array([b"ab"]), FixedType(2), [b"ab"]),
    (pa.array([None, None], pa.null()), LONG, [None, None]),
    (pa.array([None], pa.int64()), UNKNOWN, [None]),
]


@pytest.mark.parametrize(("array", "type_", "expected"), WIDENINGS, ids=lambda v: str(getattr(v, "type", v))[:30])
def test_what_loses_nothing_is_taken(array: pa.Array, type_: Type, expected: list[Any]) -> None:
    assert column(type_, array) == expected


def test_an_instant_keeps_its_moment_whatever_its_zone() -> None:
    zone = pa.timestamp("us", tz="+02:00")
    assert column(TIMESTAMPTZ, pa.array([0], zone)) == [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)]


@pytest.mark.parametrize("form", [str, lambda u: u.bytes], ids=["text", "bytes"])
def test_a_uuid_comes_as_text_bytes_or_itself(form: Any) -> None:
    number = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
    assert column(UUID, pa.array([form(number), None])) == [number, None]
    held = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([number.bytes], pa.binary(16)))
    assert column(UUID, held) == [number]


MISFITS = [
    (pa.array([1, 2**31]), INT, "row 1: .*2147483648"),
    (pa.array([2**63], pa.uint64()), LONG, "row 0"),
    (pa.array([1, 2**60 + 1]), DOUBLE, "row 1"),
    (pa.array([Decimal("1.25")]), DecimalType(9, 1), "row 0"),
    (pa.array([Decimal("123.4")]), DecimalType(3, 1), "row 0"),
    (pa.array([1, 1000]), DecimalType(4, 2), "row 1"),
    (pa.array([1000, 1001], pa.timestamp("ns")), TIMESTAMP, "row 1: .*lose data"),
    (pa.array([2**62], pa.timestamp("s")), TIMESTAMP, "row 0"),
    (pa.array([1], pa.time64("ns")), TIME, "row 0"),
    (pa.array([b"ab", b"abc"]), FixedType(2), "row 1"),
    (pa.array([b"short"]), UUID, "row 0"),
    (pa.array([None, "no uuid"]), UUID, "row 1: badly formed"),
    (pa.array([None, 1]), UNKNOWN, "row 1: .*can only be null"),
]


@pytest.mark.parametrize(("array", "type_", "why"), MISFITS, ids=lambda v: str(getattr(v, "type", v))[:30])
def test_a_value_that_would_be_lost_is_refused_by_column_and_row(array: pa.Array, type_: Type, why: str) -> None:
    with pytest.raises(InvalidInput, match=f"column 'c' does not fit in {why}") as raised:
        fit(one(type_), pa.table({"c": array}))
    assert raised.value.column == "c"


WRONG_TYPES = [
    (pa.array([1.0]), LONG),
    (pa.array(["1"]), INT),
    (pa.array([1.5]), FLOAT),
    (pa.array([1.5]), DecimalType(9, 2)),
    (pa.array([1]), STRING),
    (pa.array([1]), BOOLEAN),
    (pa.array(["a"]), BINARY),
    (pa.array([b"a"]), STRING),
    (pa.array([0], pa.timestamp("us")), DATE),
    (pa.array([0], pa.timestamp("us")), TIMESTAMPTZ),
    (pa.array([0], pa.timestamp("us", tz="UTC")), TIMESTAMP),
    (pa.array([dt.date(2024, 1, 1)]), TIMESTAMP_NS),
    (pa.array([0], pa.duration("us")), LONG),
    (pa.array([[1]]), LONG),
    (pa.array([b"abc"], pa.binary(3)), FixedType(2)),
    (pa.array([{"x": 1}]), ListType(element_id=2, element=LONG)),
]


@pytest.mark.parametrize(("array", "type_"), WRONG_TYPES, ids=lambda v: str(getattr(v, "type", v))[:30])
def test_a_wrong_type_is_refused_by_the_schema_alone(array: pa.Array, type_: Type) -> None:
    nothing = pa.RecordBatchReader.from_batches(pa.schema([("c", array.type)]), [])
    with pytest.raises(InvalidInput, match=r"column 'c' is .* in the data, which does not fit the table's"):
        fit(one(type_), nothing)


def test_a_zone_that_is_missing_is_said_so() -> None:
    with pytest.raises(InvalidInput, match="one has a time zone and the other has none"):
        fit(one(TIMESTAMPTZ), pa.table({"c": pa.array([0], pa.timestamp("us"))}))


TWO = schema_of(
    Field(id=1, name="id", type=LONG, required=True),
    Field(id=2, name="Name", type=STRING, write_default="nobody"),
    Field(id=3, name="x", type=DOUBLE),
)


def test_columns_go_by_name_in_any_order_and_missing_ones_take_their_default() -> None:
    assert fitted(TWO, pa.table({"x": [1.0], "id": [1]})) == [{"id": 1, "Name": "nobody", "x": 1.0}]
    assert fitted(TWO, pa.table({"Name": [None, "a"], "id": [1, 2]})) == [
        {"id": 1, "Name": None, "x": None},
        {"id": 2, "Name": "a", "x": None},
    ]


def test_case_is_looked_at_first_and_then_forgiven() -> None:
    assert fitted(TWO, pa.table({"ID": [1], "name": ["a"]})) == [{"id": 1, "Name": "a", "x": None}]
    cases = schema_of(Field(id=1, name="a", type=LONG), Field(id=2, name="A", type=LONG))
    assert fitted(cases, pa.table({"A": [1], "a": [2]})) == [{"a": 2, "A": 1}]


def test_an_ambiguous_name_is_refused() -> None:
    with pytest.raises(InvalidInput, match="column 'ID' is ambiguous"):
        fit(TWO, pa.table([pa.array([1]), pa.array([1])], names=["ID", "iD"]))
    with pytest.raises(InvalidInput, match="column 'id' is there twice"):
        fit(TWO, pa.table([pa.array([1]), pa.array([1])], names=["id", "id"]))


def test_an_unknown_column_is_refused_with_the_likely_one() -> None:
    with pytest.raises(InvalidInput, match=r"has a column 'Nam' that the table does not have; did you mean 'Name'\?"):
        fit(TWO, pa.table({"id": [1], "Nam": ["a"]}))


def test_a_missing_required_column_is_refused_before_a_row_is_read() -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        raise AssertionError("nobody should read")
        yield

    reader = pa.RecordBatchReader.from_batches(pa.schema([("x", pa.float64())]), rows())
    with pytest.raises(InvalidInput, match="the required column 'id' is missing from the data") as raised:
        fit(TWO, reader)
    assert raised.value.column == "id"


def test_a_null_in_a_required_column_is_named_with_its_row_even_in_a_later_batch() -> None:
    batches = [pa.record_batch({"id": [1, 2]}), pa.record_batch({"id": pa.array([3, None])})]
    reader = fit(TWO, pa.RecordBatchReader.from_batches(batches[0].schema, batches))
    with pytest.raises(InvalidInput, match="column 'id' does not fit in row 3: it is required") as raised:
        reader.read_all()
    assert (raised.value.column, raised.value.row) == ("id", 3)


NESTED = schema_of(
    Field(
        id=1,
        name="s",
        type=StructType(
            (
                Field(id=2, name="a", type=LONG, required=True),
                Field(id=3, name="b", type=STRING, write_default="d"),
                Field(id=4, name="l", type=ListType(element_id=5, element=INT, element_required=True)),
            )
        ),
    ),
    Field(id=6, name="m", type=MapType(key_id=7, key=STRING, value_id=8, value=INT, value_required=True)),
)


def test_nested_columns_go_by_name_too() -> None:
    rows = [{"m": {"k": 1}, "s": {"l": [1, 2], "a": 5}}, {"m": None, "s": None}, {"m": {}, "s": {"a": 6, "l": None}}]
    assert fitted(NESTED, rows) == [
        {"s": {"a": 5, "b": "d", "l": [1, 2]}, "m": [("k", 1)]},
        {"s": None, "m": None},
        {"s": {"a": 6, "b": "d", "l": None}, "m": []},
    ]


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ({"s": {"a": None}}, "s.a"),
        ({"s": {"a": 1, "l": [1, None]}}, "s.l.element"),
        ({"m": {"k": None}}, "m.value"),
        ({"s": {"a": 1, "l": [2**31]}}, "s.l.element"),
    ],
)
def test_a_misfit_inside_is_named_by_its_path(row: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidInput, match=f"column '{name}' does not fit") as raised:
        fit(NESTED, [{"s": {"a": 1, "l": [1]}, "m": {"k": 1}}, row])
    assert raised.value.column == name


def test_an_unknown_or_missing_member_is_named_by_its_path() -> None:
    with pytest.raises(InvalidInput, match=r"a column 's\.z' that the table does not have"):
        fit(NESTED, [{"s": {"a": 1, "z": 1}}])
    with pytest.raises(InvalidInput, match=r"the required column 's\.a' is missing"):
        fit(NESTED, [{"s": {"b": "x"}}])


def test_what_lies_below_a_null_struct_is_nobodys() -> None:
    child = pa.array([1, None, 3], pa.int64())
    hidden = pa.StructArray.from_arrays([child], names=["a"], mask=pa.array([False, True, False]))
    assert [row["s"] and row["s"]["a"] for row in fitted(NESTED, pa.table({"s": hidden}))] == [1, None, 3]
    with pytest.raises(InvalidInput, match=r"column 's\.a' does not fit in row 1"):
        fit(NESTED, pa.table({"s": pa.StructArray.from_arrays([child], names=["a"])}))


@pytest.mark.parametrize(
    "type_",
    [
        pa.large_list(pa.int64()),
        pa.list_(pa.int64(), 2),
        pa.list_view(pa.int64()),
        pa.large_list_view(pa.int64()),
        pa.list_(pa.int8()),
    ],
    ids=str,
)
def test_lists_of_every_make_are_lists_even_sliced(type_: pa.DataType) -> None:
    array = pa.array([[9, 9], [1, 2], None, [3, 4]], type_).slice(1)
    assert column(ListType(element_id=2, element=LONG), array) == [[1, 2], None, [3, 4]]


def test_pairs_stand_for_a_map_where_a_library_has_none() -> None:
    pairs = pa.array([[{"key": "a", "value": 1}], None, []])
    assert column(MapType(key_id=2, key=STRING, value_id=3, value=LONG), pairs) == [[("a", 1)], None, []]


def test_e5_an_empty_default_is_a_struct_of_its_members_defaults() -> None:
    inner = StructType((Field(id=2, name="a", type=LONG, write_default=7), Field(id=3, name="b", type=STRING)))
    filled = schema_of(
        Field(id=1, name="s", type=inner, required=True, write_default={}), Field(id=4, name="x", type=LONG)
    )
    assert fitted(filled, pa.table({"x": [1, 2]})) == [
        {"s": {"a": 7, "b": None}, "x": 1},
        {"s": {"a": 7, "b": None}, "x": 2},
    ]


@pytest.mark.parametrize(
    ("array", "type_"),
    [(pa.array([1]).view(pa.date64()), DATE), (pa.array([86_400_000_000], pa.time64("us")), TIME)],
    ids=["part of a day", "25th hour"],
)
def test_values_that_their_own_type_forbids_are_refused(array: pa.Array, type_: Type) -> None:
    with pytest.raises(InvalidInput, match="column 'c' does not fit: its data is not valid"):
        fit(one(type_), pa.table({"c": array}))


def test_text_that_is_no_utf8_is_refused() -> None:
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")]
    )
    with pytest.raises(InvalidInput, match=r"column 'c' does not fit: .*UTF8"):
        fit(one(STRING), pa.table({"c": bad}))


@given(st.data())
def test_data_of_the_table_s_own_types_passes_unchanged(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from(PRIMITIVES))
    array = array_of(type_, data.draw(st.lists(st.none() | held_values(type_), max_size=10)))
    found = fit(one(type_), pa.table({"c": array})).read_all()["c"]
    assert found.type == to_arrow(type_)
    assert found.combine_chunks().equals(array) or found.to_pylist().__repr__() == array.to_pylist().__repr__()
