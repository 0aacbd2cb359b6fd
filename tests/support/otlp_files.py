"""Files of OTLP in every framing there is."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable, Sequence

import zstandard

from esker.otlp.protocol.messages import Signal
from esker.otlp.protocol.wire import varint
from esker.otlp.source.segment import SPOOL_MAGIC, frame


def lines(requests: Sequence[bytes]) -> bytes:
    return b"".join(request + b"\n" for request in requests)


def lines_of_windows(requests: Sequence[bytes]) -> bytes:
    return b"\xef\xbb\xbf" + b"\r\n\r\n".join(requests)


def after_lengths(requests: Sequence[bytes]) -> bytes:
    return b"".join(varint(len(request)) + request for request in requests)


def of_the_exporter(requests: Sequence[bytes]) -> bytes:
    return b"".join(struct.pack(">I", len(request)) + request for request in requests)


def of_the_exporter_with_zstd(requests: Sequence[bytes]) -> bytes:
    return of_the_exporter([zstandard.compress(request) for request in requests])


def spool(requests: Sequence[bytes], *, signal: Signal = Signal.TRACES, as_json: bool = False) -> bytes:
    frames = (frame(one, signal=signal, json=as_json, refused=False, received_at_ms=1) for one in requests)
    return SPOOL_MAGIC + b"".join(frames)


def indented(request: bytes) -> bytes:
    return json.dumps(json.loads(request), indent=2).encode()


def gzip_twice(data: bytes) -> bytes:
    """Two members, one after the other."""
    return gzip.compress(data[: len(data) // 2]) + gzip.compress(data[len(data) // 2 :])


def zstd_twice(data: bytes) -> bytes:
    return zstandard.compress(data[: len(data) // 2]) + zstandard.compress(data[len(data) // 2 :])


Frame = Callable[[Sequence[bytes]], bytes]
Pack = Callable[[bytes], bytes]
JSON_FRAMES: list[Frame] = [lines, lines_of_windows, of_the_exporter, of_the_exporter_with_zstd]
PROTOBUF_FRAMES: list[Frame] = [after_lengths, of_the_exporter, of_the_exporter_with_zstd, spool]
PACKS: list[Pack] = [bytes, gzip.compress, zstandard.compress, gzip_twice, zstd_twice]
