"""PySpark's query and listener, with the numbers of a pipeline in addition to Spark's numbers of its batches."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import Row
from pyspark.sql.streaming.listener import StreamingQueryListener, StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

if TYPE_CHECKING:
    from esker.ingest.account import Account

log = logging.getLogger("esker.spark")

METRICS = "esker"
_Json = Mapping[str, Any]


class Numbers(Protocol):
    """The numbers of a pipeline's batches. Used by several threads."""

    @property
    def ingest(self) -> str:
        """The id of the pipeline's checkpoint, which is also in its offsets."""
        ...

    def between(self, start: _Json, end: _Json, latest: _Json) -> dict[str, int]:
        """The numbers of the batches between two offsets, given what the source reported before."""
        ...


class Work(Protocol):
    """The part of a pipeline's work that its query uses."""

    @property
    def tally(self) -> Numbers:
        """The numbers of its batches."""
        ...

    @property
    def failure(self) -> Exception | None:
        """The error that a batch raised; None if there was none."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why the source cannot look for new input now; None if it can."""
        ...

    def end(self) -> None:
        """Begin no further batch. Returns when the current work is done."""
        ...

    def checked(self) -> Account:
        """The account, compared with the tables."""
        ...


class PipelineQuery(StreamingQuery):  # type: ignore[misc]  # PySpark is not followed
    """A started pipeline: everything of PySpark's ``StreamingQuery``, the account, and an end after the current batch.

    ``close`` is called when the query has ended for any reason.

        query = esker.otlp.pipeline(spark, "captures", lake)
        query.end()
        print(query.account.facts())
    """

    def __init__(self, java_query: Any, work: Work, close: Callable[[], None]) -> None:
        super().__init__(java_query)
        self._work = work
        self._close = close
        self._watcher = Thread(target=self._watch, name="esker-pipeline", daemon=True)
        self._watcher.start()

    @property
    def account(self) -> Account:
        """The account since the query was started, compared with the tables. Waits for the current batch."""
        return self._work.checked()

    @property
    def failure(self) -> Exception | None:
        """Esker's error that ended the query, as it was raised; ``exception()`` has it as Spark's text. None if the
        query was stopped, or if Spark itself failed."""
        return None if self.isActive or self.exception() is None else self._work.failure

    @property
    def trouble(self) -> str | None:
        """Why the source cannot look for new input now, for example because a broker is not reachable; None if it can.
        The query continues by itself when it can again."""
        return self._work.trouble

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:  # noqa: N802  # Spark's name, as are those that follow
        """Spark's progress of the last batch, with ``observedMetrics["esker"]``: the numbers of records that were
        received, committed, dead, deduplicated, dropped and added by a transform, and pending, and the files and bytes
        that wait."""
        found = super().lastProgress
        return None if found is None else with_numbers(found, self._work.tally)

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:  # noqa: N802
        """The same for the last batches."""
        return [with_numbers(found, self._work.tally) for found in super().recentProgress]

    def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802
        """Wait like Spark's method. When the query has ended, its checkpoint is free."""
        try:
            ended: bool | None = super().awaitTermination(timeout)
        except Exception:
            self._watcher.join()
            raise
        if ended is not False:
            self._watcher.join()
        return ended

    def stop(self) -> None:
        """Stop now. A batch that is being decoded is withdrawn; one that is being committed is finished first."""
        super().stop()
        self._watcher.join()

    def end(self) -> None:
        """Stop after the current batch. A batch whose commit fails keeps its receipt, and is not waited for."""
        self._work.end()
        self.stop()

    def _watch(self) -> None:
        with suppress(Exception):  # the query itself reports why it ended
            self._jsq.awaitTermination()
        try:
            self._close()
        except Exception:
            log.exception("cannot close the checkpoint of a pipeline")


class PipelineListener(StreamingQueryListener):  # type: ignore[misc]  # PySpark is not followed
    """Calls a function with the progress of each batch of a pipeline, which has ``observedMetrics["esker"]``.

        def show(progress):
            print(progress.batchId, progress.observedMetrics["esker"].asDict())

        query = esker.otlp.pipeline(spark, "captures", lake, listener=esker.otlp.PipelineListener(show))

    A pipeline adds its listener to its session. One listener may serve several pipelines. Events of other queries are
    ignored. ``spark.streams.removeListener`` removes it.
    """

    def __init__(self, told: Callable[[StreamingQueryProgress], None]) -> None:
        self._told = told
        self._followed: dict[str, Numbers] = {}
        self._sessions: list[Any] = []

    def attach(self, session: Any, numbers: Numbers) -> None:
        """Follow a pipeline of this session. ``pipeline`` calls it."""
        self._followed[numbers.ingest] = numbers
        if session not in self._sessions:
            self._sessions.append(session)
            session.streams.addListener(self)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  # Spark's name, as are those that follow
        """Nothing is known about a query yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Pass on the progress of a pipeline."""
        numbers = self._followed.get(_offsets(event.progress)[1].get("ingest", ""))
        if numbers is not None:
            self._told(with_numbers(event.progress, numbers))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing new arrived."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """The query itself reports how it ended."""


def with_numbers(progress: StreamingQueryProgress, numbers: Numbers) -> StreamingQueryProgress:
    """The progress of a batch, with the pipeline's numbers among its observed metrics."""
    row = Row(**numbers.between(*_offsets(progress)))
    progress["observedMetrics"] = {**progress["observedMetrics"], METRICS: row}
    return progress


def _offsets(progress: StreamingQueryProgress) -> tuple[_Json, _Json, _Json]:
    """Where a batch began and ended, and what its source reported; empty if it is not a batch of a pipeline."""
    if len(progress["sources"]) != 1:
        return {}, {}, {}
    source = progress["sources"][0]
    return _offset(source["startOffset"]), _offset(source["endOffset"]), _offset(source["latestOffset"])


def _offset(text: str) -> _Json:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
