"""JSON objects read field by field: every complaint names the file, the place and the field."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from esker.errors import Corrupt
from esker.iceberg.json_document import JsonObject, decode_json, decode_raw_fields, decode_raw_items


def test_fields_nobody_asked_for_are_kept() -> None:
    document = JsonObject("f", "place", {"a": 1, "b": None, "c": "x"})
    assert document.integer("a") == 1
    assert document.string_or_none("b") is None
    assert document.rest() == {"c": "x"}


def test_null_is_no_value_but_is_there() -> None:
    document = JsonObject("f", "place", {"a": None})
    assert "a" not in document
    assert document.has("a")
    with pytest.raises(Corrupt, match="f is corrupt: place: 'a' is missing"):
        document.required("a")


@pytest.mark.parametrize(
    ("method", "value", "reason"),
    [
        ("string", 5, "'a' must be a string, not 5"),
        ("string", "", None),
        ("integer", "5", "'a' must be a whole number, not '5'"),
        ("integer", 5.0, "'a' must be a whole number, not 5.0"),
        ("integer", False, "'a' must be a whole number, not false"),
        ("integer", 0, None),
        ("boolean", 0, "'a' must be true or false, not 0"),
        ("boolean", False, None),
        ("boolean", "yes", "'a' must be true or false, not 'yes'"),
        ("items", {}, "'a' must be an array, not an object"),
        ("object", [], "'a' of place must be a JSON object, not an array"),
        ("strings", {"x": 1}, "'a' must be an object of strings, not an object"),
        ("string", 10**70, "a string, not 10{59}…"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named(method: str, value: Any, reason: str | None) -> None:
    document = JsonObject("f", "place", {"a": value})
    if reason is None:
        assert getattr(document, method)("a") == value
        return
    with pytest.raises(Corrupt, match=reason):
        getattr(document, method)("a")


def test_what_is_at_the_root_needs_no_place() -> None:
    with pytest.raises(Corrupt, match=r"^f is corrupt: 'a' is missing$"):
        JsonObject("f", "", {}).string("a")


def test_raw_parts_stay_text() -> None:
    fields = decode_raw_fields("f", b'{"a": [1, 2], "b": {"c": "\xff"}}', "it")
    assert [bytes(item) for item in decode_raw_items("f", fields["a"], "a")] == [b"1", b"2"]
    assert decode_raw_items("f", None, "a") == decode_raw_items("f", msgspec.Raw(b"null"), "a") == []
    with pytest.raises(Corrupt, match=r"f is corrupt: b is not valid JSON: .*can't decode byte 0xff"):
        decode_json("f", fields["b"], "b")


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_nesting_without_end_is_corrupt(opening: bytes) -> None:
    with pytest.raises(Corrupt, match="f is corrupt: it is nested too deeply"):
        decode_json("f", opening * 200_000, "it")
