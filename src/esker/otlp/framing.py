"""How requests lie in a source, told from its content: nobody has to say which framing it is."""

from __future__ import annotations

import json
import re
from enum import Enum

from esker.otlp.unpack import ZSTD, Stream
from esker.otlp.wire import SIZED, Malformed, fields, read_varint

_HEAD = 1 << 16
_SPACE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
# An object, and a member's name or its end: a request in protobuf may well begin with a newline and a brace, but not
# with these.
_JSON = re.compile(rb'(?:\xef\xbb\xbf)?[ \t\r\n]*\{[ \t\r\n]*(?:"[^\x00-\x1f]|\})')
_LONGEST_WORD = 16  # of JSON, and more: a word that is cut is refused where it begins
SPOOL_MAGIC = b"ESKSPL1\n"


class Framing(Enum):
    """Where one request ends and the next begins. Plans on disk have these words."""

    NOTHING = "nothing"
    LINES = "lines"  # of JSON
    DOCUMENT = "document"  # one of JSON, over many lines
    VARINT = "varint"  # protobuf, each after its length
    BIG_ENDIAN = (
        "big_endian"  # the collector's file exporter: four bytes of length, then JSON, protobuf or zstd of either
    )
    BARE = "bare"  # one request and nothing else
    SPOOL = "spool"  # the receiver's own


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


def is_bare_request(data: bytes) -> bool:
    """Whether bytes are one whole request in protobuf."""
    return _is_request(data, cut=False)


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
    if _is_json(first) or (len(head) == size and not _may_go_on(head.removeprefix(_BOM))):
        return Framing.LINES
    if (head := stream.peek(limit + 1))[limit:]:
        return Framing.LINES
    return Framing.DOCUMENT if _is_json(head.removeprefix(_BOM)) else Framing.LINES


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _may_go_on(cut: bytes) -> bool:
    """Whether a document in JSON may begin so. A file of lines whose first is damaged is not read as a whole for it."""
    text = cut.decode(errors="replace")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.msg.startswith("Unterminated string") or error.pos > len(text) - _LONGEST_WORD
    except RecursionError:
        return True
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
