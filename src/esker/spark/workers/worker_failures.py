"""A failure of storage in a task, on its way to the driver.

Spark hands over a task's error as the text of its traceback. The worker adds a line that holds the error's facts, and
the driver makes the error again out of it. Spark has tried the task as often as it is set up to by then.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import GeneratorType
from typing import Any

from esker.errors import InvalidInput, StorageFailed, Unsupported

log = logging.getLogger("esker.spark")

_MARK = "storage failed: "


def noted(result: Any) -> Any:
    """What a task returns; a failure of storage that ends its rows carries its facts in a line of its own."""
    return _noted_rows(result) if isinstance(result, GeneratorType) else result


def _noted_rows(rows: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from rows
    except StorageFailed as error:
        error.add_note(_MARK + json.dumps({"message": error.message, "facts": error.facts}, default=str))
        raise


@contextmanager
def naming_worker_failures() -> Iterator[None]:
    """A failure of storage in a worker is raised here as `StorageFailed`, a Python without pyarrow as `Unsupported`;
    other errors of Spark's stay as they are."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from esker.spark.workers.ship import lacking_packages

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        found = failure_in(str(error)) or lacking_packages(str(error))
        if found is None:
            raise
        log.debug("a task failed", exc_info=error)
        raise found from None  # Spark's text repeats it below a page of traceback


@contextmanager
def naming_refusals() -> Iterator[None]:
    """What a worker refuses, as ``InvalidInput`` or ``Unsupported``, is raised here as what it is."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        named = re.findall(r"^esker\.errors\.(InvalidInput|Unsupported): (.+)$", str(error), re.MULTILINE)
        if not named:
            raise
        log.debug("a task refused its work", exc_info=error)
        kind = InvalidInput if named[-1][0] == "InvalidInput" else Unsupported
        raise kind(named[-1][1]) from None


def failure_in(text: str) -> StorageFailed | None:
    """The failure of storage that a traceback tells of."""
    line = next((line for line in text.splitlines() if line.lstrip().startswith(_MARK)), None)
    if line is None:
        return None
    try:
        told = json.loads(line.lstrip().removeprefix(_MARK))
        return StorageFailed(told["message"], **told["facts"])
    except (ValueError, KeyError, TypeError):
        return None
