"""Types, fields and schemas in the JSON of table metadata."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esker.errors import Corrupt, Unsupported
from esker.iceberg.metadata.schema import PLAIN, decode_schema, decode_schemas, encode_schema, parse_primitive
from esker.model.schema import MAX_FIELD_ID, Schema
from esker.model.types import (
    DATE,
    INT,
    LONG,
    STRING,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    VARIANT,
    DecimalType,
    Field,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    Type,
)


def schema_json(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "struct", "schema-id": 0, "fields": list(fields), **more}


def field_json(type_: Any, **more: Any) -> dict[str, Any]:
    return {"id": 1, "name": "x", "required": False, "type": type_, **more}


def decoded(type_: Any, **more: Any) -> Field:
    return decode_schema("m.json", schema_json(field_json(type_, **more))).fields[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("decimal(9,2)", DecimalType(9, 2)),
        ("decimal(9, 2)", DecimalType(9, 2)),
        ("decimal( 9 , 2 )", DecimalType(9, 2)),
        ("DECIMAL (38,-2)", DecimalType(38, -2)),
        ("fixed[16]", FixedType(16)),
        (" fixed [ 16 ] ", FixedType(16)),
        ("geometry", GeometryType()),
        ("geometry(srid:4326)", GeometryType("srid:4326")),
        ("geometry( OGC:CRS84 )", GeometryType()),
        ("geography", GeographyType()),
        ("geography()", GeographyType()),
        ("geography(srid:4269)", GeographyType("srid:4269")),
        ("geography(OGC:CRS84, karney)", GeographyType(None, "karney")),
        ("geography(srid:4269,spherical)", GeographyType("srid:4269")),
        ("Long", LONG),
        ("timestamptz_ns", TIMESTAMPTZ_NS),
        ("variant", VARIANT),
        ("unknown", UNKNOWN),
    ],
)
def test_d11_blanks_and_case_in_type_names_do_not_matter(text: str, expected: PrimitiveType) -> None:
    assert parse_primitive("m.json", text) == expected


def test_e12_both_spellings_of_a_decimal_are_one_type_written_with_a_blank() -> None:
    assert str(parse_primitive("m", "decimal(9,2)")) == str(parse_primitive("m", "decimal(9, 2)")) == "decimal(9, 2)"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("decimal(0, 0)", "a decimal has 1 to 38 digits, not 0"),
        ("decimal(39, 0)", "a decimal has 1 to 38 digits, not 39"),
        ("decimal(9, 99)", "the scale of a decimal is at most 38, not 99"),
        ("fixed[9999999999]", "is longer than 2,147,483,647 bytes"),
    ],
)
def test_a_parameter_out_of_range_is_corrupt(text: str, reason: str) -> None:
    with pytest.raises(Corrupt, match=reason):
        parse_primitive("m.json", text)


@pytest.mark.parametrize("text", ["interval", "decimal(9)", "decimal(-1,2)", "fixed[]", "fixed[-1]", "", "long " * 40])
def test_a_type_that_nobody_defined_is_refused_by_name(text: str) -> None:
    with pytest.raises(Unsupported, match=r"cannot read m.json: it has a column of unknown type") as caught:
        parse_primitive("m.json", text)
    assert caught.value.feature.startswith(f"type {text[:20]}")
    assert len(caught.value.message) < 200


def test_nested_types_carry_the_ids_of_their_parts() -> None:
    json = {
        "type": "list",
        "element-id": 2,
        "element-required": True,
        "element": {
            "type": "map",
            "key-id": 3,
            "key": "string",
            "value-id": 4,
            "value-required": False,
            "value": schema_json({"id": 5, "name": "d", "required": True, "type": "date", "doc": "when"}),
        },
    }
    inner = StructType((Field(id=5, name="d", type=DATE, required=True, doc="when"),))
    element = MapType(key_id=3, key=STRING, value_id=4, value=inner, value_required=False)
    assert decoded(json).type == ListType(element_id=2, element=element, element_required=True)


def test_e3_field_ids_where_the_reserved_ones_begin_are_corrupt() -> None:
    assert decoded("int", id=MAX_FIELD_ID).id == MAX_FIELD_ID == 2147483447
    with pytest.raises(Corrupt, match="'id' is 2147483448, above 2147483447 where reserved ids begin"):
        decoded("int", id=MAX_FIELD_ID + 1)
    with pytest.raises(Corrupt, match="'element-id' is 2147483546, above 2147483447"):
        decoded({"type": "list", "element-id": 2147483546, "element-required": True, "element": "int"})
    with pytest.raises(Corrupt, match="'id' must be at least 0, not -1"):
        decoded("int", id=-1)


def test_e11_unknown_is_always_optional_and_defaults_only_to_null() -> None:
    assert decoded("unknown", **{"initial-default": None}).initial_default is None
    with pytest.raises(Corrupt, match=r"field 'x' \(id 1\): a column of type unknown must be optional"):
        decoded("unknown", required=True)
    for type_ in ("unknown", "variant", "geometry", "geography(srid:4269)"):
        with pytest.raises(Corrupt, match=r"'write-default' of a column of type \w+.* can only be null"):
            decoded(type_, **{"write-default": 1})


def test_e12_defaults_are_decoded_by_the_columns_type() -> None:
    field = decoded("date", **{"initial-default": "1970-01-02", "write-default": "1969-12-31"})
    assert (field.initial_default, field.write_default) == (1, -1)
    with pytest.raises(
        Corrupt, match=r"m.json is corrupt: field 'x' \(id 1\): 'initial-default' is not a valid int: a whole"
    ):
        decoded("int", **{"initial-default": "one"})


@pytest.mark.parametrize(
    ("json", "reason"),
    [
        ([], "the schema must be a JSON object, not an array"),
        ({"fields": []}, "the schema: 'type' is missing"),
        ({"type": "list", "fields": []}, "the schema: 'type' must be 'struct', not 'list'"),
        ({"type": "struct"}, "the schema: 'fields' is missing"),
        (schema_json(5), "field 0 of the schema must be a JSON object, not 5"),
        (schema_json({"id": 1}), "field 0 of the schema: 'name' is missing"),
        (schema_json({"id": "1", "name": "x"}), "'id' must be a whole number, not '1'"),
        (schema_json({"id": 1, "name": "x", "type": "int"}), r"field 'x' \(id 1\): 'required' is missing"),
        (schema_json(field_json({"type": "list"})), "'element-id' is missing"),
        (schema_json(field_json({"type": "map", "key-id": 2, "key": "int"})), "'value-id' is missing"),
        (schema_json(field_json(None)), "'type' is missing"),
        (schema_json(field_json(7)), "'type' of .* must be a JSON object, not 7"),
        (schema_json(field_json("int"), field_json("int", name="y")), "fields 'x' and 'y' both have id 1"),
        (schema_json(**{"identifier-field-ids": ["x"]}), "'identifier-field-ids' must be an array of whole numbers"),
        (schema_json(**{"schema-id": "0"}), "'schema-id' must be a whole number, not '0'"),
    ],
)
def test_a_broken_schema_is_refused_with_its_place(json: Any, reason: str) -> None:
    with pytest.raises(Corrupt, match=reason):
        decode_schema("m.json", json)


def test_two_schemas_under_one_id_must_say_the_same() -> None:
    one, other = schema_json(field_json("int")), schema_json(field_json("long"))
    assert len(decode_schemas("m", [one, one])) == 1
    with pytest.raises(Corrupt, match="two different schemas have the id 0"):
        decode_schemas("m", [one, other])


def test_types_nested_without_end_are_corrupt_and_a_hundred_levels_are_not() -> None:
    def nested(levels: int) -> Any:
        type_: Any = "int"
        for level in range(levels):
            type_ = {"type": "list", "element-id": level + 2, "element-required": False, "element": type_}
        return type_

    assert isinstance(decoded(nested(100)).type, ListType)
    with pytest.raises(Corrupt, match="nested more than 100 levels deep"):
        decoded(nested(101))


primitives = st.one_of(
    st.sampled_from(list(PLAIN.values())),
    st.builds(DecimalType, st.integers(1, 38), st.integers(-5, 38)),
    st.builds(FixedType, st.integers(0, 99)),
    st.builds(GeometryType, st.sampled_from([None, "srid:4326"])),
    st.builds(GeographyType, st.sampled_from([None, "srid:4326"]), st.sampled_from([None, "karney"])),
)


def types(next_id: list[int]) -> st.SearchStrategy[Type]:
    """Random types whose ids are drawn from a shared counter, so that they never clash."""

    def fresh() -> int:
        next_id[0] += 1
        return next_id[0]

    def nest(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
        ids = st.builds(fresh)
        fields = st.builds(
            Field, id=ids, name=st.text(max_size=5), type=inner.filter(lambda type_: type_ != UNKNOWN), required=...
        )
        return st.one_of(
            st.builds(ListType, element_id=ids, element=inner, element_required=st.booleans()),
            st.builds(MapType, key_id=ids, key=inner, value_id=ids, value=inner, value_required=st.booleans()),
            st.lists(fields, max_size=3).map(lambda members: StructType(tuple(members))),
        )

    return st.recursive(primitives, nest, max_leaves=6)


@given(types([1]), st.one_of(st.none(), st.text(max_size=9)))
def test_a_schema_reads_back_as_it_was_written(type_: Type, doc: str | None) -> None:
    schema = Schema(fields=(Field(id=1, name="c.d", type=type_, doc=doc),), schema_id=3)
    keyed = Schema(
        fields=(*schema.fields, Field(id=10**9, name="k", type=INT, required=True)), identifier_field_ids=frozenset([1])
    )
    assert decode_schema("m", encode_schema(schema)) == schema
    assert decode_schema("m", encode_schema(keyed)) == keyed


def test_a_schema_without_an_id_takes_the_one_given() -> None:
    json = {"type": "struct", "fields": []}
    assert decode_schema("m", json).schema_id == 0
    assert decode_schema("m", json, default_id=7).schema_id == 7
    assert "schema-id" not in encode_schema(Schema(fields=()), with_id=False)
