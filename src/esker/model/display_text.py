"""Text for users: sizes and times in readable form, and the small tables that notebooks show."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def show_bytes(count: int) -> str:
    """A size in readable form."""
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{count:,} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def show_ms(timestamp_ms: int) -> str:
    """A time in milliseconds in readable form, in UTC. Plain digits if it is outside of Python's calendar."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"


def card(title: str, facts: Iterable[tuple[str, object]]) -> str:
    """A title and named facts as HTML for a notebook. All text is escaped. A fact that is None is omitted.

    Line breaks in a fact are kept.
    """
    rows = "".join(
        f'<tr><th style="text-align:left;vertical-align:top">{escape(name)}</th>'
        f'<td style="text-align:left;white-space:pre-line">{escape(str(said))}</td></tr>'
        for name, said in facts
        if said is not None
    )
    return f"<table><caption><b>{escape(title)}</b></caption>{rows}</table>"


def first_of(names: Iterable[str], most: int, separator: str = ", ") -> str:
    """The first names, and how many more there are."""
    found = list(names)
    rest = [f"and {len(found) - most:,} more"] if len(found) > most else []
    return separator.join([*found[:most], *rest])


def shortened(text: str, most: int = 200) -> str:
    """The text, shortened if it is too long for a line."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
