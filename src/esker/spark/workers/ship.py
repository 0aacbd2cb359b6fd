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
import re
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from esker.spark.session.spark_session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_ROOT = "esker"
_UNPACK = "esker.spark.workers.unpack_modules"
_FAILURES = "esker.spark.workers.worker_failures"
_NOT_SENT = frozenset({"esker.storage.objects.hadoop_access"})  # imported late, by code that only the driver runs
# Used in workers that have the same file. The others use the version in Python, or pyarrow.
_COMPILED = ("esker.avro._shred", "esker.arrow.flat._parquet")
_PARTS = ("body", "orelse", "handlers", "finalbody", "cases")  # where statements contain others
_LEVEL = 6  # level 9 makes a parcel one per cent smaller in five times the time
_MODULE = rb"esker(?:\.\w+)+"


def shipped(entry: str, order: bytes | None) -> Callable[[Any], Any]:
    """Return a function for Spark that calls ``run(order, rows)`` of an Esker module in the worker.

    ``order`` is a pickle. The modules of the objects in it are sent too.
    """
    parcel, digest, unpack = _packed(entry, _named_in(order or b"", entry))
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


def _named_in(order: bytes, entry: str) -> frozenset[str]:
    """The modules that a pickle names and that the entry does not need by itself.

    A text in the pickle may look like a module, and is one too many then, which does no harm.
    """
    known = modules_of(entry)
    names = {name.decode() for name in re.findall(_MODULE, order)} - known.keys() - _NOT_SENT
    return frozenset(name for name in names if (spec := _spec(name)) is not None and _has_source(spec))


@cache
def _packed(entry: str, named: frozenset[str] = frozenset()) -> tuple[bytes, str, bytes]:
    """Return the modules as bytes, a digest that identifies them, and the code that unpacks them."""
    sources = {name: module for root in (entry, _FAILURES, *named) for name, module in modules_of(root).items()}
    modules: dict[str, tuple[bool, CodeType | str]] = {
        name: (is_package, _read(name).code) for name, (is_package, _) in sorted(sources.items())
    }
    modules |= {name: (False, digest) for name in _COMPILED if _uses(name, sources) and (digest := _digest(name))}
    parcel = zlib.compress(marshal.dumps(modules), _LEVEL)  # once for a process, and every task carries it
    return parcel, hashlib.sha256(parcel).hexdigest(), marshal.dumps(_read(_UNPACK).code)


def _uses(compiled: str, sources: Mapping[str, tuple[bool, str]]) -> bool:
    return any(compiled in text for _, text in sources.values())


def _digest(compiled: str) -> str | None:
    """The digest of a compiled module's file. None if it was not built."""
    spec = _spec(compiled)
    if spec is None or spec.origin is None or _has_source(spec):
        return None
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()


@cache
def modules_of(entry: str) -> Mapping[str, tuple[bool, str]]:
    """Return every Esker module that the entry needs, also through imports inside functions: whether it is a package,
    and its text."""
    found: dict[str, tuple[bool, str]] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        spec = None if name in found or name in _NOT_SENT else _spec(name)
        if spec is not None and _has_source(spec):
            module = _read(name)
            found[name] = (module.is_package, module.text)
            waiting.extend(module.imports)
            waiting.extend(_above(name))
    return found


def _above(name: str) -> Iterator[str]:
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


@dataclass(frozen=True, slots=True)
class _Module:
    is_package: bool
    text: str
    code: CodeType
    imports: tuple[str, ...]


@cache
def _read(name: str) -> _Module:
    """A module that can be sent. Its text is parsed once for a process, whichever workers need it."""
    spec = _spec(name)
    assert spec is not None
    text = "" if spec.origin is None else Path(spec.origin).read_text()
    tree = ast.parse(text)
    imports: list[str] = []
    _strip(tree, imports)
    code = compile(tree, f"<{name}>", "exec", dont_inherit=True)
    return _Module(spec.submodule_search_locations is not None, text, code, tuple(imports))


def _strip(node: ast.AST, imports: list[str]) -> None:
    """Remove what nobody reads in a worker, because every task carries the code: docstrings and the types of functions.
    The types of fields stay, because dataclasses need them. Add to ``imports`` what is imported and may be a module of
    Esker.

    Only statements are visited: an expression contains none of these.
    """
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            node.body = [ast.copy_location(ast.Pass(), node)]
        case ast.Import(names=names):
            imports.extend(name.name for name in names if name.name.partition(".")[0] == _ROOT)
        case ast.ImportFrom(module=str(module), names=names, level=0) if module.partition(".")[0] == _ROOT:
            imports.append(module)
            imports.extend(f"{module}.{name.name}" for name in names)
        case ast.FunctionDef():
            node.returns = None
            given = node.args
            for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
                if arg is not None:
                    arg.annotation = None
    match node:
        case ast.Module() | ast.ClassDef() | ast.FunctionDef():
            match node.body[:1]:
                case [ast.Expr(value=ast.Constant(value=str()) as docstring)]:
                    docstring.value = ""
    for part in _PARTS:
        for inner in getattr(node, part, ()):
            _strip(inner, imports)


def _has_source(spec: ModuleSpec) -> bool:
    """Whether the module can be sent.

    A compiled module cannot: the executor may be another kind of machine. It has a version in Python.
    """
    return spec.origin is None or spec.origin.endswith(".py")


@cache
def _spec(name: str) -> ModuleSpec | None:
    """Return the spec of a module. Returns None if the name is not a module but something inside one."""
    above = name.rpartition(".")[0]
    if above and ((package := _spec(above)) is None or package.submodule_search_locations is None):
        return None
    return importlib.util.find_spec(name)


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
