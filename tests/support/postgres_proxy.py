"""A proxy between a client and PostgreSQL that knows where messages begin, and spoils the connection at any of them.

Messages of both directions are numbered from 1 as they pass, from the moment that a fault was set.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path


class Fault(Enum):
    """What happens to a message."""

    CUT_BEFORE = "the connection ends before the message is delivered"
    CUT_AFTER = "the connection ends when the message is delivered, before anything else is"
    SWALLOW = "the message and all that follow are lost, and the connection stays open"
    DELAY = "the message is delivered later"
    LATE = "the message is delivered only when the client has given up"


@dataclass
class Proxy:
    """A listening proxy. ``passed`` describes each message since the last fault was set: ``>COMMIT``, ``<C``."""

    upstream: Path
    port: int = 0
    passed: list[str] = field(default_factory=list)
    delay_seconds: float = 0.05
    _fault: tuple[Fault, Callable[[int, str], bool]] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _open: list[socket.socket] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)
    _is_over: bool = False
    refuses: bool = False  # new connections

    def set(self, fault: Fault | None, at: int | str = 0) -> None:
        """Spoil the message of that number, or the first that is described so; None: no more faults."""
        with self._lock:
            self.passed.clear()
            chosen: Callable[[int, str], bool] = lambda number, text: at in (number, text)  # noqa: E731
            self._fault = None if fault is None else (fault, chosen)

    def cut_all(self) -> None:
        """End every connection now."""
        with self._lock:
            for side in self._open:
                _shut(side)
            self._open.clear()

    def stop(self) -> None:
        """End it, and every connection with it."""
        self._is_over = True
        self.cut_all()
        for thread in self._threads:
            thread.join(10)

    def serve(self, listener: socket.socket) -> None:
        """Take connections until it is over."""
        with listener:
            while not self._is_over:
                try:
                    client, _ = listener.accept()
                except TimeoutError:
                    continue
                if self.refuses:
                    client.close()
                    continue
                server = socket.socket(socket.AF_UNIX)
                try:
                    server.connect(str(self.upstream))
                except OSError:  # the server is gone: so is the client's connection
                    client.close()
                    continue
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self._lock:
                    self._open += [client, server]
                pair = _Pair()
                for source, target, sign in ((client, server, ">"), (server, client, "<")):
                    thread = threading.Thread(target=self._pump, args=(source, target, sign, pair), daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _pump(self, source: socket.socket, target: socket.socket, sign: str, pair: _Pair) -> None:
        try:
            for kind, message in _messages(source, starts=sign == ">"):
                if pair.is_lost:
                    continue  # read and drop
                fault = self._noted(sign + _described(kind, message, sign))
                if not self._handled(fault, source, target, message, pair):
                    return
        except OSError:
            pass
        finally:
            _shut(source)
            _shut(target)

    def _handled(
        self, fault: Fault | None, source: socket.socket, target: socket.socket, message: bytes, pair: _Pair
    ) -> bool:
        match fault:
            case None:
                target.sendall(message)
            case Fault.DELAY:
                time.sleep(self.delay_seconds)
                target.sendall(message)
            case Fault.SWALLOW:
                pair.is_lost = True
            case Fault.LATE:
                while source.recv(1 << 16):  # until the client has given up
                    pass
                time.sleep(self.delay_seconds)
                target.sendall(message)
                time.sleep(self.delay_seconds)
                return False
            case Fault.CUT_BEFORE:
                return False
            case Fault.CUT_AFTER:
                _shut(source, socket.SHUT_WR)  # nothing comes back to who sent it
                target.sendall(message)
                return False
        return True

    def _noted(self, text: str) -> Fault | None:
        with self._lock:
            self.passed.append(text)
            if self._fault is not None and self._fault[1](len(self.passed), text):
                fault, self._fault = self._fault[0], None
                return fault
            return None


@dataclass
class _Pair:
    """What both directions of a connection share."""

    is_lost: bool = False


@contextmanager
def proxy_to(upstream: Path) -> Iterator[Proxy]:
    """A proxy on a free port of this machine."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.1)
    proxy = Proxy(upstream, listener.getsockname()[1])
    thread = threading.Thread(target=proxy.serve, args=(listener,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.stop()
        thread.join(10)


def _messages(source: socket.socket, *, starts: bool) -> Iterator[tuple[str, bytes]]:
    """The messages that come in, each whole, with their types. The first of a client has none."""
    if starts:
        head = _exactly(source, 4)
        if head is None:
            return
        rest = _exactly(source, struct.unpack("!I", head)[0] - 4)
        if rest is None:
            return
        yield "startup", head + rest
    while (head := _exactly(source, 5)) is not None:
        rest = _exactly(source, struct.unpack("!I", head[1:])[0] - 4)
        if rest is None:
            return
        yield chr(head[0]), head + rest


def _exactly(source: socket.socket, size: int) -> bytes | None:
    parts = b""
    while len(parts) < size:
        part = source.recv(size - len(parts))
        if not part:
            return None
        parts += part
    return parts


def _described(kind: str, message: bytes, sign: str) -> str:
    if (sign, kind) in ((">", "Q"), ("<", "C")):  # a statement, and what was done
        return message[5:-1].decode().split()[0]
    return kind


def _shut(side: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    with suppress(OSError):
        side.shutdown(how)
    if how == socket.SHUT_RDWR:
        with suppress(OSError):
            side.close()
