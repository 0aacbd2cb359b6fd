"""What is read of Kafka: the broker, the topics, where to begin, what to do about gaps; and ranges of offsets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from esker.errors import InvalidInput

# ---------------------------------------------------------------- ranges
#
# Places in topics: which partition, how far, from where to where.


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


# ---------------------------------------------------------------- source
#
# What is read of Kafka, and how: the broker, the topics, where to begin, what to do about gaps.


TIMEOUT_S = 60.0
SERVERS = "bootstrap.servers"


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics by name."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """Topics whose whole name matches; those that come later too."""

    text: str


@dataclass(frozen=True, slots=True)
class Assigned:
    """Some partitions alone."""

    places: tuple[Partition, ...]


Subscription = Topics | Pattern | Assigned
Starting = Literal["earliest", "latest"] | Positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Everything that reading needs to be told; safe to pickle."""

    config: Mapping[str, str]  # of librdkafka
    subscription: Subscription
    starting: Starting = "earliest"
    fail_on_loss: bool = True  # else what is gone is passed over and counted
    timeout_s: float = TIMEOUT_S  # without a sign of life

    @property
    def servers(self) -> str:
        """Where the broker is asked for, for messages."""
        return self.config.get(SERVERS, "?")


def topics_of(text: str) -> Topics:
    """Names between commas."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name):
            raise InvalidInput(f"cannot subscribe to {text!r}: {name!r} is no name of a topic", topic=name)
    return Topics(names)


def pattern_of(text: str) -> Pattern:
    """A regular expression, checked."""
    try:
        re.compile(text)
    except re.error as error:
        raise InvalidInput(f"cannot subscribe to topics like {text!r}: {error}") from error
    return Pattern(text)


def assigned_of(text: str) -> Assigned:
    """Partitions as Spark's own source takes them: ``{"topic": [0, 1]}``."""
    try:
        found = [Partition(topic, number) for topic, numbers in json.loads(text).items() for number in numbers]
    except (ValueError, AttributeError, TypeError, RecursionError):
        found = []
    if not found or any(type(place.number) is not int or place.number < 0 for place in found):
        raise InvalidInput(f'cannot assign partitions: it takes {{"topic": [0, 1]}}, not {text!r}')
    return Assigned(tuple(sorted(set(found))))
