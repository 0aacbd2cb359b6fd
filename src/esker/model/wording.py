"""Sizes and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

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
