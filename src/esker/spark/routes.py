"""Two ways of handing Spark an exact list of files, and which one is taken."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from esker.spark.file_scan import FileScan
from esker.spark.index_route import NoSuchRoute, open_by_index
from esker.spark.jvm import Jvm
from esker.spark.path_route import PathRoute
from esker.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("esker.spark")


class Routes:
    """Opens scans: through the JVM where there is one and it fits, else by path."""

    def __init__(self) -> None:
        self._by_path = PathRoute()
        self._index_fits = True
        self._jvms: MutableMapping[Any, Jvm] = WeakKeyDictionary()

    def jvm(self, session: SparkSession) -> Jvm:
        """What lies behind a classic session."""
        found = self._jvms.get(session)
        if found is None:
            found = self._jvms[session] = Jvm(session)
        return found

    def open(self, session: SparkSession, scan: FileScan) -> DataFrame:
        """The scan as a frame."""
        if self._index_fits and not is_connect(session):
            try:
                return open_by_index(session, self.jvm(session), scan)
            except NoSuchRoute as why:
                self._index_fits = False
                log.warning(
                    "files are handed to Spark by their paths, since its file index is built otherwise: %s", why
                )
        return self._by_path.open(session, scan)
