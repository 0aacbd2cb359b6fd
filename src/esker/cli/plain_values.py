"""Any value as JSON has it: exact, and the same for every command."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID


def plain(value: Any) -> Any:
    """The value made of what JSON has: times as ISO 8601, decimals as text, bytes as hex, no NaN."""
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
    """The value as JSON text that stdout can carry: plain where that is UTF-8, escaped where it is not."""
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "").replace("_", "")
    return json.dumps(plain(value), indent=indent, ensure_ascii=encoding != "utf8")


def iso(timestamp_ms: int | None) -> str | None:
    """A time of the tree as ISO 8601 in UTC; None where no calendar reaches."""
    from datetime import UTC

    if timestamp_ms is None:
        return None
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return None
