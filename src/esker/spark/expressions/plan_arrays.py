"""Arrays of longs inside a plan: Spark's compiled code finds an element by its index, so that no join is needed.

An array becomes a literal, which Spark sends to each task with the plan. So arrays must be small. PySpark can make such
a literal only one element at a time. Here the bytes go to the JVM in one call, which uses internal classes of Spark. If
a class does not fit, or on Spark Connect, there are no arrays and callers join instead.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from esker.spark.session.jvm import Jvm, jvm_of
from esker.spark.session.spark_session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

Int64s = npt.NDArray[np.int64]
MOST_BYTES = 8 << 20
"""How many bytes of arrays a plan may have."""

log = logging.getLogger("esker.spark")


def has_plan_arrays(session: SparkSession) -> bool:
    """Return whether arrays can be part of a plan of this session."""
    if is_connect(session):
        return False
    jvm = jvm_of(session)
    return bool(jvm.once("plan arrays", lambda: (_probe(jvm),))[0])


def plan_array(session: SparkSession, values: Int64s) -> Column:
    """Return the array as a column. Only for a session that has them."""
    return _literal(session, array_bytes(values), _LONGS)


def plan_arrays(session: SparkSession, arrays: Sequence[Int64s]) -> Column:
    """Return an array of these arrays as a column. Only for a session that has them."""
    return _literal(session, nested_bytes(arrays), f'{{"type":"array","elementType":{_LONGS},"containsNull":false}}')


# ---------------------------------------------------------------- Spark's bytes of an array
#
# The number of elements, a bit for each that says whether it is null, then the elements; all in whole words. An element
# that is an array itself is a word, with its place in the upper half and its length in the lower half.


def array_bytes(values: Int64s) -> bytes:
    """Return an array of longs as Spark holds it in memory."""
    return _head(len(values)) + values.tobytes()


def nested_bytes(arrays: Sequence[Int64s]) -> bytes:
    """Return an array of arrays of longs as Spark holds it in memory."""
    parts = [array_bytes(values) for values in arrays]
    head = _head(len(parts))
    lengths = np.array([len(part) for part in parts], np.int64)
    places = len(head) + 8 * len(parts) + np.cumsum(lengths) - lengths
    return b"".join((head, ((places << 32) | lengths).tobytes(), *parts))


def _head(length: int) -> bytes:
    return struct.pack("=q", length) + bytes(8 * ((length + 63) // 64))


_LONGS = '{"type":"array","elementType":"long","containsNull":false}'
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"


def _probe(jvm: Jvm) -> bool:
    from py4j.protocol import Py4JError

    try:
        held = _array(jvm, nested_bytes([np.array([7], np.int64), np.array([-2, 1 << 40], np.int64)]))
        if [held.getArray(1).getLong(0), held.getArray(1).getLong(1)] == [-2, 1 << 40]:
            _java_column(jvm, array_bytes(np.array([7], np.int64)), _LONGS)
            return True
        why = "an array has other elements than were given"
    except (Py4JError, AttributeError, TypeError) as error:
        why = str(error).partition("\n")[0] or type(error).__name__
    log.warning("deleted rows are found by joins, because this release of Spark takes no arrays in a plan: %s", why)
    return False


def _literal(session: SparkSession, data: bytes, kind: str) -> Column:
    from pyspark.sql.classic.column import Column

    return Column(_java_column(jvm_of(session), data, kind))


def _java_column(jvm: Jvm, data: bytes, kind: str) -> Any:
    type_ = jvm.once(kind, lambda: jvm.schema(kind))
    literal = jvm.call(f"{_EXPRESSIONS}.Literal", "create", _array(jvm, data), type_)
    return jvm.call("org.apache.spark.sql.classic.ExpressionUtils", "column", literal)


def _array(jvm: Jvm, data: bytes) -> Any:
    start = jvm.once("start of bytes", lambda: jvm.field("org.apache.spark.unsafe.Platform", "BYTE_ARRAY_OFFSET"))
    made = jvm.new(f"{_EXPRESSIONS}.UnsafeArrayData")
    made.pointTo(data, start, len(data))
    return made
