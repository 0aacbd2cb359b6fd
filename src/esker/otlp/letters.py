"""A dead letter as the request that it was, to be decoded again."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from esker.otlp.messages import Signal
from esker.otlp.requests import Request, Trouble

COLUMNS = ("raw", "source", "offset", "signal", "error_class", "error")

# Of these not all bytes are there: decoding what is would tell another story than the letter does.
_CUT = frozenset(("too_large", "truncated", "damaged_compression"))


def request_of(row: Mapping[str, Any]) -> Request:
    """The request of a row that has ``COLUMNS``; one whose bytes are not all there carries the letter's trouble."""
    raw: bytes = row["raw"] or b""
    signal = None
    if row["signal"] is not None:
        with suppress(ValueError):
            signal = Signal(row["signal"])
    is_cut = row["error_class"] in _CUT
    return Request(
        source=row["source"],
        offset=row["offset"],
        data=raw,
        json=raw.lstrip()[:1] == b"{",
        signal=signal,
        trouble=Trouble(row["error_class"], row["error"] or "") if is_cut else None,
    )
