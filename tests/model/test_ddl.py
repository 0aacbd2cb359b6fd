"""Columns, partition terms and sort terms from text, and Spark's schemas."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esker.errors import EskerError, InvalidInput
from esker.model.evolution.nested_fields import fresh_schema
from esker.model.evolution.partition_change import new_spec
from esker.model.parsing.column_definitions import columns_from_spark, is_spark_type, parse_columns, parse_type
from esker.model.parsing.partition_and_sort_terms import parse_partition_term, parse_sort_term, sort_field
from esker.model.schema import Schema
from esker.model.transform import DAY, IDENTITY, BucketTransform
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
    Field,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    StructType,
    Type,
)


def numbered(text: str) -> Schema:
    """The schema of a new table of these columns."""
    return fresh_schema(Schema(fields=parse_columns(text)))


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("boolean", BOOLEAN),
        ("tinyint", INT),
        ("SMALLINT", INT),
        ("int", INT),
        ("Integer", INT),
        ("bigint", LONG),
        ("long", LONG),
        ("float", FLOAT),
        ("real", FLOAT),
        ("double", DOUBLE),
        ("decimal", DecimalType(10, 0)),
        ("decimal(9)", DecimalType(9, 0)),
        ("decimal( 9 , 2 )", DecimalType(9, 2)),
        ("numeric(38,38)", DecimalType(38, 38)),
        ("date", DATE),
        ("time", TIME),
        ("timestamp", TIMESTAMPTZ),
        ("timestamp_ltz", TIMESTAMPTZ),
        ("timestamptz", TIMESTAMPTZ),
        ("timestamp_ntz", TIMESTAMP),
        ("timestamp_ns", TIMESTAMP_NS),
        ("timestamptz_ns", TIMESTAMPTZ_NS),
        ("string", STRING),
        ("varchar(20)", STRING),
        ("char(2)", STRING),
        ("uuid", UUID),
        ("fixed(16)", FixedType(16)),
        ("fixed[16]", FixedType(16)),
        ("binary", BINARY),
        ("void", UNKNOWN),
        ("unknown", UNKNOWN),
        ("variant", VARIANT),
        ("geometry", GeometryType()),
        ("geometry(srid:3857)", GeometryType("srid:3857")),
        ("geometry('OGC:CRS84')", GeometryType()),
        ("geography", GeographyType()),
        ("geography('OGC:CRS84', 'karney')", GeographyType(None, "karney")),
        ("geography(srid:4267, spherical)", GeographyType("srid:4267")),
    ],
)
def test_every_type_has_its_word(text: str, type_: Type) -> None:
    assert parse_type(text) == type_


def test_columns_carry_what_is_said_of_them() -> None:
    fields = parse_columns("id bigint not null comment 'who''s', ts timestamp, tags map<string,string> NULL")
    assert fields == (
        Field(id=0, name="id", type=LONG, required=True, doc="who's"),
        Field(id=0, name="ts", type=TIMESTAMPTZ),
        Field(id=0, name="tags", type=MapType(key_id=0, key=STRING, value_id=0, value=STRING)),
    )


def test_nested_types_nest_and_carry_their_own_nulls() -> None:
    (field,) = parse_columns(
        "a array<struct<x: double not null comment 'east', y double, m map<int, bigint not null>>>"
    )
    point = StructType(
        (
            Field(id=0, name="x", type=DOUBLE, required=True, doc="east"),
            Field(id=0, name="y", type=DOUBLE),
            Field(id=0, name="m", type=MapType(key_id=0, key=INT, value_id=0, value=LONG, value_required=True)),
        )
    )
    assert field.type == ListType(element_id=0, element=point)


def test_ids_are_given_as_iceberg_gives_them() -> None:
    """All columns first, then what is inside each: a struct's members, a list's element, a map's key and value."""
    schema = numbered("a struct<x: int, y: struct<z: int>>, b array<struct<p: int>>, c map<string, array<int>>, d int")
    assert schema.name_by_id == {
        1: "a",
        2: "b",
        3: "c",
        4: "d",
        5: "a.x",
        6: "a.y",
        7: "a.y.z",
        8: "b.element",
        9: "b.element.p",
        10: "c.key",
        11: "c.value",
        12: "c.value.element",
    }


