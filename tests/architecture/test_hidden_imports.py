"""Imports that the import linter does not see: of the package ``esker`` itself, and of modules named in strings.

The linter reads import statements between modules. ``import esker`` gives everything that the top package finds late,
and ``import_module("esker.wiring")`` is only a string to it; so both could point outward unnoticed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import pytest
from documentation import ROOT, name_of

HOME = ROOT / "src"
SOURCES = sorted((HOME / "esker").rglob("*.py"))
ROOT_PACKAGE = "esker"
COMPOSITION_ROOT = "wiring"
WITH_PYSPARK = {"spark"}
WITHOUT_A_CLOCK = {"avro", "errors", "iceberg", "maintain", "metadata_tables", "model", "ports", "read", "tree"}
IMPORTERS = {"import_module", "__import__", "resolve_name", "run_module"}
# Modules that import by a name they are given, or that make the package itself importable.
BY_NAME = {
    "esker": "finds public names when they are first used",
    "esker.cli.main": "imports the module of a command when the command is called",
    "esker.ports.outer_names": "imports what the composition root has named",
    "esker.read.result_formats": "imports an optional library",
    "esker.spark": "finds public names of its own ring when they are first used",
    "esker.spark.workers.ship": "runs in a worker, which calls the entry that it was sent",
    "esker.spark.source.data_source": "runs where Spark plans, and has no Esker to import from until it is called",
    "esker.spark.workers.unpack_modules": "runs in a worker, and makes the package importable there",
}
CLOCKS = {
    "time": {
        "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time",
        "process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns", "localtime", "gmtime",
        "ctime", "asctime", "strftime",
    },
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}  # fmt: skip


def _rules() -> ConfigParser:
    rules = ConfigParser()
    rules.read(ROOT / ".importlinter")
    return rules


def _rings() -> dict[str, int]:
    """Each ring's height: a greater number is further out."""
    layers = _rules()["importlinter:contract:rings"]["layers"].split("\n")
    lines = [line for line in layers if line.strip()]
    return {ring.strip(): len(lines) - at for at, line in enumerate(lines) for ring in line.split("|")}


RINGS = _rings()


def _module(path: Path) -> str:
    parts = path.relative_to(HOME).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_module(path) for path in SOURCES}


def _ring(module: str) -> str:
    return module.split(".")[1] if "." in module else ROOT_PACKAGE


def _height(module: str) -> int:
    ring = _ring(module)
    return max(RINGS.values()) + 1 if ring == ROOT_PACKAGE else RINGS[ring]


def _knows_every_ring(module: str) -> bool:
    return _height(module) >= RINGS[COMPOSITION_ROOT]


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node, without what is for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from _nodes(node)


def uses_of_the_top_package(module: str, tree: ast.AST) -> Iterator[str]:
    """``import esker``, a name from it that is no module, or the same by an attribute."""
    if _knows_every_ring(module):
        return
    for node in _nodes(tree):
        match node:
            case ast.Import(names=names):
                yield from (f"import {one.name}" for one in names if one.name == ROOT_PACKAGE)
            case ast.ImportFrom(module="esker", level=0, names=names):
                yield from (f"from esker import {one.name}" for one in names if f"esker.{one.name}" not in MODULES)
            case ast.ImportFrom(level=level) if level:
                yield "a relative import"
            case ast.Attribute(value=ast.Name(id="esker"), attr=name) if f"esker.{name}" not in MODULES:
                yield f"esker.{name}"
            case ast.Call(args=[ast.Constant(value="esker"), *_]) if _imports_by_name(node):
                yield "an import of 'esker' by a string"


def _imports_by_name(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in IMPORTERS
    return False


def imports_by_name(module: str, tree: ast.AST) -> Iterator[str]:
    """Calls of ``import_module`` and ``__import__``, also under another name, in modules that have no reason for it."""
    if module in BY_NAME:
        return
    for node in _nodes(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in IMPORTERS:
                yield name
            case ast.ImportFrom(module="importlib" | "pkgutil" | "runpy", names=names):
                yield from (one.name for one in names if one.name in IMPORTERS)


def strings_that_point_outward(module: str, tree: ast.AST) -> Iterator[str]:
    """Names of modules of an outer ring, in strings: whoever imports by them has an arrow that points outward."""
    if _ring(module) == ROOT_PACKAGE:
        return
    for node in _nodes(tree):
        match node:
            case ast.Constant(value=str(text)) if text in MODULES and text != ROOT_PACKAGE:
                if _height(text) > _height(module):
                    yield text
            case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]) if text.startswith("esker."):
                ring = text.split(".")[1]
                if ring not in RINGS or RINGS[ring] > _height(module):
                    yield f"{text}{{…}}"


