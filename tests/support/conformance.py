"""The pages of rules and promises, and the tests that check them.

``python tests/support/conformance.py`` (``make conformance``) writes the tests column of docs/conformance.md again:
the files with tests that carry a rule's code in their name, beside the tests that the page names one by one.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from documentation import ROOT, name_of

RULES = ROOT / "docs" / "conformance.md"
PROMISES = ROOT / "docs" / "promises.md"
NOT_YET = "not built yet: "
PROGRAMS = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py")])

# Rules of security have two digits, so that S3 is a store; INV is an invariant.
_CODE = r"(?:INV\d{1,2}|S\d\d|[A-LNPT]\d{1,2})"
_CITED = re.compile(rf"(?<![\w+.&-]){_CODE}(?![\w:-])")
_ROW = re.compile(rf"^\| ({_CODE}) \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)
_PROMISE = re.compile(r"^\| (.+) \| (`.+`) \|$", re.MULTILINE)
_NAMED = re.compile(rf"test_((?:{_CODE}_)+)", re.IGNORECASE)
_SECTION = re.compile(r"checklist ([A-Z])(?!\w)")  # a whole group of rules


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the page."""

    code: str
    text: str
    where: str
    tests: tuple[str, ...]  # a file whose tests carry the code, or file::test
    not_yet: str | None  # why there is none


def rules() -> list[Rule]:
    """The rows of docs/conformance.md, in order."""
    return [_rule(*found.groups()) for found in _ROW.finditer(RULES.read_text())]


def _rule(code: str, text: str, where: str, tests: str) -> Rule:
    if tests.startswith(NOT_YET):
        return Rule(code, text, where, (), tests.removeprefix(NOT_YET))
    return Rule(code, text, where, tuple(_listed(tests)), None)


def sections() -> set[str]:
    """The letters of the groups of rules."""
    return set(re.findall(r"^## ([A-Z])\. ", RULES.read_text(), re.MULTILINE))


def promises() -> dict[str, list[str]]:
    """The rows of docs/promises.md: each promise with the tests that check it."""
    return {promise: _listed(tests) for promise, tests in _PROMISE.findall(PROMISES.read_text())}


def _listed(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@cache
def names_in(file: Path) -> frozenset[str]:
    """The names of the tests in a file, methods of classes too."""
    return frozenset(
        node.name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def codes_of(test: str) -> list[str]:
    """The rules that a test says it checks: ``test_n4_f10_…`` is about N4 and F10."""
    found = _NAMED.match(test)
    return [] if found is None else found[1].upper().strip("_").split("_")


def tests_by_code() -> dict[str, set[str]]:
    """The files with tests that carry a rule's code in their names."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in PROGRAMS:
        if file.is_relative_to(ROOT / "tests"):
            for code in (code for test in names_in(file) for code in codes_of(test)):
                found[code].add(str(file.relative_to(ROOT / "tests")))
    return found


def cited() -> Iterator[tuple[str, str]]:
    """Every code in a comment, a docstring or the name of a test, and where it is."""
    for file in PROGRAMS:
        source = file.read_text()
        for text in (*_comments(source), *_docstrings(source)):
            yield from ((code, name_of(file)) for code in (*_CITED.findall(text), *_SECTION.findall(text)))
        yield from ((code, f"{name_of(file)}::{test}") for test in names_in(file) for code in codes_of(test))


def _comments(source: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and "noqa" not in token.string.split("#")[1]:
            yield token.string


def _docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def rewritten(page: str) -> str:
    """The page with its tests column written again."""
    files = tests_by_code()

    def row(found: re.Match[str]) -> str:
        rule = _rule(*found.groups())
        named = [test for test in rule.tests if "::" in test]
        tests = [*sorted(files.get(rule.code, ())), *named]
        cell = ", ".join(f"`{test}`" for test in tests) or f"{NOT_YET}{rule.not_yet}"
        return f"| {rule.code} | {rule.text} | {rule.where} | {cell} |"

    return _ROW.sub(row, page)


if __name__ == "__main__":
    RULES.write_text(rewritten(RULES.read_text()))
