"""The Arrow schema that a Spark DataFrame's columns have when they reach a worker."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from esker.arrow.arrow_types import to_arrow_schema
from esker.errors import InvalidInput
from esker.model.parsing.column_definitions import columns_from_spark
from esker.model.types import Field, GeographyType, GeometryType, children

_NO_WAY = (GeometryType, GeographyType)  # Spark sends these to Arrow in forms of its own


def is_spark_frame(data: object) -> bool:
    """Whether the object is a Spark DataFrame, classic or Connect. Does not load PySpark."""
    kinds = type(data).__mro__
    return any(kind.__module__.startswith("pyspark.sql.") and kind.__name__ == "DataFrame" for kind in kinds)


def arrow_schema_of(struct: Any) -> pa.Schema:
    """Return the Arrow schema of a ``StructType``.

    Raises ``InvalidInput`` if a table cannot store the type of a column.
    """
    try:
        fields = columns_from_spark(struct)
    except InvalidInput as error:
        why = error.message.partition(": ")[2]
        raise InvalidInput(f"column {error.column!r} cannot be written: {why}", column=error.column) from None
    for field in fields:
        _refuse_special(field, field.name)
    return to_arrow_schema(fields)


def _refuse_special(field: Field, name: str) -> None:
    if isinstance(field.type, _NO_WAY):
        raise InvalidInput(
            f"column {name!r} cannot be written: its Spark type is {field.type}, which workers are not given",
            column=name,
        )
    for inner in children(field.type):
        _refuse_special(inner, f"{name}.{inner.name}")
