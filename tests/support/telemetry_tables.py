"""The telemetry tables, filled with random requests."""

from __future__ import annotations

import random

import pyarrow as pa
from otlp_decoding import decoded, request
from otlp_messages import random_request

from esker.lake import Lake
from esker.otlp.protocol.messages import Signal
from esker.otlp.schemas import TABLES
from esker.table import Table


def telemetry(signal: Signal, *, requests: int = 20) -> dict[str, pa.Table]:
    """Rows of every table of a signal."""
    made = (random_request(signal, random.Random(seed)).SerializeToString() for seed in range(requests))
    return decoded([request(data, signal=signal) for data in made]).tables


def telemetry_table(lake: Lake, name: str, rows: pa.Table) -> Table:
    """One of the tables as it is to be made, with its rows."""
    if "otel" not in lake.namespaces():
        lake.create_namespace("otel")
    wanted = TABLES[name]
    table = lake.create_table(
        f"otel.{name}",
        wanted.schema,
        partition_by=list(wanted.partition_by),
        sort_by=list(wanted.sort_by),
        properties=wanted.properties,
    )
    table.append(rows)
    return table
