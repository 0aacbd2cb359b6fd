"""What MkDocs needs to know of this project: pages outside of ``docs/``, links as GitHub has them, and notebooks.

The pages are written for readers of the repository, so their links are paths in it. ``PLACES`` says where each page
is on the site. A link to a file that is no page becomes its path, in code. A link to nothing stays, and
``mkdocs build --strict`` fails on it.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]

# Pages outside of docs/ by their path in the repository, and where each is on the site.
PLACES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "tests/golden/README.md": "golden-tables.md",
    "examples/README.md": "examples/index.md",
    "examples/telemetry-pipeline/README.md": "examples/telemetry-pipeline.md",
    **{f"examples/{notebook.name}": f"examples/{notebook.stem}.md" for notebook in (ROOT / "examples").glob("*.ipynb")},
}
# Pages that are made here.
DECISIONS = "decisions/index.md"
API = "api.md"
MODULES = ("esker", "esker.otlp", "esker.spark")

_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Anchors by GitHub's rule, and the decisions in the navigation."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = _slug
    for section in config.nav or []:
        if "Decisions" in section:
            section["Decisions"] += [f"decisions/{page.name}" for page in _decisions()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The pages outside of ``docs/``, and those that are made."""
    from mkdocs.structure.files import File

    for source, place in PLACES.items():
        text = (ROOT / source).read_text()
        content = notebook_text(json.loads(text)) if source.endswith(".ipynb") else text
        files.append(File.generated(config, place, content=content))
    files.append(File.generated(config, DECISIONS, content=_decisions_page()))
    files.append(File.generated(config, API, content=_api_page()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page's text with links of the site, outside of its code."""
    sources = {place: source for source, place in PLACES.items()}
    place = page.file.src_uri
    source = sources.get(place, f"docs/{place}")
    parts = _FENCE.split(markdown.replace("```python spark\n", "```python\n"))
    linked = [part if at % 2 else _LINK.sub(_rewriter(source, place), part) for at, part in enumerate(parts)]
    return "".join(linked)


def _rewriter(source: str, place: str) -> Callable[[re.Match[str]], str]:
    def rewrite(found: re.Match[str]) -> str:
        text, link = found[1], found[2]
        path, sign, anchor = link.partition("#")
        if not path or "://" in link or source == f"docs/{DECISIONS}":
            return found[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        there = _place_of(target)
        if there is not None:
            return f"[{text}]({posixpath.relpath(there, posixpath.dirname(place) or '.')}{sign}{anchor})"
        if (ROOT / target).exists():
            return f"`{target}`" if text.strip("`") in target else f"{text} (`{target}`)"
        return found[0]

    return rewrite


def _place_of(target: str) -> str | None:
    """Where a path of the repository is on the site, or None."""
    if target in PLACES:
        return PLACES[target]
    if target == "docs/decisions":
        return DECISIONS
    if target == "examples":
        return PLACES["examples/README.md"]
    inside = target.removeprefix("docs/")
    return inside if inside != target and target.endswith(".md") and (ROOT / target).is_file() else None


def _slug(text: str, separator: str) -> str:
    return re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", separator)


def _decisions() -> list[Path]:
    return sorted((ROOT / "docs" / "decisions").glob("*.md"))


def _decisions_page() -> str:
    titles = [(page.name, page.read_text().splitlines()[0].lstrip("# ")) for page in _decisions()]
    rows = "".join(f"| {name[:4]} | [{title}]({name}) |\n" for name, title in titles)
    return (
        "# Decisions\n\nOne page for each choice that was hard to make and is hard to undo: the problem, the choice, "
        f"and its price.\n\n| number | decision |\n|---|---|\n{rows}"
    )


def _api_page() -> str:
    """Every public name, by module, as its docstring describes it."""
    text = "# API\n\nEvery public name, from the docstrings in the source. [Public names](reference.md) has the same "
    text += "names with examples, in tables.\n"
    for module in MODULES:
        text += f"\n## {module}\n"
        for name in public_names(module):
            text += f"\n::: {module}.{name}\n"
    return text


def public_names(module: str) -> list[str]:
    """A package's ``__all__``, read and not imported; errors last."""
    source = (ROOT / "src" / Path(*module.split(".")) / "__init__.py").read_text()
    found = re.search(r"^__all__ = \[(.*?)\]", source, re.MULTILINE | re.DOTALL)
    assert found is not None, module
    names = re.findall(r'"(\w+)"', found[1])
    first = ["connect", "open_table", "Lake", "Table", "View", "Scan", "Plan", "col"] if module == "esker" else []
    return [*first, *(name for name in names if name not in first)]


def notebook_text(notebook: dict[str, Any]) -> str:
    """A notebook as Markdown: its text, its code, and below each cell of code its output."""
    parts: list[str] = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "text/html" in data:
                parts.append('<div class="output">' + "".join(data["text/html"]).replace("\n", " ") + "</div>")
            else:
                shown = "".join(output.get("text") or data.get("text/plain", []))
                parts.append(f'```text title="Output"\n{shown.rstrip()}\n```')
    return "\n\n".join(parts) + "\n"
