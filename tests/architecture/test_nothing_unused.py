"""Every function, class and constant of the source is used by the source: code that only its test uses is removed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from documentation import ROOT

SOURCE = ROOT / "src" / "esker"

# What only the tests use, and why it stays.
KEPT = {
    "sealed_segments": "what the receiver's spool holds",
    "encode_vector_file": "the counterpart of the reader, which the tests write vectors with",
}


def _defined(tree: ast.Module) -> Iterator[str]:
    """The names that a module defines at its top. A decorated function is used by its decorator."""
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name, decorator_list=[]) | ast.ClassDef(name=name, decorator_list=[]):
                yield name
            case ast.ClassDef(name=name, decorator_list=[*decorators]) if not _registers(decorators):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def _registers(decorators: list[ast.expr]) -> bool:
    return not any("dataclass" in ast.unparse(decorator) for decorator in decorators)


def _used(tree: ast.Module) -> Iterator[str]:
    """The names that a module reads, imports, or has in a text, as tables of late imports do."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name):
                yield name
            case ast.ImportFrom(names=names):
                yield from (alias.name for alias in names)
            case ast.Constant(value=str(text)) if len(text) < 200:
                yield from re.findall(r"\w+", text)


def unused(modules: dict[str, str]) -> set[tuple[str, str]]:
    """Of modules by name, with their text: the module and name of what none of them uses."""
    trees = {name: ast.parse(text) for name, text in modules.items()}
    used = {name for tree in trees.values() for name in _used(tree)}
    return {
        (module, name)
        for module, tree in trees.items()
        for name in _defined(tree)
        if name not in used and not re.fullmatch(r"__\w+__", name)
    }


def _text(path: Path) -> str:
    return path.read_text()


def test_every_name_is_used() -> None:
    modules = {str(path.relative_to(SOURCE)): _text(path) for path in SOURCE.rglob("*.py")}
    assert len(modules) > 100
    found = unused(modules)
    assert {name for _, name in found} == set(KEPT), found


def test_a_name_that_nothing_uses_is_found() -> None:
    one = (
        "import a\nLIMIT = 1\nSPARE = 2\n@command\ndef go() -> None: ...\n@dataclass\nclass Row: ...\ndef help_(): ..."
    )
    other = "from one import LIMIT\nHOMES = {'x': 'one.help_'}\nprint(HOMES)"
    assert unused({"one": one, "other": other}) == {("one", "SPARE"), ("one", "Row")}
