"""A file of the spool: requests as they came over HTTP, each in a frame with its description and a checksum.

8 bytes   magic
then for each request, all numbers big-endian:
4 bytes   size of the content
1 byte    signal: 1 logs, 2 traces, 3 metrics
1 byte    encoding: 1 protobuf, 2 JSON
1 byte    1 if it was refused: the client knows it, and the content goes to the dead letters
1 byte    compression of the content, as it came: 0 none, 1 gzip, 2 deflate (in zlib's framing)
8 bytes   when it arrived, in milliseconds since 1970
4 bytes   CRC-32 of the 16 bytes above and the content
content
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from esker.otlp.protocol.messages import Signal
from esker.otlp.source.decompress import Coding, Damaged, Stream, inflated
from esker.otlp.source.framing import SPOOL_MAGIC
from esker.otlp.source.requests import Request, Trouble

_HEAD = struct.Struct(">IBBBBQ")
_CRC = struct.Struct(">I")
_SIGNALS = (Signal.LOGS, Signal.TRACES, Signal.METRICS)
FRAME_OVERHEAD = _HEAD.size + _CRC.size


def frame_head(
    data: bytes | bytearray,
    *,
    signal: Signal,
    json: bool,
    refused: bool,
    received_at_ms: int,
    coding: Coding = Coding.IDENTITY,
) -> bytes:
    """The bytes that are written before a request, which may be compressed."""
    head = _HEAD.pack(len(data), _SIGNALS.index(signal) + 1, 1 + json, refused, coding, received_at_ms)
    return head + _CRC.pack(zlib.crc32(data, zlib.crc32(head)))


def frame(data: bytes, *, signal: Signal, json: bool, refused: bool, received_at_ms: int) -> bytes:
    """A request with its frame."""
    return frame_head(data, signal=signal, json=json, refused=refused, received_at_ms=received_at_ms) + data


@dataclass(frozen=True, slots=True)
class _Frame:
    """A whole frame; its content is as it was sent."""

    signal: Signal
    json: bool
    refused: bool
    coding: Coding
    content: bytes

    def request(self, source: str, offset: int, limit: int) -> Request:
        """The request, decompressed."""
        try:
            data = inflated(self.content, self.coding, limit)
            trouble = Trouble("refused", "the receiver could not decode it and answered so") if self.refused else None
        except Damaged as damage:
            data, trouble = self.content, Trouble("damaged_compression", str(damage))
        return Request(source=source, offset=offset, data=data, json=self.json, signal=self.signal, trouble=trouble)


def whole_length(stream: Stream, limit: int) -> int:
    """How many bytes of a segment are its magic and whole frames."""
    end = len(stream.read(len(SPOOL_MAGIC)))
    while isinstance(_next(stream, limit), _Frame):
        end = stream.offset
    return end


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
            case _Frame() as found:
                yield found.request(source, offset, limit)


def _next(stream: Stream, limit: int) -> _Frame | Trouble | None:
    """The next frame; None at the end. If the next bytes are not a frame, what is wrong with them; then nothing is
    read."""
    head = stream.peek(FRAME_OVERHEAD)
    if not head:
        return None
    if len(head) < FRAME_OVERHEAD:
        return Trouble("truncated", "the segment ends inside the head of a frame")
    size, signal, encoding, refused, coding, _ = _HEAD.unpack(head[: _HEAD.size])
    if size > limit or not 1 <= signal <= len(_SIGNALS) or encoding not in (1, 2) or coding > max(Coding):
        return Trouble("malformed", "the head of a frame of the segment has values that no frame has")
    content = stream.peek(FRAME_OVERHEAD + size)[FRAME_OVERHEAD:]
    if len(content) < size:
        return Trouble("truncated", "the segment ends inside a frame")
    (checksum,) = _CRC.unpack(head[_HEAD.size :])
    if zlib.crc32(content, zlib.crc32(head[: _HEAD.size])) != checksum:
        return Trouble("malformed", "a frame of the segment does not match its checksum")
    stream.read(FRAME_OVERHEAD + size)
    return _Frame(_SIGNALS[signal - 1], encoding == 2, bool(refused), Coding(coding), content)
