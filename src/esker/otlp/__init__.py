"""OTLP telemetry: from files, over HTTP or from Kafka into Arrow tables and dead letters.

Inside, ``source`` finds the requests in a file or topic, ``decoding`` makes tables of them, and ``receive`` takes
requests over HTTP and keeps them in a spool. For users:

- ``pipeline`` starts a streaming query that loads directories or topics into the tables.
- ``PipelineListener`` reports the progress of its batches.
- ``telemetry_sink`` writes DataFrames of requests to the tables; ``telemetry_frame`` makes DataFrames of their rows.
- ``Rollup``, ``SERVICE_RED``, ``roll_up`` and ``quantile`` keep totals by the minute.

    query = esker.otlp.pipeline(spark, "incoming", lake)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from esker.ports.outer_names import find

if TYPE_CHECKING:
    from esker.ingest.pipeline.rollups import SERVICE_RED, Rollup, quantile
    from esker.ingest.pipeline.start import pipeline
    from esker.ingest.pipeline.update_rollups import roll_up
    from esker.ingest.spark.pipeline_query import PipelineListener
    from esker.ingest.spark.telemetry_frame import telemetry_frame
    from esker.ingest.spark.telemetry_sink import telemetry_sink

__all__ = [
    "SERVICE_RED",
    "PipelineListener",
    "Rollup",
    "pipeline",
    "quantile",
    "roll_up",
    "telemetry_frame",
    "telemetry_sink",
]


# Outer rings define these names; ``esker/__init__.py`` records where. They are imported on first use, because every
# executor imports this package.
def __getattr__(name: str) -> Any:
    return find("esker.otlp", name)
