"""Places in topics: which partition, how far, from where to where."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from esker.errors import InvalidInput

EARLIEST, LATEST = -2, -1  # in place of an offset, as Kafka itself spells them


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"partition {self.number} of {self.topic}"


Positions = Mapping[Partition, int]  # the offset that is to be read next


class Bounds(NamedTuple):
    """What a broker has of a partition: offsets from ``low`` up to, not with, ``high``."""

    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Messages of one partition, from ``start`` up to, not with, ``end``; not every offset need have one."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def place(self) -> Partition:
        """Of which partition."""
        return Partition(self.topic, self.partition)


def as_json(positions: Positions) -> dict[str, dict[str, int]]:
    """Positions as Spark's own source writes them: by topic, then by partition."""
    found: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(positions.items()):
        found.setdefault(topic, {})[str(number)] = offset
    return found


def positions_of(given: Any, what: str) -> dict[Partition, int]:
    """Positions out of such a document, or of its text; ``what`` names it where it is none."""
    try:
        document = json.loads(given) if isinstance(given, str) else given
        found = {
            Partition(topic, int(number)): offset
            for topic, partitions in document.items()
            for number, offset in partitions.items()
        }
    except (ValueError, AttributeError, RecursionError):
        found = {Partition("", -1): -3}
    if any(type(offset) is not int or offset < EARLIEST or place.number < 0 for place, offset in found.items()):
        raise InvalidInput(f'cannot use {what}: it takes {{"topic": {{"0": 23, "1": -2}}}}, not {given!r}', option=what)
    return found
