"""Ages as people write them: ``7d``, ``12h``, ``90 days``."""

from __future__ import annotations

import re
from typing import Any

import click

_AGE = re.compile(r"\s*(\d{1,12})\s*([a-z]+)\s*")
_UNITS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 86_400_000),
}
_LONGEST_MS = (1 << 63) - 1


class Age(click.ParamType[int]):
    """An option's value that is a length of time, in milliseconds."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """``7d`` is 604,800,000."""
        if isinstance(value, int):
            return value
        found = _AGE.fullmatch(str(value).lower())
        if found is None or found[2] not in _UNITS:
            self.fail(f"{value!r} is no length of time: write 7d, 12h, 30m or '90 days'", param, ctx)
        age = int(found[1]) * _UNITS[found[2]]
        if not 0 < age <= _LONGEST_MS:
            self.fail(f"{value!r} is out of range", param, ctx)
        return age
