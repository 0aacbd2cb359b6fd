"""``kafka://host:9092/topic?…``: what is read of Kafka, on one line."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from esker.errors import InvalidInput
from esker.kafka.client import checked_config
from esker.kafka.subscription import SERVERS, Source, Starting, positions_of, topics_of
from esker.write.properties import switch

SCHEME = "kafka://"


def is_address(text: str) -> bool:
    """Whether it is meant as one."""
    return text.lower().startswith(SCHEME)


def source_of(text: str) -> Source:
    """Brokers and topics between commas; of the rest ``startingOffsets``, ``failOnDataLoss``, ``config``, the file of a
    client's settings, and whatever librdkafka takes."""
    parts = urlsplit(text)
    topics = unquote(parts.path.strip("/"))
    if not is_address(text) or not parts.netloc or not topics or "/" in topics:
        raise InvalidInput(f"cannot read {text}: it takes kafka://host:9092/topic, several of each between commas")
    if "@" in parts.netloc:
        raise InvalidInput(
            "cannot read from Kafka: user and password do not belong into an address; put sasl.username and "
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
    """A file of settings, one a line, as Kafka's own tools take them."""
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read the settings {file}: {error}", path=str(file)) from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidInput(f"cannot read the settings {file}: line {number} is not of the form name = value")
        found[name.strip()] = value.strip()
    return found
