"""Where requests begin in a file that is not compressed: its new part is read without what comes before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from esker.otlp.framing import Framing, framing_of, is_bare_request
from esker.otlp.requests import MAX_REQUEST
from esker.otlp.unpack import Limited, Stream, is_packed
from esker.otlp.wire import Malformed, read_varint

_STEP = 1 << 20


@dataclass(frozen=True, slots=True)
class Begin:
    """A byte at which a request begins. It is known to be one as long as the framing of the file is the same."""

    framing: Framing
    at: int = 0
    lines: int = 0  # before it, where the file has lines


def begin_of(
    file: BinaryIO, at: int, *, size: int, limit: int = MAX_REQUEST, known: Begin | None = None
) -> Begin | None:
    """From where a file of ``size`` bytes has to be read to find all requests that end behind ``at``: the last place at
    or before it where a request begins. Only a line that is longer than ``limit`` is passed over. ``known`` is an
    earlier answer for the same content. None where reading has to begin at the start."""
    framing = _framing(file, size, limit)
    if framing not in (Framing.LINES, Framing.BIG_ENDIAN, Framing.VARINT):
        return None
    known = _usable(known, framing, at)
    return (
        _begin_of_line(file, known, at, size, limit) if framing is Framing.LINES else _begin_of_frame(file, known, at)
    )


def ends_in_mid_request(file: BinaryIO, size: int, *, limit: int = MAX_REQUEST, known: Begin | None = None) -> bool:
    """Whether a file that may still be written to, and has that size now, ends in the middle of a line or frame."""
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
    """None: it is compressed."""
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
    """From frame to frame, by their lengths; no further than a length that is none, as a reader."""
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
