"""Handing Spark an exact list of files through the JVM: no folder is listed and no file is looked at.

The classes used are internal to Spark, so whatever does not fit raises ``NoSuchRoute`` before a frame exists, and the
caller takes the path route.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from esker.spark.file_scan import BY_ID, NUMBER, OPTIONS, POSITION, FileScan
from esker.spark.file_statuses import encode_statuses, make_statuses

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FORMATS = {
    "parquet": "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat",
    "orc": "org.apache.spark.sql.execution.datasources.orc.OrcFileFormat",
}


class NoSuchRoute(Exception):
    """This release of Spark is built otherwise."""


def open_by_index(session: SparkSession, scan: FileScan) -> DataFrame:
    """The scan as a frame of this session, whatever its settings are."""
    from py4j.protocol import Py4JError
    from pyspark.sql import DataFrame

    try:
        java_frame = _Jvm(session).frame(scan)
    except (Py4JError, AttributeError, TypeError) as error:
        raise NoSuchRoute(str(error).splitlines()[0] if str(error) else type(error).__name__) from error
    frame = DataFrame(java_frame, session)
    more = [f"unix_millis(_metadata.file_modification_time) AS {NUMBER}"] if scan.with_number else []
    if scan.with_position:
        more.append(f"_metadata.row_index AS {POSITION}")
    return frame.selectExpr("*", *more) if more else frame


class _Jvm:
    """Spark's own objects, behind a session."""

    def __init__(self, session: SparkSession) -> None:
        gateway: Any = session.sparkContext._gateway
        self._gateway = gateway
        self._jvm: Any = gateway.jvm
        self._session: Any = session._jsparkSession

    def frame(self, scan: FileScan) -> Any:
        sources = self._jvm.org.apache.spark.sql.execution.datasources
        # Settings given as options of the relation hold whenever it is read; those of the session are not touched.
        options = self._map({**OPTIONS, **(BY_ID if scan.by_id else {})})
        relation = sources.HadoopFsRelation(
            self._index(scan, options),
            self._schema('{"type":"struct","fields":[]}'),
            self._schema(scan.schema.json()),
            self._none(),
            self._format(scan.file_format),
            options,
            self._session,
        )
        return self._session.baseRelationToDataFrame(relation)

    def _index(self, scan: FileScan, options: Any) -> Any:
        sources = self._jvm.org.apache.spark.sql.execution.datasources
        cache = sources.FileStatusCache.getOrCreate(self._session)
        # Two indexes of one root are equal to Spark, so the root must name the list. Nothing needs to lie there.
        root = self._jvm.org.apache.hadoop.fs.Path(f"file:/.esker/{scan.digest}")
        cache.putLeafFiles(root, make_statuses(self._gateway, encode_statuses(scan.files)))
        roots = self._jvm.java.util.ArrayList()
        roots.add(root)
        none = self._none()
        index = sources.InMemoryFileIndex(self._session, self._python.toSeq(roots), options, none, cache, none, none)
        cache.invalidateAll()  # the index holds the list; the cache is shared by all of the session
        found = index.allFiles().size()
        if found != len(scan.files):
            raise NoSuchRoute(f"the index has {found} of {len(scan.files)} files")
        return index

    def _format(self, name: str) -> Any:
        loader = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        return (
            self._jvm.java.lang.Class.forName(_FORMATS[name], True, loader)
            .getConstructors()[0]
            .newInstance(self._gateway.new_array(self._jvm.java.lang.Object, 0))
        )

    @property
    def _python(self) -> Any:
        return self._jvm.org.apache.spark.api.python.PythonUtils

    def _schema(self, json: str) -> Any:
        return self._jvm.org.apache.spark.sql.types.DataType.fromJson(json)

    def _none(self) -> Any:
        return self._jvm.scala.Option.empty()

    def _map(self, pairs: Mapping[str, str]) -> Any:
        made = self._jvm.java.util.HashMap()
        for key, value in pairs.items():
            made.put(key, value)
        return self._python.toScalaMap(made)
