"""CONTRIBUTING.md is about the project as it is: its targets, folders, markers, suites and files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from documentation import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()


def _code(page: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", page)


def test_the_table_of_targets_is_that_of_the_makefile() -> None:
    described = set(re.findall(r"^([\w-]+):.*##", MAKEFILE, re.MULTILINE))
    assert set(re.findall(r"^\| `make ([\w-]+)` \|", PAGE, re.MULTILINE)) == described


def test_every_target_that_a_page_names_is_there() -> None:
    targets = set(re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE))
    pages: list[Path] = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    for page in pages:
        for line in _code(page.read_text()):
            if found := re.fullmatch(r"make ([\w-]+)( .*)?", line):
                assert found[1] in targets, f"{page.name}: {line}"


def test_the_table_of_markers_is_that_of_pytest() -> None:
    markers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    table = PAGE.partition("| marker |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == {marker.partition(":")[0] for marker in markers}


def test_every_folder_of_tests_that_mirrors_no_package_is_described() -> None:
    packages = {path.name for path in (ROOT / "src" / "esker").iterdir()}
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/*.py")} - packages
    assert {f"tests/{folder}" for folder in folders} <= set(_code(PAGE))


def test_every_path_that_is_named_is_there() -> None:
    roots = {path.name for path in ROOT.iterdir()} - {"build"}
    packages = {path.name for path in (ROOT / "src" / "esker").iterdir()} - roots
    for code in _code(PAGE):
        if code.split("/")[0] in roots and not re.search(r"[<\s]", code):
            assert (ROOT / code).exists(), code
        elif code.split("/")[0] in packages:
            assert (ROOT / "src" / "esker" / code).exists(), code


def test_every_conformance_suite_is_named() -> None:
    for suite in (ROOT / "tests" / "contracts").glob("*_contract.py"):
        assert f"tests/contracts/{suite.name}" in _code(PAGE)
        for name in re.findall(r"^class (\w+Contract)\b", suite.read_text(), re.MULTILINE):
            assert name in _code(PAGE)


def test_the_changelog_begins_with_what_is_not_released() -> None:
    first = re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first is not None
    assert first[1].startswith("Unreleased")
