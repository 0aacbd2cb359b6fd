"""What a request holds, counted without keeping it: how the receiver knows what to answer."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from esker.otlp.messages import PROGRAMS, Signal
from esker.otlp.signals import NO_SIGNAL, is_empty_json, signal_at_start, signal_of_json
from esker.otlp.walk import FULL, REASONS, Walker, walker

COLUMNS = 64 << 20  # bytes that a check may take for the columns of a request
_SMALL = 1 << 20
_JSON_SHARE = 4  # JSON is made protobuf first, which may be several times as long


@dataclass(frozen=True, slots=True)
class Verdict:
    """How many records can be kept and how many cannot; ``refused`` if not even the request can be read.

    A request that takes more memory to check than there is counts as one that can be kept: the ingest, which has the
    memory, makes dead letters of what cannot. ``records`` is 0 then, and ``checked`` is False."""

    records: int
    rejected: int = 0
    reason: str = ""  # of the first that cannot be kept
    refused: bool = False
    checked: bool = True


_UNCHECKED = Verdict(0, checked=False)


class Checker:
    """Looks at requests, one at a time: the walk takes memory, and holds the interpreter anyway."""

    def __init__(self, *, strict: bool = False, columns: int = COLUMNS) -> None:
        self._strict, self._columns = strict, columns
        self._walks: dict[Signal, Walker] = {}
        self._turn = threading.Lock()

    def check(self, data: bytes | bytearray, signal: Signal, *, json: bool) -> Verdict:
        """The verdict on a request."""
        with self._turn:
            if json and len(data) > self._columns // _JSON_SHARE:
                return _UNCHECKED
            if json and signal_at_start(data) is not signal:
                if len(data) > _SMALL:
                    return _UNCHECKED  # the whole document would have to be read into objects
                if signal_of_json(data) is not signal and not is_empty_json(data):
                    return Verdict(0, 1, NO_SIGNAL, refused=True)
            return self._walk(data, signal, json)

    def _walk(self, data: bytes | bytearray, signal: Signal, json: bool) -> Verdict:
        walk = self._walks.pop(signal, None) or walker(PROGRAMS[signal], limit=self._columns, strict=self._strict)
        code, records, _, bad = walk.feed(data, 0, json)
        if len(data) <= _SMALL and code != FULL:
            walk.finish()
            self._walks[signal] = walk  # one that has grown goes, with its memory
        if code == FULL:
            return _UNCHECKED
        if code:
            return Verdict(0, 1, REASONS[code].sentence, refused=True)
        if not bad:
            return Verdict(records)
        reason = REASONS[bad[0][0]].sentence
        whole = any(len(places) == 1 for _, places in bad)
        return Verdict(records, len(bad), reason, refused=whole)
