"""The options of ``esker_kafka``. They have the names of Spark's own Kafka source if they mean the same.

Spark passes option names in lower case. An unknown option is refused.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from esker.errors import InvalidInput
from esker.kafka.client import checked_config
from esker.kafka.subscription import (
    SERVERS,
    TIMEOUT_S,
    Positions,
    Source,
    Starting,
    Subscription,
    assigned_of,
    pattern_of,
    positions_of,
    topics_of,
)
from esker.write.properties import switch, whole_number

_ANY = (
    SERVERS,
    "subscribe",
    "topic",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "failOnDataLoss",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
)
STREAM_ONLY, BATCH_ONLY = ("maxOffsetsPerTrigger",), ("endingOffsets",)
PREFIX = "kafka."


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOptions:
    """The options that a user gave. They can be pickled."""

    source: Source
    headers: bool
    ending: Literal["latest"] | Positions = "latest"
    most: int | None = None  # limit for the offsets in one batch of a stream


def read_kafka_options(given: Mapping[str, str], *, stream: bool) -> KafkaOptions:
    """Return the options of a stream or of a batch. Raises ``InvalidInput`` for an unknown option or a wrong value."""
    known = {name.lower(): name for name in (*_ANY, *(STREAM_ONLY if stream else BATCH_ONLY))}
    config: dict[str, str] = {}
    found: dict[str, str] = {}
    for key, value in given.items():
        if key.lower() in known:
            found[known[key.lower()]] = value
        elif key.lower().startswith(PREFIX):
            config[key.lower()[len(PREFIX) :]] = value
        else:
            raise _unknown(key, known, stream=stream)
    if SERVERS in found:
        config[SERVERS] = found[SERVERS]
    patience = whole_number(found, "kafkaConsumer.pollTimeoutMs", int(TIMEOUT_S * 1000), at_least=1)
    return KafkaOptions(
        source=Source(
            config=checked_config(config),
            subscription=_subscription(found),
            starting=_starting(found, stream=stream),
            fail_on_loss=switch(found, "failOnDataLoss", default=True),
            timeout_s=patience / 1000,
        ),
        headers=switch(found, "includeHeaders", default=False),
        ending=_ending(found),
        most=whole_number(found, "maxOffsetsPerTrigger", 0, at_least=1) if "maxOffsetsPerTrigger" in found else None,
    )


def _subscription(found: Mapping[str, str]) -> Subscription:
    named = [name for name in ("subscribe", "topic", "subscribePattern", "assign") if name in found]
    if len(named) != 1:
        raise InvalidInput(
            "cannot tell what to read of Kafka: give one of subscribe, subscribePattern and assign"
            + (f", not {' and '.join(named)}" if named else "")
        )
    text = found[named[0]]
    match named[0]:
        case "assign":
            return assigned_of(text)
        case "subscribePattern":
            return pattern_of(text)
        case _:
            return topics_of(text)


def _starting(found: Mapping[str, str], *, stream: bool) -> Starting:
    text = found.get("startingOffsets", "latest" if stream else "earliest").strip()
    match text.lower():
        case "earliest":
            return "earliest"
        case "latest" if stream:
            return "latest"
        case "latest":
            raise InvalidInput(
                "cannot start a batch at the latest offsets: it would be empty; use earliest, or name offsets",
                option="startingOffsets",
            )
        case _:
            return positions_of(text, "startingOffsets")


def _ending(found: Mapping[str, str]) -> Literal["latest"] | Positions:
    text = found.get("endingOffsets", "latest").strip()
    return "latest" if text.lower() == "latest" else positions_of(text, "endingOffsets")


def _unknown(key: str, known: Mapping[str, str], *, stream: bool) -> InvalidInput:
    others = BATCH_ONLY if stream else STREAM_ONLY
    if key.lower() in {name.lower() for name in others}:
        use = "spark.read" if stream else "spark.readStream"
        return InvalidInput(f"cannot take the option {key} here: it is for {use}", option=key)
    near = difflib.get_close_matches(key.lower(), known, n=1, cutoff=0.6)
    meant = f"did you mean {known[near[0]]}? " if near else ""
    return InvalidInput(
        f"cannot take the option {key!r}: {meant}known are {', '.join(sorted(known.values()))}, and kafka.… for what "
        "librdkafka takes",
        option=key,
    )
