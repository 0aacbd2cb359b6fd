"""Reads requests of senders, and limits their use of memory, time and connections.

Memory is claimed as bytes arrive and as they are decompressed, never by the length that a sender announces. A sender is
disconnected if it is silent, below a rate, or takes too long for a head or a body.
"""

from __future__ import annotations

import http.client
import io
import math
import socket
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from esker.errors import InvalidInput
from esker.otlp.source.decompress import STEP, Coding, inflate_steps
from esker.otlp.source.requests import MAX_REQUEST

SMALL = 1 << 20  # requests up to this size have room even if large ones use all their room, and never wait for a turn
_PIECE = 1 << 16
_HEAD = 1 << 16  # bytes of a request's head
_LARGE_SHARE = 3 / 4  # of the memory, for requests that are not small


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits for senders. The times are derived from the time for a body."""

    request: int = MAX_REQUEST  # bytes of a body, as sent and decompressed
    memory: int = 256 << 20  # bytes of all requests at a time, as sent and decompressed
    connections: int = 512
    body_s: float = 60.0
    rate: int = 1024  # bytes per second, the lowest rate of a body

    def __post_init__(self) -> None:
        if not 0 < self.request <= MAX_REQUEST:
            raise InvalidInput(f"Cannot take requests of {self.request} bytes: an ingest reads up to {MAX_REQUEST}")
        if self.memory * _LARGE_SHARE < 2 * self.request:
            least = -(-8 * self.request // 3) >> 20
            raise InvalidInput(
                f"Cannot receive with {self.memory} bytes of memory: a request may take {self.request} bytes "
                f"compressed and as many decompressed, and small ones need more; give --memory {least + 1}M or more"
            )

    @property
    def window_s(self) -> float:
        """How long a body may be below the rate, how long a head may take, and how long a request waits for its
        turn."""
        return self.body_s / 6

    @property
    def idle_s(self) -> float:
        """How long a connection is kept without a request."""
        return self.body_s / 2


class NoRoom(Exception):
    """Other requests use too much memory at the moment."""


class TooLong(Exception):
    """A body is longer than a request may be."""


class Unreadable(Exception):
    """A body that ends too early, or with chunks that cannot be read."""


class TooSlow(TimeoutError):
    """A sender that sends too slowly."""


class Memory:
    """Counts the bytes that all requests hold."""

    def __init__(self, limit: int) -> None:
        self._limit, self._held, self._lock = limit, 0, threading.Lock()

    def claim(self, size: int, *, small: bool) -> bool:
        """Claim more bytes. Returns False if there is no room."""
        with self._lock:
            if self._held + size > self._limit * (1 if small else _LARGE_SHARE):
                return False
            self._held += size
            return True

    def give_back(self, size: int) -> None:
        """Return bytes to the others."""
        with self._lock:
            self._held -= size


class Held:
    """The memory that one request holds. A context manager that returns all of it."""

    def __init__(self, memory: Memory) -> None:
        self._memory, self._size = memory, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.shrink(0)

    def grow(self, size: int) -> None:
        """Hold ``size`` bytes in total. Raises ``NoRoom`` if there is no room."""
        more = size - self._size
        if more > 0:
            if not self._memory.claim(more, small=size <= SMALL):
                raise NoRoom
            self._size = size

    def shrink(self, size: int) -> None:
        """Hold at most ``size`` bytes from now on."""
        if size < self._size:
            self._memory.give_back(self._size - size)
            self._size = size


class PacedSocket(io.RawIOBase):
    """A connection whose sender must keep up. Reading raises ``TooSlow`` if it does not."""

    def __init__(self, connection: socket.socket, limits: Limits) -> None:
        super().__init__()
        self._socket, self._limits = connection, limits
        self.expect_head()

    def readable(self) -> bool:
        return True

    def expect_head(self) -> None:
        """Expect a request: it may begin late, but then its head must come soon."""
        self._expect(self._limits.idle_s)
        self._head_left = _HEAD

    def expect_body(self) -> None:
        """Expect a body, which must keep to the rate."""
        self._expect(self._limits.body_s)
        self._begin_window(time.monotonic())

    def drop_rest(self) -> None:
        """Read and discard what still comes, for a limited time."""
        self._expect(self._limits.window_s)
        while self.readinto(bytearray(_PIECE)):
            pass

    def _expect(self, seconds: float) -> None:
        self._until, self._window_until = time.monotonic() + seconds, math.inf
        self._window_left = self._head_left = 0

    def _begin_window(self, now: float) -> None:
        self._window_until = now + self._limits.window_s
        self._window_left = int(self._limits.rate * self._limits.window_s)

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        """Read up to as many bytes as the buffer has; 0 at the end."""
        while True:
            now = time.monotonic()
            if now >= self._window_until and self._window_left <= 0:
                self._begin_window(now)
            wait = min(self._until, self._window_until) - now
            if wait <= 0:
                raise TooSlow("the sender is too slow")
            self._socket.settimeout(wait)
            try:
                size = self._socket.recv_into(buffer)
            except TimeoutError:
                continue
            self._window_left -= size
            if self._head_left:
                self._count_head(size)
            return size

    def _count_head(self, size: int) -> None:
        if self._head_left == _HEAD:
            self._until = time.monotonic() + self._limits.window_s
        self._head_left -= size
        if self._head_left <= 0:
            raise http.client.LineTooLong("head of the request")


def read_plain(source: io.BufferedReader[PacedSocket], size: int, held: Held) -> bytearray:
    """Read a body of a known length. Raises ``NoRoom``, ``Unreadable`` or ``TooSlow``."""
    body = bytearray()
    _read_on(source, size, body, held)
    return body


def _read_on(source: io.BufferedReader[PacedSocket], size: int, body: bytearray, held: Held) -> None:
    end = len(body) + size
    while len(body) < end:
        step = min(_PIECE, end - len(body))
        held.grow(len(body) + step)
        found = source.read1(step)
        if not found:
            raise Unreadable("the body is shorter than its length says")
        body += found


def read_chunks(source: io.BufferedReader[PacedSocket], most: int, held: Held) -> bytearray:
    """Read a body in chunks. Raises as ``read_plain``, and ``TooLong``."""
    body = bytearray()
    while True:
        line = source.readline(1024).partition(b";")[0].strip()
        try:
            size = int(line, 16) if line.isalnum() else -1
        except ValueError:
            size = -1
        if size < 0:
            raise Unreadable("the chunks of the body cannot be read")
        if len(body) + size > most:
            raise TooLong
        if size == 0:
            while source.readline(1024).strip():
                pass
            return body
        _read_on(source, size, body, held)
        if source.readline(1024).strip():
            raise Unreadable("the chunks of the body cannot be read")


class Turns:
    """Lets large requests be decompressed and checked one after the other, because each may need much memory."""

    def __init__(self, wait_s: float) -> None:
        self._wait_s, self._lock = wait_s, threading.Lock()

    def take(self) -> None:
        """Wait for a turn. Raises ``NoRoom`` if none comes in time."""
        if not self._lock.acquire(timeout=self._wait_s):
            raise NoRoom

    def end(self) -> None:
        """End the turn."""
        self._lock.release()


class Unpacking:
    """A body while it is decompressed and checked. A context manager that ends its turn and returns its memory."""

    def __init__(self, turns: Turns, held: Held, most: int) -> None:
        self._turns, self._held, self._most, self._has_turn = turns, held, most, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._has_turn:
            self._turns.end()

    def unpack(self, body: bytearray, coding: Coding) -> bytearray:
        """Return the decompressed body. Raises ``NoRoom``, ``TooLong``, or ``Damaged`` if it cannot be decompressed.

        If the body turns out to be large, its memory is returned and it begins again when it has its turn.
        """
        if len(body) <= SMALL:
            try:
                return self._unpack(body, coding, min(SMALL, self._most))
            except (NoRoom, TooLong):
                self._held.shrink(len(body))
        self._turns.take()
        self._has_turn = True
        return self._unpack(body, coding, self._most)

    def _unpack(self, body: bytearray, coding: Coding, most: int) -> bytearray:
        if coding is Coding.IDENTITY:
            return body
        found = bytearray()
        steps = inflate_steps(body, coding)
        while True:
            self._held.grow(len(body) + len(found) + STEP)
            step = next(steps, None)
            if step is None:
                return found
            found += step
            if len(found) > most:
                raise TooLong
