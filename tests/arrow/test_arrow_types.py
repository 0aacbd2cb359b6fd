"""Types to Arrow and back."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from arrow_tables import column, schema
from hypothesis import given
from hypothesis import strategies as st

from esker.arrow.arrow_types import FIELD_ID, to_arrow, to_arrow_schema
from esker.arrow.input.schema_from_arrow import schema_from_arrow
from esker.arrow.value_arrays import array_of, repeated
from esker.errors import InvalidInput
from esker.model.schema import walk
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
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    StructType,
    Type,
)

PRIMITIVES = [
    BOOLEAN, INT, LONG, FLOAT, DOUBLE, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NS, TIMESTAMPTZ_NS, STRING,
    UUID, BINARY, UNKNOWN, DecimalType(9, 2), DecimalType(38, 0), FixedType(5),
]  # fmt: skip
types = st.recursive(
    st.sampled_from(PRIMITIVES),
    lambda inner: st.one_of(
        inner.map(lambda t: ListType(element_id=0, element=t)),
        inner.map(lambda t: MapType(key_id=0, key=STRING, value_id=0, value=t)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda ts: StructType(tuple(column(0, f"f{at}", t) for at, t in enumerate(ts)))
        ),
    ),
    max_leaves=6,
)


@given(st.lists(types, min_size=1, max_size=4))
def test_a_schema_survives_the_way_to_arrow_and_back_but_for_its_ids(found: list[Type]) -> None:
    there = to_arrow_schema(column(0, f"c{at}", type_) for at, type_ in enumerate(found))
    back = schema_from_arrow(there)
    assert to_arrow_schema(back).equals(there, check_metadata=False)
    ids = [field.id for field, _ in walk(back.fields)]
    assert sorted(ids) == list(range(1, len(ids) + 1))


def test_fresh_ids_are_given_level_by_level() -> None:
    made = schema_from_arrow(
        pa.schema(
            [
                ("a", pa.struct([("x", pa.int32()), ("l", pa.list_(pa.struct([("y", pa.int8())])))])),
                ("m", pa.map_(pa.string(), pa.float64())),
            ]
        )
    )
    assert dict(made.name_by_id) == {
        1: "a", 3: "a.x", 4: "a.l", 5: "a.l.element", 6: "a.l.element.y", 2: "m", 7: "m.key", 8: "m.value"
    }  # fmt: skip


def test_ids_and_comments_travel_as_field_metadata_at_every_depth() -> None:
    of = schema(column(7, "l", ListType(element_id=8, element=StructType((column(9, "x", INT, doc="why"),)))))
    made = to_arrow_schema(of)
    assert made.field("l").metadata == {FIELD_ID: b"7"}
    assert made.field("l").type.value_field.metadata == {FIELD_ID: b"8"}
    assert made.field("l").type.value_type.field("x").metadata == {FIELD_ID: b"9", b"doc": b"why"}
    assert made.field("l").type.value_type.field("x").nullable


def test_variant_is_two_binaries_and_geometry_is_wkb() -> None:
    assert [f.name for f in to_arrow(VARIANT)] == ["metadata", "value"]
    assert to_arrow(GeometryType("srid:4326")) == to_arrow(GeographyType()) == pa.binary()


@pytest.mark.parametrize(
    ("type_", "why"),
    [
        (pa.uint64(), "'c' of Arrow type uint64: its values may exceed a long"),
        (pa.float16(), "'c' of Arrow type halffloat: cast it to float32"),
        (pa.time64("ns"), "'c' of Arrow type time64\\[ns\\]: a time has microseconds"),
        (pa.duration("s"), "'c' of Arrow type duration\\[s\\]: Iceberg has no type for it"),
        (pa.month_day_nano_interval(), "Iceberg has no type for it"),
        (pa.decimal256(40, 2), "at most 38 digits"),
        (pa.list_(pa.duration("s")), "'c.element' of Arrow type duration"),
        (pa.dense_union([pa.field("a", pa.int8())]), "Iceberg has no type for it"),
    ],
)
def test_what_iceberg_has_no_type_for_is_refused_by_name(type_: pa.DataType, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        schema_from_arrow(pa.schema([("c", type_)]))


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidInput, match="column 'c' is there twice"):
        schema_from_arrow(pa.schema([("c", pa.int8()), ("c", pa.int8())]))


@given(types, st.integers(0, 3))
def test_a_null_constant_has_the_columns_type(type_: Type, length: int) -> None:
    made = repeated(type_, None, length)
    assert made.type == to_arrow(type_)
    assert made.null_count == len(made) == length


def test_constants_hold_what_was_held() -> None:
    assert array_of(DecimalType(9, 2), (Decimal("1.20"), None)).to_pylist() == [Decimal("1.20"), None]
    assert array_of(UUID, (b"0" * 16,)).storage.to_pylist() == [b"0" * 16]
    assert repeated(TIMESTAMPTZ_NS, 5, 2).view(pa.int64()).to_pylist() == [5, 5]
    empty = StructType(())
    assert array_of(empty, ((), None)).to_pylist() == [{}, None]
