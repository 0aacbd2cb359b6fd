"""Small Arrow tables as frames: deleted positions, keys, facts about files. No session setting changes a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from esker.arrow.convert import plain
from esker.model.types import Type
from esker.spark.types import stored_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_of_columns(session: SparkSession, columns: Sequence[tuple[str, Type, pa.Array]]) -> DataFrame:
    """A frame of columns in the form that files are read in."""
    from pyspark.sql.types import StructField, StructType

    table = pa.table([stored_array(array) for _, _, array in columns], names=[name for name, _, _ in columns])
    schema = StructType([StructField(name, stored_type(type_, name), True) for name, type_, _ in columns])
    return session.createDataFrame(table, schema)


def stored_array(array: pa.Array) -> pa.Array:
    """Without extension types and fixed lengths, which Spark does not know."""
    array = plain(array)
    if pa.types.is_fixed_size_binary(array.type):
        return array.cast(pa.binary())
    return array
