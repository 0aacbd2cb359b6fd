"""Makes frames of small Arrow tables, with values that no session setting changes.

Also returns a frame's rows as Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from esker.arrow.convert import plain
from esker.model.types import Type
from esker.spark.expressions.types import stored_type
from esker.spark.session.jobs import named_jobs
from esker.spark.workers.ship import map_arrow
from esker.spark.workers.worker_failures import naming_worker_failures
from esker.spark.write.frame_schema import arrow_schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_of_columns(session: SparkSession, columns: Sequence[tuple[str, Type, pa.Array]]) -> DataFrame:
    """Return a frame of columns in the stored form."""
    from pyspark.sql.types import StructField, StructType

    table = pa.table([stored_array(array) for _, _, array in columns], names=[name for name, _, _ in columns])
    schema = StructType([StructField(name, stored_type(type_, name), True) for name, type_, _ in columns])
    return session.createDataFrame(table, schema)


def stored_array(array: pa.Array) -> pa.Array:
    """Return the array without extension types and fixed lengths, which Spark does not have."""
    array = plain(array)
    if pa.types.is_fixed_size_binary(array.type):
        return array.cast(pa.binary())
    return array


def gathered(frame: DataFrame) -> pa.Table:
    """Return all rows, in this process. ``DataFrame.toArrow`` fails on a null struct with required members."""

    def packed(batches: Iterable[Any]) -> Iterator[Any]:  # sent by value, so it may not use names outside itself
        import pyarrow

        for batch in batches:
            sink = pyarrow.BufferOutputStream()
            with pyarrow.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            yield pyarrow.record_batch([pyarrow.array([sink.getvalue().to_pybytes()])], names=["batch"])

    names = frame.columns
    numbered = frame.toDF(*(f"c{at}" for at in range(len(names))))  # mapInArrow does not accept every name
    # The frame may read tables in workers.
    with named_jobs(frame.sparkSession, "bring rows to the driver"), naming_worker_failures():
        parcels = map_arrow(numbered, packed, "batch binary").toArrow()["batch"]
    tables = [pa.ipc.open_stream(parcel.as_buffer()).read_all() for parcel in parcels]
    return pa.concat_tables(tables).rename_columns(names) if tables else arrow_schema_of(frame.schema).empty_table()
