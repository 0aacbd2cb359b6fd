"""Makes the frames of a scan. PySpark is loaded only when a frame is first needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from esker.errors import EskerError, NoSuchFile, Unsupported
from esker.model.predicates.predicate import Bound
from esker.ports.engine import ChangeRequest, Part, ReadRequest, Result
from esker.ports.storage import Storage
from esker.spark.session.spark_session import SessionSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from esker.arrow.arrow_engine import ArrowEngine
    from esker.spark.scan.spark_reader import SparkReader


class LateFrames:
    """Implements ``ports.spark_frames.SparkFrames``."""

    def __init__(
        self, storage: Storage, engine: ArrowEngine, sessions: SessionSource, reader: str | None = None
    ) -> None:
        self._storage = storage
        self._engine = engine
        self._sessions = sessions
        self._chosen = reader

    def frame(self, request: ReadRequest, predicate: Bound, session: SparkSession | None = None) -> DataFrame:
        """Return a frame of the rows. Nothing is read yet. Raises ``Unsupported`` if PySpark is not installed."""
        reader = self._reader
        return reader.frame(session if session is not None else self._sessions.get(), request, predicate)

    def change_frame(self, request: ChangeRequest, predicate: Bound, session: SparkSession | None = None) -> DataFrame:
        """Return a frame of the changed rows, in no order.

        Nothing is read yet. Raises ``Unsupported`` without PySpark.
        """
        reader = self._reader
        from esker.spark.scan.change_scan import change_frame

        return change_frame(reader, session if session is not None else self._sessions.get(), request, predicate)

    def spread(
        self, work: Callable[[Part], Result], parts: Sequence[Part], session: SparkSession | None = None
    ) -> Iterable[Result]:
        """Return what a function returns for each part, in their order, computed by workers."""
        assert self._reader  # with PySpark
        from esker.spark.scan.spread_jobs import spread

        return spread(session if session is not None else self._sessions.get(), work, parts)

    def explained(self, request: ReadRequest) -> str | None:
        """Return in one line who reads the files in Spark, and why.

        Returns None if no session is running, or if the files are missing. If a scan would be refused, returns the
        refusal.
        """
        session = self._sessions.running()
        if session is None:
            return None
        try:
            return self._reader.explained(session, request)
        except NoSuchFile:
            return None
        except EskerError as refusal:
            return refusal.message

    @cached_property
    def _reader(self) -> SparkReader:
        try:
            import pyspark  # noqa: F401
        except ImportError as error:
            raise Unsupported(
                "cannot give rows to Spark: PySpark is not installed; pip install 'esker[spark]'", feature="pyspark"
            ) from error
        from esker.spark.scan.file_layouts import Survey
        from esker.spark.scan.hadoop_systems import HadoopSystems
        from esker.spark.scan.routes import Routes
        from esker.spark.scan.spark_reader import SparkReader

        return SparkReader(
            storage=self._storage,
            engine=self._engine,
            routes=Routes(),
            survey=Survey(self._storage),
            systems=HadoopSystems(),
            chosen=self._chosen,
        )
