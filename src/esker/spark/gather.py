"""A frame's rows in this process, as Arrow's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from esker.spark.frame_schema import arrow_schema_of
from esker.spark.jobs import named_jobs
from esker.spark.map_arrow import map_arrow
from esker.spark.worker_failures import naming_worker_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def gathered(frame: DataFrame) -> pa.Table:
    """All rows, each batch as the workers see it: ``DataFrame.toArrow`` fails on a null struct of required members."""

    def packed(batches: Iterable[Any]) -> Iterator[Any]:  # sent by value, so it names nothing outside itself
        import pyarrow

        for batch in batches:
            sink = pyarrow.BufferOutputStream()
            with pyarrow.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            yield pyarrow.record_batch([pyarrow.array([sink.getvalue().to_pybytes()])], names=["batch"])

    names = frame.columns
    numbered = frame.toDF(*(f"c{at}" for at in range(len(names))))  # mapInArrow cannot take every name
    # The frame may be one that reads tables in workers.
    with named_jobs(frame.sparkSession, "bring rows to the driver"), naming_worker_failures():
        parcels = map_arrow(numbered, packed, "batch binary").toArrow()["batch"]
    tables = [pa.ipc.open_stream(parcel.as_buffer()).read_all() for parcel in parcels]
    return pa.concat_tables(tables).rename_columns(names) if tables else arrow_schema_of(frame.schema).empty_table()
