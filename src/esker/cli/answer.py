"""Prints the answer of a command: as JSON for a program, or on a screen for a person.

JSON values are exact, and have the same form in every command.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import UUID

from esker.cli.shared_options import current_settings

if TYPE_CHECKING:
    from esker.cli.screen import Screen


# ---------------------------------------------------------------- values for JSON


def plain(value: Any) -> Any:
    """Return the value in types that JSON has: times as ISO 8601, decimals as text, bytes as hex, no NaN."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Decimal() | UUID():
            return str(value)
        case Enum():
            return plain(value.value)
        case Mapping():
            return {str(key): plain(held) for key, held in value.items()}
        case list() | tuple():
            return [plain(held) for held in value]
        case set() | frozenset():
            return sorted((plain(held) for held in value), key=str)
        case _:
            return str(value)


def to_json(value: Any, indent: int | None = 2) -> str:
    """Return the value as JSON text. It is escaped if the encoding of stdout is not UTF-8."""
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "").replace("_", "")
    return json.dumps(plain(value), indent=indent, ensure_ascii=encoding != "utf8")


def iso(timestamp_ms: int | None) -> str | None:
    """Return a time as ISO 8601 in UTC; None if no calendar date exists for it."""
    from datetime import UTC

    if timestamp_ms is None:
        return None
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return None


# ---------------------------------------------------------------- printing


def answer(facts: Mapping[str, Any], show: Callable[[Screen], None]) -> None:
    """Print the facts as one JSON document if ``--json`` was given; otherwise call ``show``."""
    if current_settings().as_json:
        print_json(facts)
        return
    from esker.cli.screen import Screen

    screen = Screen()
    show(screen)
    screen.show()


def print_json(facts: Mapping[str, Any]) -> None:
    """Print one document, with every number exact."""
    sys.stdout.write(to_json(facts) + "\n")
    sys.stdout.flush()


def print_json_rows(facts: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print one document whose last member ``rows`` may be long.

    The document is written to a temporary file first and printed when it is complete. So a failure never leaves half a
    document on stdout.
    """
    import shutil
    from tempfile import SpooledTemporaryFile

    head = to_json(facts)
    with SpooledTemporaryFile(max_size=8 << 20, mode="w+", encoding="utf-8", errors="backslashreplace") as draft:
        draft.write(head.removesuffix("}").rstrip("\n") + (",\n" if facts else "") + '  "rows": [')
        between = "\n    "
        for row in rows:
            draft.write(between + to_json(row, indent=None))
            between = ",\n    "
        draft.write(("\n  " if between.startswith(",") else "") + "]\n}\n")
        draft.seek(0)
        shutil.copyfileobj(draft, sys.stdout)
    sys.stdout.flush()
