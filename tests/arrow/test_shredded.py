"""Shredded variants come back as what they were, however a writer took them apart."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from arrow_tables import Files, column, metadata, read, schema, task
from hypothesis import given
from hypothesis import strategies as st

from esker.arrow.arrow_types import FIELD_ID
from esker.arrow.read.shredded_variants import encoded, rebuilt
from esker.errors import Corrupt, Unsupported
from esker.model.types import VARIANT
from esker.model.variant import Dictionary, Moment, _encoded, decode, encode
from esker.model.variant_layout import EMPTY_METADATA, int_value, metadata_of, object_value

NAMES = ("a", "b", "é")
SCALARS = {
    pa.bool_(): st.booleans(),
    pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(st.characters(codec="utf-8"), max_size=70),
    pa.binary(): st.binary(max_size=70),
}
VALUES = st.recursive(
    st.none() | st.one_of(*SCALARS.values()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from((*NAMES, "other")), inner, max_size=4),
    max_leaves=10,
)
# A shape is a type of a plain value, a shape of items in a list, shapes of members by name, or None: not shredded.
SHAPES = st.recursive(
    st.none() | st.sampled_from(list(SCALARS)),
    lambda inner: st.lists(inner, min_size=1, max_size=1) | st.dictionaries(st.sampled_from(NAMES), inner, min_size=1),
    max_leaves=6,
)


def type_of(shape: Any) -> pa.DataType | None:
    """The type of ``typed_value`` for a shape."""
    if isinstance(shape, list):
        return pa.list_(pa.field("element", group(shape[0]), nullable=False))
    if isinstance(shape, dict):
        return pa.struct([pa.field(name, group(inner), nullable=False) for name, inner in shape.items()])
    return shape


def group(shape: Any, *first: pa.Field) -> pa.StructType:
    """The group of a value with that shape."""
    typed = type_of(shape)
    return pa.struct([*first, pa.field("value", pa.binary()), *([] if typed is None else [("typed_value", typed)])])


def fits(value: Any, type_: pa.DataType) -> bool:
    kinds = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string(), bytes: pa.binary()}
    return kinds.get(type(value)) == type_


def shred(value: Any, shape: Any, places: dict[str, int]) -> dict[str, Any]:
    """Taken apart as the rules of shredding have it."""
    match shape, value:
        case [item], list():
            return {"value": None, "typed_value": [shred(inner, item, places) for inner in value]}
        case dict(), dict():
            absent = {"value": None, "typed_value": None}
            here = {n: shred(value[n], inner, places) if n in value else absent for n, inner in shape.items()}
            rest = {name: inner for name, inner in value.items() if name not in shape}
            return {"value": _encoded(rest, places) if rest else None, "typed_value": here}
        case pa.DataType(), _ if fits(value, shape):
            return {"value": None, "typed_value": value}
        case _:
            return {"value": _encoded(value, places), "typed_value": None}


def shredded(values: list[Any], shape: Any) -> pa.Array:
    """A column of these values; None is a null row."""
    rows = []
    for value in values:
        if value is None:
            rows.append(None)
            continue
        keys = encode(value)[0]
        places = {key.decode(): at for at, key in enumerate(Dictionary(keys).all_keys())}
        rows.append({"metadata": keys, **shred(value, shape, places)})
    return pa.array(rows, group(shape, pa.field("metadata", pa.binary(), nullable=False)))


def seen(array: pa.Array) -> list[Any]:
    array.validate(full=True)
    return [None if row is None else decode(row["metadata"], row["value"]) for row in array.to_pylist()]


@given(st.lists(VALUES, max_size=6), SHAPES)
def test_whatever_was_taken_apart_is_put_together_again(values: list[Any], shape: Any) -> None:
    array = shredded(values, shape)
    assert seen(rebuilt(array)) == values
    assert seen(rebuilt(array.slice(1))) == values[1:]


@given(st.lists(VALUES, min_size=1, max_size=4), SHAPES)
def test_many_that_are_alike_are_put_together_at_once(values: list[Any], shape: Any) -> None:
    many = [value for value in values for _ in range(20)]
    one_by_one = [each for value in values for each in rebuilt(shredded([value], shape)).to_pylist() * 20]
    made = rebuilt(shredded(many, shape))
    assert seen(made) == many
    assert [each and each["value"] for each in made.to_pylist()] == [each and each["value"] for each in one_by_one]


@pytest.mark.parametrize("size", [10, 300, 70_000])
def test_offsets_take_the_bytes_that_they_need(size: int) -> None:
    values = [{"a": "x" * (size + at), "b": at} for at in range(20)]
    assert seen(rebuilt(shredded(values, {"a": pa.string(), "b": pa.int64()}))) == values


@pytest.mark.parametrize(
    ("values", "type_", "expected"),
    [
        ([1, -1], pa.int8(), [1, -1]),
        ([1, -1], pa.int16(), [1, -1]),
        ([1, -1], pa.int32(), [1, -1]),
        ([1.5], pa.float32(), [1.5]),
        ([Decimal("-1.23")], pa.decimal128(9, 2), [Decimal("-1.23")]),
        ([Decimal("-1.23")], pa.decimal128(18, 2), [Decimal("-1.23")]),
        ([Decimal("-1.23")], pa.decimal128(38, 2), [Decimal("-1.23")]),
        ([dt.date(1969, 12, 31)], pa.date32(), [dt.date(1969, 12, 31)]),
        ([dt.time(1, 2)], pa.time64("us"), [dt.time(1, 2)]),
        ([1], pa.timestamp("us", "UTC"), [dt.datetime(1970, 1, 1, 0, 0, 0, 1, dt.UTC)]),
        ([1], pa.timestamp("us"), [dt.datetime(1970, 1, 1, 0, 0, 0, 1)]),
        ([1], pa.timestamp("ns", "UTC"), [Moment(1, "ns", zoned=True)]),
        ([1], pa.timestamp("ns"), [Moment(1, "ns")]),
        ([UUID(int=7).bytes], pa.binary(16), [UUID(int=7)]),
        (["", "x" * 63, "x" * 64], pa.string(), ["", "x" * 63, "x" * 64]),
    ],
)
def test_every_type_that_a_column_may_have_is_encoded(values: list[Any], type_: pa.DataType, expected: Any) -> None:
    held = encoded(pa.array([None, *values, None], type_).slice(1))
    found = [None if each is None else decode(EMPTY_METADATA, each) for each in held.to_pylist()]
    assert found == [*expected, None]


def test_a_key_that_the_metadata_lacks_is_added_to_it() -> None:
    type_ = group({"a": pa.int64()}, pa.field("metadata", pa.binary()))
    beside = object_value([(0, int_value(2))])
    typed = {"a": {"value": None, "typed_value": 1}}
    row = {"metadata": metadata_of([b"z"]), "value": beside, "typed_value": typed}
    assert seen(rebuilt(pa.array([row], type_))) == [{"a": 1, "z": 2}]


def test_what_is_neither_here_nor_there_is_null() -> None:
    type_ = group([pa.int64()], pa.field("metadata", pa.binary()))
    nothing = {"value": None, "typed_value": None}
    rows = [{"metadata": EMPTY_METADATA, **nothing}, {"metadata": EMPTY_METADATA, "typed_value": [nothing]}]
    assert seen(rebuilt(pa.array(rows, type_))) == [None, [None]]


def read_column(array: pa.Array) -> Any:
    """The column out of a data file."""
    field = pa.field("v", array.type, metadata={FIELD_ID: b"1"})
    files = Files()
    data_file = files.parquet(pa.table([array], schema=pa.schema([field])))
    return read(files, metadata(schema(column(1, "v", VARIANT))), task(data_file))


def test_a_shredded_file_is_read() -> None:
    values = [{"a": [1, "x"], "b": 2}, None, {"a": 3, "other": {"b": 1}}, "text"]
    table = read_column(shredded(values, {"a": [pa.int64()], "b": pa.int64()}))
    assert seen(table["v"].combine_chunks()) == values


def hostile(value: bytes, keys: bytes = EMPTY_METADATA) -> pa.Array:
    """An object in a column beside these bytes."""
    typed = {"a": {"value": None, "typed_value": 1}}
    row = {"metadata": keys, "value": value, "typed_value": typed}
    return pa.array([row], group({"a": pa.int64()}, pa.field("metadata", pa.binary())))


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (hostile(int_value(1)), "the value beside an object's fields is not an object"),
        (hostile(b""), "it ends too early"),
        (hostile(object_value([(9, int_value(1))])), "a key is not in its metadata"),
        (hostile(b"\x02\x02\x00\x01\x00\x00\x02\x0c\x01"), "two of its values share bytes"),
        (hostile(b"\x02\x01\x00\x00\x01\xfc"), "there is no primitive of kind 63"),
        (hostile(object_value([(0, int_value(1))]), b"\x02"), "its metadata is not of version 1"),
        (
            pa.array([{"metadata": EMPTY_METADATA, "typed_value": {"a": 1}}]),
            "the field 'a' is not a group of value and typed_value",
        ),
        (
            pa.array([{"metadata": EMPTY_METADATA, "typed_value": [1]}]),
            "the items of an array are not groups of value and typed_value",
        ),
    ],
)
def test_what_makes_no_sense_is_corrupt(array: pa.Array, why: str) -> None:
    with pytest.raises(Corrupt, match=f"the shredded variants of column 'v' make no sense: .*{why}"):
        read_column(array)


def test_a_column_of_a_type_that_no_variant_has_is_refused_by_name() -> None:
    array = pa.array(
        [{"metadata": EMPTY_METADATA, "typed_value": 1}],
        pa.struct([("metadata", pa.binary()), ("typed_value", pa.uint32())]),
    )
    with pytest.raises(
        Unsupported, match="the variant column 'v' is shredded: cannot read a variant shredded as uint32"
    ) as info:
        read_column(array)
    assert info.value.feature == "variant shredded as uint32"


@given(st.binary(max_size=40), st.binary(max_size=12))
def test_any_bytes_beside_a_column_are_read_or_refused(value: bytes, keys: bytes) -> None:
    for each in (hostile(value), hostile(value, keys)):
        try:
            rebuilt(each).validate(full=True)
        except ValueError:
            continue
