"""A request as it was found: its bytes, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass

from esker.otlp.protocol.messages import Signal

MAX_REQUEST = 64 << 20  # bytes; the collector's own default for HTTP


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why bytes are not a request: a word for programs, and a sentence for people."""

    word: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One Export request, or the bytes found in the place of one."""

    source: str | None  # file, topic or listener; None: unknown
    offset: int | None  # of its first byte in the decompressed source, or of the message
    data: bytes
    json: bool = False
    signal: Signal | None = None  # None: to be detected from its content
    end: int | None = None  # in the source, after its last byte; None if the next request cannot be separated from it
    line: int | None = None  # counted from 1, if the source has lines
    trouble: Trouble | None = None  # why the bytes cannot be decoded

    def is_behind(self, start: int) -> bool:
        """Whether it was not complete when its source had only ``start`` bytes: it begins after that, or was cut
        there."""
        return (self.offset or 0) >= start or (self.end is not None and self.end > start)
