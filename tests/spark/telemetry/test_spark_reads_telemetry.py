"""Spark's own reader takes the telemetry tables: every nested column, and columns written as differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from otlp_decoding import plain_rows
from telemetry_tables import telemetry, telemetry_table

import esker
from esker.otlp.protocol.messages import Signal


def test_spark_reads_the_rows_that_were_decoded(tmp_path: Path, spark: Any) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    for signal in (Signal.TRACES, Signal.METRICS):
        for name, rows in telemetry(signal).items():
            table = telemetry_table(lake, name, rows)
            found = table.scan().to_spark().toArrow().cast(rows.schema)
            assert sorted(map(repr, plain_rows(found))) == sorted(map(repr, plain_rows(rows)))
