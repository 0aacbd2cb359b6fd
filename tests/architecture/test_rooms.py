"""The tree of packages: few entries in each, all named in ARCHITECTURE.md."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
from documentation import ROOT, name_of

SOURCE = ROOT / "src" / "esker"
PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.py"))
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
MOST_ENTRIES = {SOURCE: 31}  # the rings themselves; every other package has at most
MOST_IN_A_PACKAGE = 21
MOST_MODULES = 600  # with a second format
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
RINGS = PAGE.split("```")[1]
SAME_NAME = {  # the same noun on purpose: what it is, how Iceberg writes it, what users see of it
    *("files", "manifest", "manifest_list", "memory", "partition_and_sort", "scan", "schema", "snapshot"),
    *("table_metadata", "types", "view_metadata"),
    *("deletion_vector", "format", "inspect", "statistics"),  # of Iceberg and of Paimon
}


@pytest.mark.parametrize("package", PACKAGES, ids=name_of)
def test_a_package_has_few_entries(package: Path) -> None:
    entries = [path for path in package.iterdir() if path.name != "__pycache__" and path.suffix != ".so"]
    assert len(entries) <= MOST_ENTRIES.get(package, MOST_IN_A_PACKAGE), f"{len(entries)} entries"
    assert ast.get_docstring(ast.parse((package / "__init__.py").read_text())), "a package says what is inside"


def test_modules_are_few_and_of_a_size_to_be_read() -> None:
    lengths = sorted(len(path.read_text().splitlines()) for path in MODULES)
    assert len(lengths) < MOST_MODULES
    assert 100 <= lengths[len(lengths) // 2] <= 200


@pytest.mark.parametrize("package", PACKAGES[1:], ids=name_of)
def test_the_page_on_architecture_names_every_package(package: Path) -> None:
    inner = package.relative_to(SOURCE)
    line = rf"^{re.escape(inner.parent.as_posix())}\s.*\b{inner.name}\b"
    pattern = rf"^{inner.name}\b" if len(inner.parts) == 1 else rf"{line}|^{re.escape(inner.as_posix())}\b"
    assert re.search(pattern, RINGS, re.MULTILINE), f"ARCHITECTURE.md does not name {inner}"


def test_the_page_on_architecture_names_nothing_that_is_gone() -> None:
    for line in filter(None, RINGS.splitlines()):
        ring, inner = re.match(r"(\S+(?:, \S+)*)?\s*((?:[a-z_]+, )*[a-z_]+)?(?:\s{2,}|$)", line).groups()  # type: ignore[union-attr]
        for name in (ring or "").split(", "):
            assert (SOURCE / name).exists(), line
        for name in (inner or "").split(", ") if ring and "," not in ring else ():
            assert not name or (SOURCE / str(ring) / name).is_dir(), line
    for path in re.findall(r"`([a-z_]+(?:/[a-z_]+)+\.py)`", PAGE):
        assert any((root / path).exists() for root in (SOURCE, SOURCE.parent, ROOT)), path


def test_the_page_on_architecture_fits_a_page() -> None:
    assert len(PAGE.splitlines()) <= 140


def test_a_name_of_a_module_is_used_once() -> None:
    names = Counter(path.stem for path in MODULES)
    assert {name for name, count in names.items() if count > 1} <= SAME_NAME | {"__main__"}
