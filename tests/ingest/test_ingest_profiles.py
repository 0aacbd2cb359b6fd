"""Attributes as maps, as JSON or as variants: chosen once for a lake's tables, and the same records in each."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from telemetry_samples import by_name, logs, span_names, spans, write

import esker
from esker.errors import InvalidInput
from esker.ingest.account import Account
from esker.ingest.otlp.ingest_otlp import Asked, ingest_otlp
from esker.ingest.otlp.replay import replay_letters
from esker.lake import Lake
from esker.model.variant import decode


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db")


def ingest(lake: Lake, folder: Path, **more: object) -> Account:
    return ingest_otlp(lake, Asked(paths=[folder / "in"], checkpoint=folder / "checkpoint", **more))  # type: ignore[arg-type]


def test_flat_tables_hold_attributes_as_json(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "in", "a.jsonl", spans([1], note='a "quoted" word'), logs([1]))
    account = ingest(lake, tmp_path, profile="flat", promote={"note": "string"})
    assert (account.received, account.holds) == (2, True)
    (row,) = lake.table("otel.spans").scan().to_arrow().to_pylist()
    assert row["SpanAttributes"] == '{"note":"a \\"quoted\\" word"}'
    assert json.loads(row["ResourceAttributes"]) == {"service.name": "shop"}
    assert (row["note"], row["ServiceName"], row["ScopeAttributes"]) == ('a "quoted" word', "shop", None)
    assert "SpanAttributeTypes" not in row


def test_variant_tables_hold_values_with_their_types(lake: Lake, tmp_path: Path) -> None:
    typed = spans([1]).replace(
        b'"attributes": []', b'"attributes": [{"key": "n", "value": {"intValue": "7"}}, {"key": "x", "value": {}}]'
    )
    write(tmp_path / "in", "a.jsonl", typed, logs([1]))
    account = ingest(lake, tmp_path, profile="variant", promote={"n": "int"})
    assert (account.received, account.holds) == (2, True)
    table = lake.table("otel.spans")
    assert table.format_version == 3
    (row,) = table.scan().to_arrow().to_pylist()
    assert decode(**row["SpanAttributes"]) == {"n": 7, "x": None}
    assert decode(**row["ResourceAttributes"]) == {"service.name": "shop"}
    assert (row["n"], row["ScopeAttributes"], row["Events"]) == (7, None, [])
    write(tmp_path / "in", "b.jsonl", typed, spans([2]))
    assert ingest(lake, tmp_path, dedup="span_id").deduplicated == 1
    assert span_names(lake) == Counter(["span 1", "span 2"])


def test_tables_of_another_profile_are_refused_before_anything_is_written(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "in", "a.jsonl", logs([1]))
    ingest(lake, tmp_path, profile="flat")
    write(tmp_path / "in", "b.jsonl", spans([1]), logs([2]))
    with pytest.raises(
        InvalidInput, match=r"attributes as map into otel\.logs: it has them as flat; ingest with the p"
    ):
        ingest(lake, tmp_path, profile="map")
    assert lake.tables("otel") == ["otel.logs"]
    with pytest.raises(InvalidInput, match=r"cannot hold attributes as 'json': the profiles are map, flat, variant"):
        ingest(lake, tmp_path, profile="json")
    assert ingest(lake, tmp_path, profile="flat").holds


def test_without_a_word_the_profile_is_that_of_the_tables(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "in", "a.jsonl", logs([1]), by_name(1))
    ingest(lake, tmp_path, profile="flat", strict=True)
    write(tmp_path / "in", "b.jsonl", spans([2], note="b"))
    assert ingest(lake, tmp_path).holds
    assert replay_letters(lake, tmp_path / "checkpoint").holds
    rows = lake.table("otel.spans").scan(columns=["SpanAttributes"]).to_arrow().column(0).to_pylist()
    assert set(rows) == {"{}", '{"note":"b"}'}
    assert span_names(lake) == Counter(["span 1", "span 2"])


def test_letters_are_decoded_in_the_profile_that_is_asked_for(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "in", "a.jsonl", by_name(1))
    ingest(lake, tmp_path, strict=True)
    assert replay_letters(lake, tmp_path / "checkpoint", profile="flat").holds
    assert lake.table("otel.spans").scan(columns=["SpanAttributes"]).to_arrow().column(0).to_pylist() == ["{}"]


def test_tables_are_partitioned_by_hour_where_that_is_asked(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "in", "a.jsonl", spans([1], day=1), spans([2]), b"{broken\n")
    ingest(lake, tmp_path, partition_by="hour")
    assert [field.name for field in lake.table("otel.spans").spec.fields] == ["Timestamp_hour"]
    assert [field.name for field in lake.table("otel.dead_letter").spec.fields] == ["at_day"]
    assert len(lake.table("otel.spans").inspect.partitions()) == 2
    write(tmp_path / "in", "b.jsonl", spans([3]), logs([3]))
    assert ingest(lake, tmp_path).holds
    assert [field.name for field in lake.table("otel.spans").spec.fields] == ["Timestamp_hour"]
    assert [field.name for field in lake.table("otel.logs").spec.fields] == ["Timestamp_day"]
    with pytest.raises(InvalidInput, match=r"cannot partition telemetry by 'week': use one of day, hour"):
        ingest(lake, tmp_path, partition_by="week")
