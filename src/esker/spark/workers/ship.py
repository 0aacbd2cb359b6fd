"""Sends code by value to Spark's workers, and applies it to Arrow batches.

Executors need pyarrow and numpy, but not Esker. What is sent is a function that refers to no module of Esker. It
contains all modules that its entry module imports, and the order to execute. In the worker, it makes these modules
importable and calls the entry module.
"""

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

from esker.spark.session.spark_session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_ROOT = "esker"
_UNPACK = "esker.spark.workers.unpack_modules"
_FAILURES = "esker.spark.workers.worker_failures"
_NOT_SENT = frozenset({"esker.storage.objects.hadoop_access"})  # imported late, by code that only the driver runs
_COMPILED = ("esker.avro._shred",)  # used in workers that have the same file; the others use the version in Python
_REFRESH, _REFRESHES = "esker.catalogs.rest.files", b"SentRefresh"


def shipped(entry: str, order: bytes | None) -> Callable[[Any], Any]:
    """Return a function for Spark that calls ``run(order, rows)`` of an Esker module in the worker.

    ``order`` is a pickle. If it contains credentials that expire, the code that renews them is sent too.
    """
    parcel, digest, unpack = _packed(entry, refreshes=order is not None and _REFRESHES in order)
    failures = _FAILURES

    # PySpark sends a nested function by value. It may use only the variables above, and nothing else outside itself.
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
def _packed(entry: str, *, refreshes: bool = False) -> tuple[bytes, str, bytes]:
    """Return the modules as bytes, a digest that identifies them, and the code that unpacks them."""
    sources = modules_of(entry) | modules_of(_FAILURES) | (modules_of(_REFRESH) if refreshes else {})
    modules = {name: (is_package, _compiled(text, name)) for name, (is_package, text) in sorted(sources.items())}
    modules |= {name: (False, digest) for name in _COMPILED if _uses(name, sources) and (digest := _digest(name))}
    parcel = zlib.compress(marshal.dumps(modules), 9)  # once for a process, and every task carries it
    unpack = marshal.dumps(_compiled(modules_of(_UNPACK)[_UNPACK][1], _UNPACK))
    return parcel, hashlib.sha256(parcel).hexdigest(), unpack


def _uses(compiled: str, sources: dict[str, tuple[bool, str]]) -> bool:
    return any(compiled in text for _, text in sources.values())


def _digest(compiled: str) -> str | None:
    """The digest of a compiled module's file. None if it was not built."""
    spec = _spec(compiled)
    if spec is None or spec.origin is None or _has_source(spec):
        return None
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()


def _compiled(source: str, name: str) -> Any:
    """The code of a module without its docstrings and the types of its functions: nobody reads them in a worker, and
    every task carries the code. The types of fields stay, because dataclasses need them."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            node.body[0] = ast.copy_location(ast.Expr(ast.Constant("")), node.body[0])
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
    ast.fix_missing_locations(tree)
    return compile(tree, f"<{name}>", "exec", dont_inherit=True)


def modules_of(entry: str) -> dict[str, tuple[bool, str]]:
    """Return every Esker module that the entry needs, also through imports inside functions: whether it is a package,
    and its text."""
    found: dict[str, tuple[bool, str]] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        spec = None if name in found or name in _NOT_SENT else _spec(name)
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
    """Yield the imported names that may be Esker modules, without imports for type checkers."""
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
    """Whether the module can be sent.

    A compiled module cannot: the executor may be another kind of machine. It has a version in Python.
    """
    return spec.origin is None or spec.origin.endswith(".py")


def _spec(name: str) -> ModuleSpec | None:
    """Return the spec of a module. Returns None if the name is not a module but something inside one."""
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None


_SETTING = "spark.pyspark.python"
_DEFAULT = "python3"  # PySpark's default: the first Python of that name on the path


def use_this_python(session: SparkSession) -> None:
    """Let the workers of a local session run the Python of this process, unless the user chose another.

    A script that is run as ``venv/bin/python script.py`` has its packages there. The first ``python3`` on the path does
    not have them. Nothing is changed on a cluster, whose machines have their own Python, nor on Spark Connect.
    """
    if is_connect(session):
        return
    context = session.sparkContext
    chosen = "PYSPARK_PYTHON" in os.environ or context.getConf().get(_SETTING) is not None
    if not chosen and context.master.startswith("local") and context.pythonExec == _DEFAULT:
        context.pythonExec = sys.executable


def map_arrow(frame: DataFrame, task: Callable[..., Any], schema: Any) -> DataFrame:
    """Return the frame that a function makes of this frame's Arrow batches, in the workers.

    ``mapInArrow`` checks pandas, which it does not use, and warns about pandas 3 on every call. This warning is
    suppressed.
    """
    use_this_python(frame.sparkSession)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        return frame.mapInArrow(task, schema)
