"""What the receiver answers, in the words of OTLP over HTTP: protobuf to who sent protobuf, JSON to who sent JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from esker.otlp.messages import Signal
from esker.otlp.wire import VARINT, sized, varint

PROTOBUF, JSON = "application/x-protobuf", "application/json"
_REJECTED = {Signal.LOGS: "rejectedLogRecords", Signal.TRACES: "rejectedSpans", Signal.METRICS: "rejectedDataPoints"}


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP response."""

    status: int
    body: bytes = b""
    content_type: str = PROTOBUF
    headers: dict[str, str] = field(default_factory=dict)


def accepted(signal: Signal, *, as_json: bool, rejected: int = 0, reason: str = "") -> Answer:
    """200: everything is kept, or all but ``rejected`` records, which the client must not send again."""
    if as_json:
        partial = {_REJECTED[signal]: str(rejected), "errorMessage": reason}
        return Answer(200, json.dumps({"partialSuccess": partial} if rejected else {}).encode(), JSON)
    if not rejected:
        return Answer(200)
    return Answer(200, sized(1, varint(1 << 3 | VARINT) + varint(rejected) + sized(2, reason.encode())))


def failed(status: int, message: str, *, as_json: bool, retry_after_s: int | None = None) -> Answer:
    """An error, with a ``google.rpc.Status``; one to be tried again says when."""
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    if as_json:
        return Answer(status, json.dumps({"message": message}).encode(), JSON, headers)
    return Answer(status, sized(2, message.encode()), PROTOBUF, headers)
