"""Describes what to read from Kafka: the brokers, the topics, where to start, what to do about lost messages.

Also describes partitions, positions and ranges of offsets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from esker.errors import InvalidInput

EARLIEST, LATEST = -2, -1  # Kafka's own numbers in place of an offset


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"partition {self.number} of {self.topic}"


Positions = Mapping[Partition, int]  # the next offset to read


class Bounds(NamedTuple):
    """The offsets that a broker has for a partition: from ``low``, up to but not including ``high``."""

    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Messages of one partition, from ``start`` up to but not including ``end``. Some offsets may have no message."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def place(self) -> Partition:
        """The partition that the range belongs to."""
        return Partition(self.topic, self.partition)


def as_json(positions: Positions) -> dict[str, dict[str, int]]:
    """Return the positions in the form that Spark's own source writes: by topic, then by partition."""
    found: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(positions.items()):
        found.setdefault(topic, {})[str(number)] = offset
    return found


def positions_of(given: Any, what: str) -> dict[Partition, int]:
    """Return the positions in such a document, or in its JSON text.

    Raises ``InvalidInput`` with the name ``what`` otherwise.
    """
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
        raise InvalidInput(
            f'cannot use {what}: it must have the form {{"topic": {{"0": 23, "1": -2}}}}, not {given!r}', option=what
        )
    return found


TIMEOUT_S = 60.0
SERVERS = "bootstrap.servers"


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics, given by name."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """Topics whose whole name matches a regular expression, including topics that are created later."""

    text: str


@dataclass(frozen=True, slots=True)
class Assigned:
    """Single partitions."""

    places: tuple[Partition, ...]


Subscription = Topics | Pattern | Assigned
Starting = Literal["earliest", "latest"] | Positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Everything that a reader needs to know. It can be pickled."""

    config: Mapping[str, str]  # settings of librdkafka
    subscription: Subscription
    starting: Starting = "earliest"
    fail_on_loss: bool = True  # False: lost offsets are skipped and counted
    timeout_s: float = TIMEOUT_S  # how long to wait without any progress

    @property
    def servers(self) -> str:
        """The addresses of the brokers, for messages."""
        return self.config.get(SERVERS, "?")


def topics_of(text: str) -> Topics:
    """Return the topics in a text of names with commas between them.

    Raises ``InvalidInput`` for a name that Kafka does not allow.
    """
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name):
            raise InvalidInput(f"cannot subscribe to {text!r}: {name!r} is not a valid name of a topic", topic=name)
    return Topics(names)


def pattern_of(text: str) -> Pattern:
    """Return the pattern. Raises ``InvalidInput`` if it is not a regular expression."""
    try:
        re.compile(text)
    except re.error as error:
        raise InvalidInput(f"cannot subscribe to topics that match {text!r}: {error}") from error
    return Pattern(text)


def assigned_of(text: str) -> Assigned:
    """Return the partitions in a text of the form that Spark's own source takes: ``{"topic": [0, 1]}``.

    Raises ``InvalidInput`` for any other text.
    """
    try:
        found = [Partition(topic, number) for topic, numbers in json.loads(text).items() for number in numbers]
    except (ValueError, AttributeError, TypeError, RecursionError):
        found = []
    if not found or any(type(place.number) is not int or place.number < 0 for place in found):
        raise InvalidInput(f'cannot assign partitions: the option must have the form {{"topic": [0, 1]}}, not {text!r}')
    return Assigned(tuple(sorted(set(found))))
