"""Telemetry decoded inside a DataFrame, for sinks that take frames: ``writeStream.format("esker")``, pipelines."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import uuid4

from esker.errors import InvalidInput, Unsupported
from esker.ingest.frame_requests import rows_of
from esker.ingest.telemetry_tables import TelemetryTables, profile_of, promotions_by_table
from esker.lake import Lake
from esker.otlp.carried import packed
from esker.otlp.decode import Options
from esker.otlp.schemas import NAMESPACE, TABLES, Profile
from esker.spark.map_arrow import map_arrow
from esker.spark.otlp_frame_worker import FrameOrder
from esker.spark.ship import shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WORKER = "esker.spark.otlp_frame_worker"


def telemetry_frame(
    lake: Lake,
    frame: DataFrame,
    table: str,
    *,
    value: str = "value",
    framed: bool = False,
    profile: str | None = None,
    promote: Mapping[str, str] | None = None,
    partition_by: str = "day",
    strict: bool = False,
    properties: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows of one telemetry table that requests hold, as a frame with the table's columns; streams and batches.

    ``table`` is ``otel.spans``, ``otel.dead_letter`` or another of them; it is made in the lake if it is missing, so
    that what comes of the frame can be written there. One frame gives the rows of one table: where all are wanted,
    ``telemetry_sink`` reads its source once.
    """
    from esker.spark.types import shown_schema

    name = table.removeprefix(f"{NAMESPACE}.")
    if name not in TABLES:
        known = ", ".join(f"{NAMESPACE}.{one}" for one in TABLES)
        raise InvalidInput(f"cannot decode telemetry for {table}: the tables are {known}", table=table)
    chosen = profile_of(lake, profile)
    if chosen is Profile.VARIANT:
        raise Unsupported(
            "cannot decode telemetry into a frame of variants: use telemetry_sink, or another profile",
            feature="variant",
        )
    rows = rows_of(frame, value)
    promotions = promotions_by_table(promote or {})
    tables = TelemetryTables(lake, profile=chosen, promote=promotions, partition_by=partition_by, properties=properties)
    wanted = {field.name for field in TABLES[name].of(chosen).schema} | {one.column for one in promotions.get(name, ())}
    fields = tuple(field for field in tables.get(name).schema.fields if field.name in wanted)
    order = FrameOrder(
        table=name,
        fields=fields,
        framed=framed,
        options=Options(profile=chosen, promote=promotions, strict=strict),
        name=f"frame-{uuid4()}",
        extension=packed(),
    )
    return map_arrow(rows.frame, shipped(_WORKER, pickle.dumps(order)), shown_schema(fields))
