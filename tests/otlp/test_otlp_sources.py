"""Requests are found in every framing and compression, by content alone."""

from __future__ import annotations

import gzip
import io
import random
import struct
from functools import cache
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from otlp_files import (
    JSON_FRAMES,
    PACKS,
    PROTOBUF_FRAMES,
    Frame,
    Pack,
    after_lengths,
    indented,
    lines,
    of_the_exporter,
    spool,
)
from otlp_messages import random_request, to_json

from esker.otlp.decoding.signals import signal_of_json, signal_of_protobuf
from esker.otlp.protocol.messages import Signal
from esker.otlp.source.read_requests import read_file, read_requests
from esker.otlp.source.requests import Request


def found(data: bytes, *, limit: int = 1 << 24) -> list[Request]:
    return list(read_requests(io.BytesIO(data), source="file", limit=limit))


def troubles(requests: list[Request]) -> list[tuple[str, str]]:
    return [(one.trouble.word, one.trouble.sentence) for one in requests if one.trouble]


def some(count: int, seed: int = 3) -> list[bytes]:
    made = (random_request(Signal.TRACES, random.Random(seed + at)).SerializeToString() for at in range(9999))
    return [data for _, data in zip(range(count), filter(None, made), strict=False)]


@cache
def some_json(count: int, seed: int = 3) -> list[bytes]:
    return [to_json(random_request(Signal.LOGS, random.Random(seed + at))) for at in range(count)]


@pytest.mark.parametrize("pack", PACKS, ids=lambda pack: pack.__name__)
@pytest.mark.parametrize("frame", PROTOBUF_FRAMES, ids=lambda frame: frame.__name__)
@given(count=st.integers(1, 6), seed=st.integers(0, 1 << 20))
def test_protobuf_is_found_in_every_framing(frame: Frame, pack: Pack, count: int, seed: int) -> None:
    requests = some(count, seed)
    assert [(one.data, one.json, one.trouble) for one in found(pack(frame(requests)))] == [
        (data, False, None) for data in requests
    ]


@pytest.mark.parametrize("pack", PACKS, ids=lambda pack: pack.__name__)
@pytest.mark.parametrize("frame", JSON_FRAMES, ids=lambda frame: frame.__name__)
@given(count=st.integers(1, 6), seed=st.integers(0, 1 << 20))
def test_json_is_found_in_every_framing(frame: Frame, pack: Pack, count: int, seed: int) -> None:
    requests = some_json(count, seed)
    assert [(one.data, one.json, one.trouble) for one in found(pack(frame(requests)))] == [
        (data, True, None) for data in requests
    ]


@pytest.mark.parametrize("pack", PACKS, ids=lambda pack: pack.__name__)
def test_a_lone_request_needs_no_framing(pack: Pack, tmp_path: Path) -> None:
    [bare], [text] = some(1), some_json(1)
    assert [(one.data, one.json) for one in found(pack(bare))] == [(bare, False)]
    assert [(one.data, one.json) for one in found(pack(indented(text)))] == [(indented(text), True)]
    assert [(one.data, one.json) for one in found(pack(text))] == [(text, True)]
    (tmp_path / "x").write_bytes(pack(bare))
    assert [one.source for one in read_file(tmp_path / "x")] == [str(tmp_path / "x")]


def test_a_place_is_the_offset_in_what_was_unpacked_and_the_line() -> None:
    requests = some_json(3)
    places = [(one.offset, one.line) for one in found(gzip.compress(lines(requests)))]
    assert places == [(0, 1), (len(requests[0]) + 1, 2), (len(requests[0]) + len(requests[1]) + 2, 3)]
    assert [one.offset for one in found(of_the_exporter(some(2)))] == [0, len(some(2)[0]) + 4]


@pytest.mark.parametrize(
    "data", [b"", b"\n\n \r\n", gzip.compress(b""), zstandard.compress(b"")], ids=["empty", "blank", "gzip", "zstd"]
)
def test_a_file_of_nothing_has_no_requests(data: bytes) -> None:
    assert found(data) == []


def test_a_spoilt_first_line_does_not_hide_the_lines_after_it() -> None:
    requests = found(b"not JSON at all\n" + lines(some_json(2)))
    assert [one.data for one in requests] == [b"not JSON at all", *some_json(2)]
    cut = found(b'{"resourceLogs": [\n' + lines(some_json(2)))
    assert [one.line for one in cut] == [1, 2, 3]


def test_a_frame_cut_short_is_told_with_what_is_left_of_it() -> None:
    for framed in (after_lengths(some(3)), of_the_exporter(some(3)), spool(some(3))):
        requests = found(framed[:-5])
        assert [one.data for one in requests[:2]] == some(2)
        [(word, sentence)] = troubles(requests)
        assert word == "truncated"
        assert "ends" in sentence
        assert requests[2].data
        assert framed[:-5].endswith(requests[2].data)


