"""Which Python Spark's workers run."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from esker.errors import Unsupported
from esker.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTING = "spark.pyspark.python"
_DEFAULT = "python3"  # what PySpark takes where nobody chose: the first of that name on the path
_MISSING = ("No module named 'pyarrow'", "No module named 'numpy'", "PYTHON_VERSION_MISMATCH", "PACKAGE_NOT_INSTALLED")


def use_this_python(session: SparkSession) -> None:
    """Let the workers of a local session run the Python of this process, unless the user chose another.

    A script that is run as ``venv/bin/python script.py`` has its packages there, and the first ``python3`` on the path
    does not. Nothing is changed on a cluster, whose machines have their own Pythons, nor on Spark Connect.
    """
    if is_connect(session):
        return
    context = session.sparkContext
    chosen = "PYSPARK_PYTHON" in os.environ or context.getConf().get(_SETTING) is not None
    if not chosen and context.master.startswith("local") and context.pythonExec == _DEFAULT:
        context.pythonExec = sys.executable


def lacking_packages(text: str) -> Unsupported | None:
    """The refusal to raise where an error of Spark says that the workers' Python lacks what Esker needs; else None."""
    if not any(sign in text for sign in _MISSING):
        return None
    return Unsupported(
        "cannot run in Spark's workers: their Python has no pyarrow, or is of another version than this one; set "
        "PYSPARK_PYTHON to a Python that has pyarrow before the session starts (esker doctor looks at it)",
        feature="workers without pyarrow",
    )