def test_ids_of_another_table_are_not_kept_and_identifiers_follow_their_columns() -> None:
    given_ = Schema(
        fields=(Field(id=70, name="a", type=LONG), Field(id=7, name="b", type=LONG, required=True)),
        schema_id=4,
        identifier_field_ids=frozenset([7]),
    )
    fresh = fresh_schema(given_)
    assert [(field.id, field.name) for field in fresh] == [(1, "a"), (2, "b")]
    assert (fresh.schema_id, fresh.identifier_field_ids) == (0, {2})


@pytest.mark.parametrize(
    "name", ["show", "call", "date", "order", "from", "comment", "map", "`a b`", "`x.y`", "`q``q`"]
)
def test_any_word_can_name_a_column(name: str) -> None:
    fields = parse_columns(f"{name} int, {name}2 int" if name[0] != "`" else f"{name} int")
    assert fields[0].name == name.strip("`").replace("``", "`")


def test_a_column_list_may_stand_in_parentheses_and_hold_comments() -> None:
    assert [f.name for f in parse_columns("(a int, -- first\n b string /* second */)")] == ["a", "b"]
    assert parse_columns("  ") == ()


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("int default -5", -5),
        ("bigint default 5", 5),
        ("decimal(9,2) default 1.5", Decimal("1.50")),
        ("double default 1e3", 1000.0),
        ("float default 0.1", 0.10000000149011612),
        ("string default 'x'", "x"),
        ("boolean default true", True),
        ("date default '1970-01-03'", 2),
        ("date default date '1970-01-03'", 2),
        ("timestamp default timestamp '1970-01-01 00:00:01'", 1_000_000),
        ("timestamp_ntz default '1970-01-01T00:00:00.5'", 500_000),
        ("timestamp_ns default '1970-01-01T00:00:00.5'", 500_000_000),
        ("time default '00:00:01'", 1_000_000),
        ("binary default X'00ff'", b"\x00\xff"),
        ("uuid default '00000000-0000-0000-0000-00000000000a'", bytes(15) + b"\n"),
        ("int default null", None),
    ],
)
def test_defaults_are_held_as_values_of_the_column(text: str, held: Any) -> None:
    (field,) = parse_columns(f"a {text}")
    assert (field.initial_default, field.write_default) == (held, held)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a", "cannot read the columns: expected more at line 1, column 2 (the end)"),
        ("a int b", "cannot read the columns at line 1, column 7: did not expect 'b'"),
        ("a int,", "cannot read the columns: expected more at line 1, column 7 (the end)"),
        ("a money", "cannot read the columns at line 1, column 3: there is no type 'money'"),
        ("a array<int", "cannot read the columns: expected '>' at line 1, column 12 (the end)"),
        ("a array", "cannot read the columns at line 1, column 3: array needs its parts: array<…>"),
        ("a decimal(39,2)", "the precision of a decimal is from 1 to 38, not 39"),
        ("a decimal(9,10)", "the scale of a decimal is from 0 to 9, not 10"),
        ("a fixed", "fixed needs a length: fixed(16)"),
        ("a fixed(0)", "the length of a fixed is from 1 to 2147483647, not 0"),
        ("a int(3)", "int does not take the parameters (3)"),
        ("a geography('x', 'euclid')", "the edges of a geography are spherical"),
        ("a int not", "expected NOT NULL"),
        ("a int comment 5", "expected the comment in quotes, not '5'"),
        ("a int default now()", "a default is a literal, not 'now'"),
        (
            "a int default 1.5",
            "cannot give column 'a' the default Decimal('1.5') (decimal(2, 1)): it is not a valid int",
        ),
        ("a tinyint default 99999999999", "it is not a valid int"),
        ("a variant default 'x'", "a variant can have no default except null"),
        ("a void not null", "column 'a' of type unknown is always null"),
        ("5 int", "expected the name of a column, not '5'; put it in backticks"),
        ("a 'x'", "expected a type, not 'x'"),
        ("a int 'x", "a quote or comment is not closed"),
        ("a " + "array<" * 70 + "int" + ">" * 70, "types are nested more than 60 levels deep"),
    ],
)
def test_what_is_no_column_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_columns(text)
    assert said in refusal.value.message


