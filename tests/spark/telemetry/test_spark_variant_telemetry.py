"""Telemetry in the profile ``variant``: made by either engine, and read by Spark and DuckDB with its types."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from duckdb_iceberg import duckdb_with_iceberg
from otlp_messages import random_request
from telemetry_samples import spans, write

import esker
from esker.ingest.otlp.ingest_otlp import Asked, ingest_otlp
from esker.lake import Lake
from esker.model.variant import decode
from esker.otlp.protocol.messages import Signal

TYPED = b"""[{"key": "status", "value": {"intValue": "503"}}, {"key": "ok", "value": {"boolValue": false}},
    {"key": "took", "value": {"doubleValue": 0.25}}, {"key": "raw", "value": {"bytesValue": "AAE="}},
    {"key": "tags", "value": {"arrayValue": {"values": [{"stringValue": "a"}, {"intValue": "2"}]}}},
    {"key": "user", "value": {"kvlistValue": {"values": [{"key": "id", "value": {"intValue": "7"}}]}}}]"""
EVENT = b"""[{"timeUnixNano": "5", "name": "e", "attributes": [{"key": "n", "value": {"intValue": "9"}}]}]"""


def ingested(lake: Lake, folder: Path, engine: str) -> None:
    """Some spans with attributes of every kind, on themselves and on an event."""
    line = spans([1]).replace(b'"attributes": []', b'"attributes": ' + TYPED + b', "events": ' + EVENT)
    write(folder / "in", "a.jsonl", line.replace(b"\n", b" ") + b"\n", spans([2]))
    asked = Asked(paths=[folder / "in"], checkpoint=folder / f"checkpoint-{engine}", engine=engine, profile="variant")
    account = ingest_otlp(lake, asked)
    assert (account.received, account.holds) == (2, True)


@pytest.mark.parametrize("engine", ["arrow", "spark"])
def test_attributes_keep_their_types_for_every_reader(spark: Any, tmp_path: Path, engine: str) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db", spark=spark)
    ingested(lake, tmp_path, engine)
    table = lake.table("otel.spans")
    (found, _) = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["SpanName"])
    expected = {"status": 503, "ok": False, "took": 0.25, "raw": b"\x00\x01", "tags": ["a", 2], "user": {"id": 7}}
    assert decode(**found["SpanAttributes"]) == expected
    assert decode(**found["Events"][0]["Attributes"]) == {"n": 9}
    (row,) = lake.sql(
        """SELECT variant_get(SpanAttributes, '$.status', 'int') + 1 status, SpanAttributes:took::double took,
            schema_of_variant(SpanAttributes) kinds, Events[0].Attributes:n::int n,
            variant_get(ResourceAttributes, '$["service.name"]', 'string') service
        FROM otel.spans WHERE variant_get(SpanAttributes, '$.user.id', 'int') = 7"""
    ).collect()
    assert (row.status, row.took, row.n, row.service) == (504, 0.25, 9, "shop")
    assert row.kinds == (
        "OBJECT<ok: BOOLEAN, raw: BINARY, status: BIGINT, tags: ARRAY<VARIANT>, took: DOUBLE, user: OBJECT<id: BIGINT>>"
    )


def test_duckdb_reads_the_variants_of_a_table(tmp_path: Path) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db")
    ingested(lake, tmp_path, "arrow")
    table = lake.table("otel.spans")
    connection: Any = duckdb_with_iceberg()
    query = f"select count(*), sum(SpanAttributes.status::int) from iceberg_scan('{table.metadata_location}')"
    assert connection.sql(query).fetchone() == (2, 503)


def test_random_requests_are_counted_alike_in_every_profile(spark: Any, tmp_path: Path) -> None:
    made = [random_request(Signal.TRACES, random.Random(seed)).SerializeToString() for seed in range(30)]
    counted = []
    for profile in ("map", "variant"):
        folder = tmp_path / profile
        for at, data in enumerate(made):
            write(folder / "in", f"{at}.pb", data)
        lake = esker.connect(f"sqlite:///{folder}/lake/catalog.db", spark=spark)
        account = ingest_otlp(lake, Asked(paths=[folder / "in"], checkpoint=folder / "checkpoint", profile=profile))
        assert account.holds
        frame = lake.table("otel.spans").scan().to_spark()
        if profile == "variant":
            frame.selectExpr("count(to_json(SpanAttributes))", "count(to_json(struct(Events)))").collect()
        counted.append((account.received, frame.count(), lake.table("otel.spans").scan().count()))
    assert counted[0] == counted[1]
    assert counted[0][1] == counted[0][2] > 30