def clocks_read(tree: ast.AST) -> Iterator[str]:
    """Functions of ``time`` and ``datetime`` that say what time it is, called or passed on, under whatever name."""
    aliases = {"time": "time", "date": "date", "datetime": "datetime"}
    for node in _nodes(tree):
        match node:
            case ast.Import(names=names):
                aliases |= {one.asname: one.name for one in names if one.asname and one.name in CLOCKS}
            case ast.ImportFrom(module="datetime", names=names):
                aliases |= {one.asname: one.name for one in names if one.asname and one.name in CLOCKS}
            case ast.ImportFrom(module="time", names=names):
                yield from (f"time.{one.name}" for one in names if one.name in CLOCKS["time"])
    imports_time = any(
        isinstance(node, ast.Import) and any(one.name == "time" for one in node.names) for node in _nodes(tree)
    )
    for node in _nodes(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=name):
                kind = aliases.get(owner, "")
                if name in CLOCKS.get(kind, ()) and (kind != "time" or imports_time):
                    yield f"{kind}.{name}"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_no_import_points_outward_unseen(path: Path) -> None:
    module, tree = _module(path), ast.parse(path.read_text())
    assert not list(uses_of_the_top_package(module, tree)), "pass it in, or offer it by ports/outer_names"
    assert not list(imports_by_name(module, tree)), "import by a statement, which the linter can see"
    assert not list(strings_that_point_outward(module, tree)), "the composition root names modules of outer rings"


def test_every_module_that_may_import_by_name_is_there_and_does() -> None:
    for module in BY_NAME:
        path = next(path for path in SOURCES if _module(path) == module)
        assert any(
            isinstance(node, ast.Call) and _imports_by_name(node) for node in ast.walk(ast.parse(path.read_text()))
        )


def test_every_ring_but_spark_is_kept_from_pyspark() -> None:
    listed = set(_rules()["importlinter:contract:no-spark"]["source_modules"].split())
    assert listed == {f"esker.{ring}" for ring in {_ring(module) for module in MODULES} - {ROOT_PACKAGE, *WITH_PYSPARK}}


@pytest.mark.parametrize("path", [path for path in SOURCES if _ring(_module(path)) in WITHOUT_A_CLOCK], ids=name_of)
def test_what_is_pure_reads_no_clock(path: Path) -> None:
    assert not list(clocks_read(ast.parse(path.read_text()))), "take the time as a parameter"


@pytest.mark.parametrize(
    "text",
    [
        "import esker",
        "def f():\n    import esker",
        "import esker as everything",
        "from esker import connect",
        "import esker.storage.local\nesker.connect()",
        "from .. import connect",
        "import_module('esker')",
    ],
)
def test_the_top_package_is_found_however_it_is_imported(text: str) -> None:
    assert list(uses_of_the_top_package("esker.read.scan", ast.parse(text)))
    assert text.startswith("from .") or not list(uses_of_the_top_package("esker.cli.main", ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    [
        "import importlib\nimportlib.import_module('esker.wiring')",
        "from importlib import import_module as load\nload(name)",
        "__import__('esker.wiring')",
        "load = importlib.import_module",
    ],
)
def test_an_import_by_name_is_found_however_it_is_written(text: str) -> None:
    assert list(imports_by_name("esker.read.scan", ast.parse(text)))


def test_a_string_may_name_a_module_further_in_or_of_its_own_ring_alone() -> None:
    for text, module in (
        ("_HOME = 'esker.spark.workers.ship'", "esker.read.scan"),
        ("load(f'esker.{name}')", "esker.spark.workers.ship"),
        ("load(f'esker.spark.{name}')", "esker.read.scan"),
    ):
        assert list(strings_that_point_outward(module, ast.parse(text))), text
        assert not list(strings_that_point_outward("esker", ast.parse(text)))
    assert not list(
        strings_that_point_outward(
            "esker.spark.workers.arrow_write_worker", ast.parse("_HOME = 'esker.spark.workers.ship'")
        )
    )
    assert not list(strings_that_point_outward("esker.cli.main", ast.parse("load(f'esker.cli.{name}')")))


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.time()",
        "import time as t\nt.time_ns()",
        "from time import monotonic",
        "import datetime\ndatetime.datetime.now(datetime.UTC)",
        "import datetime as dt\ndt.date.today()",
        "from datetime import datetime as moment\nclock = moment.now",
        "from datetime import date\ndate.today()",
    ],
)
def test_a_clock_is_found_however_it_is_read(text: str) -> None:
    assert list(clocks_read(ast.parse(text)))


def test_a_type_of_time_is_no_clock() -> None:
    text = "import datetime\nfrom datetime import date\ndatetime.time(1)\ndate(2026, 1, 1)\ndatetime.time.fromisoformat"
    assert not list(clocks_read(ast.parse(text)))
