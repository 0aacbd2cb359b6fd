"""A request as it was found: its bytes, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass

from esker.otlp.protocol.messages import Signal

MAX_REQUEST = 64 << 20  # bytes; the collector's own default for what it takes over HTTP


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why bytes are no request: a word for programs, and a sentence for people."""

    word: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One Export request, or what stands where one should."""

    source: str | None  # file, topic or listener; None: nobody knows
    offset: int | None  # of its first byte in the source, unpacked, or of the message
    data: bytes
    json: bool = False
    signal: Signal | None = None  # None: to be told from its content
    end: int | None = None  # in the source, behind its last byte; None where what follows it cannot be told apart
    line: int | None = None  # counted from 1, where the source has lines
    trouble: Trouble | None = None  # the bytes cannot be decoded

    def is_behind(self, start: int) -> bool:
        """Whether it was not to be had when its source was only so long: it begins behind that, or was cut there."""
        return (self.offset or 0) >= start or (self.end is not None and self.end > start)
