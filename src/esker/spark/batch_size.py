"""How many rows Spark hands to a worker at a time.

Spark can bound batches by bytes, and does by default; but it then adds up all columns after every row. Writing TPC-H's
lineitem takes a third more CPU for it (19.5 s and 14.4 s). So batches are bounded by rows, fewer
where a value may be long, unless somebody has set the bound in bytes on the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS, _BYTES = "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.execution.arrow.maxBytesPerBatch"
_NO_BOUND = str(2**31 - 1)
_FIXED, _WITH_TEXT, _WITH_MORE = 16_384, 4_096, 1_024


def batch_settings(session: SparkSession, struct: Any) -> dict[str, str]:
    """Session settings for a job whose workers take rows of this ``StructType``."""
    if session.conf.get(_BYTES, None) is not None:
        return {_ROWS: str(_FIXED)}
    return {_ROWS: str(_rows(struct.jsonValue())), _BYTES: _NO_BOUND}


def _rows(type_: Any) -> int:
    """How many rows of a type, in Spark's JSON form, are surely not too many."""
    match type_:
        case {"type": "struct", "fields": fields}:
            return min((_rows(field["type"]) for field in fields), default=_FIXED)
        case str() if type_.startswith(("string", "char", "varchar")):
            return _WITH_TEXT
        case str() if type_ not in ("binary", "variant"):
            return _FIXED
        case _:
            return _WITH_MORE
