"""The telemetry tables, with all their nested columns and their encodings, as other engines read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from duckdb_iceberg import duckdb_with_iceberg
from otlp_decoding import plain_rows
from telemetry_tables import telemetry, telemetry_table

import esker
from esker.otlp.protocol.messages import Signal

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]  # theirs


def by_text(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.mark.parametrize("signal", list(Signal))
def test_others_read_the_same_rows(tmp_path: Path, signal: Signal) -> None:
    from pyiceberg.table import StaticTable

    duck: Any = duckdb_with_iceberg()
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    for name, rows in telemetry(signal).items():
        table = telemetry_table(lake, name, rows)
        expected = by_text(plain_rows(rows))
        assert by_text(plain_rows(table.scan().to_arrow())) == expected
        theirs = StaticTable.from_metadata(table.metadata_location).scan().to_arrow()
        assert by_text(plain_rows(theirs.cast(rows.schema))) == expected
        found = duck.execute(f"SELECT * FROM iceberg_scan('{table.metadata_location}')").to_arrow_table()
        assert by_text(plain_rows(found.cast(rows.schema))) == expected
    duck.close()
