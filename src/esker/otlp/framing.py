"""How requests lie in a source, told from its content: nobody has to say which framing it is."""

from __future__ import annotations

import json
import re
from enum import Enum, auto
from typing import BinaryIO

from esker.otlp.unpack import ZSTD, Stream
from esker.otlp.wire import SIZED, Malformed, fields, read_varint

_HEAD = 1 << 16
_SPACE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
# An object, and a member's name or its end: a request in protobuf may well begin with a newline and a brace, but not
# with these.
_JSON = re.compile(rb'(?:\xef\xbb\xbf)?[ \t\r\n]*\{[ \t\r\n]*(?:"[^\x00-\x1f]|\})')
SPOOL_MAGIC = b"ESKSPL1\n"


class Framing(Enum):
    """Where one request ends and the next begins."""

    NOTHING = auto()
    LINES = auto()  # of JSON
    DOCUMENT = auto()  # one of JSON, over many lines
    VARINT = auto()  # protobuf, each after its length
    BIG_ENDIAN = auto()  # the collector's file exporter: four bytes of length, then JSON, protobuf or zstd of either
    BARE = auto()  # one request and nothing else
    SPOOL = auto()  # the receiver's own


def framing_of(stream: Stream, limit: int) -> Framing:
    """The framing of a source that is not compressed, looked at from its start; requests are at most ``limit`` long."""
    head = stream.peek(_HEAD)
    if head.startswith(SPOOL_MAGIC):
        return Framing.SPOOL
    if not head.removeprefix(_BOM).lstrip(_SPACE):
        return Framing.NOTHING if len(head) < _HEAD else Framing.LINES
    if is_json_object(head):
        return _of_json(stream, limit)
    if _is_big_endian(head, limit):
        return Framing.BIG_ENDIAN
    if _is_varint(head):
        return Framing.VARINT
    return Framing.LINES if _is_spoilt_text(head) else Framing.BARE


def ends_in_mid_request(file: BinaryIO, size: int, limit: int) -> bool:
    """Whether a file that may be written to still, of that size now, stops in the middle of a line or a frame."""
    match framing_of(Stream(file), limit):
        case Framing.LINES:
            file.seek(size - 1)
            return file.read(1) != b"\n"
        case Framing.BIG_ENDIAN | Framing.VARINT as framing:
            at = 0
            while at < size:
                file.seek(at)
                at = _end_of_frame(file.read(10), at, framing)
            return at > size
        case Framing.BARE:
            file.seek(0)
            return not _is_request(file.read(min(size, limit)), cut=False)
        case _:
            return False


def _end_of_frame(head: bytes, at: int, framing: Framing) -> int:
    if framing is Framing.BIG_ENDIAN:
        return at + 4 + (int.from_bytes(head[:4], "big") if len(head) >= 4 else 0)
    try:
        length, used = read_varint(head, 0, len(head))
    except Malformed:
        return at + len(head) + 1  # the length itself is cut
    return at + used + length


def is_json_object(head: bytes) -> bool:
    """Whether it begins as an object in JSON does."""
    return _JSON.match(head) is not None


def _of_json(stream: Stream, limit: int) -> Framing:
    """Lines, where the first is a document of its own; else one document, if the whole is one."""
    size = _HEAD
    while True:
        head = stream.peek(size)
        first, newline, _ = head.removeprefix(_BOM).lstrip(_SPACE).partition(b"\n")
        if newline or len(head) < size or size > limit:
            break
        size *= 4
    if _is_json(first) or (head := stream.peek(limit + 1))[limit:]:
        return Framing.LINES
    return Framing.DOCUMENT if _is_json(head.removeprefix(_BOM)) else Framing.LINES


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _is_big_endian(head: bytes, limit: int) -> bool:
    """A length that can be, and behind it what the exporter writes."""
    size = int.from_bytes(head[:4], "big")
    if len(head) < 4 or not 0 < size <= limit:
        return False
    content = head[4 : 4 + size]
    return content[:1] == b"\n" or content[:4] == ZSTD or is_json_object(content)


def _is_varint(head: bytes) -> bool:
    """Two frames that hold a request each, or one and the end; as much of them as can be seen."""
    at = seen = 0
    while seen < 2:
        if at == len(head):
            return seen > 0
        try:
            size, start = read_varint(head, at, len(head))
        except Malformed:
            return False
        end = start + size
        if not _is_request(head[start:end], cut=end > len(head)):
            return False
        if end > len(head):
            return len(head) == _HEAD
        at = end
        seen += size > 0
    return True


def _is_request(data: bytes, *, cut: bool) -> bool:
    """Resources and nothing else; if cut, at least the first one's beginning."""
    if cut:
        return data[:1] == b"\n"
    try:
        return all(field.number == 1 and field.wire == SIZED for field in fields(data, 0, len(data)))
    except Malformed:
        return False


def _is_spoilt_text(head: bytes) -> bool:
    """Lines of JSON of which the first is damaged."""
    return any(is_json_object(line) for line in head.split(b"\n")[1:])
