"""The rows of a frame as they are now, kept where a lost executor cannot take them along.

A merge looks several times at its source and at its decision, and each look must see the same rows, although a frame
may hold ``rand()`` or read files that others write. On a local session the rows are kept by ``localCheckpoint``: the
only executor is the driver. On a cluster that is not safe. An executor may die, and dynamic allocation removes idle
ones, and their blocks with them. There the rows are written once to the table's storage, and read from there.
"""

from __future__ import annotations

import logging
import re
import weakref
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from esker.arrow.write.file_locations import data_locations
from esker.ports.storage import Storage
from esker.spark.session.jobs import named_jobs, settings
from esker.spark.session.spark_session import is_connect
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

FOLDER = "kept-rows-"
"""How folders of kept rows begin. What a killed driver leaves there is an orphan like any other file."""
_WRITING = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.compression.codec": "lz4_raw",
}
_PARQUET_HAS_NOT = re.compile(r"(?<![\w`])(void|interval)(?![\w ])")

log = logging.getLogger("esker.spark")


class RowKeeper:
    """Keeps the rows of frames below a table's data folder."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def keep(self, frame: DataFrame, metadata: TableMetadata, what: str) -> DataFrame:
        """A frame with the rows that ``frame`` has now. Raises ``SparkFailed`` if Spark gives the job up."""
        session = frame.sparkSession
        with named_jobs(session, f"keep {what}"):
            if runs_in_driver(session):
                return _checkpointed(frame)
            folder = self._storage.local_folder(f"{data_locations(metadata).base}/{FOLDER}{uuid4()}")
            if folder is None or _has_more_than_parquet(frame):
                return _checkpointed(frame)
            return _written(frame, Path(folder))


def _checkpointed(frame: DataFrame) -> DataFrame:
    """On Spark Connect PySpark looks for the rows in the session that is active, wherever they are."""
    kept = frame.localCheckpoint()
    session: Any = frame.sparkSession
    if not is_connect(session) or kept.sparkSession is session:
        return kept
    plan = getattr(kept, "_plan")  # noqa: B009  # which the type of frames does not name
    found: DataFrame = session._create_remote_dataframe(plan._relation_id)
    plan._relation_id = None  # else its end would be the end of the rows
    return found


def runs_in_driver(session: SparkSession) -> bool:
    """Whether the driver is the only executor, as with ``local[4]``; a ``local-cluster`` has others."""
    master = str(session.conf.get("spark.master", None) or "")
    return master == "local" or master.startswith("local[")


def _written(frame: DataFrame, folder: Path) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    session = frame.sparkSession
    names = {f"c{at}": name for at, name in enumerate(frame.columns)}  # names may differ by case alone
    empty = [name for name, field in zip(names, frame.schema.fields, strict=True) if _is_untyped(field.dataType)]
    numbered = frame.toDF(*names).drop(*empty)  # Parquet has no type for a column that is nothing but null
    remove = _Removal(folder)
    try:
        with settings(session, _WRITING):
            numbered.write.mode("error").parquet(folder.as_uri())
        read = session.read.schema(numbered.schema).parquet(folder.as_uri())
        columns = [F.lit(None) if number in empty else F.col(number) for number in names]
        kept = read.select(*(column.alias(name) for column, name in zip(columns, names.values(), strict=True)))
    except BaseException:
        remove()
        raise
    weakref.finalize(kept, remove)
    return kept


def _has_more_than_parquet(frame: DataFrame) -> bool:
    """Whether a column holds what Parquet has no type for: untyped nulls inside others, intervals of all units."""
    types = [field.dataType for field in frame.schema.fields if not _is_untyped(field.dataType)]
    return any(_PARQUET_HAS_NOT.search(type_.simpleString()) for type_ in types) or len(types) == 0


def _is_untyped(type_: DataType) -> bool:
    return type_.typeName() == "void"


class _Removal:
    """Removes a folder, when nothing refers to its rows any more."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self) -> None:
        try:
            rmtree(self._folder)
        except FileNotFoundError:
            pass
        except OSError as error:
            log.warning("cannot remove %s, which is not part of the table: %s", self._folder, error)
