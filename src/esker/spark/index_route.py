"""Handing Spark an exact list of files through the JVM: no folder is listed and no file is looked at.

The classes used are internal to Spark, so whatever does not fit raises ``NoSuchRoute`` before a frame exists, and the
caller takes the path route.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from esker.spark.file_scan import BY_ID, NUMBER, OPTIONS, POSITION, FileScan
from esker.spark.file_statuses import encode_statuses, make_statuses
from esker.spark.jvm import Jvm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SOURCES = "org.apache.spark.sql.execution.datasources"
_FORMATS = {"parquet": f"{_SOURCES}.parquet.ParquetFileFormat", "orc": f"{_SOURCES}.orc.OrcFileFormat"}


class NoSuchRoute(Exception):
    """This release of Spark is built otherwise."""


def open_by_index(session: SparkSession, jvm: Jvm, scan: FileScan) -> DataFrame:
    """The scan as a frame of this session, whatever its settings are."""
    from py4j.protocol import Py4JError
    from pyspark.sql import DataFrame

    try:
        java_frame = _frame(jvm, scan)
    except (Py4JError, AttributeError, TypeError) as error:
        raise NoSuchRoute(str(error).splitlines()[0] if str(error) else type(error).__name__) from error
    frame = DataFrame(java_frame, session)
    more = [f"unix_millis(_metadata.file_modification_time) AS {NUMBER}"] if scan.with_number else []
    if scan.with_position:
        more.append(f"_metadata.row_index AS {POSITION}")
    return frame.selectExpr("*", *more) if more else frame


def _frame(jvm: Jvm, scan: FileScan) -> Any:
    # Settings given as options of the relation hold whenever it is read; those of the session are not touched.
    options = jvm.once(("options", scan.by_id), lambda: jvm.mapping({**OPTIONS, **(BY_ID if scan.by_id else {})}))
    relation = jvm.new(
        f"{_SOURCES}.HadoopFsRelation",
        _index(jvm, scan, options),
        jvm.once("no columns", lambda: jvm.schema('{"type":"struct","fields":[]}')),
        jvm.schema(scan.schema.json()),
        jvm.none,
        jvm.once(("format", scan.file_format), lambda: _format(jvm, scan.file_format)),
        options,
        jvm.session,
    )
    return jvm.session.baseRelationToDataFrame(relation)


def _index(jvm: Jvm, scan: FileScan, options: Any) -> Any:
    cache = jvm.call(f"{_SOURCES}.FileStatusCache", "getOrCreate", jvm.session)
    # Two indexes of one root are equal to Spark, so the root must name the list. Nothing needs to lie there.
    root = jvm.new("org.apache.hadoop.fs.Path", f"file:/.esker/{scan.digest}")
    cache.putLeafFiles(root, make_statuses(jvm, encode_statuses(scan.files)))
    none = jvm.none
    index = jvm.new(
        f"{_SOURCES}.InMemoryFileIndex", jvm.session, jvm.sequence([root]), options, none, cache, none, none
    )
    cache.invalidateAll()  # the index holds the list; the cache is shared by all of the session
    found = index.allFiles().size()
    if found != len(scan.files):
        raise NoSuchRoute(f"the index has {found} of {len(scan.files)} files")
    return index


def _format(jvm: Jvm, name: str) -> Any:
    loader = jvm.call("java.lang.Thread", "currentThread").getContextClassLoader()
    constructor = jvm.call("java.lang.Class", "forName", _FORMATS[name], True, loader).getConstructors()[0]
    return constructor.newInstance(jvm.gateway.new_array(jvm.gateway.jvm.java.lang.Object, 0))