def test_a_frame_that_is_too_long_is_passed_over() -> None:
    long = b"\x0a\x90\x4e" + bytes(10_000)
    for framed in (after_lengths, of_the_exporter):
        requests = found(framed([*some(1), long, *some(1)]), limit=9_000)
        assert [one.data for one in requests if not one.trouble] == [*some(1), *some(1)]
        assert troubles(requests) == [
            ("too_large", "a frame of 10003 bytes is longer than 9000; only its first 65536 bytes are kept")
        ]
    text = lines([*some_json(1), b'{"' + b"x" * 20_000, *some_json(1)])
    requests = found(text, limit=9_000)
    assert [one.data for one in requests if not one.trouble] == [*some_json(1), *some_json(1)]
    assert troubles(requests) == [
        ("too_large", "line 2 is longer than 9000 bytes; only its first 65536 bytes are kept")
    ]


@pytest.mark.parametrize("pack", PACKS[1:], ids=lambda pack: pack.__name__)
def test_a_damaged_archive_gives_what_is_before_the_damage(pack: Pack) -> None:
    requests = some_json(400)
    packed = pack(lines(requests))
    read = found(packed[: len(packed) * 3 // 4])
    whole = [one.data for one in read if not one.trouble]
    assert whole[:-1] == requests[: len(whole) - 1]
    assert len(whole) > 10
    [(word, sentence)] = troubles(read)
    assert word == "damaged_compression"
    assert sentence.endswith("what comes after it is not read")


def test_an_object_that_inflates_without_bound_is_not_inflated() -> None:
    bomb = zstandard.compress(bytes(1 << 26))
    requests = found(of_the_exporter([bomb, *some(1)]), limit=1 << 20)
    assert [one.data for one in requests if not one.trouble] == some(1)
    assert troubles(requests) == [("damaged_compression", "it decompresses to more than 1048576 bytes")]


@given(data=st.binary(max_size=200) | st.text(max_size=99).map(str.encode), pack=st.sampled_from(PACKS))
def test_no_bytes_break_the_reader(data: bytes, pack: Pack) -> None:
    for one in found(pack(data), limit=100):
        assert len(one.data) <= 1 << 16


@pytest.mark.parametrize("signal", list(Signal))
@given(seed=st.integers(0, 1 << 32))
def test_a_signal_is_told_from_its_records(signal: Signal, seed: int) -> None:
    message = real(signal, random.Random(seed))
    assert signal_of_protobuf(message.SerializeToString()) is signal
    assert signal_of_json(to_json(message)) is signal


def real(signal: Signal, chance: random.Random) -> object:
    """A request as senders make them: spans have ids and times, metrics have points."""
    message = random_request(signal, chance)
    for resource in getattr(message, message.DESCRIPTOR.fields[0].name):
        for scope in getattr(resource, resource.DESCRIPTOR.fields_by_number[2].name):
            for record in getattr(scope, scope.DESCRIPTOR.fields_by_number[2].name):
                if signal is Signal.TRACES:
                    record.trace_id, record.span_id = chance.randbytes(16), chance.randbytes(8)
                    record.start_time_unix_nano = 1_700_000_000_000_000_000
                elif signal is Signal.METRICS:
                    record.name = "http.server.request.duration"
                    if record.WhichOneof("data") is None:
                        record.gauge.data_points.add().as_int = 5
                elif signal is Signal.LOGS:
                    record.time_unix_nano = 1_700_000_000_000_000_000
    if not message.SerializeToString():
        return real(signal, chance)
    first = next(
        (
            record
            for resource in getattr(message, message.DESCRIPTOR.fields[0].name)
            for scope in getattr(resource, resource.DESCRIPTOR.fields_by_number[2].name)
            for record in getattr(scope, scope.DESCRIPTOR.fields_by_number[2].name)
        ),
        None,
    )
    return message if first is not None else real(signal, chance)


def test_a_document_of_another_kind_has_no_signal() -> None:
    assert signal_of_json(b'{"spans": []}') is None
    assert signal_of_json(b"[1, 2]") is None
    assert signal_of_json(b"{}") is Signal.TRACES
    assert signal_of_json(b'{"resourceSpans": [], "resourceLogs": []}') is None
    key = b'{"resourceSpans": [{"resource": {"attributes": [{"key": "resourceLogs"}]}}]}'
    assert signal_of_json(key) is Signal.TRACES


def test_a_segment_with_a_flipped_bit_is_read_up_to_it() -> None:
    data = bytearray(spool(some(3)))
    data[len(spool(some(1))) + 40] ^= 1
    requests = found(bytes(data))
    assert [one.data for one in requests if not one.trouble] == some(1)
    assert troubles(requests) == [("malformed", "a frame of the segment does not match its checksum")]


def test_a_length_of_four_bytes_is_no_length_if_nothing_stands_behind_it() -> None:
    data = struct.pack(">I", 5) + b"hello"
    assert [one.data for one in found(data)] == [data]
