"""Random OTLP requests by the protocol's own descriptors, and their JSON as the specification wants it."""

from __future__ import annotations

import base64
import json
import math
import random
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from esker.otlp.protocol.messages import Signal

REQUESTS: dict[Signal, type[Message]] = {
    Signal.LOGS: ExportLogsServiceRequest,
    Signal.TRACES: ExportTraceServiceRequest,
    Signal.METRICS: ExportMetricsServiceRequest,
}
_IDS = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}
_TEXTS = ("", "a", "GET /x", "é☃𝄞", 'quo"te\\', "tab\there\x01", "x" * 200, "service.name")
_KEYS = ("service.name", "http.method", "k", "", "é", "a.b", *(f"key{n}" for n in range(30)))
_DOUBLES = (0.0, -0.0, 1.0, 0.1, 1e300, -2.5e-300, 123456789.0, 1e9, 1e16, math.nan, math.inf, -math.inf, 5e-324)


def random_request(signal: Signal, chance: random.Random, *, most: int = 4) -> Message:
    """A request with every field now and then, valid by the protocol."""
    message = REQUESTS[signal]()
    _fill(message, chance, most, 0)
    return message


def _fill(message: Message, chance: random.Random, most: int, depth: int) -> None:
    descriptor: Descriptor = message.DESCRIPTOR
    chosen = {one.name: chance.choice([*one.fields, None]) for one in descriptor.oneofs if len(one.fields) > 1}
    for field in descriptor.fields:
        if field.name.endswith("strindex"):
            continue
        oneof = field.containing_oneof
        if oneof is not None and oneof.name in chosen:
            if chosen[oneof.name] is field:
                _set(message, field, chance, most, depth)
        elif depth < 3 or chance.random() < 0.6:
            _set(message, field, chance, most, depth)


def _set(message: Message, field: FieldDescriptor, chance: random.Random, most: int, depth: int) -> None:
    if field.message_type is not None:
        if depth > 9 and field.message_type.name in ("ArrayValue", "KeyValueList"):
            return
        if field.is_repeated:
            for _ in range(chance.randint(0, most if depth < 4 else 2)):
                _fill(getattr(message, field.name).add(), chance, most, depth + 1)
            if field.name == "attributes" and chance.random() < 0.05:
                for _ in range(chance.randint(13, 40)):  # more than are compared each with each
                    getattr(message, field.name).add().key = chance.choice(_KEYS)
        else:
            getattr(message, field.name).SetInParent()
            _fill(getattr(message, field.name), chance, most, depth + 1)
    elif field.is_repeated:
        getattr(message, field.name).extend(_scalar(field, chance) for _ in range(chance.randint(0, 3)))
    else:
        setattr(message, field.name, _scalar(field, chance))


def _scalar(field: FieldDescriptor, chance: random.Random) -> Any:
    if field.name in _IDS:
        return chance.choice((b"", chance.randbytes(_IDS[field.name]), bytes(_IDS[field.name])))
    match field.type:
        case field.TYPE_DOUBLE:
            return chance.choice((*_DOUBLES, chance.uniform(-1e6, 1e6)))
        case field.TYPE_BOOL:
            return chance.random() < 0.5
        case field.TYPE_STRING:
            return chance.choice(_KEYS if field.name == "key" else _TEXTS)
        case field.TYPE_BYTES:
            return chance.randbytes(chance.randint(0, 9))
        case field.TYPE_FIXED64 | field.TYPE_UINT64:
            return chance.choice((0, 1, 1_700_000_000_123_456_789, (1 << 63) - 1))
        case field.TYPE_INT64 | field.TYPE_SFIXED64:
            return chance.choice((0, -1, 200, -(1 << 63), (1 << 63) - 1))
        case field.TYPE_UINT32 | field.TYPE_FIXED32:
            return chance.choice((0, 1, 300, (1 << 32) - 1))
        case field.TYPE_ENUM:
            return chance.choice((0, 1, 2, 3, 17))
        case _:
            return chance.choice((0, -1, 5, -(1 << 31), (1 << 31) - 1))


def to_json(message: Message, *, lax: random.Random | None = None) -> bytes:
    """The request in OTLP's JSON; with ``lax`` now and then in the forms that senders use against the rules."""
    return json.dumps(_json(message, lax), ensure_ascii=bool(lax and lax.random() < 0.5)).encode()


def _json(message: Message, lax: random.Random | None) -> dict[str, Any]:
    found = {}
    for field, value in message.ListFields():
        values = (
            [_json_value(field, one, lax) for one in value] if field.is_repeated else _json_value(field, value, lax)
        )
        found[field.json_name] = values
    return found


def _json_value(field: FieldDescriptor, value: Any, lax: random.Random | None) -> Any:
    odd = lax is not None and lax.random() < 0.5
    match field.type:
        case field.TYPE_MESSAGE:
            return _json(value, lax)
        case field.TYPE_BYTES:
            return value.hex() if field.name in _IDS and not odd else base64.b64encode(value).decode()
        case field.TYPE_INT64 | field.TYPE_UINT64 | field.TYPE_FIXED64 | field.TYPE_SFIXED64:
            return value if odd else str(value)
        case field.TYPE_ENUM:
            member = field.enum_type.values_by_number.get(value)
            return member.name if odd and member is not None else value
        case field.TYPE_DOUBLE if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case _:
            return value
