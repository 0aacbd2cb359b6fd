"""Code for Spark's workers, sent by value with the job: executors need pyarrow and numpy, and no Esker.

What is sent is a function that refers to nothing of ours. It carries the modules that its entry imports, directly or
not, and the order to carry out; in the worker it makes these modules importable and calls the entry.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import marshal
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

_ROOT = "esker"
_UNPACK = "esker.spark.unpack"
_FAILURES = "esker.spark.worker_failures"


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
