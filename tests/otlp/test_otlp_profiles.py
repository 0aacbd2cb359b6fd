"""Attributes in every profile tell what the maps tell: values with their types, and nothing besides."""

from __future__ import annotations

import base64
import json
import math
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from otlp_decoding import comparable, decoded, plain_rows, request
from otlp_messages import random_request

from esker.model.variant import decode
from esker.otlp.decoding.attributes import as_json
from esker.otlp.decoding.decode import Options
from esker.otlp.decoding.promote import promotions
from esker.otlp.protocol.messages import Signal
from esker.otlp.schemas import TABLES, TEXTS, Profile, types_name


def value(text: str | None, kind: str) -> Any:
    """What a text of the map profile stands for, as JSON is read."""
    match kind:
        case _ if text is None:
            return None
        case "string":
            return text
        case "bytes":
            return {"$bytes": text}
        case "double":
            number = float(text)
            return number if abs(number) < float("inf") else {"$double": text}
        case _:
            return json.loads(text)


def told(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the map profile as one of JSON, read."""
    kinds = {types_name(name) for name in row if types_name(name) in row}
    made: dict[str, Any] = {}
    for name, held in row.items():
        if name in kinds:
            continue
        if types_name(name) in row:
            of = row[types_name(name)] or {}
            made[name] = (
                None if held is None else {key: value(text, of.get(key, "string")) for key, text in held.items()}
            )
        elif name in ("Events", "Links", "Exemplars"):
            made[name] = held and [told(one) for one in held]
        else:
            made[name] = held
    return comparable(made)  # type: ignore[no-any-return]


def read(row: dict[str, Any]) -> dict[str, Any]:
    """A row of another profile with its attributes read; comparable, so that an integer is no double."""
    made: dict[str, Any] = {}
    for name, held in row.items():
        if held is not None and (name.endswith("Attributes") or name == "MetricMetadata"):
            made[name] = json.loads(held) if isinstance(held, str) else as_in_json(decode(**held))
        elif name in ("Events", "Links", "Exemplars"):
            made[name] = held and [read(one) for one in held]
        else:
            made[name] = held
    return comparable(made)  # type: ignore[no-any-return]


def as_in_json(value: Any) -> Any:
    """A value of a variant in the forms of JSON."""
    match value:
        case dict():
            return {key: as_in_json(inner) for key, inner in value.items()}
        case list():
            return [as_in_json(inner) for inner in value]
        case bytes():
            return {"$bytes": base64.b64encode(value).decode()}
        case float() if not math.isfinite(value):
            return {"$double": "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}
        case _:
            return value


@pytest.mark.parametrize("profile", [Profile.FLAT, Profile.VARIANT])
@pytest.mark.parametrize("signal", Signal)
@given(seed=st.integers(0, 1 << 32))
def test_rows_of_every_profile_tell_what_rows_of_maps_tell(signal: Signal, profile: Profile, seed: int) -> None:
    sent = [request(random_request(signal, random.Random(seed)).SerializeToString(), signal=signal)]
    maps, others = decoded(sent), decoded(sent, Options(profile=profile))
    assert maps.tables.keys() == others.tables.keys()
    for name, table in others.tables.items():
        assert table.schema == TABLES[name].of(profile).schema
        assert [read(row) for row in plain_rows(table)] == [told(row) for row in plain_rows(maps.tables[name])]


@given(
    rows=st.lists(
        st.none() | st.dictionaries(st.text(max_size=3), st.none() | st.text(max_size=5), max_size=4), max_size=6
    ),
    bounds=st.tuples(st.integers(0, 6), st.integers(0, 6)),
)
def test_any_text_is_quoted_and_a_slice_is_itself(
    rows: list[dict[str, str | None] | None], bounds: tuple[int, int]
) -> None:
    texts = pa.array([None if row is None else list(row.items()) for row in rows], TEXTS)
    kinds = pa.array([None] * len(rows), TEXTS)
    start, end = sorted(min(bound, len(rows)) for bound in bounds)
    made = as_json(texts.slice(start, end - start), kinds.slice(start, end - start)).to_pylist()
    assert [None if text is None else json.loads(text) for text in made] == rows[start:end]


def test_no_profile_has_columns_of_kinds_but_that_of_maps() -> None:
    for table in TABLES.values():
        names = set(table.schema.names)
        for profile in (Profile.FLAT, Profile.VARIANT):
            other = table.of(profile)
            assert names - set(other.schema.names) == {
                name for name in names if name.endswith(("AttributeTypes", "MetadataTypes"))
            }
            assert not any(pa.types.is_map(field.type) for field in other.schema)
            assert "Types" not in str(other.schema)


@pytest.mark.parametrize("profile", Profile)
def test_promoted_columns_are_the_same_in_every_profile(profile: Profile) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    message = ExportTraceServiceRequest()
    resource = message.resource_spans.add()
    resource.resource.attributes.add(key="host.name").value.string_value = "a"
    scope = resource.scope_spans.add()
    for status in (200, 404):
        scope.spans.add(name="x").attributes.add(key="status").value.int_value = status
    scope.spans.add(name="y").attributes.add(key="status").value.string_value = "none"
    asked = promotions({"status": "int", "resource:host.name": "string"})
    options = Options(promote={"spans": asked}, profile=profile)
    batch = decoded([request(message.SerializeToString(), signal=Signal.TRACES)], options)
    spans = batch.tables["spans"]
    assert spans.column_names[-2:] == ["status", "host.name"]
    assert spans.column("status").to_pylist() == [200, 404, None]
    assert spans.column("host.name").to_pylist() == ["a", "a", "a"]
    assert batch.counts.not_castable == {"status": 1}
