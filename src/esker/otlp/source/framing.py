"""Detects the framing of requests in a source from its content, and finds where the new part of a grown file begins.

The user does not name the framing. In a file that is not compressed, the new part is read without the part before it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import BinaryIO

from esker.otlp.protocol.wire import SIZED, Malformed, fields, read_varint
from esker.otlp.source.decompress import ZSTD, Limited, Stream, is_packed
from esker.otlp.source.requests import MAX_REQUEST

# ---------------------------------------------------------------- detecting the framing


_HEAD = 1 << 16
_SPACE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
# An object, and a member's name or its end. A request in protobuf may begin with a newline and a brace, but not with
# these.
_JSON = re.compile(rb'(?:\xef\xbb\xbf)?[ \t\r\n]*\{[ \t\r\n]*(?:"[^\x00-\x1f]|\})')
_LONGEST_WORD = 16  # of JSON, with a margin: a word that is cut is refused at its beginning
SPOOL_MAGIC = b"ESKSPL1\n"


class Framing(Enum):
    """Where one request ends and the next begins. Recorded plans contain these words."""

    NOTHING = "nothing"
    LINES = "lines"  # of JSON
    DOCUMENT = "document"  # one JSON document over many lines
    VARINT = "varint"  # protobuf, each after its length
    BIG_ENDIAN = (
        "big_endian"  # the collector's file exporter: four bytes of length, then JSON, protobuf or zstd of either
    )
    BARE = "bare"  # one request and nothing else
    SPOOL = "spool"  # the receiver's own


def framing_of(stream: Stream, limit: int) -> Framing:
    """The framing of an uncompressed source, read from its start. Requests have at most ``limit`` bytes."""
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
    """Whether the bytes are one whole request in protobuf."""
    return _is_request(data, cut=False)


def is_json_object(head: bytes) -> bool:
    """Whether the bytes begin like a JSON object."""
    return _JSON.match(head) is not None


def _of_json(stream: Stream, limit: int) -> Framing:
    """Lines, if the first line is a whole document; else one document, if all of it is one."""
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
    """Whether a JSON document may begin like this. So a file of lines is not read as a whole only because its first
    line is damaged."""
    text = cut.decode(errors="replace")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.msg.startswith("Unterminated string") or error.pos > len(text) - _LONGEST_WORD
    except RecursionError:
        return True
    return True


def _is_big_endian(head: bytes, limit: int) -> bool:
    """Whether a possible length is followed by what the exporter writes."""
    size = int.from_bytes(head[:4], "big")
    if len(head) < 4 or not 0 < size <= limit:
        return False
    content = head[4 : 4 + size]
    return content[:1] == b"\n" or content[:4] == ZSTD or is_json_object(content)


def _is_varint(head: bytes) -> bool:
    """Whether these are two frames with a request each, or one frame and the end, as far as they can be seen."""
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
    """Whether the message has resources and nothing else; if it is cut, at least the beginning of the first."""
    if cut:
        return data[:1] == b"\n"
    try:
        return all(field.number == 1 and field.wire == SIZED for field in fields(data, 0, len(data)))
    except Malformed:
        return False


def _is_spoilt_text(head: bytes) -> bool:
    """Whether these are lines of JSON of which the first is damaged."""
    return any(is_json_object(line) for line in head.split(b"\n")[1:])


# ---------------------------------------------------------------- finding the new part of an uncompressed file


_STEP = 1 << 20


@dataclass(frozen=True, slots=True)
class Begin:
    """A byte at which a request begins. It stays right as long as the framing of the file is the same."""

    framing: Framing
    at: int = 0
    lines: int = 0  # before it, if the file has lines


def begin_of(
    file: BinaryIO, at: int, *, size: int, limit: int = MAX_REQUEST, known: Begin | None = None
) -> Begin | None:
    """Where to begin reading a file of ``size`` bytes to find all requests that end after ``at``: the last beginning of
    a request at or before ``at``. Only a line that is longer than ``limit`` is skipped. ``known`` is an earlier result
    for the same content. Returns None if reading has to begin at the start."""
    framing = _framing(file, size, limit)
    if framing not in (Framing.LINES, Framing.BIG_ENDIAN, Framing.VARINT):
        return None
    known = _usable(known, framing, at)
    return (
        _begin_of_line(file, known, at, size, limit) if framing is Framing.LINES else _begin_of_frame(file, known, at)
    )


def ends_in_mid_request(file: BinaryIO, size: int, *, limit: int = MAX_REQUEST, known: Begin | None = None) -> bool:
    """Whether a file of this size, which may still be written to, ends in the middle of a line or frame."""
    match framing := _framing(file, size, limit):
        case Framing.LINES:
            file.seek(size - 1)
            return file.read(1) != b"\n"
        case Framing.BIG_ENDIAN | Framing.VARINT:
            return _begin_of_frame(file, _usable(known, framing, size), size).at < size
        case Framing.BARE:
            file.seek(0)
            return not is_bare_request(file.read(min(size, limit)))
        case _:
            return False


def _framing(file: BinaryIO, size: int, limit: int) -> Framing | None:
    """The framing; None if the file is compressed."""
    file.seek(0)
    stream = Stream(Limited(file, size))
    return None if is_packed(stream.peek(4)) else framing_of(stream, limit)


def _usable(known: Begin | None, framing: Framing, at: int) -> Begin:
    return Begin(framing) if known is None or known.framing is not framing or known.at > at else known


def _begin_of_line(file: BinaryIO, known: Begin, at: int, size: int, limit: int) -> Begin:
    place, begin, lines = known.at, known.at, known.lines
    file.seek(place)
    while place < at and (block := file.read(min(_STEP, at - place))):
        lines += block.count(b"\n")
        if (last := block.rfind(b"\n")) >= 0:
            begin = place + last + 1
        place += len(block)
    if at - begin > limit and (behind := _behind_line(file, at, size)) is not None:
        return Begin(known.framing, behind, lines + 1)
    return Begin(known.framing, begin, lines)


def _behind_line(file: BinaryIO, at: int, size: int) -> int | None:
    file.seek(at)
    while at < size and (block := file.read(min(_STEP, size - at))):
        found = block.find(b"\n")
        if found >= 0:
            return at + found + 1
        at += len(block)
    return None


def _begin_of_frame(file: BinaryIO, known: Begin, at: int) -> Begin:
    """Go from frame to frame by their lengths, up to an impossible length, like a reader."""
    begin = known.at
    while begin < at:
        file.seek(begin)
        end = _end_of_frame(file.read(10), begin, known.framing)
        if end is None or end > at:
            break
        begin = end
    return Begin(known.framing, begin)


def _end_of_frame(head: bytes, at: int, framing: Framing) -> int | None:
    if framing is Framing.BIG_ENDIAN:
        return at + 4 + int.from_bytes(head[:4], "big") if len(head) >= 4 else None
    try:
        length, used = read_varint(head, 0, len(head))
    except Malformed:
        return None
    return at + used + length
