"""A file of the spool: requests as they came over HTTP, each in a frame that tells what it is and whether it is whole.

8 bytes   magic
then for each request, all numbers big-endian:
4 bytes   size of the content
1 byte    signal: 1 logs, 2 traces, 3 metrics
1 byte    encoding: 1 protobuf, 2 JSON
1 byte    1 if it was refused: the client was told so, and the content goes to the dead letters
1 byte    0
8 bytes   when it came, in milliseconds since 1970
4 bytes   CRC-32 of the 16 bytes above and the content
content
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from esker.otlp.framing import SPOOL_MAGIC
from esker.otlp.messages import Signal
from esker.otlp.requests import Request, Trouble
from esker.otlp.unpack import Stream

_HEAD = struct.Struct(">IBBBBQ")
_CRC = struct.Struct(">I")
_SIGNALS = (Signal.LOGS, Signal.TRACES, Signal.METRICS)
FRAME_OVERHEAD = _HEAD.size + _CRC.size


def frame(data: bytes, *, signal: Signal, json: bool, refused: bool, received_at_ms: int) -> bytes:
    """A request as it is written."""
    head = _HEAD.pack(len(data), _SIGNALS.index(signal) + 1, 1 + json, refused, 0, received_at_ms)
    return head + _CRC.pack(zlib.crc32(data, zlib.crc32(head))) + data


def whole_length(stream: Stream, limit: int) -> int:
    """How many bytes of a segment are its magic and whole frames; what follows was never acknowledged."""
    end = len(stream.read(len(SPOOL_MAGIC)))
    while True:
        found = _next(stream, limit)
        if not isinstance(found, tuple):
            return end
        end = stream.offset


def read_segment(stream: Stream, source: str, limit: int) -> Iterator[Request]:
    """The requests of a segment."""
    stream.read(len(SPOOL_MAGIC))
    while True:
        offset = stream.offset
        match _next(stream, limit):
            case None:
                return
            case Trouble() as trouble:
                yield Request(source=source, offset=offset, data=stream.read(1 << 16), trouble=trouble)
                return
            case signal, json, refused, data:
                reason = Trouble("refused", "the receiver could not decode it and said so") if refused else None
                yield Request(source=source, offset=offset, data=data, json=json, signal=signal, trouble=reason)


def _next(stream: Stream, limit: int) -> tuple[Signal, bool, bool, bytes] | Trouble | None:
    """The next request; None at the end; else what is wrong with what comes next, which is left unread."""
    head = stream.peek(FRAME_OVERHEAD)
    if not head:
        return None
    if len(head) < FRAME_OVERHEAD:
        return Trouble("truncated", "the segment ends inside the head of a frame")
    size, signal, encoding, refused, _, _ = _HEAD.unpack(head[: _HEAD.size])
    if size > limit or not 1 <= signal <= len(_SIGNALS) or encoding not in (1, 2):
        return Trouble("malformed", "the head of a frame of the segment says what no frame does")
    content = stream.peek(FRAME_OVERHEAD + size)[FRAME_OVERHEAD:]
    if len(content) < size:
        return Trouble("truncated", "the segment ends inside a frame")
    (checksum,) = _CRC.unpack(head[_HEAD.size :])
    if zlib.crc32(content, zlib.crc32(head[: _HEAD.size])) != checksum:
        return Trouble("malformed", "a frame of the segment has another checksum than it says")
    stream.read(FRAME_OVERHEAD + size)
    return _SIGNALS[signal - 1], encoding == 2, bool(refused), content
