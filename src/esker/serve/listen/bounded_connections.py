"""Connections that end if the client neither sends a request nor reads an answer.

The application sees a request when its headers are complete, and its part ends when the answer is handed over. So the
time before and after that is bounded here, where uvicorn has no limit.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from esker.serve.listen.asgi import Limits

_UPGRADE = re.compile(rb"(?<=\r\n)upgrade:[^\r\n]*\r\n", re.IGNORECASE)


class _Bounded(asyncio.Protocol):
    """The part of a connection that has limits. It is mixed with a protocol of uvicorn."""

    headers_seconds: float
    unread_seconds: float
    headers_bytes: int
    _in_headers = False  # httptools, which has no limit of its own, is between the first line and the end of headers
    _in_message = False  # httptools is between the first byte of a request and its last one
    _headers_size = 0

    def on_message_begin(self) -> None:
        """The parser of a request has seen its first byte."""
        self._in_headers = self._in_message = True
        super().on_message_begin()  # type: ignore[misc]  # of uvicorn's protocol

    def on_headers_complete(self) -> None:
        """The parser has seen the last header."""
        self._in_headers = False
        super().on_headers_complete()  # type: ignore[misc]  # of uvicorn's protocol

    def on_message_complete(self) -> None:
        """The parser has seen the end of a request."""
        self._in_message = False
        super().on_message_complete()  # type: ignore[misc]  # of uvicorn's protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's has the methods, but not the class
        self._headers, self._reading = _Alarm(), _Alarm()
        super().connection_made(transport)
        self._headers.set(self.headers_seconds, self._late)

    def data_received(self, data: bytes) -> None:
        was_in_headers = self._in_headers
        if hasattr(self, "parser") and not self._in_message:  # the parser is httptools
            data = _without_upgrade(data)
        super().data_received(data)
        # not the part in which headers begin: it may have the end of another request, too
        self._headers_size = self._headers_size + len(data) if self._in_headers and was_in_headers else 0
        if self._headers_size > self.headers_bytes:
            self._transport.abort()
        if self._has_request():
            self._headers.clear()
        else:
            self._headers.set(self.headers_seconds, self._late)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reading(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._reading.clear()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers.clear()
        self._reading.clear()
        super().connection_lost(exc)

    def _has_request(self) -> bool:
        """Whether a request has been taken and is not answered yet."""
        cycle: Any = getattr(self, "cycle", None)
        return cycle is not None and not cycle.response_complete

    def _late(self) -> None:
        if not self._has_request():
            self._transport.abort()

    def _await_reading(self, left: int) -> None:
        self._reading.set(self.unread_seconds, lambda: self._look(left))

    def _look(self, before: int) -> None:
        left = self._transport.get_write_buffer_size()
        if left >= before:
            self._transport.abort()  # ``close`` would wait until the client reads
        else:
            self._await_reading(left)


def _without_upgrade(data: bytes) -> bytes:
    """The beginning of a request without the header ``Upgrade``.

    Clients of the JDK offer HTTP/2 in it. A server may ignore it, but httptools does not: it drops the body of such a
    request.
    """
    head, end, rest = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(b"", head + b"\r\n") + end[2:] + rest if end and _UPGRADE.search(head + b"\r\n") else data


class _Alarm:
    """Calls a function once, after some time, unless it is cleared before."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float, call: Callable[[], None]) -> None:
        """Set the alarm. One that is set already stays as it is."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._ring, call)

    def clear(self) -> None:
        """Do not call the function."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self, call: Callable[[], None]) -> None:
        self._timer = None
        call()


def bounded_protocol(limits: Limits) -> type[asyncio.Protocol]:
    """The protocol that uvicorn would choose, with limits."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    bounds = {
        "headers_seconds": limits.headers_seconds,
        "headers_bytes": limits.headers_bytes,
        "unread_seconds": limits.unread_seconds,
    }
    return type("BoundedProtocol", (_Bounded, AutoHTTPProtocol), bounds)
