"""What is read of Kafka, and how: the broker, the topics, where to begin, what to do about gaps."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from esker.errors import InvalidInput
from esker.kafka.ranges import Partition, Positions

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
