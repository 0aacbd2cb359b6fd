"""A DataFrame that holds requests: which columns are what, and its rows here or in Spark's workers."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from esker.errors import InvalidInput
from esker.spark.jobs import named_jobs
from esker.spark.map_arrow import map_arrow
from esker.spark.otlp_worker import DDL, DecodeOrder
from esker.spark.ship import shipped
from esker.spark.worker_failures import naming_worker_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WORKER = "esker.spark.otlp_rows_worker"


@dataclass(frozen=True, slots=True)
class Rows:
    """A frame of three columns: the bytes of a request, and the place that it comes from."""

    frame: DataFrame

    @property
    def session(self) -> Any:
        """The session that the frame is of."""
        return self.frame.sparkSession


def rows_of(frame: DataFrame, value: str) -> Rows:
    """The columns of a frame that are needed; ``InvalidInput`` where it has no requests."""
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    if kinds.get(value) not in ("binary", "string"):
        has = f"it is {kinds[value]}" if value in kinds else f"there are {', '.join(kinds) or 'none'}"
        raise InvalidInput(
            f"cannot take requests from column {value!r}: {has}; it takes bytes or text, name it with value=…",
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
    """Decodes a frame by one job; executors need pyarrow and no Esker."""

    def run(order: DecodeOrder) -> list[dict[str, Any]]:
        work = shipped(_WORKER, pickle.dumps((order, framed)))
        with named_jobs(rows.session, f"decode batch {order.batch_id}"), naming_worker_failures():
            return map_arrow(rows.frame, work, DDL).toArrow().to_pylist()

    return run


def rows_here(rows: Rows) -> Iterator[tuple[bytes | None, str | None, int | None]]:
    """The rows in this process, a partition at a time."""
    with naming_worker_failures():
        for row in rows.frame.toLocalIterator():
            value = row[0]
            yield None if value is None else bytes(value), row[1], row[2]


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
