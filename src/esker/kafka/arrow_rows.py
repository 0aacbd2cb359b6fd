"""Messages as rows, with the columns of Spark's own Kafka source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from confluent_kafka import Message

_BYTES = 16 << 20  # of keys and values in one batch
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
    ]
)
WITH_HEADERS = SCHEMA.append(pa.field("headers", _HEADERS))


def batches_of(groups: Iterable[list[Message]], *, headers: bool) -> Iterator[pa.RecordBatch]:
    """Rows of messages, as they come; no batch holds much more than a few megabytes beyond its last message."""
    waiting: list[Message] = []
    size = 0
    for group in groups:
        for message in group:
            waiting.append(message)
            size += len(message.value() or b"") + len(message.key() or b"") + 64
            if size >= _BYTES:
                yield _batch(waiting, headers=headers)
                waiting, size = [], 0
    if waiting:
        yield _batch(waiting, headers=headers)


def _batch(messages: list[Message], *, headers: bool) -> pa.RecordBatch:
    times = [message.timestamp() for message in messages]
    columns = [
        pa.array([_bytes(message.key()) for message in messages], pa.binary()),
        pa.array([_bytes(message.value()) for message in messages], pa.binary()),
        pa.array([message.topic() for message in messages], pa.string()),
        pa.array([message.partition() for message in messages], pa.int32()),
        pa.array([message.offset() for message in messages], pa.int64()),
        pa.array([ms * 1000 if kind else None for kind, ms in times], pa.timestamp("us", "UTC")),
        pa.array([kind - 1 for kind, _ in times], pa.int32()),  # librdkafka counts from none, Kafka from creation
    ]
    if not headers:
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    listed = [_headers(message) for message in messages]
    return pa.RecordBatch.from_arrays([*columns, pa.array(listed, _HEADERS)], schema=WITH_HEADERS)


def _headers(message: Message) -> list[dict[str, str | bytes | None]] | None:
    found: Any = message.headers()
    return [{"key": key, "value": _bytes(value)} for key, value in found] if found else None


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
