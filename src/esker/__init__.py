"""Esker: Apache Iceberg tables for plain PySpark, with no jar.

import esker

lake = esker.connect()  # or esker.open_table("path/to/table") for one table without a catalog
lake.create_namespace("sales")
orders = lake.create_table("sales.orders", "id bigint not null, ts timestamp")
orders.scan("ts >= '2026-01-01'", columns=["id", "ts"]).to_arrow()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from esker.errors import (
    AlreadyExists,
    Conflict,
    Corrupt,
    EskerError,
    InvalidInput,
    NoSuchFile,
    NoSuchNamespace,
    NoSuchSnapshot,
    NoSuchTable,
    NoSuchView,
    NotFound,
    OutcomeUnknown,
    SparkFailed,
    StorageFailed,
    Unsupported,
)
from esker.ports.outer_names import offer as _offer
from esker.version import VERSION

if TYPE_CHECKING:
    from esker.lake import Lake
    from esker.model.predicates.column import col
    from esker.read.plan_tasks import Plan
    from esker.read.scan import Scan
    from esker.table import Table
    from esker.view import View
    from esker.wiring import connect, open_table

__version__ = VERSION

__all__ = [
    "AlreadyExists",
    "Conflict",
    "Corrupt",
    "EskerError",
    "InvalidInput",
    "Lake",
    "NoSuchFile",
    "NoSuchNamespace",
    "NoSuchSnapshot",
    "NoSuchTable",
    "NoSuchView",
    "NotFound",
    "OutcomeUnknown",
    "Plan",
    "Scan",
    "SparkFailed",
    "StorageFailed",
    "Table",
    "Unsupported",
    "View",
    "col",
    "connect",
    "open_table",
]

# These names are imported on first use, so that a command that only prints a version does not import Arrow.
_LATE = {
    "Lake": "esker.lake",
    "Plan": "esker.read.plan_tasks",
    "Scan": "esker.read.scan",
    "Table": "esker.table",
    "View": "esker.view",
    "col": "esker.model.predicates.column",
    "connect": "esker.wiring",
    "open_table": "esker.wiring",
}

# Inner rings offer these names, but outer rings define them. This package may import every ring, so it records here
# which module defines each name.
_offer(
    "esker.lake",
    {"connect": "esker.wiring", "convert_table": "esker.formats.convert_table", "open_table": "esker.wiring"},
)
_offer(
    "esker.otlp",
    {
        "PipelineListener": "esker.ingest.spark.pipeline_query",
        "Rollup": "esker.ingest.pipeline.rollups",
        "SERVICE_RED": "esker.ingest.pipeline.rollups",
        "pipeline": "esker.ingest.pipeline.start",
        "quantile": "esker.ingest.pipeline.rollups",
        "roll_up": "esker.ingest.pipeline.update_rollups",
        "telemetry_frame": "esker.ingest.spark.telemetry_frame",
        "telemetry_sink": "esker.ingest.spark.telemetry_sink",
    },
)


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("otlp", "spark"):  # packages with public names
        return importlib.import_module(f"esker.{name}")
    if name not in _LATE:
        raise AttributeError(f"module 'esker' has no attribute {name!r}")
    return getattr(importlib.import_module(_LATE[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
