"""The telemetry pipeline's decoding half: OTLP, from files or over HTTP, becomes Arrow tables and dead letters.

``read_requests`` (``sources``) finds the requests in a file, whatever its framing; ``decode`` makes tables of them, and
a dead letter of each record that cannot be one; ``spool`` and ``receiver`` take requests over HTTP and keep them.
For users there are ``telemetry_sink``, which takes DataFrames of requests into the tables, and ``telemetry_frame``,
which makes of them DataFrames of rows; ``pipeline`` starts a query that takes directories of OTLP into the tables,
``PipelineListener`` follows its batches, and ``roll_up`` keeps what tables come to by the minute.
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


# Made in outer rings, so the composition root says where; found when first used, because what this package imports
# travels to every executor.
def __getattr__(name: str) -> Any:
    return find("esker.otlp", name)
