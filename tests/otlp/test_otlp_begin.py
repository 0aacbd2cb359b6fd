"""A file that is read from where its new part begins has the requests that a file read from its start has."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from otlp_files import after_lengths, indented, lines, lines_of_windows, of_the_exporter, spool
from telemetry_samples import logs

from esker.otlp.protocol.wire import sized
from esker.otlp.source.decompress import Stream
from esker.otlp.source.framing import Begin, Framing, begin_of, ends_in_mid_request, framing_of
from esker.otlp.source.read_requests import read_requests
from esker.otlp.source.requests import Request

LIMIT = 400
TEXTS = [logs([number]).strip() for number in range(6)]
MESSAGES = [sized(1, b"r" * size) for size in (3, 0, 90, 200, 7)]
FILES = {
    "lines": lines(TEXTS),
    "lines of windows": lines_of_windows(TEXTS),
    "a damaged first line": b'{"a": [1,\n' + lines(TEXTS),
    "a line that is too long": lines([TEXTS[0], b'{"a": "' + b"x" * 900 + b'"}', *TEXTS[1:]]),
    "empty lines": b"\n\n" + b"\n\n\n".join(TEXTS),
    "lines without an end": lines(TEXTS)[:-9],
    "varint": after_lengths(MESSAGES),
    "varint, cut": after_lengths(MESSAGES)[:-3],
    "varint, a frame that is too long": after_lengths([MESSAGES[0], MESSAGES[2], sized(1, b"r" * 700), *MESSAGES]),
    "varint, a length that is none": after_lengths(MESSAGES[:4]) + b"\xff" * 12 + after_lengths(MESSAGES),
    "big endian": of_the_exporter(MESSAGES),
    "big endian, cut in a length": of_the_exporter(MESSAGES) + struct.pack(">I", 7)[:2],
    "a document": indented(TEXTS[0]),
    "a bare request": sized(1, b"r" * 200),
    "spool": spool(MESSAGES),
    "nothing": b"  \n",
}


def read(data: bytes, begin: Begin | None = None, end: int | None = None) -> list[Request]:
    return list(read_requests(io.BytesIO(data), source="file", limit=LIMIT, begin=begin, end=end))


def begin_in(data: bytes, at: int, *, size: int | None = None, known: Begin | None = None) -> Begin | None:
    return begin_of(io.BytesIO(data), at, size=len(data) if size is None else size, limit=LIMIT, known=known)


@pytest.mark.parametrize("name", FILES)
def test_reading_may_begin_anywhere(name: str) -> None:
    data = FILES[name]
    whole = read(data)
    for at in range(len(data) + 1):
        found = [one for one in read(data, begin_in(data, at)) if one.is_behind(at)]
        assert found == [one for one in whole if one.is_behind(at)], at


@pytest.mark.parametrize("name", FILES)
@given(ends=st.lists(st.integers(0, 2000), min_size=1, max_size=8))
def test_a_file_that_grows_is_read_on_as_from_its_start(name: str, ends: list[int]) -> None:
    """Each time as far as it was then, with the answer that was given for less of it."""
    data = FILES[name]
    known, at = None, 0
    for size in sorted(min(end, len(data)) for end in (*ends, len(data))):
        known = begin_in(data, at, size=size, known=known)
        whole = [one for one in read(data[:size]) if one.is_behind(at)]
        assert [one for one in read(data, known, size) if one.is_behind(at)] == whole
        at = size


@pytest.mark.parametrize("name", ["lines", "varint", "big endian"])
def test_the_end_of_a_request_is_known(name: str) -> None:
    data = FILES[name]
    ends = {one.offset for one in read(data)} | {len(data)}
    for size in range(40, len(data)):
        known = begin_in(data, size // 2, size=size)
        assert known is None or known.at <= size // 2
        if framing_of(Stream(io.BytesIO(data[:size])), LIMIT) is not framing_of(Stream(io.BytesIO(data)), LIMIT):
            continue  # the first frame alone may be anything
        assert ends_in_mid_request(io.BytesIO(data), size, limit=LIMIT, known=known) == (size not in ends), size


class Counting(io.BytesIO):
    """Counts the bytes that are read."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        self.count += len(found)
        return found


@pytest.mark.parametrize(
    "make", [lambda: lines(TEXTS), lambda: after_lengths(MESSAGES), lambda: of_the_exporter(MESSAGES)]
)
def test_the_new_part_of_a_long_file_is_all_that_is_read(make: Callable[[], bytes]) -> None:
    old = make() * (6_000_000 // len(make()))
    file = Counting(old + make())
    known = begin_in(old, len(old))
    assert known is not None
    begin = begin_of(file, len(old), size=len(old) + len(make()), known=known)
    assert begin == known
    assert begin.at == len(old)
    file.seek(0)
    assert len(list(read_requests(file, source="file", begin=begin))) == len(read(make()))
    assert file.count < 600_000


def test_a_file_whose_first_line_is_damaged_is_not_read_as_a_whole() -> None:
    file = Counting(b'{"a": [1,\n' + lines(TEXTS) * 20_000)
    assert framing_of(Stream(file), 1 << 26) is Framing.LINES
    assert file.count < 600_000


@pytest.mark.parametrize("cut", range(65530, 65560, 3))
def test_a_long_document_is_one_wherever_its_first_part_ends(cut: int) -> None:
    text = b'{\n"a": [' + b'"\xc3\xa4\\u00e4 b", -1.5e+10, true, null,\n' * 2000 + b"0]}"
    padded = b"{" + b" " * (cut - 65530) + text[1:]
    assert framing_of(Stream(io.BytesIO(padded)), 1 << 26) is Framing.DOCUMENT
