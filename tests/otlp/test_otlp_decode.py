"""What is decoded is what opentelemetry-proto parses from the same bytes, column by column."""

from __future__ import annotations

import random
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st
from otlp_decoding import WALKS, comparable, decoded, plain_rows, request, using
from otlp_messages import REQUESTS, random_request, to_json
from otlp_rows import rows_of

from esker.otlp.decoding.decode import Options
from esker.otlp.protocol.messages import PROGRAMS, Signal
from esker.otlp.protocol.walk import Node, Op
from esker.otlp.schemas import TABLES

SIGNALS = list(Signal)
_TYPES = {
    Op.FIXED64: FieldDescriptor.TYPE_FIXED64,
    Op.SFIXED64: FieldDescriptor.TYPE_SFIXED64,
    Op.DOUBLE: FieldDescriptor.TYPE_DOUBLE,
    Op.FIXED32: FieldDescriptor.TYPE_FIXED32,
    Op.UINT32: FieldDescriptor.TYPE_UINT32,
    Op.INT32: FieldDescriptor.TYPE_ENUM,
    Op.SINT32: FieldDescriptor.TYPE_SINT32,
    Op.BOOL: FieldDescriptor.TYPE_BOOL,
    Op.STRING: FieldDescriptor.TYPE_STRING,
    Op.STRINGS: FieldDescriptor.TYPE_STRING,
    Op.ID: FieldDescriptor.TYPE_BYTES,
    Op.FIXED64S: FieldDescriptor.TYPE_FIXED64,
    Op.UINT64S: FieldDescriptor.TYPE_UINT64,
    Op.DOUBLES: FieldDescriptor.TYPE_DOUBLE,
}


@pytest.mark.parametrize("signal", SIGNALS)
def test_every_field_of_the_protocol_has_its_place(signal: Signal) -> None:
    _same_fields(PROGRAMS[signal].root, REQUESTS[signal].DESCRIPTOR)


def _same_fields(node: Node, message: Descriptor) -> None:
    ours = {child.field.number: child for child in node.children}
    theirs = {field.number: field for field in message.fields}
    assert ours.keys() == theirs.keys(), message.full_name
    for number, child in ours.items():
        field, told = theirs[number], child.field
        assert told.name == field.name
        repeated = told.op in (Op.LIST, Op.ATTRIBUTES, Op.STRINGS, Op.FIXED64S, Op.UINT64S, Op.DOUBLES)
        assert field.is_repeated == (repeated or (told.op is Op.LEVEL and not told.once))
        if told.op in _TYPES:
            assert field.type == _TYPES[told.op]
            assert told.optional == field.has_presence
            if field.enum_type is not None:
                assert dict(told.members) == {value.name: value.number for value in field.enum_type.values}
        elif told.op in (Op.LEVEL, Op.MESSAGE, Op.LIST):
            assert field.message_type is not None
            _same_fields(child, field.message_type)
        else:
            assert field.message_type is not None
            assert field.message_type.name == ("AnyValue" if told.op is Op.ANY else "KeyValue")


def _expected(signal: Signal, message: Any) -> dict[str, Any]:
    return comparable(rows_of(signal, message))  # type: ignore[no-any-return]


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Cell by cell, so that a difference is told in a line."""
    assert {name: len(rows) for name, rows in found.items()} == {name: len(rows) for name, rows in expected.items()}
    for name, rows in expected.items():
        for at, row in enumerate(rows):
            assert found[name][at].keys() == row.keys()
            for column, value in row.items():
                assert found[name][at][column] == value, f"{name}[{at}].{column}"


def _found(batch: Any) -> dict[str, Any]:
    return {name: plain_rows(table) for name, table in batch.tables.items()}


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("signal", SIGNALS)
@given(seed=st.integers(0, 1 << 32))
def test_rows_are_those_of_the_protocols_own_parser(walk: str, signal: Signal, seed: int) -> None:
    message = random_request(signal, random.Random(seed))
    with using(walk):
        batch = decoded([request(message.SerializeToString(), signal=signal)])
    assert_same(_found(batch), _expected(signal, message))
    assert batch.dead_letters.num_rows == 0
    assert batch.counts.unknown_fields == 0
    for name, table in batch.tables.items():
        assert table.schema == TABLES[name].schema


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("signal", SIGNALS)
@given(seed=st.integers(0, 1 << 32), lax=st.booleans())
def test_json_gives_the_rows_of_protobuf(walk: str, signal: Signal, seed: int, lax: bool) -> None:
    message = random_request(signal, random.Random(seed))
    text = to_json(message, lax=random.Random(seed) if lax else None)
    with using(walk):
        batch = decoded([request(text, json=True, signal=signal)], Options(strict=not lax))
    assert batch.dead_letters.to_pylist() == []
    assert_same(_found(batch), _expected(signal, message))
    assert batch.counts.unknown_fields == 0
