"""The defaults of an ingest: the engine, and the folders of its checkpoint and its spool.

The engine is Spark's workers or this process without a JVM. Batches, receipts and commits are the same for both.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from esker.catalogs.open_catalog import scheme_of, sqlite_file
from esker.errors import InvalidInput, Unsupported
from esker.lake import Lake

# ---------------------------------------------------------------- the engine


SPARK, ARROW = "spark", "arrow"


def chosen_engine(named: str | None, lake: Lake, *, told: Callable[[str], None], streams: bool = False) -> str:
    """The engine that was named, otherwise Spark. Starts no JVM.

    If no engine was named and Spark cannot be used, the engine is ``arrow``, and ``told`` is called with one line that
    says why. ``streams`` asks for a streaming query. Raises ``Unsupported``, with what to install, if ``spark`` was
    named and cannot be used.
    """
    check_engine(named or SPARK)
    if named == ARROW:
        return ARROW
    try:
        _check_spark(lake, streams=streams)
    except Unsupported as error:
        if named == SPARK:
            raise
        told(f"{error.message}. This run continues without Spark (--engine arrow)")
        return ARROW
    return SPARK


def check_engine(engine: str) -> None:
    """Raise ``InvalidInput`` if there is no such engine."""
    if engine not in (SPARK, ARROW):
        raise InvalidInput(f"cannot decode with {engine!r}: the engines are spark and arrow", engine=engine)


def _check_spark(lake: Lake, *, streams: bool) -> None:
    """Raise ``Unsupported`` if no session runs or can be started, or if its workers cannot read the lake's files."""
    if not lake.catalog.storage().is_shared:
        raise Unsupported(
            "cannot use Spark: workers can read only local files, and this lake's files are not local", feature="spark"
        )
    if not _is_installed():
        raise Unsupported("cannot use Spark: PySpark is not installed; pip install 'esker[spark]'", feature="pyspark")
    from esker.ingest.spark.pipeline_data_source import knows_limits
    from esker.spark.session.jvm import check_java
    from esker.spark.session.spark_session import running_session

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


# ---------------------------------------------------------------- folders, beside the lake's catalog


def lake_folder(lake: Lake) -> Path | None:
    """The directory that belongs to the lake on this machine; None if it has none."""
    uri = "" if lake.address is None else str(lake.address["uri"])
    match scheme_of(uri) if uri else None:
        case "sqlite":
            return sqlite_file(uri)[0].parent
        case "file":
            folder = Path(uri)
            return folder.with_name(f"{folder.name}.ingest")  # beside it: the folders below it are namespaces
        case _:
            return None


def default_checkpoint(lake: Lake, kind: str) -> Path:
    """The default checkpoint of this kind of ingest. Raises ``InvalidInput`` if the lake has no directory."""
    folder = lake_folder(lake)
    if folder is None:
        raise InvalidInput(
            "cannot choose a checkpoint for this ingest: this lake has no folder on this machine; give a directory of "
            "a local disk with --checkpoint"
        )
    return folder / "ingest" / kind


def default_spool(lake: Lake) -> Path | None:
    """The default spool of ``esker receive`` for this lake."""
    folder = lake_folder(lake)
    return None if folder is None else folder / "spool"
