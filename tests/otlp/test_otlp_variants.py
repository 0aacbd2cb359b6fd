"""Attributes as variants: every kind keeps its type, and its value."""

from __future__ import annotations

import base64
import json
import math
import struct
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esker.errors import InvalidInput
from esker.model.variant import decode
from esker.otlp.decoding.attributes import VARIANT, _row_by_row, as_variants

TEXTS = pa.map_(pa.string(), pa.string())
WORDS = st.text(st.characters(codec="utf-8"), max_size=12)
INTS = st.integers(-(1 << 63), (1 << 63) - 1)
FLAT = st.one_of(st.none(), st.booleans(), INTS, st.floats(), WORDS, st.binary(max_size=8))
NESTED = st.recursive(FLAT, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4))
ROWS = st.lists(st.none() | st.dictionaries(WORDS, NESTED, max_size=8), max_size=8)


def spelt(value: Any, *, inside: bool = False) -> Any:
    """A value's text in the map profile; inside of an array or kvlist its JSON."""
    match value:
        case bytes():
            text = base64.b64encode(value).decode()
            return {"$bytes": text} if inside else text
        case float() if not math.isfinite(value):
            name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            return {"$double": name} if inside else name
        case list() if inside:
            return [spelt(item, inside=True) for item in value]
        case dict() if inside:
            return {key: spelt(item, inside=True) for key, item in value.items()}
        case list() | dict():
            return json.dumps(spelt(value, inside=True), ensure_ascii=False)
        case _ if inside or value is None or isinstance(value, str):
            return value
        case bool():
            return str(value).lower()
        case _:
            return repr(value)


KINDS = {bool: "bool", int: "int", float: "double", bytes: "bytes", list: "array", dict: "kvlist"}


def maps(rows: list[dict[str, Any] | None]) -> tuple[pa.Array, pa.Array]:
    """The two maps of the map profile."""
    values = [None if row is None else [(key, spelt(value)) for key, value in row.items()] for row in rows]
    kinds = [
        [(key, KINDS[type(value)]) for key, value in (row or {}).items() if type(value) in KINDS] or None
        for row in rows
    ]
    return pa.array(values, TEXTS), pa.array(kinds, TEXTS)


def same(one: Any, other: Any) -> bool:
    """Equal, of the same types, and NaN is itself."""
    return repr(one) == repr(other)


def in_order(value: Any) -> Any:
    """The value with its keys in the order of a variant's."""
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value, key=str.encode)}
    return [in_order(item) for item in value] if isinstance(value, list) else value


def read(array: pa.Array) -> list[Any]:
    return [None if row is None else decode(row["metadata"], row["value"]) for row in array.to_pylist()]


@given(ROWS)
def test_every_attribute_comes_back_with_its_type(rows: list[dict[str, Any] | None]) -> None:
    made = as_variants(*maps(rows))
    made.validate(full=True)
    assert made.type == VARIANT
    assert same(read(made), [in_order(row) for row in rows])


@given(ROWS)
def test_the_compiled_part_and_the_one_in_python_make_the_same_bytes(rows: list[dict[str, Any] | None]) -> None:
    pytest.importorskip("esker.otlp._variants", reason="the compiled part was not built")
    values, kinds = maps([*rows, *rows])
    made = as_variants(values, kinds)
    metadata, value = _row_by_row(values, kinds)
    valid = [row is not None for row in (*rows, *rows)]
    assert [row for row in made.to_pylist() if row is not None] == [
        {"metadata": one, "value": other}
        for one, other, there in zip(metadata.to_pylist(), value.to_pylist(), valid, strict=True)
        if there
    ]


@given(st.data())
def test_the_compiled_part_trusts_no_offset(data: st.DataObject) -> None:
    compiled = pytest.importorskip("esker.otlp._variants", reason="the compiled part was not built")
    numbers = st.lists(st.integers(-2, 9) | st.integers(-(1 << 31), (1 << 31) - 1), max_size=6)
    offsets = numbers.map(lambda some: struct.pack(f"<{len(some)}i", *some))
    some = st.none() | st.binary(max_size=9) | st.just(b"int double truefalse 12 1.5")
    tuples = st.tuples(some, offsets, st.none(), offsets, some, some, offsets, some)
    rows = data.draw(st.integers(-1, 5))
    with suppress(ValueError, TypeError):
        compiled.encode_rows(data.draw(tuples), data.draw(tuples), rows, lambda text: b"\0" if len(text) % 2 else None)


def test_rows_that_are_not_plain_are_made_among_those_that_are() -> None:
    plain = {"b": 1, "a": "x"}
    odd: list[Any] = [{"k": {"z": [1]}}, {f"key{at:03}": at for at in range(300)}, {}, {"t": "x" * 70_000}]
    rows = [plain, odd[0], plain, odd[1], None, odd[2], odd[3], plain]
    assert same(read(as_variants(*maps(rows))), [in_order(row) for row in rows])


def test_slices_are_what_they_show() -> None:
    rows = [{"a": 1}, {"b": "two"}, None, {"c": [1.0, {"d": b"x"}]}, {"a": True}]
    values, kinds = maps(rows)
    assert same(read(as_variants(values.slice(1, 3), kinds.slice(1, 3))), rows[1:4])
    assert len(as_variants(values.slice(2, 0), kinds.slice(2, 0))) == 0


def test_a_kvlist_that_only_looks_like_bytes_stays_one() -> None:
    values = pa.array([[("a", '{"$bytes":"%"}'), ("b", '{"$double":"1"}'), ("c", '{"$bytes":"AA==","d":1}')]], TEXTS)
    kinds = pa.array([[("a", "kvlist"), ("b", "kvlist"), ("c", "kvlist")]], TEXTS)
    expected = {"a": {"$bytes": "%"}, "b": {"$double": "1"}, "c": {"$bytes": "AA==", "d": 1}}
    assert read(as_variants(values, kinds)) == [expected]


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        ("x", "int", "cannot read the attribute 'x' as a value of kind int"),
        ("x", "double", "as a value of kind double"),
        ("TRUE", "bool", "as a value of kind bool"),
        ("%", "bytes", "as a value of kind bytes"),
        ("[", "array", "as a value of kind array"),
        ("[" * 100_000, "array", "as a value of kind array"),
        ("1", "text", "cannot read an attribute as a value of kind 'text': OTLP has no such kind"),
    ],
)
def test_a_text_that_is_none_of_its_kind_is_refused(text: str, kind: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        as_variants(pa.array([[("a", text)]], TEXTS), pa.array([[("a", kind)]], TEXTS))
