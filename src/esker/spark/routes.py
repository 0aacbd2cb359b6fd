"""Two ways of handing Spark an exact list of files, and which one is taken."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from esker.spark.file_scan import FileScan
from esker.spark.index_route import NoSuchRoute, open_by_index
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

    def open(self, session: SparkSession, scan: FileScan) -> DataFrame:
        """The scan as a frame."""
        if self._index_fits and not is_connect(session):
            try:
                return open_by_index(session, scan)
            except NoSuchRoute as why:
                self._index_fits = False
                log.warning(
                    "files are handed to Spark by their paths, since its file index is built otherwise: %s", why
                )
        return self._by_path.open(session, scan)
