"""The project's pages: their links, their headings, and their Python, which must run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), ROOT / "examples" / "README.md", *(ROOT / "docs").rglob("*.md")])

_BLOCK = re.compile(r"^```(\w*(?: spark)?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def name_of(page: Path) -> str:
    """A page's name as the project knows it."""
    return str(page.relative_to(ROOT))


def links(page: Path) -> Iterator[str]:
    """Where a page's links lead, those in code left out."""
    yield from _LINK.findall(_CODE.sub(lambda found: "" if "](" in found[0] else found[0], page.read_text()))


def anchors(page: Path) -> set[str]:
    """What a link into a page may point at, by the rule of the sites that show it."""
    headings = _HEADING.findall(re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def python_of(page: Path, kinds: tuple[str, ...] = ("python",)) -> str:
    """The page's Python blocks as one program, each line where it is on the page; ``python spark`` needs a session."""
    text = page.read_text()
    program: list[str] = []
    for block in _BLOCK.finditer(text):
        if block[1] in kinds:
            start = text[: block.start(2)].count("\n")
            program += [""] * (start - len(program))
            program += block[2].splitlines()
    return "\n".join(program) + "\n"
