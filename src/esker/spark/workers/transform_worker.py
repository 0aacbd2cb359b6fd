"""Computes, in a worker, the partition transforms that Spark has no function for. ``ship`` sends it there."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import pyarrow as pa

from esker.arrow.column_transforms import transformed
from esker.arrow.input.fit_values import Misfit, value_converter
from esker.errors import EskerError
from esker.model.transform import BucketTransform, Transform
from esker.model.types import DecimalType, Type


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOrder:
    """Which transform to compute, of which column."""

    transform: Transform
    source: Type
    column: str

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of the values."""
        if isinstance(self.transform, BucketTransform) or not isinstance(self.source, DecimalType):
            return pa.int32()
        return pa.decimal128(self.source.precision, self.source.scale)

    @property
    def spark_type(self) -> str:
        """The Spark type of the values."""
        wanted = self.arrow_type
        return "int" if wanted == pa.int32() else f"decimal({wanted.precision},{wanted.scale})"


def run(order: bytes, column: pa.Array) -> pa.Array:
    """The transform's value for each row."""
    return values(pickle.loads(order), column)


def values(order: KeyOrder, column: pa.Array) -> pa.Array:
    """Return the transform's value for each row. If one row has no value, all values are null."""
    convert = value_converter(column.type, order.source, whole_floats=False, round_floats=False)
    assert convert is not None, "the frame was fitted"
    try:
        coded = transformed(order.transform, order.source, convert(column), order.column)
        return pa.array(coded.values, order.arrow_type).take(pa.array(coded.codes))
    except (
        EskerError,
        Misfit,
        pa.ArrowException,
    ):  # the write refuses these rows later, by name
        return pa.nulls(len(column), order.arrow_type)
