"""Text for people: sizes and times in readable form, and the small tables that notebooks show."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def show_bytes(count: int) -> str:
    """A size as people read it."""
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{count:,} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def show_ms(timestamp_ms: int) -> str:
    """Milliseconds as people read them, in UTC; plain digits where no calendar reaches."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"


def card(title: str, facts: Iterable[tuple[str, object]]) -> str:
    """A heading and named facts as HTML for a notebook; every text in it is escaped, and a fact that is None left out.

    A fact of several lines keeps them.
    """
    rows = "".join(
        f'<tr><th style="text-align:left;vertical-align:top">{escape(name)}</th>'
        f'<td style="text-align:left;white-space:pre-line">{escape(str(said))}</td></tr>'
        for name, said in facts
        if said is not None
    )
    return f"<table><caption><b>{escape(title)}</b></caption>{rows}</table>"


def first_of(names: Iterable[str], most: int, separator: str = ", ") -> str:
    """The first names, and how many there are beyond them."""
    found = list(names)
    rest = [f"and {len(found) - most:,} more"] if len(found) > most else []
    return separator.join([*found[:most], *rest])


def shortened(text: str, most: int = 200) -> str:
    """The text, cut where it is too long for a line."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
