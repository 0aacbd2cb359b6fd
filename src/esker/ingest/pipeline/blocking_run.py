"""Runs a pipeline in a call that returns when it is stopped, or when no more input arrives."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any

from esker.errors import Conflict, EskerError, InvalidInput, SparkFailed, StorageFailed, Unsupported
from esker.ingest.account import Account
from esker.ingest.follow import Pace
from esker.ingest.otlp.ingest_otlp import Asked
from esker.ingest.pipeline.start import pipeline
from esker.ingest.run_batches import Pending, TooManyLetters
from esker.kafka.subscription import Source
from esker.lake import Lake

if TYPE_CHECKING:
    from esker.ingest.spark.pipeline_query import PipelineQuery

_POLL_S = 0.1
_LONGEST = 500  # characters of Spark's message
_KINDS: dict[str, Callable[[str], EskerError]] = {
    "Conflict": Conflict,
    "InvalidInput": InvalidInput,
    "Unsupported": Unsupported,
    "StorageFailed": partial(StorageFailed, retryable=False),  # the pipeline waits for those that may pass
}


def follow_on_spark(
    lake: Lake,
    asked: Asked,
    topics: Source | None = None,
    *,
    pace: Pace | None = None,
    stop: Event | None = None,
    told: Callable[[Account], None] = lambda account: None,
    told_trouble: Callable[[str], None] = lambda text: None,
) -> Account:
    """Ingest new files of directories, or new messages of topics, by Spark's workers, until ``stop`` is set. The
    current batch is finished then.

    Raises the error that ended the query, if there was one. Too many dead letters are reported in the account.
    """
    pace = pace or Pace()
    every_s = pace.every_s if pace.idle_s is None else min(pace.every_s, max(0.05, pace.idle_s / 4))
    query = pipeline(
        lake.spark,
        topics or asked.paths,
        lake,
        processing_time=f"{max(1, int(every_s * 1000))} milliseconds",
        settle_s=pace.settle_s,
        told=told,
        told_trouble=told_trouble,
        **_wishes(asked),
    )
    try:
        _wait(query, stop or Event(), pace.idle_s, told_trouble)
    finally:
        query.end()
    return _account(query)


def drain_on_spark(
    lake: Lake, topics: Source, asked: Asked, *, told: Callable[[Account], None] = lambda account: None
) -> Account:
    """Ingest the messages that topics have now, by Spark's workers. Raises as ``follow_on_spark`` does. If a commit
    fails, its receipt is kept and the account reports it."""
    query = pipeline(lake.spark, topics, lake, available_now=True, retry=False, told=told, **_wishes(asked))
    try:
        _wait(query, Event(), None, lambda text: None)
    finally:
        query.end()
    return _account(query)


def _wishes(asked: Asked) -> dict[str, Any]:
    return {
        "checkpoint": asked.checkpoint,
        "max_bytes_per_trigger": asked.batch_bytes,
        "max_rows_per_trigger": asked.batch_rows,
        "pattern": asked.pattern,
        "profile": asked.profile,
        "promote": asked.promote,
        "partition_by": asked.partition_by,
        "dedup": asked.dedup,
        "strict": asked.strict,
        "most_dead": asked.most_dead,
        "keep_segments": asked.keep_segments,
        "properties": asked.properties,
    }


def _account(query: PipelineQuery) -> Account:
    """The account of a query that has ended. Raises the error that ended it, if there was one."""
    if query.failure is not None and not isinstance(query.failure, TooManyLetters | Pending):  # these are reported
        raise query.failure
    error = query.exception()
    if error is not None and query.failure is None:
        raise _of_source(str(error)) from error
    return _with_refused(query)


def _of_source(text: str) -> EskerError:
    """The error that ended a query, if no batch raised one. The source runs in another process, so Spark has only the
    traceback of its error."""
    named = re.findall(r"^esker\.errors\.(\w+): (.+)$", text, re.MULTILINE)
    kind = _KINDS.get(named[-1][0]) if named else None
    if kind is not None:
        return kind(named[-1][1])
    return SparkFailed(f"cannot go on with the pipeline: {text.strip()[:_LONGEST]}", doing="follow")


def _wait(query: PipelineQuery, stop: Event, idle_s: float | None, told_trouble: Callable[[str], None]) -> None:
    """Wait until the query ends, ``stop`` is set, or looks have found nothing for ``idle_s``. A look that fails does
    not count, and is reported once."""
    quiet_since: float | None = None
    was_trouble = False
    while query.isActive and not stop.wait(_POLL_S):
        trouble = query.trouble
        if trouble is not None and not was_trouble:
            told_trouble(f"cannot look for more now, trying again: {trouble}")
        elif was_trouble and trouble is None:
            told_trouble("going on")
        was_trouble = trouble is not None
        status = query.status
        is_quiet = not (was_trouble or status["isTriggerActive"] or status["isDataAvailable"])
        if idle_s is None or not is_quiet or not status["message"].startswith("Waiting for"):
            quiet_since = None
        elif quiet_since is None:
            quiet_since = time.monotonic()
        elif time.monotonic() - quiet_since >= idle_s:
            return


def _with_refused(query: PipelineQuery) -> Account:
    """The account with the inputs that the source could not read, as of the last batch."""
    account = query.account
    progress = query.lastProgress
    for source in [] if progress is None else progress["sources"]:
        latest = json.loads(source["latestOffset"] or "null") or {}
        for pair in latest.get("refused", {}).items():
            if pair not in account.refused:
                account.refused.append(pair)
    return account
