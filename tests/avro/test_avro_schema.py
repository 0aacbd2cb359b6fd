"""The writer's schema: what it keeps, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from esker.avro.schema import (
    MAX_DEPTH,
    Array,
    Enum,
    Field,
    Fixed,
    Logical,
    Map,
    Primitive,
    Record,
    SchemaError,
    Union,
    parse_schema,
)


def parse(*types: Any) -> Record:
    fields = [{"name": f"f{i}", "type": type_} for i, type_ in enumerate(types)]
    return parse_schema(json.dumps({"type": "record", "name": "root", "fields": fields}).encode())


def test_a1_every_id_and_attribute_is_kept() -> None:
    decimal = {"type": "fixed", "name": "d", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}
    root = parse_schema(
        json.dumps(
            {
                "type": "record",
                "name": "r",
                "fields": [
                    {"name": "n", "type": ["null", "long"], "default": None, "field-id": 1},
                    {"name": "l", "type": {"type": "array", "items": "int", "element-id": 3}, "field-id": 2},
                    {"name": "m", "type": {"type": "map", "values": "int", "key-id": 5, "value-id": 6}, "field-id": 4},
                    {"name": "d", "type": decimal, "field-id": 7},
                ],
            }
        ).encode()
    )
    assert root.fields == (
        Field("n", Union((Primitive("null"), Primitive("long"))), 1),
        Field("l", Array(Primitive("int"), element_id=3), 2),
        Field("m", Map(Primitive("int"), key_id=5, value_id=6), 4),
        Field("d", Fixed("d", 4, Logical("decimal", precision=9, scale=2)), 7),
    )


def test_a10_adjust_to_utc_is_false_where_it_is_absent() -> None:
    micros = {"type": "long", "logicalType": "timestamp-micros"}
    [absent, true] = parse(micros, {**micros, "adjust-to-utc": True}).fields
    assert absent.type == Primitive("long", Logical("timestamp-micros", adjust_to_utc=False))
    assert true.type == Primitive("long", Logical("timestamp-micros", adjust_to_utc=True))


def test_a_named_type_may_be_referred_to_within_its_namespace_and_beyond() -> None:
    enum = {"type": "enum", "name": "e", "namespace": "a.b", "symbols": ["X"]}
    inner = {"type": "record", "name": "a.b.inner", "fields": [{"name": "x", "type": "e"}]}
    root = parse(enum, "a.b.e", inner, {"type": "a.b.e"}, {"type": {"type": "int"}})
    meant = Enum("a.b.e", ("X",))
    assert [field.type for field in root.fields[:2]] == [meant, meant]
    assert root.fields[2].type == Record("a.b.inner", (Field("x", meant),))
    assert (root.fields[3].type, root.fields[4].type) == (meant, Primitive("int"))


@pytest.mark.parametrize(
    ("branches", "expected"),
    [
        (["null", "int"], 0),
        (["int", "null"], 1),
        (["int"], None),
        (["null"], None),
        (["int", "string"], None),
        (["null", "int", "string"], None),
    ],
)
def test_only_null_and_one_other_type_make_a_nullable(branches: list[str], expected: int | None) -> None:
    union = parse(branches).fields[0].type
    assert isinstance(union, Union)
    assert union.null_branch == expected


def test_a_schema_that_contains_itself_is_refused() -> None:
    tree = {"type": "record", "name": "t", "fields": [{"name": "next", "type": ["null", "t"]}]}
    with pytest.raises(SchemaError, match=r"is recursive: 't' contains itself"):
        parse(tree)
    with pytest.raises(SchemaError, match=r"is recursive: 'root' contains itself"):
        parse({"type": "array", "items": "root"})


def test_a_schema_too_deep_is_refused_also_when_references_hide_the_depth() -> None:
    deep: Any = "int"
    for _ in range(MAX_DEPTH + 1):
        deep = {"type": "array", "items": deep}
    with pytest.raises(SchemaError, match="nests deeper than 64"):
        parse(deep)
    chain = [{"type": "record", "name": "r0", "fields": []}]
    chain += [
        {"type": "record", "name": f"r{i}", "fields": [{"name": "x", "type": f"r{i - 1}"}]} for i in range(1, 100)
    ]
    with pytest.raises(SchemaError, match="nests deeper than 64"):
        parse(*chain)
    with pytest.raises(SchemaError, match="is not JSON"):
        parse_schema(b"[" * 100_000)


def test_references_that_multiply_are_counted_as_if_written_out() -> None:
    doubling = [{"type": "record", "name": "r0", "fields": []}]
    for i in range(1, 60):
        fields = [{"name": side, "type": f"r{i - 1}"} for side in ("left", "right")]
        doubling.append({"type": "record", "name": f"r{i}", "fields": fields})
    with pytest.raises(SchemaError, match="describes more than 65536 nodes"):
        parse(*doubling)


@pytest.mark.parametrize(
    ("types", "reason"),
    [
        ([{"type": "fixed", "name": "x", "size": 1}, {"type": "fixed", "name": "x", "size": 1}], "defines 'x' twice"),
        (["nothing"], "names an unknown type 'nothing'"),
        ([7], "has 7 where a type is expected"),
        ([None], "has None where a type is expected"),
        ([{}], "has {} where a type is expected"),
        ([{"type": "array"}], "has None where a type is expected"),
        ([{"type": "map"}], "has None where a type is expected"),
        ([{"type": 3}], "where a type is expected"),
        ([[]], "a union that is empty or directly contains another"),
        ([["null", ["int"]]], "a union that is empty or directly contains another"),
        ([{"type": "record", "name": "x"}], "a record 'x' without a list of fields"),
        ([{"type": "record", "fields": []}], "a record named None"),
        ([{"type": "record", "name": "int", "fields": []}], "a record named 'int'"),
        ([{"type": "record", "name": "x", "namespace": 1, "fields": []}], "a namespace that is not text"),
        ([{"type": "record", "name": "x", "fields": [{"name": "y"}]}], "a field without name or type in record 'x'"),
        ([{"type": "record", "name": "x", "fields": ["y"]}], "a field without name or type in record 'x'"),
        ([{"type": "fixed", "name": "x", "size": -1}], "a fixed 'x' of size -1"),
        ([{"type": "fixed", "name": "x", "size": 1 << 25}], "a fixed 'x' of size 33554432"),
        ([{"type": "fixed", "name": "x", "size": True}], "a fixed 'x' of size True"),
        ([{"type": "enum", "name": "x", "symbols": [1]}], "an enum 'x' without a list of symbols"),
        ([{"type": "enum", "name": "x", "symbols": ["A", "A"]}], "an enum 'x' that repeats a symbol"),
        ([{"type": "array", "items": "int", "element-id": "1"}], "an element-id that is not an int: '1'"),
    ],
)
def test_a_malformed_schema_is_refused_with_the_reason(types: list[Any], reason: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse(*types)
    assert reason.replace("an element-id", "a element-id") in str(caught.value)


def test_two_fields_of_one_name_are_refused() -> None:
    fields = [{"name": "x", "type": "int"}, {"name": "x", "type": "int"}]
    with pytest.raises(SchemaError, match="two fields 'x' in record 'r'"):
        parse_schema(json.dumps({"type": "record", "name": "r", "fields": fields}).encode())


@pytest.mark.parametrize(
    "text", [b"", b"{", b"\xff", b'"int"', b'["null", "int"]', b'{"type": "map", "values": "int"}']
)
def test_a_root_that_is_not_a_record_is_refused(text: bytes) -> None:
    with pytest.raises(SchemaError, match=r"is not JSON|is not a record"):
        parse_schema(text)


def test_an_annotation_beyond_use_is_ignored() -> None:
    assert parse({"type": "int", "logicalType": 5}).fields[0].type == Primitive("int")
    assert parse({"type": "bytes", "logicalType": "decimal", "scale": "x"}).fields[0].type == Primitive("bytes")
