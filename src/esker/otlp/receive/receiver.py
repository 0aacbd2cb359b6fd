"""The OTLP receiver: an HTTP server that answers 200 only after a request is durable on disk.

It uses the standard library's threading server; ``intake`` limits what senders can use of it. A body is kept in the
spool as it was sent. It is decompressed to be checked, and again when it is ingested.
"""

from __future__ import annotations

import hmac
import http.client
import io
import ipaddress
import json
import logging
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from esker.errors import InvalidInput, StorageFailed
from esker.otlp.decoding.signals import NO_SIGNAL, is_empty_json, signal_at_start, signal_of_json
from esker.otlp.protocol.messages import PROGRAMS, Signal
from esker.otlp.protocol.walk import FULL, REASONS, Walker, walker
from esker.otlp.protocol.wire import VARINT, sized, varint
from esker.otlp.receive.intake import (
    Held,
    Limits,
    Memory,
    NoRoom,
    PacedSocket,
    TooLong,
    TooSlow,
    Turns,
    Unpacking,
    Unreadable,
    read_chunks,
    read_plain,
)
from esker.otlp.receive.spool import Spool, SpoolFull
from esker.otlp.source.decompress import Coding, Damaged
from esker.otlp.source.segment import frame_head

# ---------------------------------------------------------------- checking: counts the records of a request without
# keeping them


COLUMNS = 64 << 20  # bytes that a check may use for the columns of a request
_SMALL = 1 << 20
_JSON_SHARE = 4  # JSON is rewritten as protobuf first, which may be several times as long


@dataclass(frozen=True, slots=True)
class Verdict:
    """How many records can be kept and how many cannot; ``refused`` if the request cannot be read at all.

    A request that needs too much memory to be checked counts as one that can be kept: the ingest has the memory and
    makes dead letters of bad records. Then ``records`` is 0 and ``checked`` is False.
    """

    records: int
    rejected: int = 0
    reason: str = ""  # of the first record that cannot be kept
    refused: bool = False
    checked: bool = True


_UNCHECKED = Verdict(0, checked=False)


class Checker:
    """Checks requests one at a time: the walk needs memory, and holds the interpreter lock anyway."""

    def __init__(self, *, strict: bool = False, columns: int = COLUMNS) -> None:
        self._strict, self._columns = strict, columns
        self._walks: dict[Signal, Walker] = {}
        self._turn = threading.Lock()

    def check(self, data: bytes | bytearray, signal: Signal, *, json: bool) -> Verdict:
        """Return the verdict on a request."""
        with self._turn:
            if json and len(data) > self._columns // _JSON_SHARE:
                return _UNCHECKED
            if json and signal_at_start(data) is not signal:
                if len(data) > _SMALL:
                    return _UNCHECKED  # the whole document would have to be parsed into objects
                if signal_of_json(data) is not signal and not is_empty_json(data):
                    return Verdict(0, 1, NO_SIGNAL, refused=True)
            return self._walk(data, signal, json)

    def _walk(self, data: bytes | bytearray, signal: Signal, json: bool) -> Verdict:
        walk = self._walks.pop(signal, None) or walker(PROGRAMS[signal], limit=self._columns, strict=self._strict)
        code, records, _, bad = walk.feed(data, 0, json)
        if len(data) <= _SMALL and code != FULL:
            walk.finish()
            self._walks[signal] = walk  # a walker that has grown is dropped, with its memory
        if code == FULL:
            return _UNCHECKED
        if code:
            return Verdict(0, 1, REASONS[code].sentence, refused=True)
        if not bad:
            return Verdict(records)
        reason = REASONS[bad[0][0]].sentence
        whole = any(len(places) == 1 for _, places in bad)
        return Verdict(records, len(bad), reason, refused=whole)


# ---------------------------------------------------------------- answers of OTLP/HTTP: protobuf to senders of
# protobuf, JSON to senders of JSON


