"""Which engine reads, decodes and writes: Spark's workers, or this process, without a JVM.

What a batch is, its receipt and its commits are the same for both.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from esker.errors import InvalidInput, Unsupported

if TYPE_CHECKING:
    from esker.lake import Lake

SPARK, ARROW = "spark", "arrow"


def chosen_engine(named: str | None, lake: Lake, *, told: Callable[[str], None], streams: bool = False) -> str:
    """The engine that was named, otherwise Spark. Starts no JVM.

    Where Spark cannot be used and no engine was named, the engine is ``arrow``, and ``told`` is called with one line
    that says why. ``streams`` asks for a streaming query. Raises ``Unsupported``, which says what to install, where
    ``spark`` was named and cannot be used.
    """
    check_engine(named or SPARK)
    if named == ARROW:
        return ARROW
    try:
        _check_spark(lake, streams=streams)
    except Unsupported as error:
        if named == SPARK:
            raise
        told(f"{error.message}. This run goes on without Spark (--engine arrow)")
        return ARROW
    return SPARK


def check_engine(engine: str) -> None:
    """``InvalidInput`` unless there is such an engine."""
    if engine not in (SPARK, ARROW):
        raise InvalidInput(f"cannot decode with {engine!r}: the engines are spark and arrow", engine=engine)


def _check_spark(lake: Lake, *, streams: bool) -> None:
    """``Unsupported`` unless a session runs or can be started, and its workers reach the lake's files."""
    if not lake.catalog.storage().is_shared:
        raise Unsupported("cannot use Spark: workers reach local files alone, and this lake's are not", feature="spark")
    if not _is_installed():
        raise Unsupported("cannot use Spark: PySpark is not installed; pip install 'esker[spark]'", feature="pyspark")
    from esker.spark.java import check_java
    from esker.spark.session import running_session
    from esker.spark.source.pipeline_shell import knows_limits

    if streams and not knows_limits():
        raise Unsupported(
            "cannot run a streaming query: this needs PySpark 4.2 or newer; pip install --upgrade pyspark",
            feature="streaming",
        )
    if running_session() is None:
        check_java()


def _is_installed() -> bool:
    try:
        return find_spec("pyspark") is not None
    except (ImportError, ValueError):
        return False
