"""Avro data files."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from arrow_tables import Files, column, metadata, read, schema, task

from esker.errors import Corrupt
from esker.model.predicates.predicate import Compare, Op
from esker.model.schema import MappedField
from esker.model.types import (
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    ListType,
    MapType,
    StructType,
)

UTC = dt.UTC


def optional(type_: Any) -> Any:
    return ["null", type_]


def record(name: str, *fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(id_: int | None, name: str, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **({} if id_ is None else {"field-id": id_})}


NESTED = record(
    "table",
    field(1, "a", optional("int")),
    field(2, "s", optional(record("r2", field(3, "x", "int"), field(4, "y", optional("string"))))),
    field(5, "l", optional({"type": "array", "items": optional("float"), "element-id": 6})),
    field(7, "m", optional({"type": "map", "values": "int", "key-id": 8, "value-id": 9})),
)
ROWS: list[dict[str, Any]] = [
    {"a": 1, "s": {"x": 1, "y": "b"}, "l": [1.5, None], "m": {"k": 2}},
    {"a": None, "s": None, "l": None, "m": None},
]


def test_columns_are_found_by_field_id_at_every_depth_and_promoted() -> None:
    new = schema(
        column(7, "mm", MapType(key_id=8, key=STRING, value_id=9, value=LONG)),
        column(5, "l", ListType(element_id=6, element=DOUBLE)),
        column(2, "s", StructType((column(4, "why", STRING), column(10, "z", INT, initial_default=9)))),
        column(11, "new", STRING, initial_default="d"),
    )
    files = Files()
    assert read(files, metadata(new), task(files.avro(NESTED, ROWS))).to_pylist() == [
        {"mm": [("k", 2)], "l": [1.5, None], "s": {"why": "b", "z": 9}, "new": "d"},
        {"mm": None, "l": None, "s": None, "new": "d"},
    ]


def test_logical_types_are_the_tables_types() -> None:
    written = record(
        "table",
        field(1, "d", {"type": "int", "logicalType": "date"}),
        field(2, "t", {"type": "long", "logicalType": "time-micros"}),
        field(3, "w", {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False}),
        field(4, "z", {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True}),
        field(5, "u", {"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}),
        field(6, "n", {"type": "fixed", "name": "n", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}),
    )
    of = schema(
        column(1, "d", DATE),
        column(2, "t", TIME),
        column(3, "w", TIMESTAMP),
        column(4, "z", TIMESTAMPTZ),
        column(5, "u", UUID),
        column(6, "n", DecimalType(12, 2)),
    )
    files = Files()
    instant = dt.datetime(2020, 1, 2, 3, tzinfo=UTC)
    row = {"d": dt.date(2020, 1, 2), "t": dt.time(1), "w": instant, "z": instant, "u": b"0" * 16, "n": Decimal("-1.28")}
    [got] = read(files, metadata(of), task(files.avro(written, [row]))).to_pylist()
    assert got.pop("u").bytes == b"0" * 16
    assert got == {**{k: v for k, v in row.items() if k != "u"}, "w": instant.replace(tzinfo=None)}


def test_a_file_without_ids_goes_by_the_mapping_or_by_the_names_there_are() -> None:
    written = record("table", field(None, "old", "int"), field(None, "b", record("r", field(None, "x", "int"))))
    of = schema(column(1, "a", INT), column(2, "b", StructType((column(3, "x", INT),))))
    files = Files()
    data_file = files.avro(written, [{"old": 1, "b": {"x": 2}}])
    mapping = (MappedField(names=("a", "old"), field_id=1),)
    assert read(files, metadata(of), task(data_file), mapping=mapping).to_pylist() == [{"a": 1, "b": None}]
    assert read(files, metadata(of), task(data_file)).to_pylist() == [{"a": None, "b": {"x": 2}}]


def test_filter_deletes_and_counting_work_on_avro() -> None:
    of = schema(column(1, "a", INT))
    files = Files()
    data_file = files.avro(NESTED, [{**ROWS[0], "a": n} for n in range(5)])
    gone = files.position_deletes([(data_file.path, 4)])
    where = Compare(of.fields[0], Op.GE, 2)
    assert read(files, metadata(of), task(data_file, gone, where=where))["a"].to_pylist() == [2, 3]
    pos = schema(column(2147483645, "_pos", LONG, required=True))
    assert read(files, metadata(of), task(data_file, gone), projection=pos)["_pos"].to_pylist() == [0, 1, 2, 3]


def test_a_cut_file_is_corrupt() -> None:
    files = Files()
    whole = files.storage.read(files.avro(NESTED, ROWS * 100).path)
    of = metadata(schema(column(1, "a", INT)))
    for size in (0, 3, 50, len(whole) - 20):
        with pytest.raises(Corrupt):
            read(files, of, task(files.put(whole[:size], "avro", 200)))
