"""The output for a person: lines, cards, tables and trees that fit the width of the terminal.

If stdout is not a terminal, nothing is cut or coloured, so that the output can be piped and searched. Names come from
files of unknown origin, so control characters are escaped.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.tree import Tree

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_UNBOUNDED = 100_000
_FOLDED = 16  # a folded column needs at least this width to be readable


def clean(text: object) -> str:
    """Text without control characters."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its heading and the alignment of its cells."""

    name: str
    right: bool = False
    wraps: bool = False  # may be folded if the terminal is narrow
    style: str = ""
    spare: int = 0  # left out if the terminal is too narrow, the largest number first; 0: never


@dataclass(slots=True)
class Branch:
    """A node of a tree: its text and its children."""

    text: str
    note: str = ""
    children: list[Branch] = field(default_factory=list)
    bad: bool = False


class _Page(StringIO):
    """A buffer with stdout's encoding, so that lines are drawn with characters that stdout has."""

    @property
    def encoding(self) -> str:  # type: ignore[override]  # read-only in the parent's stub as well
        """The encoding in which the text will be shown."""
        return getattr(sys.stdout, "encoding", None) or "utf-8"


class Screen:
    """Collects the output and shows it at the end."""

    def __init__(self) -> None:
        from rich.console import Console

        terminal = self.is_terminal = sys.stdout.isatty()
        self._buffer = _Page()
        self._console = Console(
            file=self._buffer,
            force_terminal=terminal,
            no_color=True if os.environ.get("NO_COLOR") else None,
            width=None if terminal or os.environ.get("COLUMNS") else _UNBOUNDED,
            markup=False,
            emoji=False,
            highlight=False,
            soft_wrap=False,
        )

    def line(self, text: str = "", style: str = "") -> None:
        """Add one line."""
        self._console.print(clean(text), style=style or None, soft_wrap=True)

    def lines(self, text: str) -> None:
        """Add text that is laid out already."""
        for line in text.splitlines():
            self.line(line)

    def title(self, text: str, note: str = "") -> None:
        """Add a heading, with a quieter note beside it."""
        from rich.text import Text

        self._console.print(
            Text.assemble((clean(text), "bold"), "  " if note else "", (clean(note), "dim")), soft_wrap=True
        )

    def note(self, text: str) -> None:
        """Add a remark."""
        self.line(text, style="dim")

    def warning(self, text: str) -> None:
        """Add a warning."""
        self.line(text, style="yellow")

    def card(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Add labels and values, aligned. Pairs without a value are left out."""
        from rich.table import Table

        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="cyan", no_wrap=True)
        grid.add_column(overflow="fold")
        for label, said in pairs:
            if said:
                grid.add_row("  " + clean(label), "\n".join(map(clean, said.split("\n"))))
        self._console.print(grid)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[str]], *, keep_empty: bool = False) -> None:
        """Add rows under headings. A column that is empty in every row is left out, unless ``keep_empty`` is set.

        If the terminal is too narrow, spare columns are left out first, then cells are folded. Nothing is cut off.
        """
        from rich import box
        from rich.table import Table

        held = [tuple(map(clean, row)) for row in rows]
        full = [at for at in range(len(columns)) if keep_empty or not held or any(row[at] for row in held)]
        kept = self._fitting(columns, held, full)
        squeezed = self._needed(columns, held, kept) > self._console.width
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", safe_box=True)
        for at in kept:
            column = columns[at]
            table.add_column(
                clean(column.name),
                justify="right" if column.right else "left",
                no_wrap=not (column.wraps or squeezed),
                overflow="fold",
                style=column.style or None,
            )
        for row in held:
            table.add_row(*(row[at] for at in kept))
        self._console.print(table)
        gone = [columns[at].name for at in full if at not in kept and columns[at].name]
        if gone:
            self.note(f"Too narrow for: {', '.join(gone)}.")

    def fits(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> bool:
        """Whether a table of these columns and rows fits the width of the terminal."""
        return self._needed(columns, rows, range(len(columns))) <= self._console.width

    def _fitting(self, columns: Sequence[Column], rows: Sequence[Sequence[str]], full: list[int]) -> list[int]:
        kept = full
        spares = sorted((at for at in full if columns[at].spare), key=lambda at: columns[at].spare, reverse=True)
        while spares and self._needed(columns, rows, kept) > self._console.width:
            gone = spares.pop(0)
            kept = [at for at in kept if at != gone]
        return kept

    @staticmethod
    def _needed(columns: Sequence[Column], rows: Sequence[Sequence[str]], kept: Sequence[int]) -> int:
        """The smallest width that shows these columns well. A column that may be folded needs less than its cells."""
        from rich.cells import cell_len

        widths = [max((cell_len(row[at]) for row in rows), default=0) for at in kept]
        widths = [min(w, _FOLDED) if columns[at].wraps else w for w, at in zip(widths, kept, strict=True)]
        named = (max(width, cell_len(columns[at].name)) for width, at in zip(widths, kept, strict=True))
        return sum(named) + 3 * (len(kept) - 1)

    def tree(self, root: Branch) -> None:
        """Add a tree, drawn with lines."""
        self._console.print(_drawn(root))

    def show(self) -> None:
        """Write everything to stdout."""
        text = "".join(f"{line.rstrip()}\n" for line in self._buffer.getvalue().splitlines())
        sys.stdout.write(text)
        sys.stdout.flush()


def _drawn(branch: Branch) -> Tree:
    from rich.text import Text
    from rich.tree import Tree

    label = Text.assemble(
        (clean(branch.text), "red" if branch.bad else ""),
        "  " if branch.note else "",
        (clean(branch.note), "red" if branch.bad else "dim"),
    )
    drawn = Tree(label, guide_style="dim")
    drawn.children.extend(_drawn(child) for child in branch.children)
    return drawn
