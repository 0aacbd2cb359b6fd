"""Reports a failure to read or write files in a task to the driver.

Spark passes a task's error on as the text of its traceback. The worker adds a line with the error's facts, and the
driver builds the error from it. By then, Spark has repeated the task as often as its settings allow.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import GeneratorType
from typing import Any

from esker.errors import Corrupt, EskerError, InvalidInput, NoSuchFile, StorageFailed, Unsupported

log = logging.getLogger("esker.spark")

_MARK = "storage failed: "
_KINDS: dict[str, type[EskerError]] = {kind.__name__: kind for kind in (StorageFailed, NoSuchFile, Corrupt)}
_MISSING = ("No module named 'pyarrow'", "No module named 'numpy'", "PYTHON_VERSION_MISMATCH", "PACKAGE_NOT_INSTALLED")


def noted(result: Any) -> Any:
    """Return a task's result. If a failure of a file ends its rows, the error gets a line with its facts."""
    return _noted_rows(result) if isinstance(result, GeneratorType) else result


def _noted_rows(rows: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from rows
    except tuple(_KINDS.values()) as error:
        said = {"kind": type(error).__name__, "message": error.message, "facts": error.facts}
        error.add_note(_MARK + json.dumps(said, default=str))
        raise


@contextmanager
def naming_worker_failures() -> Iterator[None]:
    """Raise a worker's ``StorageFailed``, ``NoSuchFile`` or ``Corrupt`` as the same error here, and a Python without
    pyarrow as ``Unsupported``.

    Other errors of Spark are not changed.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        found = failure_in(str(error)) or _lacking_packages(str(error))
        if found is None:
            raise
        log.debug("a task failed", exc_info=error)
        raise found from None  # Spark's text repeats the message below a page of traceback


@contextmanager
def naming_refusals() -> Iterator[None]:
    """Raise an ``InvalidInput`` or ``Unsupported`` of a worker as the same error here."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        named = re.findall(r"^esker\.errors\.(InvalidInput|Unsupported): (.+)$", str(error), re.MULTILINE)
        if not named:
            raise
        log.debug("a task refused its input", exc_info=error)
        kind = InvalidInput if named[-1][0] == "InvalidInput" else Unsupported
        raise kind(named[-1][1]) from None


def failure_in(text: str) -> EskerError | None:
    """Return the failure of a file that a traceback describes, or None."""
    line = next((line for line in text.splitlines() if line.lstrip().startswith(_MARK)), None)
    if line is None:
        return None
    try:
        said = json.loads(line.lstrip().removeprefix(_MARK))
        kind, facts = _KINDS[said["kind"]], said["facts"]
        return (
            kind(facts.pop("file"), facts.pop("reason"), **facts) if kind is Corrupt else kind(said["message"], **facts)
        )
    except (ValueError, KeyError, TypeError):
        return None


def _lacking_packages(text: str) -> Unsupported | None:
    """Return the error to raise if Spark's message says that the workers' Python lacks a package.

    Returns None otherwise.
    """
    if not any(sign in text for sign in _MISSING):
        return None
    return Unsupported(
        "cannot run in Spark's workers: their Python has no pyarrow, or is of another version than this one; set "
        "PYSPARK_PYTHON to a Python that has pyarrow before the session starts (esker doctor checks it)",
        feature="workers without pyarrow",
    )
