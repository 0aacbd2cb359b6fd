"""Wall clocks of the session's time zone as instants, as Java computes them for Spark."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone, tzinfo

from esker.errors import InvalidInput

_UTC = frozenset(("UTC", "GMT", "UT", "Z", "ETC/UTC", "ETC/GMT", "ETC/UCT", "ZULU", "+00:00", "-00:00", "UNIVERSAL"))
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")
_FIRST, _LAST = datetime(1, 1, 2), datetime(9999, 12, 30)


def is_utc(zone: str) -> bool:
    """Whether the zone's clocks always show UTC."""
    return zone.strip().upper() in _UTC


def instant_of(wall_nanos: int, zone: str) -> int:
    """Nanoseconds from 1970 in UTC at which the zone's clocks show ``wall_nanos``.

    Where clocks were set back, the earlier of the two; where they were set forward, as much later as was skipped: as
    Java has it, and Python with ``fold=0``.
    """
    if is_utc(zone):
        return wall_nanos
    seconds, rest = divmod(wall_nanos, 1_000_000_000)
    try:
        wall = datetime(1970, 1, 1) + timedelta(seconds=seconds)
        if not _FIRST <= wall <= _LAST:
            raise OverflowError
        ahead = _zone(zone).utcoffset(wall)
    except OverflowError:
        raise InvalidInput(f"cannot place a time so far off in the time zone {zone}") from None
    assert ahead is not None
    return (seconds - round(ahead.total_seconds())) * 1_000_000_000 + rest


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    if match := _OFFSET.fullmatch(name.strip()):
        ahead = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        return timezone(-ahead if match[1] == "-" else ahead)
    try:
        return ZoneInfo(name.strip())
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput(f"the session's time zone {name!r} is not known here") from None
