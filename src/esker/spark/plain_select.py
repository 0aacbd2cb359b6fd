"""Choosing and naming columns as they are: what most scans end with, in four calls to the JVM a column.

PySpark's own way is many more, which a query over eight tables feels.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from esker.arrow.metadata_columns import METADATA_COLUMNS
from esker.model.schema import walk
from esker.model.types import Field, FloatType, Type, UnknownType, is_floating
from esker.spark.jvm import Jvm
from esker.spark.shown import differs
from esker.spark.stored_columns import StoredColumns, quoted
from esker.spark.types import comment_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def can_select_plainly(columns: StoredColumns, wanted: Sequence[Field]) -> bool:
    """Whether each is a column of the scan that is shown as it is stored: lineage is not, as rows may inherit it."""
    return all(
        f.id in columns.names
        and f.id not in METADATA_COLUMNS
        and columns.fields[f.id].type == f.type
        and not isinstance(f.type, UnknownType)
        and not differs(f.type)
        and ((f.id in columns.protected and is_floating(f.type)) or not _is_protected(f, columns))
        for f in wanted
    )


def select_plainly(jvm: Jvm, frame: DataFrame, columns: StoredColumns, wanted: Sequence[Field]) -> DataFrame:
    """These columns under their names; what they were read with leaves no trace in the frame's schema."""
    from pyspark.sql import DataFrame

    chosen = []
    for field in wanted:
        metadata = jvm.call(_METADATA, "fromJson", json.dumps(comment_of(field)))
        column = jvm.call(_FUNCTIONS, "col", quoted(columns.names[field.id]))
        if field.id in columns.protected:
            column = jvm.call(_FUNCTIONS, "nanvl", column, _nan(jvm, field.type))
        chosen.append(getattr(column, "as")(field.name, metadata))
    return DataFrame(frame._jdf.select(jvm.sequence(chosen)), frame.sparkSession)


def _is_protected(field: Field, columns: StoredColumns) -> bool:
    return any(inner.id in columns.protected for inner, _ in walk((field,)))


def _nan(jvm: Jvm, type_: Type) -> Any:
    text = f"CAST('NaN' AS {'FLOAT' if isinstance(type_, FloatType) else 'DOUBLE'})"
    return jvm.once(text, lambda: jvm.call(_FUNCTIONS, "expr", text))


_METADATA = "org.apache.spark.sql.types.Metadata"
_FUNCTIONS = "org.apache.spark.sql.functions"
