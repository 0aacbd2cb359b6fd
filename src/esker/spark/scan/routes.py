"""Two ways to give Spark an exact list of files: through a file index in the JVM, or by their paths.

The index lists no folder and opens no file, but it uses internal classes of Spark. It is written in Java, and compiled
when it is first needed. If a class does not fit, that fails before a frame exists. Paths are used on Spark Connect, and
in every session where the index does not work.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from pathlib import Path
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from esker.errors import Corrupt
from esker.spark.scan.file_scan import BY_ID, NUMBER, POSITION, FileScan
from esker.spark.session.jvm import Jvm, jvm_of
from esker.spark.session.spark_session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


# ---------------------------------------------------------------- file index
#
# ``FileFrames.java`` lists files for Spark, and makes a frame of them by one call. The number of a file and what its
# partition records are the same in all its rows. For Spark these are columns of a partition: they take one value for
# each batch of rows, and Spark leaves out files by them, also by the rows of another table of a join.


_SOURCES = "org.apache.spark.sql.execution.datasources"
_FORMATS = {"parquet": f"{_SOURCES}.parquet.ParquetFileFormat", "orc": f"{_SOURCES}.orc.OrcFileFormat"}
# Spark's Parquet reader fills a column of this name with the positions of rows. ``_metadata.row_index`` is the same, at
# the price of an object for each row. Spark refuses a scan that may need both, so nothing of ``_metadata`` is used.
_ROW_INDEX = "_tmp_metadata_row_index"


def open_by_index(session: SparkSession, frames: Any, scan: FileScan) -> DataFrame:
    """Return the scan as a frame of this session, independent of its settings. ``frames`` is that of ``Routes``."""
    from pyspark.sql import DataFrame

    frame = DataFrame(_java_frame(jvm_of(session), frames, scan), session)
    return frame.withColumnRenamed(_ROW_INDEX, POSITION) if scan.with_position else frame


def _java_frame(jvm: Jvm, frames: Any, scan: FileScan) -> Any:
    # Options of the relation apply whenever it is read. The settings of the session are not changed.
    by_id = BY_ID if scan.by_id else {}
    options = jvm.once(("options", scan.by_id, scan.opening), lambda: jvm.mapping({**scan.options, **by_id}))
    partition = _partition_schema(scan)
    return frames.files(
        jvm.session,
        scan.digest,
        scan.packed,
        jvm.once(partition, lambda: jvm.schema(partition)),
        _read_schema(scan).json(),
        jvm.once(("format", scan.file_format), lambda: jvm.instance(_FORMATS[scan.file_format])),
        options,
    )


def _partition_schema(scan: FileScan) -> str:
    from pyspark.sql.types import LongType, StructField, StructType

    number = [StructField(NUMBER, LongType(), False)] if scan.with_number else []
    return StructType([*number, *(column.field for column in scan.fixed)]).json()


def _read_schema(scan: FileScan) -> StructType:
    from pyspark.sql.types import LongType, StructField, StructType

    if not scan.with_position:
        return scan.schema
    return StructType([*scan.schema.fields, StructField(_ROW_INDEX, LongType(), True)])


# ---------------------------------------------------------------- path route
#
# Spark reads Parquet columns by id only if a session setting is on at the time of reading, which is long after the
# frame is made. So the scan is made in a second session, which keeps that setting. It reaches the user's session as a
# global view, because Spark stores in the scan which session it belongs to. The user's settings are not changed.


_PATH = "__esker_path"
_LISTING = "spark.sql.sources.parallelPartitionDiscovery.threshold"
# Spark's newer readers compute min and max from footers, by a column's position and not by its id.
_READERS = {"spark.sql.sources.useV1SourceList": "avro,csv,json,kafka,orc,parquet,text"}
_OWN = frozenset((*BY_ID, *_READERS, _LISTING))


class PathRoute:
    """Opens scans by path. It makes one view per list of files, which exists until the Spark application ends."""

    def __init__(self) -> None:
        self._readers: MutableMapping[Any, SparkSession] = WeakKeyDictionary()

    def open(self, session: SparkSession, scan: FileScan) -> DataFrame:
        """Return the scan as a frame of this session. Raises ``Corrupt`` if Spark does not find all files."""
        reader = self._reader(session)
        for key, value in {**BY_ID, **_READERS}.items():
            reader.conf.set(key, value)
        reader.conf.set(_LISTING, str(len(scan.files) + 1))  # otherwise Spark starts a job to list them
        read = reader.read.schema(scan.schema).options(**scan.options)
        # Without this, Spark treats each path as a pattern. The option is not documented; a test checks it per release.
        frame = read.option("__globPaths__", "false").format(scan.file_format).load([file.uri for file in scan.files])
        if len(frame.inputFiles()) != len(scan.files):
            raise Corrupt(scan.files[0].uri, "Spark does not see all files of its scan")
        more = [f"_metadata.file_path AS {_PATH}"] if scan.with_number else []
        if scan.with_position:
            more.append(f"_metadata.row_index AS {POSITION}")
        name = f"esker_{scan.digest}_{_digest(scan)}"
        frame.selectExpr("*", *more).createOrReplaceGlobalTempView(name)
        found = session.table(f"{_shared_database(session)}.{name}")
        return _numbered(session, scan, found) if scan.with_number else found

    def _reader(self, session: SparkSession) -> SparkSession:
        """Return a second session with the user's settings."""
        found = self._readers.get(session)
        if found is None:
            found = _cloned(session) if is_connect(session) else session.newSession()
            self._readers[session] = found
        _follow(session, found)
        return found


