"""Parses an address such as ``kafka://host:9092/topic?…`` into what to read from Kafka."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from esker.errors import InvalidInput
from esker.kafka.client import checked_config
from esker.kafka.subscription import SERVERS, Source, Starting, positions_of, topics_of
from esker.write.properties import switch

SCHEME = "kafka://"


def is_address(text: str) -> bool:
    """Return whether the text starts with ``kafka://``."""
    return text.lower().startswith(SCHEME)


def source_of(text: str) -> Source:
    """Return the source that an address names.

    Brokers and topics are separated by commas. Known parameters are ``startingOffsets``, ``failOnDataLoss`` and
    ``config``, a file with settings of the client. Every other parameter is a setting of librdkafka. Raises
    ``InvalidInput`` if the address, the file or a setting is not valid.
    """
    parts = urlsplit(text)
    topics = unquote(parts.path.strip("/"))
    if not is_address(text) or not parts.netloc or not topics or "/" in topics:
        raise InvalidInput(
            f"cannot read {text}: it is not of the form kafka://host:9092/topic; separate several brokers or topics "
            "by commas"
        )
    if "@" in parts.netloc:
        raise InvalidInput(
            "cannot read from Kafka: an address must not contain a user and password; put sasl.username and "
            "sasl.password into a file, and add ?config=FILE"
        )
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    named: dict[str, str] = {
        name: given.pop(name) for name in ("startingOffsets", "failOnDataLoss", "config") if name in given
    }
    servers = ",".join(one if ":" in one else f"{one}:9092" for one in parts.netloc.split(","))
    config = {**(_settings(Path(named["config"])) if "config" in named else {}), **given, SERVERS: servers}
    return Source(
        config=checked_config(config),
        subscription=topics_of(topics),
        starting=_starting(named.get("startingOffsets", "earliest")),
        fail_on_loss=switch(named, "failOnDataLoss", default=True),
    )


def _starting(text: str) -> Starting:
    match text.strip().lower():
        case "earliest":
            return "earliest"
        case "latest":
            return "latest"
        case _:
            return positions_of(text, "startingOffsets")


def _settings(file: Path) -> dict[str, str]:
    """Return the settings in a file: one per line, in the form that Kafka's own tools use."""
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read the settings in {file}: {error}", path=str(file)) from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidInput(f"cannot read the settings in {file}: line {number} is not of the form name = value")
        found[name.strip()] = value.strip()
    return found
