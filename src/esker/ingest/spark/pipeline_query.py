"""PySpark's query and listener with the numbers of a pipeline, beside those that Spark has of its batches."""

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
    """What is known of the batches of a pipeline. Asked from several threads."""

    @property
    def ingest(self) -> str:
        """The id of the pipeline's checkpoint, which its offsets have too."""
        ...

    def between(self, start: _Json, end: _Json, latest: _Json) -> dict[str, int]:
        """The numbers of the batches between two offsets, given what the source reported before."""
        ...


class Work(Protocol):
    """What a pipeline does with batches, as far as its query asks."""

    @property
    def tally(self) -> Numbers:
        """The numbers of its batches."""
        ...

    @property
    def failure(self) -> Exception | None:
        """The error that a batch raised, if one did."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why the source cannot look for more now."""
        ...

    def end(self) -> None:
        """Begin nothing more; returns when nothing is worked on."""
        ...

    def checked(self) -> Account:
        """The account, compared with the tables."""
        ...


class PipelineQuery(StreamingQuery):  # type: ignore[misc]  # PySpark is not followed
    """A started pipeline: all that PySpark's ``StreamingQuery`` has, the account, and an end after the batch in hand.

    ``close`` is called when the query has ended, however it did.
    """

    def __init__(self, java_query: Any, work: Work, close: Callable[[], None]) -> None:
        super().__init__(java_query)
        self._work = work
        self._close = close
        self._watcher = Thread(target=self._watch, name="esker-pipeline", daemon=True)
        self._watcher.start()

    @property
    def account(self) -> Account:
        """What went where since the query was started, compared with the tables. Waits for work on a batch."""
        return self._work.checked()

    @property
    def failure(self) -> Exception | None:
        """The error of Esker's that ended the query, as it was raised; ``exception()`` has it as text of Spark's. None
        where the query was stopped, or where Spark itself failed."""
        return None if self.isActive or self.exception() is None else self._work.failure

    @property
    def trouble(self) -> str | None:
        """Why the source cannot look for more now, such as a broker that is away; None where it can. The query goes on
        by itself when it can again."""
        return self._work.trouble

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:  # noqa: N802  # Spark's name, as are those that follow
        """Spark's progress of the last batch, with ``observedMetrics["esker"]``: records that were received,
        committed, dead, deduplicated, dropped and added by a transform, and pending, and files and bytes that
        wait."""
        found = super().lastProgress
        return None if found is None else with_numbers(found, self._work.tally)

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:  # noqa: N802
        """The same of the last batches."""
        return [with_numbers(found, self._work.tally) for found in super().recentProgress]

    def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802
        """As Spark's. When the query has ended, its checkpoint is free."""
        try:
            ended: bool | None = super().awaitTermination(timeout)
        except Exception:
            self._watcher.join()
            raise
        if ended is not False:
            self._watcher.join()
        return ended

    def stop(self) -> None:
        """Stop now. A batch that is being decoded is withdrawn, one that is being committed is finished first."""
        super().stop()
        self._watcher.join()

    def end(self) -> None:
        """Stop after the batch in hand. A batch whose commit cannot be made keeps its receipt, and is not waited
        for."""
        self._work.end()
        self.stop()

    def _watch(self) -> None:
        with suppress(Exception):  # the query itself says why it ended
            self._jsq.awaitTermination()
        try:
            self._close()
        except Exception:
            log.exception("cannot close the checkpoint of a pipeline")


class PipelineListener(StreamingQueryListener):  # type: ignore[misc]  # PySpark is not followed
    """Calls a function with the progress of each batch of a pipeline, with ``observedMetrics["esker"]`` in it.

        def tell(progress):
            print(progress.batchId, progress.observedMetrics["esker"].asDict())

        query = esker.otlp.pipeline(spark, "captures", lake, listener=esker.otlp.PipelineListener(tell))

    A pipeline adds the listener that it is given to its session; one listener may serve several. Events of other
    queries are passed over. ``spark.streams.removeListener`` takes it away.
    """

    def __init__(self, told: Callable[[StreamingQueryProgress], None]) -> None:
        self._told = told
        self._followed: dict[str, Numbers] = {}
        self._sessions: list[Any] = []

    def attach(self, session: Any, numbers: Numbers) -> None:
        """Follow a pipeline of that session; done by ``pipeline``."""
        self._followed[numbers.ingest] = numbers
        if session not in self._sessions:
            self._sessions.append(session)
            session.streams.addListener(self)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  # Spark's name, as are those that follow
        """Nothing is known of a query yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Hand on the progress of a pipeline."""
        numbers = self._followed.get(_offsets(event.progress)[1].get("ingest", ""))
        if numbers is not None:
            self._told(with_numbers(event.progress, numbers))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing came."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """The query itself says how it ended."""


def with_numbers(progress: StreamingQueryProgress, numbers: Numbers) -> StreamingQueryProgress:
    """The progress of a batch, with what it held among its observed metrics."""
    row = Row(**numbers.between(*_offsets(progress)))
    progress["observedMetrics"] = {**progress["observedMetrics"], METRICS: row}
    return progress


def _offsets(progress: StreamingQueryProgress) -> tuple[_Json, _Json, _Json]:
    """Where a batch began and ended, and what its source reported; empty where it is none of a pipeline."""
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
