"""View metadata to and from JSON: nothing is lost, and what the spec forbids is refused by name."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from views import simple_view, view_bytes, view_document

from esker.errors import Corrupt, EskerError, Unsupported
from esker.iceberg.metadata.view_metadata import decode_view_metadata, encode_view_metadata
from esker.tree.view_metadata import OtherRepresentation

FILE = "memory://v/metadata/00001.metadata.json"


def test_a_view_of_another_engine_is_read() -> None:
    view = decode_view_metadata(FILE, view_bytes())
    assert (view.uuid, view.location) == (
        "fa6506c3-7681-40c8-86dc-e36561f83385",
        "memory://warehouse/default.db/event_agg",
    )
    assert view.current_version.version_id == 2
    assert view.current_version.default_namespace == ("default", "nested")
    assert [version.default_catalog for version in view.versions] == ["prod", None]
    assert view.current_version.dialects == ("spark", "trino")
    assert view.current_version.sql() == "SELECT 2 AS a"
    assert view.current_version.sql("trino") == "select 2 a"
    assert view.current_version.sql("flink") is None
    assert isinstance(view.current_version.representations[2], OtherRepresentation)
    assert [field.name for field in view.schema.fields] == ["a"]
    assert [entry.version_id for entry in view.version_log] == [1, 2]
    assert view.properties == {"comment": "Daily event counts"}


def test_what_is_not_understood_goes_back_as_it_came() -> None:
    assert json.loads(encode_view_metadata(decode_view_metadata(FILE, view_bytes()))) == view_document()


def test_a_gzipped_file_is_read_whatever_its_name() -> None:
    assert decode_view_metadata(FILE, gzip.compress(view_bytes())) == decode_view_metadata(FILE, view_bytes())


def test_what_is_written_is_read_back_the_same() -> None:
    view = simple_view(comment="mine")
    read = decode_view_metadata(FILE, encode_view_metadata(view))
    assert (read.versions, read.schemas, read.version_log) == (view.versions, view.schemas, view.version_log)
    assert encode_view_metadata(read) == encode_view_metadata(view)


def _versions(**changes: Any) -> list[dict[str, Any]]:
    return [{**version, **changes} for version in view_document()["versions"]]


TWICE = [{"type": "sql", "sql": "a", "dialect": "spark"}, {"type": "sql", "sql": "b", "dialect": "SPARK"}]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"view-uuid": None}, "'view-uuid' is missing"),
        ({"location": 7}, "'location' must be a string, not 7"),
        ({"current-version-id": 9}, "the current version 9 is not among its versions"),
        ({"versions": {}}, "'versions' must be an array, not an object"),
        ({"versions": [7]}, "version 0 must be a JSON object, not 7"),
        ({"versions": _versions(**{"version-id": 2})}, "two of its versions have the same id"),
        ({"versions": _versions(**{"schema-id": 5})}, "the schema 5 of version 1 is not among its own"),
        ({"versions": _versions(**{"default-namespace": [1]})}, "'default-namespace' must be an array of strings"),
        ({"versions": _versions(**{"default-namespace": None})}, "'default-namespace' is missing"),
        ({"versions": _versions(representations=[{"type": "sql", "sql": "x"}])}, "'dialect' is missing"),
        ({"versions": _versions(representations=TWICE)}, "version 1 has two queries in one dialect"),
        ({"versions": _versions(summary=[])}, "'summary' must be an object of strings"),
        ({"schemas": None}, "'schemas' is missing"),
        ({"version-log": [{"version-id": 1}]}, "'timestamp-ms' is missing"),
        ({"properties": {"a": 1}}, "'properties' must be an object of strings"),
        ({"view-uuid": None, "table-uuid": "x"}, "it describes a table, not a view"),
    ],
)
def test_what_the_spec_forbids_is_refused_by_name(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(Corrupt) as raised:
        decode_view_metadata(FILE, view_bytes(**changes))
    assert why in raised.value.reason
    assert raised.value.file == FILE


def test_a_later_format_is_refused_by_its_number() -> None:
    with pytest.raises(Unsupported, match="view format version 2, the newest known is 1"):
        decode_view_metadata(FILE, view_bytes(**{"format-version": 2}))


@pytest.mark.parametrize("content", [b"", b"  ", b"[]", b"7", b"{", b"\xff", b"[" * 100_000, b"\x1f\x8b\x08junk"])
def test_a_file_that_is_no_view_at_all_is_corrupt(content: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_view_metadata(FILE, content)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(sorted(view_document())), ANYTHING)
def test_any_value_in_any_place_is_read_or_refused(name: str, value: Any) -> None:
    try:
        view = decode_view_metadata(FILE, view_bytes(**{name: value}))
    except EskerError:
        return
    assert view.current_version
    assert view.schema
    encode_view_metadata(view)


@given(st.sampled_from(sorted(view_document()["versions"][0])), ANYTHING)
def test_any_value_in_a_version_is_read_or_refused(name: str, value: Any) -> None:
    try:
        view = decode_view_metadata(FILE, view_bytes(versions=_versions(**{name: value})))
    except EskerError:
        return
    encode_view_metadata(view)