@given(st.text(max_size=60) | st.text(alphabet="abint<>(),:` '\\decml0", max_size=60))
def test_no_text_does_worse_than_be_refused(text: str) -> None:
    for read in (parse_columns, parse_type, parse_partition_term, parse_sort_term):
        with suppress(EskerError):
            read(text)


# ---------------------------------------------------------------- Spark


@dataclass
class SparkType:
    """What is asked of a Spark type, without Spark."""

    document: Any

    def jsonValue(self) -> Any:  # noqa: N802  # Spark's name
        return self.document

    def simpleString(self) -> str:  # noqa: N802
        return json.dumps(self.document)


def spark_field(name: str, type_: Any, nullable: bool = True, **metadata: str) -> dict[str, Any]:
    return {"name": name, "type": type_, "nullable": nullable, "metadata": metadata}


def test_a_spark_struct_becomes_columns() -> None:
    struct = SparkType(
        {
            "type": "struct",
            "fields": [
                spark_field("id", "long", False, comment="who"),
                spark_field("b", "byte"),
                spark_field("d", "decimal(9,2)"),
                spark_field("at", "timestamp"),
                spark_field("wall", "timestamp_ntz"),
                spark_field("nothing", "void", False),
                spark_field("xs", {"type": "array", "elementType": "integer", "containsNull": False}),
                spark_field(
                    "m",
                    {
                        "type": "map",
                        "keyType": "string",
                        "valueType": {"type": "struct", "fields": [spark_field("p", "double", False)]},
                        "valueContainsNull": True,
                    },
                ),
            ],
        }
    )
    assert is_spark_type(struct)
    assert not is_spark_type("id bigint")
    value = StructType((Field(id=0, name="p", type=DOUBLE, required=True),))
    assert columns_from_spark(struct) == (
        Field(id=0, name="id", type=LONG, required=True, doc="who"),
        Field(id=0, name="b", type=INT),
        Field(id=0, name="d", type=DecimalType(9, 2)),
        Field(id=0, name="at", type=TIMESTAMPTZ),
        Field(id=0, name="wall", type=TIMESTAMP),
        Field(id=0, name="nothing", type=UNKNOWN),
        Field(id=0, name="xs", type=ListType(element_id=0, element=INT, element_required=True)),
        Field(id=0, name="m", type=MapType(key_id=0, key=STRING, value_id=0, value=value)),
    )


def test_a_spark_type_without_a_counterpart_is_refused_by_the_columns_name() -> None:
    inner = {"type": "struct", "fields": [spark_field("span", "interval day to second")]}
    with pytest.raises(
        InvalidInput, match=r"cannot make a column 'a\.span': its Spark type is 'interval day to second'"
    ):
        columns_from_spark(SparkType({"type": "struct", "fields": [spark_field("a", inner)]}))
    with pytest.raises(InvalidInput, match="give a StructType"):
        columns_from_spark(SparkType("long"))


# ---------------------------------------------------------------- terms

COLUMNS = numbered(
    "id bigint, name string, ts timestamp, d date, at struct<day: date>, xs array<int>, f double, region string"
)


