"""Send code by value to Spark's workers, and apply it to Arrow batches."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import marshal
import os
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esker.errors import Unsupported
from esker.spark.session.spark_session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# ---------------------------------------------------------------- ship
#
# Code for Spark's workers, sent by value with the job: executors need pyarrow and numpy, and no Esker.
#
# What is sent is a function that refers to nothing of ours. It carries the modules that its entry imports, directly or
# not, and the order to carry out; in the worker it makes these modules importable and calls the entry.


_ROOT = "esker"
_UNPACK = "esker.spark.workers.unpack_modules"
_FAILURES = "esker.spark.workers.worker_failures"


def shipped(entry: str, order: bytes | None) -> Callable[[Any], Any]:
    """A function for Spark that calls ``run(order, rows)`` of a module of ours in the worker."""
    parcel, digest, unpack = _packed(entry)
    failures = _FAILURES

    # A function inside a function goes by value. It must name nothing outside itself but the variables above.
    def run(rows: Any) -> Any:
        import importlib
        import marshal

        names: dict[str, Any] = {"__name__": "esker_unpack"}
        exec(marshal.loads(unpack), names)
        names["unpack"](parcel, digest)
        noted = importlib.import_module(failures).noted
        return noted(importlib.import_module(entry).run(order, rows))

    return run


@cache
def _packed(entry: str) -> tuple[bytes, str, bytes]:
    """The modules as bytes, what tells them from others, and the code that unpacks them."""
    sources = modules_of(entry) | modules_of(_FAILURES)
    modules = {name: (is_package, _compiled(text, name)) for name, (is_package, text) in sorted(sources.items())}
    parcel = zlib.compress(marshal.dumps(modules))
    unpack = marshal.dumps(_compiled(modules_of(_UNPACK)[_UNPACK][1], _UNPACK))
    return parcel, hashlib.sha256(parcel).hexdigest(), unpack


def _compiled(source: str, name: str) -> Any:
    return compile(source, f"<{name}>", "exec", dont_inherit=True)


def modules_of(entry: str) -> dict[str, tuple[bool, str]]:
    """Every module of ours that the entry needs, those imported late too: whether it is a package, and its text."""
    found: dict[str, tuple[bool, str]] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        spec = None if name in found else _spec(name)
        if spec is not None and _has_source(spec):
            source = "" if spec.origin is None else Path(spec.origin).read_text()
            found[name] = (spec.submodule_search_locations is not None, source)
            waiting.extend(_imports(ast.parse(source)))
            waiting.extend(_above(name))
    return found


def _above(name: str) -> Iterator[str]:
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def _imports(tree: ast.AST) -> Iterator[str]:
    """Names that may be modules of ours; what is only for type checkers is left out."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                continue
            case ast.Import(names=names):
                yield from (name.name for name in names if name.name.partition(".")[0] == _ROOT)
            case ast.ImportFrom(module=str(module), names=names, level=0) if module.partition(".")[0] == _ROOT:
                yield module
                yield from (f"{module}.{name.name}" for name in names)
            case _:
                yield from _imports(node)


def _has_source(spec: ModuleSpec) -> bool:
    """Compiled modules stay: they have twins in Python, and an executor may be another machine."""
    return spec.origin is None or spec.origin.endswith(".py")


def _spec(name: str) -> ModuleSpec | None:
    """Of a name that may be a module's or just something in one."""
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None


# ---------------------------------------------------------------- Which Python Spark's workers run


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


# ---------------------------------------------------------------- map arrow
#
# ``mapInArrow`` without its aside: it asks for pandas, which it does not use, and warns of pandas 3 on every call.


def map_arrow(frame: DataFrame, task: Callable[..., Any], schema: Any) -> DataFrame:
    """The frame's rows as batches through a function of theirs, in the workers."""
    use_this_python(frame.sparkSession)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        return frame.mapInArrow(task, schema)
