"""The source of a merge as a frame, whatever it was handed over as."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from esker.errors import InvalidInput
from esker.model.schema import Schema
from esker.spark.frame_schema import is_spark_frame
from esker.spark.rows.decide import HERE
from esker.spark.sql.frames import arrow_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def source_frame(data: Any, schema: Schema, session: SparkSession) -> DataFrame:
    """The rows with a mark that they are there; ``InvalidInput`` where a name occurs twice."""
    from pyspark.sql import functions as F  # noqa: N812

    frame = data if is_spark_frame(data) else arrow_frame(_arrow_table(data, schema), session)
    names = [name.lower() for name in frame.columns]
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise InvalidInput(f"cannot merge: the source has two columns {twice[0]!r}", column=twice[0])
    return frame.withColumn(HERE, F.lit(True))


def _arrow_table(data: object, schema: Schema) -> pa.Table:
    from esker.arrow.incoming import incoming

    found = incoming(data, schema)
    return pa.Table.from_batches(found.batches(), found.schema)
