"""OTLP over HTTP: takes requests and answers 200 when they are on disk, never from memory.

Built on the standard library's threading server. What a client may hold is bounded: the size of a body as sent and as
unpacked, the bytes in flight over all clients, and the time a socket may be silent.
"""

from __future__ import annotations

import hmac
import io
import ipaddress
import logging
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from esker.errors import InvalidInput, StorageFailed
from esker.otlp.answers import JSON, Answer, accepted, failed
from esker.otlp.check import Checker
from esker.otlp.messages import Signal
from esker.otlp.requests import MAX_REQUEST
from esker.otlp.segment import frame
from esker.otlp.spool import Spool, SpoolFull
from esker.otlp.unpack import Damaged, inflated

PORT = 4318
_PATHS = {"/v1/logs": Signal.LOGS, "/v1/traces": Signal.TRACES, "/v1/metrics": Signal.METRICS}
_TYPES = {"application/x-protobuf": False, "application/json": True}
_IN_FLIGHT = 256 << 20
_LOG = logging.getLogger(__name__)


class _Refusal(Exception):
    """The answer to what cannot be taken."""

    def __init__(self, status: int, message: str, *, retry_after_s: int | None = None, close: bool = False) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.retry_after_s, self.close = retry_after_s, close


class Receiver(ThreadingHTTPServer):
    """Listens, and spools. ``serve_forever`` until ``shutdown``; then ``server_close`` and the spool's ``close``."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        spool: Spool,
        *,
        host: str = "127.0.0.1",
        port: int = PORT,
        token: str | None = None,
        max_request: int = MAX_REQUEST,
        strict: bool = False,
    ) -> None:
        if token is None and not _is_loopback(host):
            raise InvalidInput(f"Cannot listen on {host} without a token: anyone could send; give --token-file")
        self.spool, self.token, self.max_request = spool, token, max_request
        self.checker = Checker(strict=strict)
        self.counts = {"requests": 0, "records": 0, "rejected": 0, "refused": 0, "put_off": 0}
        self.counts["set_aside"] = len(spool.set_aside)
        self._counting, self._in_flight = threading.Lock(), 0
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise InvalidInput(f"Cannot listen on {host}:{port}: {error}; choose another --port or --host") from error

    def service_actions(self) -> None:
        """Twice a second: segments that are old enough become readable."""
        self.spool.seal_if_old()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error of ours."""
        _LOG.debug("a connection from %s broke off", client_address, exc_info=True)

    def count(self, **more: int) -> None:
        """Add to the counts."""
        with self._counting:
            for name, value in more.items():
                self.counts[name] += value

    def hold(self, size: int) -> bool:
        """Claim room in memory for a body; False if others hold too much."""
        with self._counting:
            if self._in_flight and self._in_flight + size > _IN_FLIGHT:
                return False
            self._in_flight += size
            return True

    def let_go(self, size: int) -> None:
        """Give room back."""
        with self._counting:
            self._in_flight -= size


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
    timeout = 30
    disable_nagle_algorithm = True
    wbufsize: ClassVar[int] = -1  # head and body go out together

    def do_POST(self) -> None:
        """Take a request."""
        as_json = self._content_type() == JSON
        try:
            answer = self._take()
        except _Refusal as refusal:
            self.close_connection |= refusal.close
            if refusal.retry_after_s is not None:
                self.server.count(put_off=1)
            answer = failed(refusal.status, refusal.message, as_json=as_json, retry_after_s=refusal.retry_after_s)
        self._send(answer)

    def do_GET(self) -> None:
        """Nothing is to be had here."""
        self._send(failed(405, "send OTLP by POST to /v1/traces, /v1/logs or /v1/metrics", as_json=True))

    def log_message(self, format: str, *args: Any) -> None:
        """To the log, at a level that is off."""
        _LOG.debug(format, *args)

    def _send(self, answer: Answer) -> None:
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
        size = self._size()
        if not self.server.hold(size):
            raise _Refusal(429, "too much is being received at once; try again", retry_after_s=1, close=True)
        held = size
        try:
            data = self._unpacked(self._body(size), signal, as_json)
            if len(data) > held:
                if not self.server.hold(len(data) - held):
                    raise _Refusal(429, "too much is being received at once; try again", retry_after_s=1)
                held = len(data)
            return self._keep(data, signal, as_json)
        finally:
            self.server.let_go(held)

    def _keep(self, data: bytes, signal: Signal, as_json: bool) -> Answer:
        verdict = self.server.checker.check(data, signal, json=as_json)
        if verdict.refused:
            raise self._buried(data, signal, as_json, f"the request cannot be decoded: {verdict.reason}")
        self._spool(data, signal, as_json, refused=False)
        self.server.count(requests=1, records=verdict.records, rejected=verdict.rejected)
        return accepted(signal, as_json=as_json, rejected=verdict.rejected, reason=verdict.reason)

    def _buried(self, data: bytes, signal: Signal, as_json: bool, why: str) -> _Refusal:
        """What the sender is told of bytes that are a dead letter now, as they came."""
        self._spool(data, signal, as_json, refused=True)
        self.server.count(requests=1, refused=1)
        return _Refusal(400, why)

    def _spool(self, data: bytes, signal: Signal, as_json: bool, *, refused: bool) -> None:
        now_ms = time.time_ns() // 1_000_000
        try:
            self.server.spool.append(frame(data, signal=signal, json=as_json, refused=refused, received_at_ms=now_ms))
        except SpoolFull as full:
            _LOG.warning("%s", full)
            raise _Refusal(503, "the spool is full; try again later", retry_after_s=10) from None
        except StorageFailed as failure:
            _LOG.error("%s", failure)
            raise _Refusal(503, "the disk of the spool has failed; try again later", retry_after_s=10) from None

    def _content_type(self) -> str:
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def _encoding(self) -> str:
        return self.headers.get("Content-Encoding", "identity").strip().lower()

    def _told(self) -> tuple[Signal, bool]:
        """The signal and encoding, before a byte of the body is read; whoever is refused here has to connect anew."""
        token = self.server.token
        sent = self.headers.get("Authorization", "").encode()
        if token is not None and not hmac.compare_digest(sent, f"Bearer {token}".encode()):
            raise _Refusal(401, "a token is needed: Authorization: Bearer …", close=True)
        signal = _PATHS.get(self.path.partition("?")[0])
        if signal is None:
            raise _Refusal(
                404, f"nothing is at {self.path}: there are /v1/traces, /v1/logs and /v1/metrics", close=True
            )
        content_type = self._content_type()
        if content_type not in _TYPES:
            raise _Refusal(415, f"cannot take {content_type or 'no type'}: send {' or '.join(_TYPES)}", close=True)
        if self._encoding() not in ("identity", "gzip", "deflate"):
            raise _Refusal(415, "cannot take that Content-Encoding: send gzip, deflate or none", close=True)
        if self.server.spool.is_full:
            raise _Refusal(503, "the spool is full; try again later", retry_after_s=10, close=True)
        return signal, _TYPES[content_type]

    # ---- the body ----

    def _size(self) -> int:
        """How long the body will be, at most."""
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self.server.max_request
        text = self.headers.get("Content-Length", "")
        if not text.isdecimal() or not text.isascii():
            raise _Refusal(411, "a Content-Length is needed", close=True)
        if len(text) > 18 or int(text) > self.server.max_request:
            raise _Refusal(413, f"the body is longer than {self.server.max_request} bytes", close=True)
        return int(text)

    def _body(self, size: int) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self._chunks()
        data = self.rfile.read(size)
        if len(data) < size:
            raise _Refusal(400, "the body ended before its end", close=True)
        return data

    def _chunks(self) -> bytes:
        body = io.BytesIO()
        while True:
            line = self.rfile.readline(1024).partition(b";")[0].strip()
            try:
                size = int(line, 16) if line.isalnum() else -1
            except ValueError:
                size = -1
            if size < 0 or body.tell() + size > self.server.max_request:
                raise _Refusal(400 if size < 0 else 413, "the chunks of the body cannot be read", close=True)
            if size == 0:
                while self.rfile.readline(1024).strip():
                    pass
                return body.getvalue()
            data = self.rfile.read(size)
            if len(data) < size or self.rfile.readline(1024).strip():
                raise _Refusal(400, "the chunks of the body cannot be read", close=True)
            body.write(data)

    def _unpacked(self, data: bytes, signal: Signal, as_json: bool) -> bytes:
        encoding, most = self._encoding(), self.server.max_request
        if encoding == "identity":
            return data
        try:
            found = inflated(data, most + 1, gzip=encoding == "gzip")
        except Damaged as damage:
            raise self._buried(data, signal, as_json, f"the body cannot be unpacked: {damage}") from None
        if len(found) > most:
            raise _Refusal(413, f"the body unpacks to more than {most} bytes")
        return found
