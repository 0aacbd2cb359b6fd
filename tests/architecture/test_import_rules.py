"""What keeps the code small and in its rings, measured."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from documentation import ROOT, name_of

SOURCES = sorted((ROOT / "src" / "esker").rglob("*.py"))
LONGEST_MODULE = 500
LONGEST_FUNCTION = 60
VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
# Split, so that this file may be among those that are looked at.
MACHINE = re.compile(
    rb"/wo" rb"rk/|py" rb"pi\.org|files\.python" rb"hosted|index-" rb"url|artifact" rb"ory", re.IGNORECASE
)


def test_arrows_point_inward() -> None:
    pytest.importorskip("importlinter")
    from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

    assert lint_imports(config_filename=str(ROOT / ".importlinter"), no_cache=True) == EXIT_STATUS_SUCCESS


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_module_is_of_a_size_to_be_read(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= LONGEST_MODULE
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "a module says what it is for"
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = _code_lines(function, text.splitlines())
            assert lines <= LONGEST_FUNCTION, f"{path.name}: {function.name} has {lines} lines"


def _code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]) -> int:
    """Lines of code from the name to the end, without the docstring, blank lines and comments."""
    end = function.end_lineno or function.lineno
    own = set(range(function.lineno, end + 1))
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None:
        own -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return sum(1 for at in own if (text := lines[at - 1].strip()) and not text.startswith("#"))


def test_every_module_says_what_it_is() -> None:
    for path in [*SOURCES, *(ROOT / "tests").rglob("*.py")]:
        assert VAGUE.isdisjoint(path.stem.lower().split("_")), path
        assert VAGUE.isdisjoint(part.lower() for part in path.relative_to(ROOT).parts[:-1]), path


def test_public_names_have_docstrings() -> None:
    for path in SOURCES:
        missing = list(_without_docstring(ast.parse(path.read_text())))
        assert not missing, f"{name_of(path)}: {', '.join(missing)}"


def _without_docstring(tree: ast.Module) -> Iterator[str]:
    """Public functions and classes of the module itself; methods may keep a protocol that is documented."""
    for node in tree.body:
        named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if named and not node.name.startswith("_") and not ast.get_docstring(node):
            yield node.name


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, listed.stdout.decode().split("\0")):
        path = ROOT / name
        if path.is_file() and path.suffix not in (".parquet", ".avro", ".orc"):
            found = MACHINE.search(path.read_bytes())
            assert found is None, f"{name}: {found[0].decode() if found else ''}"


def test_a_storage_is_asked_what_it_can_do_and_not_what_it_is() -> None:
    """Another adapter of the port must do wherever one does."""
    asks = re.compile(r"isinstance\([^()]*(\([^()]*\))?[^()]*\b(Local|Memory|Relocated)Storage\b")
    for path in SOURCES:
        found = asks.search(path.read_text())
        assert found is None, f"{name_of(path)}: {found[0] if found else ''}"
