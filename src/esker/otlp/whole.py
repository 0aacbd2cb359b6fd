"""Requests that come whole, with nothing around them: messages of Kafka, values of a column."""

from __future__ import annotations

from esker.otlp.framing import is_json_object
from esker.otlp.requests import MAX_REQUEST, Request, Trouble
from esker.otlp.sources import KEPT


def whole_request(data: bytes, *, source: str | None, offset: int | None, limit: int = MAX_REQUEST) -> Request:
    """One request, protobuf or JSON, whichever it is; without a place where there is none."""
    if len(data) > limit:
        sentence = f"a request of {len(data)} bytes is longer than {limit}; its first {KEPT} bytes are kept here"
        return Request(source=source, offset=offset, data=data[:KEPT], trouble=Trouble("too_large", sentence))
    return Request(source=source, offset=offset, data=data, json=is_json_object(data))


def place_of(topic: str, partition: int) -> str:
    """How a partition of a topic is named as a source."""
    return f"{topic}/{partition}"
