"""Spark jobs: names them for Spark's web pages, restores settings after them, reports their failures, and saves calls
to the JVM while they are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

from esker.errors import SparkFailed
from esker.spark.session.spark_session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Use these settings in the block, and restore the previous ones when it ends."""
    before = {key: spark.conf.get(key, None) for key in wanted}
    try:
        for key, value in wanted.items():
            spark.conf.set(key, value)
        yield
    except BaseException:
        with suppress(Exception):  # the session may be gone; the first error is the one to report
            _restore(spark, before)
        raise
    _restore(spark, before)


def _restore(spark: SparkSession, before: Mapping[str, str | None]) -> None:
    for key, old in before.items():
        if old is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, old)


class _CallSites:
    """PySpark's switch for the places of calls, and how many blocks have it off."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._blocks = 0
        self._before: Any = None

    def off(self) -> None:
        with self._lock:
            if not self._blocks:
                self._before = _errors_utils()._enable_debugging_cache
                _errors_utils()._enable_debugging_cache = False
            self._blocks += 1

    def restore(self) -> None:
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                _errors_utils()._enable_debugging_cache = self._before


def _errors_utils() -> Any:
    """Return PySpark's module with the switch. It has no public one that can be changed in a session."""
    from pyspark.errors import utils

    return utils


_CALL_SITES = _CallSites()


@contextmanager
def without_call_sites() -> Iterator[None]:
    """Let PySpark not record where each expression of the block was made.

    To record it takes six calls to the JVM for each step of an expression. The places would be lines of Esker. The
    switch is one for the whole process, so expressions of other threads have no place either for that short time.
    """
    if not hasattr(_errors_utils(), "_enable_debugging_cache"):  # a release of PySpark without it
        yield
        return
    _CALL_SITES.off()
    try:
        yield
    finally:
        _CALL_SITES.restore()


_DESCRIPTION = "spark.job.description"
_LONGEST = 500


@contextmanager
def named_jobs(session: SparkSession, doing: str) -> Iterator[None]:
    """Name the jobs of the block ``esker: <doing>`` in Spark's UI, unless the user named them.

    Raises ``SparkFailed`` if Spark gives up a job, for instance because an executor died too often. Other errors are
    not changed: those that PySpark understands, such as an error in the user's own function, and Ctrl-C. A client of
    Spark Connect cannot name jobs.
    """
    if is_connect(session):
        with _failures_named(doing):
            yield
        return
    context = session.sparkContext
    given = context.getLocalProperty(_DESCRIPTION)
    if given is None or given.startswith("esker: "):
        context.setLocalProperty(_DESCRIPTION, f"esker: {doing}")
    try:
        with _failures_named(doing):
            yield
    finally:
        context.setLocalProperty(_DESCRIPTION, given)


@contextmanager
def _failures_named(doing: str) -> Iterator[None]:
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        if _follows_an_interrupt(error):  # PySpark then cancels all jobs, which makes this call fail
            raise KeyboardInterrupt from error
        raise SparkFailed(f"cannot {doing}: Spark gave the job up: {_reason(error)}", doing=doing) from error


def _reason(error: Exception) -> str:
    """Return Spark's message about the innermost cause, without the stack."""
    java = getattr(error, "java_exception", None)
    text = str(error)
    while java is not None:
        text = str(java.getMessage() or "") or text
        java = java.getCause()
    first = text.strip().partition("\n")[0]
    return first if len(first) <= _LONGEST else f"{first[:_LONGEST]}…"


def _follows_an_interrupt(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
