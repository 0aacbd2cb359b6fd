"""Numbers, sizes and times in a form that is easy to read. ``--json`` has the exact values."""

from __future__ import annotations

import time

_STEPS = (
    (60, "second"),
    (60, "minute"),
    (24, "hour"),
    (30, "day"),
    (12, "month"),
    (10**9, "year"),
)


def size(count: int | None) -> str:
    """A number of bytes: ``1.5 MiB``."""
    from esker.model.display_text import show_bytes

    return "?" if count is None else show_bytes(count)


def number(count: int | None) -> str:
    """A whole number with separators for thousands; ``?`` if it is unknown."""
    return "?" if count is None else f"{count:,}"


def counted(count: int | None, what: str, plural: str | None = None) -> str:
    """``1 file``, ``2 files``."""
    return f"{number(count)} {what if count == 1 else plural or what + 's'}"


def change(count: int | None, sign: str) -> str:
    """``+3`` or ``-3``; empty for zero, so that a column of changes shows only changes."""
    return "" if not count else f"{sign}{count:,}"


def ago(timestamp_ms: int, now_ms: int | None = None) -> str:
    """How long ago: ``3 hours ago``, or ``in 2 days`` if a clock is ahead."""
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    seconds = (now - timestamp_ms) / 1000
    if abs(seconds) < 1:
        return "now"
    amount, unit = abs(seconds), "second"
    for step, name in _STEPS:
        unit = name
        if amount < step:
            break
        amount /= step
    whole = int(amount)
    text = counted(whole, unit)
    return f"{text} ago" if seconds > 0 else f"in {text}"


def when(timestamp_ms: int, now_ms: int | None = None) -> str:
    """A time in UTC, and how long ago it was."""
    from esker.model.display_text import show_ms

    return f"{show_ms(timestamp_ms)} ({ago(timestamp_ms, now_ms)})"


def duration(milliseconds: int) -> str:
    """A length of time in its largest whole unit: ``7 days``."""
    for unit, name in ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second")):
        if milliseconds and milliseconds % unit == 0:
            return counted(milliseconds // unit, name)
    return f"{milliseconds:,} ms"
