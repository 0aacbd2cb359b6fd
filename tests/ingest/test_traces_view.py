"""``otel.otel_traces`` comes with the spans, where the catalog can have views, and never in the way of an ingest."""

from __future__ import annotations

from pathlib import Path

import pytest
from sql_lakes import only_scan, rewritten
from telemetry_samples import logs, spans, write

import esker
from esker.ingest.otlp.ingest_otlp import Asked, ingest_otlp
from esker.ingest.otlp.telemetry_tables import TRACES
from esker.lake import Lake
from esker.otlp.schemas import TABLES, Profile


def ingested(scratch: Path, lake: Lake, profile: str = "map", *requests: bytes) -> Lake:
    write(scratch / "in", "a.jsonl", *(requests or (spans(range(3)),)))
    asked = Asked(paths=[scratch / "in"], checkpoint=scratch / "checkpoint", profile=profile)
    assert ingest_otlp(lake, asked).holds
    return lake


def sqlite(scratch: Path) -> Lake:
    return esker.connect(f"sqlite:///{scratch}/catalog.db")


def test_the_view_is_made_with_the_spans_and_with_nothing_else(scratch: Path) -> None:
    lake = ingested(scratch, sqlite(scratch), "map", logs(range(2)))
    assert lake.views("otel") == []
    write(scratch / "in", "b.jsonl", spans(range(3)))
    ingested(scratch, lake, "map", logs(range(2)))
    assert lake.views("otel") == ["otel.otel_traces"]
    view = lake.view("otel.otel_traces")
    assert view.current_version.default_namespace == ("otel",)
    assert view.query_columns == tuple(field.name for field in view.schema.fields)


def test_its_columns_are_those_of_the_older_layouts(scratch: Path) -> None:
    view = ingested(scratch, sqlite(scratch)).view("otel.otel_traces")
    types = {field.name: str(field.type) for field in view.schema.fields}
    assert list(types)[:8] == [
        "Timestamp", "TraceId", "SpanId", "ParentSpanId", "TraceState", "SpanName", "SpanKind", "ServiceName",
    ]  # fmt: skip
    assert types["TraceId"] == "string"
    assert types["EventsTimestamp"] == "list<timestamptz>"
    assert types["EventsAttributes"] == types["LinksAttributes"] == "list<map<string, string>>"
    assert types["LinksTraceId"] == types["LinksSpanId"] == types["LinksTraceState"] == "list<string>"


@pytest.mark.parametrize(
    ("profile", "type_", "in_lists"),
    [("flat", "string", "list<string>"), ("variant", "variant", "list<variant>")],
)
def test_each_profile_has_a_view_that_suits(scratch: Path, profile: str, type_: str, in_lists: str) -> None:
    view = ingested(scratch, sqlite(scratch), profile).view("otel.otel_traces")
    types = {field.name: str(field.type) for field in view.schema.fields}
    assert (types["SpanAttributes"], types["EventsAttributes"]) == (type_, in_lists)


def test_every_column_that_the_view_reads_is_the_tables() -> None:
    plain = {name for name, _, of in TRACES.columns if name == of}
    for profile in Profile:
        table = TABLES["spans"].of(profile).schema
        assert plain <= set(table.names)
        assert {"TraceId", "SpanId", "ParentSpanId", "Events", "Links"} <= set(table.names)


def test_a_condition_on_the_view_leaves_days_unread(scratch: Path) -> None:
    lake = ingested(scratch, sqlite(scratch), "map", spans([1]), spans([2], day=1), spans([3], day=2))
    assert only_scan(rewritten(lake, "SELECT TraceId FROM otel.otel_traces")).plan().funnel.files_kept == 3
    text = "SELECT TraceId FROM otel.otel_traces WHERE Timestamp < TIMESTAMP '2023-11-15 00:00:00Z' AND SpanId <> 'x'"
    assert only_scan(rewritten(lake, text)).plan().funnel.files_kept == 1


def test_a_catalog_without_views_takes_telemetry_all_the_same(scratch: Path) -> None:
    lake = ingested(scratch, esker.connect(str(scratch / "warehouse")))
    assert (lake.views("otel"), lake.tables("otel")) == ([], ["otel.spans"])


def test_a_table_of_that_name_stays_as_it_is(scratch: Path) -> None:
    lake = sqlite(scratch)
    lake.create_namespace("otel")
    lake.create_table("otel.otel_traces", "mine bigint")
    ingested(scratch, lake)
    assert (lake.views("otel"), lake.tables("otel")) == ([], ["otel.otel_traces", "otel.spans"])


def test_a_view_of_that_name_stays_as_it_is(scratch: Path) -> None:
    lake = sqlite(scratch)
    lake.create_namespace("otel")
    lake.create_view("otel.otel_traces", "SELECT 1 AS mine", schema="mine int")
    assert ingested(scratch, lake).view("otel.otel_traces").sql == "SELECT 1 AS mine"
