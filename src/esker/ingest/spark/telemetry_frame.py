"""Telemetry decoded inside a DataFrame, for sinks that take frames: ``writeStream.format("esker")``, pipelines.

Also finds the columns of a DataFrame that contain requests, and reads its rows here or in Spark's workers.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from esker.errors import InvalidInput, Unsupported
from esker.ingest.otlp.telemetry_tables import TelemetryTables, profile_of, promotions_by_table
from esker.ingest.spark.otlp_files_worker import DDL, DecodeOrder
from esker.ingest.spark.otlp_frame_worker import FrameOrder
from esker.lake import Lake
from esker.otlp.decoding.decode import Options
from esker.otlp.protocol.ship_extension import packed
from esker.otlp.schemas import NAMESPACE, TABLES, Profile
from esker.spark.session.jobs import named_jobs
from esker.spark.workers.ship import map_arrow, shipped
from esker.spark.workers.worker_failures import naming_worker_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# ---------------------------------------------------------------- frames of requests


_ROWS_WORKER = "esker.ingest.spark.otlp_rows_worker"


@dataclass(frozen=True, slots=True)
class Rows:
    """A frame of three columns: the bytes of a request, and its source and offset."""

    frame: DataFrame

    @property
    def session(self) -> Any:
        """The session of the frame."""
        return self.frame.sparkSession


def rows_of(frame: DataFrame, value: str) -> Rows:
    """The needed columns of a frame. Raises ``InvalidInput`` if it has no requests."""
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    if kinds.get(value) not in ("binary", "string"):
        has = f"it is {kinds[value]}" if value in kinds else f"there are {', '.join(kinds) or 'none'}"
        raise InvalidInput(
            f"cannot read requests from column {value!r}: {has}; name a column of bytes or text with value=…",
            column=value,
        )
    return Rows(frame.selectExpr(f"cast({_quoted(value)} as binary) value", _source(kinds), _offset(kinds)))


def _source(kinds: dict[str, str]) -> str:
    if {"topic", "partition"} <= kinds.keys():
        return "concat(cast(topic as string), '/', cast(`partition` as string)) source"
    name = next((name for name in ("topic", "path", "source") if name in kinds), None)
    return "cast(null as string) source" if name is None else f"cast({name} as string) source"


def _offset(kinds: dict[str, str]) -> str:
    is_number = kinds.get("offset") in ("tinyint", "smallint", "int", "bigint")
    return f"cast({'`offset`' if is_number else 'null'} as bigint) `offset`"


def run_on_workers(rows: Rows, *, framed: bool) -> Callable[[DecodeOrder], list[dict[str, Any]]]:
    """Decode a frame by one Spark job. Executors need pyarrow, but not Esker."""

    def run(order: DecodeOrder) -> list[dict[str, Any]]:
        work = shipped(_ROWS_WORKER, pickle.dumps((order, framed)))
        with named_jobs(rows.session, f"decode batch {order.batch_id}"), naming_worker_failures():
            return map_arrow(rows.frame, work, DDL).toArrow().to_pylist()

    return run


def rows_here(rows: Rows) -> Iterator[tuple[bytes | None, str | None, int | None]]:
    """The rows in this process, one partition at a time."""
    with naming_worker_failures():
        for row in rows.frame.toLocalIterator():
            value = row[0]
            yield None if value is None else bytes(value), row[1], row[2]


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


# ---------------------------------------------------------------- ``telemetry_frame``


_FRAME_WORKER = "esker.ingest.spark.otlp_frame_worker"


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
    """Return the rows of one telemetry table in the requests of a frame, as a frame with the table's columns. For
    streams and batches.

    ``table`` is ``otel.spans``, ``otel.dead_letter`` or another telemetry table. It is created in the lake if it is
    missing, so that the frame can be written to it. A frame has the rows of one table; for all tables,
    ``telemetry_sink`` reads its source once. Raises ``InvalidInput`` for an unknown table and ``Unsupported`` for
    variants.

        spans = esker.otlp.telemetry_frame(lake, requests, "otel.spans")
    """
    from esker.spark.expressions.types import shown_schema

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
    return map_arrow(rows.frame, shipped(_FRAME_WORKER, pickle.dumps(order)), shown_schema(fields))
