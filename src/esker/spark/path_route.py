"""Handing Spark an exact list of files by their paths: for Connect, and where the index route does not fit.

Parquet columns are read by id only where a setting of the session says so when the rows are read, and a frame is read
long after it is made. So the scan is made in a session of our own, which keeps that setting, and reaches the user's
session as a global view: Spark remembers in the scan which session it is of. The user's settings stay as they are.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from esker.errors import Corrupt
from esker.spark.file_scan import BY_ID, NUMBER, OPTIONS, POSITION, FileScan
from esker.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PATH = "__esker_path"
_LISTING = "spark.sql.sources.parallelPartitionDiscovery.threshold"
# Spark's newer readers answer min and max from footers, by a column's place and not by its id.
_READERS = {"spark.sql.sources.useV1SourceList": "avro,csv,json,kafka,orc,parquet,text"}
_OWN = frozenset((*BY_ID, *_READERS, _LISTING))


class PathRoute:
    """Opens scans by path. Views last as long as the Spark application; one is made per list of files, once."""

    def __init__(self) -> None:
        self._readers: MutableMapping[Any, SparkSession] = WeakKeyDictionary()

    def open(self, session: SparkSession, scan: FileScan) -> DataFrame:
        """The scan as a frame of this session."""
        reader = self._reader(session)
        for key, value in {**BY_ID, **_READERS}.items():
            reader.conf.set(key, value)
        reader.conf.set(_LISTING, str(len(scan.files) + 1))  # else a Spark job is started to list them
        read = reader.read.schema(scan.schema).options(**OPTIONS)
        # Without this each path is a pattern to be matched. It is not documented; a test watches it per release.
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
        """A session beside the user's, with the user's settings."""
        found = self._readers.get(session)
        if found is None:
            found = _cloned(session) if is_connect(session) else session.newSession()
            self._readers[session] = found
        _follow(session, found)
        return found


def _cloned(session: SparkSession) -> SparkSession:
    """A server knows a session from its first question on, and clones only one that it knows."""
    session.conf.get("spark.sql.session.timeZone")
    return session.cloneSession()


def _follow(session: SparkSession, reader: SparkSession) -> None:
    """What the user has set since, the reader gets too: how files are split, where they lie."""
    theirs, ours = dict(session.conf.getAll), dict(reader.conf.getAll)
    for key, value in theirs.items():
        if key not in _OWN and ours.get(key) != value and session.conf.isModifiable(key):
            reader.conf.set(key, value)


def _numbered(session: SparkSession, scan: FileScan, frame: DataFrame) -> DataFrame:
    """The frame with each file's number in place of its path."""
    from pyspark.sql import functions as F  # noqa: N812

    pairs = [(spelt_by_spark(file.uri), file.number) for file in scan.files]
    numbers = session.createDataFrame(pairs, f"{_PATH}_known string, {NUMBER}_known bigint")
    joined = frame.join(F.broadcast(numbers), F.col(_PATH) == F.col(f"{_PATH}_known"), "left")
    # A file nobody knows would keep its deleted rows: better to fail.
    unknown = F.raise_error(F.concat(F.lit("Esker does not know the file "), F.col(_PATH))).cast("bigint")
    number = F.coalesce(F.col(f"{NUMBER}_known"), unknown)
    return joined.withColumn(NUMBER, number).drop(_PATH, f"{_PATH}_known", f"{NUMBER}_known")


def spelt_by_spark(uri: str) -> str:
    """A file's location as ``_metadata.file_path`` has it: with one slash, encoded as Java encodes a URI."""
    scheme, colon, path = uri.partition(":")
    return scheme + colon + "".join(c if c in _UNQUOTED or ord(c) > 127 else f"%{ord(c):02X}" for c in path)


_UNQUOTED = frozenset(f"{ascii_letters}{digits}/:@!$&'()*+,;=-._~")


def _digest(scan: FileScan) -> str:
    import hashlib

    facts = f"{scan.schema.json()}{scan.by_id}{scan.with_number}{scan.with_position}"
    return hashlib.sha256(facts.encode()).hexdigest()[:12]


def _shared_database(session: SparkSession) -> str:
    return session.conf.get("spark.sql.globalTempDatabase", "global_temp") or "global_temp"
