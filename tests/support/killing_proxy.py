"""A proxy before a REST server that kills the server in a commit, and starts it again."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from rest_servers import ServerProgram

SECONDS = 240
_OWN_TO_A_CONNECTION = ("connection", "keep-alive", "transfer-encoding", "content-length")


class KillingProxy:
    """What a test orders, and where clients send their requests."""

    def __init__(self, server: str, program: ServerProgram) -> None:
        self.server = urlsplit(server)
        self.uri = ""
        self.kills = 0
        self._program = program
        self._delay_s: float | None = None
        self._holds = True
        self._is_up = threading.Event()
        self._is_up.set()
        self._lock = threading.Lock()

    def kill_in_commit(self, delay_s: float, *, holds: bool) -> None:
        """At the next commit: pass it on, kill the server that long after, and start the server again. ``holds``:
        requests wait meanwhile."""
        self._delay_s, self._holds = delay_s, holds

    def wait_for_server(self) -> None:
        """Until the server is there again."""
        assert self._is_up.wait(SECONDS)

    def due(self, method: str, path: str) -> float | None:
        """How long after this request the server dies."""
        with self._lock:
            if method != "POST" or not path.partition("?")[0].endswith("/tables/orders"):
                return None
            delay, self._delay_s = self._delay_s, None
            return delay

    def admits(self) -> bool:
        """Whether a request reaches the server."""
        if self._holds:
            self.wait_for_server()
        return self._is_up.is_set()

    def kill(self) -> None:
        """Kill the server, and start it again in the background."""
        self._is_up.clear()
        self._program.kill()
        self.kills += 1
        threading.Thread(target=self._start, daemon=True).start()

    def _start(self) -> None:
        self._program.start()
        self._is_up.set()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are sent one by one: without this, each answer takes 40 ms

    def _handle(self) -> None:
        proxy: KillingProxy = self.server.proxy  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.close_connection = True
        if not proxy.admits():
            return
        connection = http.client.HTTPConnection(proxy.server.hostname or "", proxy.server.port, timeout=SECONDS)
        try:
            connection.request(self.command, self.path, body or None, dict(self.headers.items()))
            delay_s = proxy.due(self.command, self.path)
            if delay_s is not None:
                time.sleep(delay_s)
                proxy.kill()
                return
            self._pass_on(connection.getresponse())
        except OSError:
            return  # the client gets no answer
        finally:
            connection.close()

    def _pass_on(self, answer: http.client.HTTPResponse) -> None:
        content = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _OWN_TO_A_CONNECTION:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        with suppress(BrokenPipeError, socket.timeout):
            self.wfile.write(content)

    do_GET = do_POST = do_HEAD = do_DELETE = _handle  # noqa: N815

    def log_message(self, *args: object) -> None:
        """Nothing."""


@contextmanager
def killing_proxy(server: str, program: ServerProgram) -> Iterator[KillingProxy]:
    """A proxy on a free port of this machine, stopped at the end."""
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    httpd.daemon_threads = True
    proxy = KillingProxy(server, program)
    proxy.uri = f"http://127.0.0.1:{httpd.server_address[1]}{proxy.server.path}"
    httpd.proxy = proxy  # type: ignore[attr-defined]
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join(5)
