"""What gives the rows of a scan to Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from esker.model.predicate import Bound
from esker.ports.changes import ChangeRequest
from esker.ports.engine import ReadRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkFrames(Protocol):
    """Makes DataFrames of planned files. Nothing of Spark is loaded before the first one is asked for."""

    def frame(self, request: ReadRequest, predicate: Bound, session: SparkSession | None = None) -> DataFrame:
        """The rows that pass ``predicate`` and deletes, not read yet; on the session given, or the lake's own."""
        ...

    def change_frame(self, request: ChangeRequest, predicate: Bound, session: SparkSession | None = None) -> DataFrame:
        """The changed rows that pass ``predicate``, not read yet and in no order."""
        ...
