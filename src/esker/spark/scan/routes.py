"""Two ways to give Spark an exact list of files: through a file index in the JVM, or by their paths.

The index lists no folder and opens no file, but it uses internal classes of Spark. If a class does not fit,
``NoSuchRoute`` is raised before a frame exists. Paths are used on Spark Connect, and in every session where the index
does not work.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable, MutableMapping
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from esker.errors import Corrupt
from esker.spark.scan.file_scan import BY_ID, NUMBER, POSITION, FileScan, PlacedFile
from esker.spark.session.jvm import Jvm, jvm_of
from esker.spark.session.spark_session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


# ---------------------------------------------------------------- file statuses
#
# A call to the JVM takes a few milliseconds, so three thousand files would take seconds one by one. Hadoop can read an
# array of ``FileStatus`` from bytes: a count, then per file the length and bytes of its ``FileStatusProto``.


# Field numbers of FileStatusProto, shifted by the wire type: 0 for numbers, 2 for fields with a length.
_FILE_TYPE_TAG, _PATH_TAG, _LENGTH_TAG, _PERMISSION_TAG = b"\x08", b"\x12", b"\x18", b"\x22"
_OWNER, _GROUP, _MODIFIED, _ACCESSED = b"\x2a", b"\x32", b"\x38", b"\x40"
_STATUS_CLASS = "org.apache.hadoop.fs.FileStatus"
_IS_FILE, _NO_PERMISSION = b"\x02", b"\x02\x08\x00"


def encode_statuses(files: Iterable[PlacedFile]) -> bytes:
    """Return the bytes that Hadoop's ``ArrayWritable`` reads. A file's number is stored as its modification time."""
    encoded = [_status(file) for file in files]
    return b"".join((struct.pack(">i", len(encoded)), *encoded))


def _status(file: PlacedFile) -> bytes:
    path = file.uri.encode()
    body = b"".join(
        (
            _FILE_TYPE_TAG + _IS_FILE,
            _PATH_TAG + _varint(len(path)) + path,
            _LENGTH_TAG + _varint(file.size),
            _PERMISSION_TAG + _NO_PERMISSION,
            _OWNER + b"\x00",
            _GROUP + b"\x00",
            _MODIFIED + _varint(file.number),
            _ACCESSED + b"\x00",
        )
    )
    return struct.pack(">i", len(body)) + body


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def make_statuses(jvm: Jvm, data: bytes) -> Any:
    """Return the array of ``FileStatus`` that the bytes describe."""
    kind = jvm.once(_STATUS_CLASS, lambda: jvm.call("java.lang.Class", "forName", _STATUS_CLASS))
    decoded = jvm.new("org.apache.hadoop.io.ArrayWritable", kind)
    decoded.readFields(jvm.new("java.io.DataInputStream", jvm.new("java.io.ByteArrayInputStream", data)))
    (count,) = struct.unpack(">i", data[:4])
    statuses = jvm.call("java.lang.reflect.Array", "newInstance", kind, count)
    jvm.call("java.lang.System", "arraycopy", decoded.get(), 0, statuses, 0, count)  # into an array of the exact type
    return statuses


_SOURCES = "org.apache.spark.sql.execution.datasources"
_FORMATS = {"parquet": f"{_SOURCES}.parquet.ParquetFileFormat", "orc": f"{_SOURCES}.orc.OrcFileFormat"}


class NoSuchRoute(Exception):
    """This release of Spark does not have the internal classes that are needed."""


def open_by_index(session: SparkSession, jvm: Jvm, scan: FileScan) -> DataFrame:
    """Return the scan as a frame of this session, independent of its settings. Raises ``NoSuchRoute``."""
    from py4j.protocol import Py4JError
    from pyspark.sql import DataFrame

    try:
        java_frame = _frame(jvm, scan)
    except (Py4JError, AttributeError, TypeError) as error:
        raise NoSuchRoute(str(error).splitlines()[0] if str(error) else type(error).__name__) from error
    frame = DataFrame(java_frame, session)
    if not scan.with_number:
        return frame.withColumnRenamed(_ROW_INDEX, POSITION) if scan.with_position else frame
    more = [f"unix_millis(_metadata.file_modification_time) AS {NUMBER}"]
    if scan.with_position:
        more.append(f"_metadata.row_index AS {POSITION}")
    return frame.selectExpr("*", *more)


# Spark's Parquet reader fills a column of this name with the positions of rows. ``_metadata.row_index`` is the same, at
# the price of an object for each row. Spark refuses a scan that may need both, so the name is used only if nothing of
# ``_metadata`` is used.
_ROW_INDEX = "_tmp_metadata_row_index"


def _frame(jvm: Jvm, scan: FileScan) -> Any:
    # Options of the relation apply whenever it is read. The settings of the session are not changed.
    by_id = BY_ID if scan.by_id else {}
    options = jvm.once(("options", scan.by_id, scan.opening), lambda: jvm.mapping({**scan.options, **by_id}))
    relation = jvm.new(
        f"{_SOURCES}.HadoopFsRelation",
        _index(jvm, scan, options),
        jvm.once("no columns", lambda: jvm.schema('{"type":"struct","fields":[]}')),
        jvm.schema(_read_schema(scan).json()),
        jvm.none,
        jvm.once(("format", scan.file_format), lambda: _format(jvm, scan.file_format)),
        options,
        jvm.session,
    )
    return jvm.session.baseRelationToDataFrame(relation)


def _read_schema(scan: FileScan) -> StructType:
    from pyspark.sql.types import LongType, StructField, StructType

    if not scan.with_position or scan.with_number:
        return scan.schema
    return StructType([*scan.schema.fields, StructField(_ROW_INDEX, LongType(), True)])


def _index(jvm: Jvm, scan: FileScan, options: Any) -> Any:
    cache = jvm.call(f"{_SOURCES}.FileStatusCache", "getOrCreate", jvm.session)
    # Spark treats two indexes of one root as equal, so the root must name the list. It need not exist.
    root = jvm.new("org.apache.hadoop.fs.Path", f"file:/.esker/{scan.digest}")
    cache.putLeafFiles(root, make_statuses(jvm, encode_statuses(scan.files)))
    none = jvm.none
    index = jvm.new(
        f"{_SOURCES}.InMemoryFileIndex", jvm.session, jvm.sequence([root]), options, none, cache, none, none
    )
    cache.invalidateAll()  # the index has the list; the whole session shares the cache
    found = index.allFiles().size()
    if found != len(scan.files):
        raise NoSuchRoute(f"the index has {found} of {len(scan.files)} files")
    return index


def _format(jvm: Jvm, name: str) -> Any:
    loader = jvm.call("java.lang.Thread", "currentThread").getContextClassLoader()
    constructor = jvm.call("java.lang.Class", "forName", _FORMATS[name], True, loader).getConstructors()[0]
    return constructor.newInstance(jvm.gateway.new_array(jvm.gateway.jvm.java.lang.Object, 0))


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
        if self._index_fits and not is_connect(session):
            try:
                return open_by_index(session, self.jvm(session), scan)
            except NoSuchRoute as why:
                self._index_fits = False
                log.warning(
                    (
                        "files are given to Spark by their paths, because its file index does not work in this "
                        "release: %s"
                    ),
                    why,
                )
        return self._by_path.open(session, scan)