@pytest.mark.parametrize(
    ("term", "shown"),
    [
        ("region", "1000: region: identity(8)"),
        ("identity(region)", "1000: region: identity(8)"),
        ("year(ts)", "1000: ts_year: year(3)"),
        ("years(ts)", "1000: ts_year: year(3)"),
        ("month(d)", "1000: d_month: month(4)"),
        ("day(ts)", "1000: ts_day: day(3)"),
        ("DAYS(TS)", "1000: ts_day: day(3)"),
        ("hours(ts)", "1000: ts_hour: hour(3)"),
        ("bucket(16, id)", "1000: id_bucket: bucket[16](1)"),
        ("bucket(id, 16)", "1000: id_bucket: bucket[16](1)"),
        ("truncate(4, name)", "1000: name_trunc: truncate[4](2)"),
        ("void(f)", "1000: f_null: void(7)"),
        ("day(at.day)", "1000: at.day_day: day(9)"),
        ("bucket(4, id) as shard", "1000: shard: bucket[4](1)"),
    ],
)
def test_a_partition_term_is_named_as_iceberg_names_it(term: str, shown: str) -> None:
    (field,) = new_spec(COLUMNS, [term]).fields
    assert str(field) == shown


def test_f1_partition_ids_start_at_1000() -> None:
    spec = new_spec(COLUMNS, ["day(ts)", "bucket(16, id)", "region"])
    assert [field.field_id for field in spec.fields] == [1000, 1001, 1002]
    assert spec.spec_id == 0


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        (["nope"], "cannot use 'nope': no column 'nope'"),
        (["day(id)"], "cannot use 'day(id)': day cannot be used on a column of type long"),
        (["bucket(4, f)"], "bucket[4] cannot be used on a column of type double"),
        (["hour(d)"], "hour cannot be used on a column of type date"),
        (["truncate(2, ts)"], "truncate[2] cannot be used on a column of type timestamptz"),
        (["xs"], "identity cannot be used on a column of type list<int>"),
        (["at"], "identity cannot be used on a column of type struct"),
        (["bucket(4, xs.element)"], "is in a list or map, where a row has many values"),
        (["bucket(0, id)"], "bucket takes a whole number from 1 to 2147483647"),
        (["bucket(-3, id)"], "bucket takes a whole number from 1"),
        (["bucket(id)"], "expected ','"),
        (["zorder(id)"], "there is no transform 'zorder', only bucket, day, hour"),
        (["day(ts) desc"], "did not expect 'desc'"),
        ([""], "expected a column or a transform"),
        (["region", "region"], "the table is partitioned by identity of that column already, as 'region'"),
        (["day(ts)", "hour(ts)"], "the table is partitioned by day of that column already, as 'ts_day'"),
        (["bucket(4, id)", "bucket(8, id)"], "as 'id_bucket': another partition field has that name; give another"),
        (["bucket(4, id) as name"], "as 'name': a column has that name; give another"),
    ],
)
def test_f9_a_term_that_cannot_be_computed_is_refused(terms: list[str], said: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        new_spec(COLUMNS, terms)
    assert said in refusal.value.message


def test_sort_terms_put_nulls_where_spark_does_unless_told() -> None:
    shown = [
        str(sort_field(parse_sort_term(term), COLUMNS))
        for term in ("ts", "ts desc", "ts desc nulls first", "ts asc nulls last", "bucket(4, id)", "day(ts) DESC")
    ]
    assert shown == [
        "identity(3) asc nulls-first",
        "identity(3) desc nulls-last",
        "identity(3) desc nulls-first",
        "identity(3) asc nulls-last",
        "bucket[4](1) asc nulls-first",
        "day(3) desc nulls-last",
    ]
    with pytest.raises(InvalidInput, match="expected NULLS FIRST or NULLS LAST"):
        parse_sort_term("ts nulls sometimes")


def test_terms_keep_the_way_they_were_written() -> None:
    assert str(parse_partition_term("Days( `ts` )")) == "Days( `ts` )"
    assert parse_partition_term("Days( `ts` )").transform == DAY
    assert parse_partition_term("`bucket`").transform == IDENTITY
    assert parse_partition_term("bucket(3, x)").transform == BucketTransform(3)