def _cloned(session: SparkSession) -> SparkSession:
    """Return a clone.

    A server knows a session only after its first request, and can clone only a session that it knows.
    """
    session.conf.get("spark.sql.session.timeZone")
    return session.cloneSession()


def _follow(session: SparkSession, reader: SparkSession) -> None:
    """Copy what the user has set since to the reader's session."""
    theirs, ours = dict(session.conf.getAll), dict(reader.conf.getAll)
    for key, value in theirs.items():
        if key not in _OWN and ours.get(key) != value and session.conf.isModifiable(key):
            reader.conf.set(key, value)


def _numbered(session: SparkSession, scan: FileScan, frame: DataFrame) -> DataFrame:
    """Return the frame with each file's number in place of its path."""
    from pyspark.sql import functions as F  # noqa: N812

    pairs = [(path_as_spark_writes_it(file.uri), file.number) for file in scan.files]
    numbers = session.createDataFrame(pairs, f"{_PATH}_known string, {NUMBER}_known bigint")
    joined = frame.join(F.broadcast(numbers), F.col(_PATH) == F.col(f"{_PATH}_known"), "left")
    # A file without a number would keep its deleted rows, so the job fails.
    unknown = F.raise_error(F.concat(F.lit("Esker does not know the file "), F.col(_PATH))).cast("bigint")
    number = F.coalesce(F.col(f"{NUMBER}_known"), unknown)
    return joined.withColumn(NUMBER, number).drop(_PATH, f"{_PATH}_known", f"{NUMBER}_known")


def path_as_spark_writes_it(uri: str) -> str:
    """Return a location in the form of ``_metadata.file_path``: with one slash, encoded as Java encodes a URI."""
    scheme, colon, path = uri.partition(":")
    return scheme + colon + "".join(c if c in _UNQUOTED or ord(c) > 127 else f"%{ord(c):02X}" for c in path)


_UNQUOTED = frozenset(f"{ascii_letters}{digits}/:@!$&'()*+,;=-._~")


def _digest(scan: FileScan) -> str:
    import hashlib

    facts = f"{scan.schema.json()}{scan.by_id}{scan.with_number}{scan.with_position}"
    return hashlib.sha256(facts.encode()).hexdigest()[:12]


def _shared_database(session: SparkSession) -> str:
    return session.conf.get("spark.sql.globalTempDatabase", "global_temp") or "global_temp"


log = logging.getLogger("esker.spark")


class Routes:
    """Opens scans: through the JVM if possible, else by path."""

    def __init__(self) -> None:
        self._by_path = PathRoute()
        self._index_fits = True

    def jvm(self, session: SparkSession) -> Jvm:
        """Return the JVM of a classic session."""
        return jvm_of(session)

    def open(self, session: SparkSession, scan: FileScan) -> DataFrame:
        """Return the scan as a frame."""
        frames = self.file_frames(session)
        if frames is None:
            return self._by_path.open(session, scan)
        return open_by_index(session, frames, scan)

    def file_frames(self, session: SparkSession) -> Any | None:
        """Return the object of ``FileFrames.java``. Returns None on Spark Connect, and if this release of Spark does
        not have the internal classes that it needs."""
        from py4j.protocol import Py4JError

        if not self._index_fits or is_connect(session):
            return None
        jvm = self.jvm(session)
        try:
            return jvm.once("file frames", lambda: _compiled(jvm))
        except (Py4JError, AttributeError, TypeError) as error:
            self._index_fits = False
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            log.warning(
                "files are given to Spark by their paths, because its file index does not work in this release: %s", why
            )
            return None


def _compiled(jvm: Jvm) -> Any:
    return jvm.compiled(Path(__file__).with_name("FileFrames.java").read_text(), "esker.spark.FileFrames")
