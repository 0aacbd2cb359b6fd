"""Finding columns by id and by name."""

from __future__ import annotations

import pytest

from esker.errors import InvalidInput
from esker.model.schema import Schema
from esker.model.types import INT, STRING, Field, ListType, MapType, StructType

ADDRESS = StructType(
    (
        Field(id=3, name="street", type=STRING),
        Field(id=4, name="Zip", type=INT, required=True),
        Field(
            id=5, name="geo", type=StructType((Field(id=6, name="lat", type=INT), Field(id=7, name="lon", type=INT)))
        ),
    )
)
SCHEMA = Schema(
    fields=(
        Field(id=1, name="id", type=INT, required=True),
        Field(id=2, name="address", type=ADDRESS),
        Field(
            id=8, name="tags", type=ListType(element_id=9, element=StructType((Field(id=10, name="tag", type=INT),)))
        ),
        Field(id=20, name="attrs", type=MapType(key_id=21, key=STRING, value_id=22, value=INT)),
    ),
    schema_id=3,
)


def test_every_field_is_found_by_id_and_has_a_dotted_name() -> None:
    assert SCHEMA.by_id[6].name == "lat"
    assert SCHEMA.name_by_id[6] == "address.geo.lat"
    assert SCHEMA.name_by_id[9] == "tags.element"
    assert SCHEMA.name_by_id[22] == "attrs.value"
    assert [field.id for field in SCHEMA.path_by_id[7]] == [2, 5, 7]
    assert SCHEMA.highest_id == 22


def test_names_are_found_without_case_unless_asked() -> None:
    assert SCHEMA.find("ADDRESS.zip").id == 4
    assert SCHEMA.find("address.Zip", case_sensitive=True).id == 4
    with pytest.raises(InvalidInput, match=r"no column 'ADDRESS\.zip'"):
        SCHEMA.find("ADDRESS.zip", case_sensitive=True)


def test_a_name_that_fits_twice_is_ambiguous_unless_one_fits_exactly() -> None:
    twins = Schema(fields=(Field(id=1, name="a", type=INT), Field(id=2, name="A", type=INT)))
    assert twins.find("A").id == 2
    spread = Schema(fields=(Field(id=1, name="Ab", type=INT), Field(id=2, name="aB", type=INT)))
    with pytest.raises(InvalidInput, match="column 'ab': it is ambiguous, it may mean Ab, aB"):
        spread.find("ab")


def test_a_missing_column_is_named_with_its_neighbours() -> None:
    with pytest.raises(InvalidInput, match=r"no column 'adress': did you mean 'address'"):
        SCHEMA.find("adress")
    with pytest.raises(InvalidInput, match="the table has no columns"):
        Schema(fields=()).find("x")


def test_g10_what_lies_under_a_list_or_map_is_known() -> None:
    assert SCHEMA.in_repeated(9)
    assert SCHEMA.in_repeated(22)
    assert not SCHEMA.in_repeated(8)
    assert not SCHEMA.in_repeated(6)


def test_a_selection_keeps_the_order_asked_and_only_the_branches_named() -> None:
    chosen = SCHEMA.select(["address.geo.lon", "id"])
    assert [field.name for field in chosen] == ["address", "id"]
    assert chosen.name_by_id == {2: "address", 5: "address.geo", 7: "address.geo.lon", 1: "id"}
    assert chosen.schema_id == 3


def test_a_struct_named_whole_and_in_part_is_kept_whole() -> None:
    assert SCHEMA.select(["address.street", "address"]).by_id.keys() == SCHEMA.select(["address"]).by_id.keys()


def test_leaves_are_the_primitives() -> None:
    assert {field.id for field, _ in SCHEMA.primitives()} == {1, 3, 4, 6, 7, 10, 21, 22}


def test_a_field_with_a_nested_default_can_be_part_of_a_key() -> None:
    fields = {Field(id=1, name="s", type=ADDRESS, initial_default={"3": "x"}): 1}
    assert fields[Field(id=1, name="s", type=ADDRESS, initial_default={"3": "x"})] == 1
