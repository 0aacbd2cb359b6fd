"""Which release of Spark is installed, and what it is too old for."""

from __future__ import annotations

import re
from importlib.metadata import version


def is_too_old(message: str, installed: str | None = None) -> bool:
    """Whether an error asks for a newer Spark than the one that is installed."""
    needed = re.search(r"(?:use Spark|needs PySpark) (\d+)\.(\d+) or newer", message)
    here = tuple(int(part) for part in (installed or version("pyspark")).split(".")[:2])
    return needed is not None and here < (int(needed[1]), int(needed[2]))