PROTOBUF, JSON = "application/x-protobuf", "application/json"
_REJECTED = {Signal.LOGS: "rejectedLogRecords", Signal.TRACES: "rejectedSpans", Signal.METRICS: "rejectedDataPoints"}


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP response."""

    status: int
    body: bytes = b""
    content_type: str = PROTOBUF
    headers: dict[str, str] = field(default_factory=dict)


def accepted(signal: Signal, *, as_json: bool, rejected: int = 0, reason: str = "") -> Answer:
    """200: everything is kept, except ``rejected`` records, which the client must not send again."""
    if as_json:
        partial = {_REJECTED[signal]: str(rejected), "errorMessage": reason}
        return Answer(200, json.dumps({"partialSuccess": partial} if rejected else {}).encode(), JSON)
    if not rejected:
        return Answer(200)
    return Answer(200, sized(1, varint(1 << 3 | VARINT) + varint(rejected) + sized(2, reason.encode())))


def failed(status: int, message: str, *, as_json: bool, retry_after_s: int | None = None) -> Answer:
    """An error with a ``google.rpc.Status``. If it may be tried again, it says when."""
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    if as_json:
        return Answer(status, json.dumps({"message": message}).encode(), JSON, headers)
    return Answer(status, sized(2, message.encode()), PROTOBUF, headers)


# ---------------------------------------------------------------- the server


PORT = 4318
_PATHS = {"/v1/logs": Signal.LOGS, "/v1/traces": Signal.TRACES, "/v1/metrics": Signal.METRICS}
_TYPES = {"application/x-protobuf": False, "application/json": True}
_TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_LEAVES_AFTER_S, _MOST_LEAVING = 2.0, 64
_LOG = logging.getLogger(__name__)


class _Refusal(Exception):
    """The answer to a request that is refused."""

    def __init__(self, status: int, message: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.retry_after_s = retry_after_s


class Receiver(ThreadingHTTPServer):
    """Listens, and writes requests to the spool. Call ``serve_forever`` until ``shutdown``, then ``server_close``, then
    the spool's ``close``. Raises ``InvalidInput`` if it cannot listen."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        spool: Spool,
        *,
        host: str = "127.0.0.1",
        port: int = PORT,
        token: str | None = None,
        strict: bool = False,
        limits: Limits | None = None,
    ) -> None:
        if token is None and not _is_loopback(host):
            raise InvalidInput(f"Cannot listen on {host} without a token: any machine could send; give --token-file")
        self.spool, self.token, self.limits = spool, token, limits or Limits()
        self.memory, self.turns = Memory(self.limits.memory), Turns(self.limits.window_s)
        self.checker = Checker(strict=strict, columns=self.limits.memory // 4)
        self.counts = {"requests": 0, "records": 0, "rejected": 0, "refused": 0, "put_off": 0}
        self.counts["set_aside"] = len(spool.set_aside)
        self._counting, self._connections = threading.Lock(), 0
        self._leaving: deque[tuple[float, socket.socket]] = deque()
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise InvalidInput(f"Cannot listen on {host}:{port}: {error}; choose another --port or --host") from error

    def service_actions(self) -> None:
        """Seal segments that are old enough. Called twice a second."""
        self.spool.seal_if_old()
        self._let_leave(most=_MOST_LEAVING)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log that a client has disconnected: this is not an error of the receiver."""
        _LOG.debug("a connection from %s was closed by the client", client_address, exc_info=True)

    def count(self, **more: int) -> None:
        """Add to the counts."""
        with self._counting:
            for name, value in more.items():
                self.counts[name] += value

    # ---- connections ----

    @property
    def is_crowded(self) -> bool:
        """Whether there are so many connections that each is kept only for one request."""
        return self._connections > self.limits.connections * 3 // 4

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection; if there are too many, answer at once."""
        with self._counting:
            has_room = self._connections < self.limits.connections
            self._connections += has_room
        if not has_room:
            self._turn_away(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # the system has no more threads
            self._forget_connection()
            self._turn_away(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection until it ends."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget_connection()

    def _forget_connection(self) -> None:
        with self._counting:
            self._connections -= 1

    def _turn_away(self, request: socket.socket) -> None:
        """Answer without a thread. The connection is closed a little later: if bytes arrive at a closed connection, the
        client does not get the answer."""
        self.count(put_off=1)
        try:
            request.setblocking(False)
            request.send(_TOO_MANY)
            request.shutdown(socket.SHUT_WR)
        except OSError:
            _LOG.debug("a connection beyond the limit was closed by the client")
        self._leaving.append((time.monotonic() + _LEAVES_AFTER_S, request))
        self._let_leave(most=_MOST_LEAVING)

    def _let_leave(self, *, most: int) -> None:
        now = time.monotonic()
        while self._leaving and (len(self._leaving) > most or self._leaving[0][0] <= now):
            self.shutdown_request(self._leaving.popleft()[1])

    def server_close(self) -> None:
        """Stop listening."""
        super().server_close()
        self._let_leave(most=0)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver
    protocol_version = "HTTP/1.1"
    server_version = "esker"
    sys_version = ""
    disable_nagle_algorithm = True
    wbufsize: ClassVar[int] = -1  # head and body are sent together

    def setup(self) -> None:
        """Read at the pace that is required of senders."""
        super().setup()
        self.rfile.close()
        self._paced = PacedSocket(self.connection, self.server.limits)
        self.rfile = self._source = io.BufferedReader(self._paced)

    def handle_one_request(self) -> None:
        """Wait for a request and answer it."""
        self._paced.expect_head()
        try:
            super().handle_one_request()
        except http.client.LineTooLong:  # in the first line; if a later line is too long, the base class answers
            self.requestline = self.request_version = self.command = ""
            self.close_connection = True
            self.send_error(414)

    def handle_expect_100(self) -> bool:
        """Send 100 Continue to a sender that waits for it."""
        self.send_response_only(100)
        self.end_headers()
        self.wfile.flush()
        return True

    def do_POST(self) -> None:
        """Receive a request."""
        as_json = self._content_type() == JSON
        self._has_unread = True
        try:
            answer = self._take()
        except _Refusal as refusal:
            self.close_connection |= self._has_unread
            if refusal.retry_after_s is not None:
                self.server.count(put_off=1)
            answer = failed(refusal.status, refusal.message, as_json=as_json, retry_after_s=refusal.retry_after_s)
        self.close_connection |= self.server.is_crowded
        self._send(answer)
        if self._has_unread:
            self._linger()

    def do_GET(self) -> None:
        """Refuse GET: there is nothing to read here."""
        self._send(failed(405, "send OTLP by POST to /v1/traces, /v1/logs or /v1/metrics", as_json=True))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a head, and discard what follows it."""
        super().send_error(code, message, explain)
        self.wfile.flush()
        self._linger()

    def log_message(self, format: str, *args: Any) -> None:
        """Log at a level that is off by default."""
        _LOG.debug(format, *args)

    def _linger(self) -> None:
        """Discard a body that is refused: if the connection were closed first, the client would not get the answer."""
        try:
            self.connection.shutdown(socket.SHUT_WR)
            self._paced.drop_rest()
        except OSError:
            return

    def _send(self, answer: Answer) -> None:
        self.connection.settimeout(self.server.limits.window_s)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer.body)
        self.wfile.flush()

    # ---- one request ----

    def _take(self) -> Answer:
        signal, as_json = self._told()
        with Held(self.server.memory) as held:
            body = self._body(held)
            try:
                verdict = self._checked(body, held, signal, as_json)
            except (NoRoom, MemoryError):
                raise _put_off() from None
            except TooLong:
                raise _Refusal(413, f"the body decompresses to more than {self.server.limits.request} bytes") from None
            except Damaged as damage:
                self._spool(body, signal, as_json, Coding.IDENTITY, refused=True)
                raise _Refusal(400, f"the body cannot be decompressed: {damage}") from None
            held.shrink(len(body))
            self._spool(body, signal, as_json, self._coding(), refused=verdict.refused)
        if verdict.refused:
            raise _Refusal(400, f"the request cannot be decoded: {verdict.reason}")
        self.server.count(requests=1, records=verdict.records, rejected=verdict.rejected)
        return accepted(signal, as_json=as_json, rejected=verdict.rejected, reason=verdict.reason)

    def _checked(self, body: bytearray, held: Held, signal: Signal, as_json: bool) -> Verdict:
        """Check the body. It is decompressed only for this time."""
        with Unpacking(self.server.turns, held, self.server.limits.request) as unpacking:
            data = unpacking.unpack(body, self._coding())
            return self.server.checker.check(data, signal, json=as_json)

    def _spool(self, body: bytearray, signal: Signal, as_json: bool, coding: Coding, *, refused: bool) -> None:
        """Write the body to the spool as it was sent."""
        now_ms = time.time_ns() // 1_000_000
        head = frame_head(body, signal=signal, json=as_json, refused=refused, received_at_ms=now_ms, coding=coding)
        try:
            self.server.spool.append(head, body)
        except SpoolFull as full:
            _LOG.warning("%s", full)
            raise _Refusal(503, "the spool is full; try again later", retry_after_s=10) from None
        except StorageFailed as failure:
            _LOG.error("%s", failure)
            raise _Refusal(503, "the disk of the spool has failed; try again later", retry_after_s=10) from None
        if refused:
            self.server.count(requests=1, refused=1)

    def _content_type(self) -> str:
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def _coding(self) -> Coding:
        name = self.headers.get("Content-Encoding", "identity").strip().upper()
        if name not in Coding.__members__:
            raise _Refusal(415, "cannot read this Content-Encoding: send gzip, deflate or none")
        return Coding[name]

    def _told(self) -> tuple[Signal, bool]:
        """The signal and encoding, before a byte of the body is read. A sender that is refused here has to connect
        again."""
        token = self.server.token
        sent = self.headers.get("Authorization", "").encode()
        if token is not None and not hmac.compare_digest(sent, f"Bearer {token}".encode()):
            raise _Refusal(401, "a token is needed: Authorization: Bearer …")
        signal = _PATHS.get(self.path.partition("?")[0])
        if signal is None:
            raise _Refusal(404, f"{self.path} does not exist: use /v1/traces, /v1/logs or /v1/metrics")
        content_type = self._content_type()
        if content_type not in _TYPES:
            raise _Refusal(415, f"cannot read {content_type or 'no type'}: send {' or '.join(_TYPES)}")
        self._coding()
        if self.server.spool.is_full:
            raise _Refusal(503, "the spool is full; try again later", retry_after_s=10)
        return signal, _TYPES[content_type]

    # ---- the body ----

    def _body(self, held: Held) -> bytearray:
        most = self.server.limits.request
        is_chunked = "chunked" in self.headers.get("Transfer-Encoding", "").lower()
        size = 0 if is_chunked else self._size(most)
        self._paced.expect_body()
        try:
            body = read_chunks(self._source, most, held) if is_chunked else read_plain(self._source, size, held)
        except (NoRoom, MemoryError):
            raise _put_off() from None
        except TooLong:
            raise _Refusal(413, f"the body is longer than {most} bytes") from None
        except TooSlow:
            raise _Refusal(503, "the body came too slowly; try again", retry_after_s=1) from None
        except Unreadable as trouble:
            raise _Refusal(400, str(trouble)) from None
        self._has_unread = False
        return body

    def _size(self, most: int) -> int:
        """The length in the request's head."""
        text = self.headers.get("Content-Length", "")
        if not text.isdecimal() or not text.isascii():
            raise _Refusal(411, "a Content-Length is needed")
        if len(text) > 18 or int(text) > most:
            raise _Refusal(413, f"the body is longer than {most} bytes")
        return int(text)


def _put_off() -> _Refusal:
    return _Refusal(429, "too much is being received at once; try again", retry_after_s=1)
