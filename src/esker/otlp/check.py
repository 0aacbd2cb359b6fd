"""What a request holds, counted without keeping it: how the receiver knows what to answer."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from esker.otlp.messages import PROGRAMS, Signal
from esker.otlp.signals import NO_SIGNAL, is_empty_json, signal_of_json
from esker.otlp.walk import REASONS, Walker, walker

_LIMIT = 576 << 20


@dataclass(frozen=True, slots=True)
class Verdict:
    """How many records can be kept and how many cannot; ``refused`` if not even the request can be read."""

    records: int
    rejected: int = 0
    reason: str = ""  # of the first that cannot be kept
    refused: bool = False


class Checker:
    """Looks at requests; one walk for each thread and signal."""

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._own = threading.local()

    def check(self, data: bytes, signal: Signal, *, json: bool) -> Verdict:
        """The verdict on a request."""
        if json and signal_of_json(data) is not signal and not is_empty_json(data):
            return Verdict(0, 1, NO_SIGNAL, refused=True)
        walk = self._walker(signal)
        code, records, _, bad = walk.feed(data, 0, json)
        walk.finish()
        if code:
            return Verdict(0, 1, REASONS[code].sentence, refused=True)
        if not bad:
            return Verdict(records)
        reason = REASONS[bad[0][0]].sentence
        whole = any(len(places) == 1 for _, places in bad)
        return Verdict(records, len(bad), reason, refused=whole)

    def _walker(self, signal: Signal) -> Walker:
        walks: dict[str, Walker] = self._own.__dict__
        if signal not in walks:
            walks[signal] = walker(PROGRAMS[signal], limit=_LIMIT, strict=self._strict)
        return walks[signal]
