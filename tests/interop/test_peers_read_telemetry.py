"""What an ingest makes, read by others: nested columns, ids in binary, promoted columns with dots in their names."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from duckdb_iceberg import duckdb_with_iceberg
from otlp_messages import random_request
from telemetry_samples import logs, spans, write

import esker
from esker.ingest.otlp.ingest_otlp import Asked, ingest_otlp
from esker.lake import Lake
from esker.otlp.protocol.messages import Signal

pytestmark = pytest.mark.interop


@pytest.fixture(params=["map", "flat"])
def profile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def lake(tmp_path: Path, profile: str) -> Lake:
    chance = random.Random(3)
    for signal in Signal:
        for number in range(4):
            request = random_request(signal, chance).SerializeToString()
            write(tmp_path / "in", f"{signal.value}{number}.pb", request)
    write(tmp_path / "in", "a.jsonl", spans(range(5), **{"http.code": "200"}), logs(range(3)), b"{broken\n")
    lake = esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db")
    asked = Asked(
        paths=[tmp_path / "in"], checkpoint=tmp_path / "checkpoint", promote={"http.code": "int"}, profile=profile
    )
    assert ingest_otlp(lake, asked).holds
    return lake


def names(rows: Any, column: str) -> list[str]:
    return sorted(map(str, rows.column(column).to_pylist()))


def test_pyiceberg_reads_every_table(lake: Lake, tmp_path: Path) -> None:
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    catalog = sql.SqlCatalog("default", uri=f"sqlite:///{tmp_path}/lake/catalog.db")
    for table in lake.tables("otel"):
        ours, theirs = lake.table(table).scan().to_arrow(), catalog.load_table(table).scan().to_arrow()
        assert theirs.num_rows == ours.num_rows
        for column in ours.column_names:
            assert names(theirs, column) == names(ours, column), f"{table}.{column}"


def test_duckdb_reads_every_table(lake: Lake, profile: str) -> None:
    connection: Any = duckdb_with_iceberg()
    for table in lake.tables("otel"):
        place = lake.table(table).metadata_location
        (count,) = connection.sql(f"SELECT count(*) FROM iceberg_scan('{place}')").fetchone()
        assert count == lake.table(table).scan().count()
    place = lake.table("otel.spans").metadata_location
    attribute = "SpanAttributes['http.code']" if profile == "map" else "SpanAttributes ->> '$.\"http.code\"'"
    found = connection.sql(
        f'SELECT SpanName, "http.code", {attribute}, octet_length(TraceId), len(Events) '
        f"FROM iceberg_scan('{place}') WHERE ServiceName = 'shop' ORDER BY SpanName"
    ).fetchall()
    assert found == [(f"span {number}", 200, "200", 16, 0) for number in range(5)]
