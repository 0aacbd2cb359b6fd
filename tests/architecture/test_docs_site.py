"""The documentation site has every page, and its links are those of the repository. MkDocs is not needed for this."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml
from documentation import PAGES, ROOT, name_of

import esker

CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def _load_hooks() -> ModuleType:
    found = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "_site" / "hooks.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


HOOKS = _load_hooks()


def _pages(nav: Any) -> list[str]:
    """Every page of a navigation, in order."""
    match nav:
        case str():
            return [nav]
        case dict():
            return [page for inner in nav.values() for page in _pages(inner)]
        case _:
            return [page for inner in nav for page in _pages(inner)]


def _navigation() -> list[str]:
    """The navigation as the site has it: the hook adds the decisions."""
    config = SimpleNamespace(mdx_configs={}, nav=yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    return _pages(HOOKS.on_config(config).nav)


def test_the_navigation_names_every_page_once() -> None:
    inside = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    expected = inside | set(HOOKS.PLACES.values()) | {HOOKS.DECISIONS, HOOKS.API}
    named = _navigation()
    assert set(named) == expected
    assert len(named) == len(set(named))


def test_every_page_of_the_project_is_on_the_site() -> None:
    placed = set(HOOKS.PLACES) | {name_of(page) for page in (ROOT / "docs").rglob("*.md")}
    assert {name_of(page) for page in PAGES} <= placed
    assert all((ROOT / source).is_file() for source in HOOKS.PLACES)


def test_a_broken_link_or_anchor_fails_the_build() -> None:
    assert CONFIG["strict"] is True
    [command] = re.findall(r"/mkdocs build.*", (ROOT / "Makefile").read_text())
    assert command == "/mkdocs build --strict"  # with --quiet MkDocs does not count warnings, and none fails
    checks = {**CONFIG["validation"]["nav"], **CONFIG["validation"]["links"]}
    assert set(checks.values()) == {"warn"}
    assert {"not_found", "anchors", "omitted_files"} <= set(checks)


@pytest.mark.parametrize(
    ("place", "text", "expected"),
    [
        ("index.md", "[a](docs/guide.md#one) [b](ARCHITECTURE.md)", "[a](guide.md#one) [b](architecture.md)"),
        ("guide.md", "[a](../README.md) [b](sql.md) [c](#here)", "[a](index.md) [b](sql.md) [c](#here)"),
        ("decisions/0003-fast-append-by-default.md", "[a](../guide.md)", "[a](../guide.md)"),
        ("examples/telemetry-pipeline.md", "[a](../../docs/ingest.md)", "[a](../ingest.md)"),
        ("index.md", "[all](docs/decisions/) [no](docs/none.md)", "[all](decisions/index.md) [no](docs/none.md)"),
        ("guide.md", "[the rules](../.importlinter)", "the rules (`.importlinter`)"),
        ("guide.md", "```\n[a](../README.md)\n```\n", "```\n[a](../README.md)\n```\n"),
        ("guide.md", "```python spark\nx\n```\n", "```python\nx\n```\n"),
    ],
)
def test_links_of_the_repository_become_links_of_the_site(place: str, text: str, expected: str) -> None:
    page: Any = SimpleNamespace(file=SimpleNamespace(src_uri=place))
    assert HOOKS.on_page_markdown(text, page, None, None) == expected


def test_the_api_page_has_every_public_name() -> None:
    assert set(HOOKS.public_names("esker")) == set(esker.__all__)
    page = HOOKS._api_page()
    for module in HOOKS.MODULES:
        for name in HOOKS.public_names(module):
            assert f"::: {module}.{name}\n" in page


def test_a_notebook_is_shown_with_its_output() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {
            "cell_type": "code",
            "source": ["print(1)\n", "x"],
            "outputs": [{"text": ["1\n"]}, {"data": {"text/html": ["<b>x</b>"], "text/plain": ["x"]}}],
        },
    ]
    shown = HOOKS.notebook_text({"cells": cells})
    assert shown.startswith("# Title\n\n```python\nprint(1)\nx\n```\n")
    assert re.search(r'```text title="Output"\n1\n```\n\n<div class="output"><b>x</b></div>', shown)
