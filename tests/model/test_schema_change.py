"""Columns added, dropped, renamed, widened and moved, at any depth, by the rules of the spec."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from esker.errors import InvalidInput
from esker.model.evolution.nested_fields import Ids, fresh_schema
from esker.model.evolution.schema_change import (
    NewColumn,
    Place,
    add_column,
    drop_column,
    make_optional,
    move_column,
    rename_column,
    set_default,
    set_doc,
    set_identifier_fields,
    widen_column,
)
from esker.model.evolution.schema_rules import can_promote, check_schema
from esker.model.parsing.column_definitions import parse_columns, parse_type
from esker.model.schema import MAX_FIELD_ID, Schema
from esker.model.types import DATE, LONG, TIMESTAMP, Field

TEXT = (
    "id bigint not null, point struct<x: float not null, y: float>, points array<struct<x: float>>, "
    "attrs map<struct<k: int>, struct<y: int>>, d date, n int"
)
SCHEMA = fresh_schema(Schema(fields=parse_columns(TEXT)))
IDS = {name: id_ for id_, name in SCHEMA.name_by_id.items()}


def added(name: str, type_: str = "int", *, schema: Schema = SCHEMA, version: int = 2, **more: Any) -> Schema:
    column = NewColumn(name=name, type=parse_type(type_), **more)
    return add_column(schema, column, Ids(schema.highest_id), version)[0]


def widened(name: str, type_: str, *, schema: Schema = SCHEMA, version: int = 2) -> Field:
    return widen_column(schema, name, parse_type(type_), Ids(schema.highest_id), version)[2]


def test_a_new_column_is_last_and_has_the_next_id() -> None:
    schema = added("extra", doc="more")
    assert schema.fields[-1] == Field(id=SCHEMA.highest_id + 1, name="extra", type=parse_type("int"), doc="more")


def test_columns_are_added_inside_structs_lists_and_maps() -> None:
    for name, place in {
        "point.z": "point.z",
        "points.element.z": "points.element.z",
        "points.z": "points.element.z",  # a list of structs stands for the struct inside
        "attrs.value.z": "attrs.value.z",
        "attrs.z": "attrs.value.z",
    }.items():
        assert added(name).find(place).id == SCHEMA.highest_id + 1


def test_a_new_nested_column_numbers_its_parts_after_itself() -> None:
    schema = added("deep", "struct<a: array<int>, b: int>")
    new = {name: id_ - SCHEMA.highest_id for id_, name in schema.name_by_id.items() if name.startswith("deep")}
    assert new == {"deep": 1, "deep.a": 2, "deep.b": 3, "deep.a.element": 4}


@pytest.mark.parametrize(
    ("place", "order"),
    [
        (Place(first=True), "new,x,y"),
        (Place(after="x"), "x,new,y"),
        (Place(before="x"), "new,x,y"),
        (Place(after="point.y"), "x,y,new"),
        (Place(), "x,y,new"),
    ],
)
def test_a_column_goes_where_it_is_told(place: Place, order: str) -> None:
    point = added("point.new", place=place).find("point").type
    assert ",".join(field.name for field in point) == order  # type: ignore[union-attr]


def test_a_column_moves_among_its_siblings_only() -> None:
    moved = move_column(SCHEMA, "n", Place(first=True))
    assert [field.name for field in moved] == ["n", "id", "point", "points", "attrs", "d"]
    assert [f.name for f in move_column(SCHEMA, "point.y", Place(before="x")).find("point").type] == ["y", "x"]  # type: ignore[union-attr]
    for place, said in (
        (Place(), "cannot place the column"),
        (Place(first=True, after="id"), "cannot place the column"),
        (Place(after="nope"), "cannot put column 'n' beside 'nope': there is no such column"),
    ):
        with pytest.raises(InvalidInput, match=said):
            move_column(SCHEMA, "n", place)
    with pytest.raises(InvalidInput, match="cannot put column 'y' beside 'id': there is no such column in 'point'"):
        move_column(SCHEMA, "point.y", Place(after="id"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("id", "cannot name a column 'id': it exists already"),
        ("ID", "it exists already as 'id', and names that differ only in case are not allowed"),
        ("point.X", "it exists already as 'x'"),
        ("n.inside", "cannot add column 'n.inside': 'n' is a int, not a struct"),
        ("nope.x", "no column 'nope'"),
        ("attrs.key.z", "cannot add column 'attrs.key.z': the keys of a map do not change"),
        ("_row_id", "Iceberg reserves that name for metadata"),
        ("` `", "a name may not be empty"),
        ("", "'' is not the name of a column"),
        ("a..b", "'a..b' is not the name of a column"),
    ],
)
def test_a_name_that_is_taken_or_leads_nowhere_is_refused(name: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        added(name)
    assert said in refusal.value.message


def test_a_name_in_backticks_may_hold_a_dot() -> None:
    schema = added("`a.b`")
    assert schema.fields[-1].name == "a.b"
    assert rename_column(schema, "`a.b`", "c")[0].fields[-1].name == "c"


# ---------------------------------------------------------------- ids and versions


def test_e3_ids_stop_where_reserved_ones_begin() -> None:
    column = NewColumn(name="a", type=LONG)
    assert add_column(SCHEMA, column, Ids(MAX_FIELD_ID - 1), 2)[1].id == 2147483447
    with pytest.raises(InvalidInput, match="cannot number another column: ids above 2147483447 are reserved"):
        add_column(SCHEMA, column, Ids(MAX_FIELD_ID), 2)
    reserved = Schema(fields=(Field(id=MAX_FIELD_ID + 1, name="a", type=LONG),))
    with pytest.raises(InvalidInput, match="cannot give column 'a' the id 2147483448"):
        check_schema(reserved, 2)


def test_e4_a_required_column_needs_a_default_and_so_version_3() -> None:
    with pytest.raises(InvalidInput, match="cannot add required column 'a': existing rows have no value"):
        added("a", required=True, version=3)
    with pytest.raises(InvalidInput, match="cannot give column 'a' a default in format version 2: defaults came with"):
        added("a", required=True, default=5)
    field = added("a", required=True, default=5, version=3).fields[-1]
    assert (field.required, field.initial_default, field.write_default) == (True, 5, 5)


def test_e4_only_the_write_default_ever_changes() -> None:
    schema = added("a", default=5, version=3)
    changed = set_default(schema, "a", 7, 3).find("a")
    assert (changed.initial_default, changed.write_default) == (5, 7)
    taken = set_default(schema, "a", None, 3).find("a")
    assert (taken.initial_default, taken.write_default) == (5, None)
    with pytest.raises(InvalidInput, match="cannot give column 'n' a default in format version 2"):
        set_default(SCHEMA, "n", 7, 2)
    with pytest.raises(InvalidInput, match="cannot remove the default of column 'r': it was added as required"):
        set_default(added("r", required=True, default=1, version=3), "r", None, 3)
    with pytest.raises(InvalidInput, match=r"cannot give column 'n' the default 'x' \(string\): it is not a valid int"):
        set_default(SCHEMA, "n", "x", 3)


def test_e4_types_without_values_have_no_default_but_null() -> None:
    for type_ in ("unknown", "variant", "geometry", "geography", "array<int>", "struct<a: int>"):
        with pytest.raises(InvalidInput, match="can have no default except null"):
            added("a", type_, default=1, version=3)
        assert added("a", type_, version=3).find("a").initial_default is None


def test_types_of_version_3_are_refused_below_it() -> None:
    for type_ in ("timestamp_ns", "timestamptz_ns", "unknown", "variant", "geometry", "geography", "array<variant>"):
        with pytest.raises(InvalidInput, match=r"in format version 2: the type came with version 3"):
            added("a", type_)
        added("a", type_, version=3)


# ---------------------------------------------------------------- drop and rename


def test_a_dropped_column_is_gone_and_the_rest_stays() -> None:
    schema, path = drop_column(SCHEMA, "point.x", {})
    assert "point.x" not in schema.id_by_name
    assert path[-1].id == IDS["point.x"]
    assert {id_: n for id_, n in SCHEMA.name_by_id.items() if n != "point.x"} == schema.name_by_id


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("point", "cannot drop column 'point': the partition field 'p' is made of 'point.x'"),
        ("point.x", "cannot drop column 'point.x': the partition field 'p' is made of 'point.x'"),
        ("id", "cannot drop column 'id': rows are identified by 'id'"),
        ("points.element", "cannot drop 'points.element': it is a part of 'points', not a column"),
        ("points.element.x", "a struct without members cannot be written; drop the struct"),
        ("attrs.key", "the keys of a map do not change"),
        ("attrs.key.k", "the keys of a map do not change"),
        ("nope", "no column 'nope'"),
    ],
)
def test_a_column_that_is_needed_is_not_dropped(name: str, said: str) -> None:
    schema = Schema(fields=SCHEMA.fields, identifier_field_ids=frozenset([1]))
    with pytest.raises(InvalidInput) as refusal:
        drop_column(schema, name, {IDS["point.x"]: "the partition field 'p'"})
    assert said in refusal.value.message


def test_a_renamed_column_keeps_its_id() -> None:
    for old, new, there in (
        ("n", "m", "m"),
        ("n", "N", "N"),
        ("POINT.X", "east", "point.east"),
        ("point.x", "point.east", "point.east"),
        ("points.element.x", "east", "points.element.east"),
        ("attrs.value.y", "z", "attrs.value.z"),
    ):
        schema, path = rename_column(SCHEMA, old, new)
        assert schema.id_by_name[there] == path[-1].id == SCHEMA.find(old).id


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("n", "id", "cannot name a column 'id': it exists already"),
        ("n", "Id", "it exists already as 'id'"),
        ("n", "_file", "Iceberg reserves that name"),
        ("point.x", "other.x", "cannot rename column 'point.x' to 'other.x': a column cannot move out of its struct"),
        ("points.element", "x", "it is a part of 'points', not a column"),
        ("attrs.key.k", "x", "the keys of a map do not change"),
    ],
)
def test_a_name_that_cannot_be_taken_is_refused(old: str, new: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        rename_column(SCHEMA, old, new)
    assert said in refusal.value.message


# ---------------------------------------------------------------- widening

PROMOTIONS = {  # T15, from and to, with the version that brought it
    ("int", "bigint"): 1,
    ("float", "double"): 1,
    ("decimal(9,2)", "decimal(10,2)"): 1,
    ("date", "timestamp_ntz"): 3,
    ("date", "timestamp_ns"): 3,
    **{("unknown", to): 3 for to in ("int", "string", "date", "timestamp", "variant", "array<int>", "decimal(9,2)")},
}
WORDS = [
    "boolean",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(9,2)",
    "decimal(10,2)",
    "decimal(10,3)",
    "date",
    "time",
    "timestamp",
    "timestamp_ntz",
    "timestamp_ns",
    "timestamptz_ns",
    "string",
    "uuid",
    "binary",
    "fixed(4)",
    "variant",
    "unknown",
    "geometry",
    "geography",
]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_t15_exactly_the_promotions_of_the_spec_are_taken(version: int) -> None:
    for old in WORDS:
        for new in WORDS:
            since = PROMOTIONS.get((old, new), 3 if old == "unknown" != new else 99)
            assert can_promote(parse_type(old), parse_type(new), version) == (version >= since), (old, new)


def test_t15_widening_keeps_the_column_and_names_the_rule_when_it_cannot() -> None:
    assert widened("point.x", "double") == Field(id=IDS["point.x"], name="x", type=parse_type("double"), required=True)
    assert widened("points.element.x", "double").id == IDS["points.element.x"]
    assert widened("attrs.value.y", "bigint").type == LONG
    assert widened("id", "bigint").type == LONG  # which it is already
    for name, type_, said in (
        (
            "n",
            "string",
            "cannot widen column 'n' from int to string: the allowed changes are int to long, float to double",
        ),
        ("id", "int", "cannot widen column 'id' from long to int"),
        ("d", "timestamp_ntz", "cannot widen column 'd' from date to timestamp: this needs format version 3"),
        ("d", "timestamp", "cannot widen column 'd' from date to timestamptz: the allowed changes are"),
        ("attrs.key.k", "bigint", "cannot widen column 'attrs.key.k': the keys of a map do not change"),
    ):
        with pytest.raises(InvalidInput) as refusal:
            widened(name, type_)
        assert said in refusal.value.message


def test_t15_a_default_is_widened_with_its_column() -> None:
    schema = added("since", "date", default=datetime.date(1970, 1, 2), version=3)
    for type_, ticks in (("timestamp_ntz", 86_400_000_000), ("timestamp_ns", 86_400_000_000_000)):
        wider = widened("since", type_, schema=schema, version=3)
        assert (wider.initial_default, wider.write_default) == (ticks, ticks)
    assert schema.find("since").type == DATE
    assert widened("since", "timestamp_ntz", schema=schema, version=3).type == TIMESTAMP


def test_t15_an_unknown_column_may_become_anything_with_fresh_ids_inside() -> None:
    schema = added("u", "unknown", version=3)
    wider = widened("u", "array<struct<a: int>>", schema=schema, version=3)
    assert wider.id == schema.highest_id
    assert str(wider.type) == f"list<struct<{schema.highest_id + 2}: a: optional int>>"


def test_a_column_becomes_optional_and_never_required() -> None:
    assert not make_optional(SCHEMA, "id").find("id").required
    assert not make_optional(SCHEMA, "point.x").find("point.x").required
    listed = fresh_schema(Schema(fields=parse_columns("a array<int not null>, m map<string, int not null>")))
    assert not make_optional(listed, "a.element").find("a.element").required
    assert not make_optional(listed, "m.value").find("m.value").required
    with pytest.raises(InvalidInput, match=r"cannot make 'm\.key' optional: the keys of a map are never null"):
        make_optional(listed, "m.key")
    identified = Schema(fields=SCHEMA.fields, identifier_field_ids=frozenset([1]))
    with pytest.raises(InvalidInput, match="cannot make column 'id' optional: rows are identified by 'id'"):
        make_optional(identified, "id")


def test_a_comment_changes_nothing_else() -> None:
    schema = set_doc(SCHEMA, "point.x", "east")
    assert schema.find("point.x").doc == "east"
    assert set_doc(schema, "point.x", None).fields == SCHEMA.fields


# ---------------------------------------------------------------- identifiers


def test_e8_identifier_columns_must_tell_rows_apart() -> None:
    text = (
        "id bigint not null, n int, f double not null, ok struct<a: int not null> not null, "
        "maybe struct<a: int not null>, xs array<struct<a: int not null> not null> not null"
    )
    schema = fresh_schema(Schema(fields=parse_columns(text)))
    assert set_identifier_fields(schema, ["id", "ok.a"]).identifier_field_ids == {1, schema.find("ok.a").id}
    assert set_identifier_fields(set_identifier_fields(schema, ["id"]), []).identifier_field_ids == frozenset()
    for name, why in (
        ("n", "it is optional"),
        ("f", "a double has values that do not equal themselves"),
        ("ok", "it is a struct, not a primitive"),
        ("maybe.a", "the struct around it is optional"),
        ("xs.element.a", "it is inside a list or map"),
    ):
        with pytest.raises(InvalidInput, match=f"cannot identify rows by column '{name}': {why}"):
            set_identifier_fields(schema, [name])
    with pytest.raises(InvalidInput, match="cannot identify rows by field 99: there is no such column"):
        check_schema(Schema(fields=schema.fields, identifier_field_ids=frozenset([99])), 2)


def test_names_that_only_case_tells_apart_are_refused_in_a_new_table() -> None:
    for text, said in (
        ("a int, A int", "columns 'a' and 'A' differ only in case"),
        ("a int, a string", "column 'a' is there twice"),
        ("s struct<a: int, A: int>", "columns 'a' and 'A' differ only in case"),
        ("`` int", "not the name of a column|a name may not be empty|expected the name"),
        ("_file string", "Iceberg reserves that name for metadata"),
    ):
        with pytest.raises(InvalidInput, match=said):
            check_schema(fresh_schema(Schema(fields=parse_columns(text))), 2)
    check_schema(fresh_schema(Schema(fields=parse_columns("s struct<_file: int>"))), 2)
    twice = (Field(id=1, name="a", type=LONG), Field(id=1, name="b", type=LONG))
    with pytest.raises(InvalidInput, match="columns 'a' and 'b' have the same id 1"):
        check_schema(Schema(fields=twice), 2)
