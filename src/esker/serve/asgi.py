"""The server's HTTP side: an ASGI application around the service, with limits on what a client can use up."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from esker.serve.call import Answer, Call, answer_json
from esker.serve.catalog_service import Service
from esker.serve.error_answers import error_answer

access = logging.getLogger("esker.serve.access")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

HEALTH, READY, METRICS = "/health", "/ready", "/metrics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the clients of a server may use up together."""

    body_bytes: int = 32 << 20
    body_seconds: float = 30.0
    waiting: int = 256  # requests that are in work or wait for it; more are answered with 503
    threads: int = 16


@dataclass(slots=True)
class Counts:
    """What the server has done so far, for ``/metrics``."""

    answers: dict[tuple[str, int], int] = field(default_factory=dict)
    seconds: float = 0.0
    in_work: int = 0

    def count(self, method: str, status: int, seconds: float) -> None:
        """Count one answer."""
        self.answers[method, status] = self.answers.get((method, status), 0) + 1
        self.seconds += seconds

    def text(self) -> str:
        """The counts in Prometheus' text format."""
        lines = ["# TYPE esker_requests_total counter"]
        lines += [
            f'esker_requests_total{{method="{method}",status="{status}"}} {number}'
            for (method, status), number in sorted(self.answers.items())
        ]
        lines += ["# TYPE esker_request_seconds_sum counter", f"esker_request_seconds_sum {self.seconds:.6f}"]
        lines += ["# TYPE esker_requests_in_work gauge", f"esker_requests_in_work {self.in_work}"]
        return "\n".join(lines) + "\n"


class _Refused(Exception):
    """A request that is answered before the service sees it."""

    def __init__(self, status: int, why: str, **headers: str) -> None:
        super().__init__(why)
        kind = "ServiceUnavailableException" if status == 503 else "BadRequestException"
        self.answer = error_answer(status, kind, why, {name.replace("_", "-"): text for name, text in headers.items()})


class Application:
    """An ASGI application. The service is synchronous, so it runs in threads of the application's own."""

    def __init__(self, service: Service, limits: Limits | None = None) -> None:
        self._service = service
        self._limits = limits or Limits()
        self._threads = ThreadPoolExecutor(self._limits.threads, thread_name_prefix="esker-serve")
        self.counts = Counts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._request(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                self._threads.shutdown(wait=True)  # answers what was taken
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.monotonic()
        method, path = scope["method"], _raw_path(scope)
        try:
            answer = self._about_itself(path) or await self._answered(method, path, scope, receive)
        except _Refused as refused:
            answer = refused.answer
        except _Gone:
            return
        took = time.monotonic() - began
        self.counts.count(method, answer.status, took)
        access.info("%s %s %d %d bytes %.1f ms", method, path, answer.status, len(answer.body), took * 1000)
        await _send(answer, send, is_head=method == "HEAD")

    def _about_itself(self, path: str) -> Answer | None:
        if path in (HEALTH, READY):
            return answer_json({"status": "ok"})
        if path == METRICS:
            headers = {"content-type": "text/plain; version=0.0.4"}
            return Answer(status=200, body=self.counts.text().encode(), headers=headers)
        return None

    async def _answered(self, method: str, path: str, scope: Scope, receive: Receive) -> Answer:
        if self.counts.in_work >= self._limits.waiting:
            raise _Refused(503, "the server has too much to do; try again", retry_after="1")
        self.counts.in_work += 1
        try:
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
            body = await self._body(headers, receive)
            query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
            call = Call(query=query, headers=headers, body=body)
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._service.answer, method, path, call)
        finally:
            self.counts.in_work -= 1

    async def _body(self, headers: dict[str, str], receive: Receive) -> bytes:
        limit = self._limits.body_bytes
        declared = headers.get("content-length", "0")
        if declared.isdecimal() and int(declared) > limit:
            raise _Refused(413, f"the body is longer than {limit} bytes")
        parts: list[bytes] = []
        size = 0
        ends = time.monotonic() + self._limits.body_seconds
        while True:
            try:
                message = await asyncio.wait_for(receive(), max(0.01, ends - time.monotonic()))
            except TimeoutError:
                raise _Refused(408, "the body did not arrive in time", connection="close") from None
            if message["type"] == "http.disconnect":
                raise _Gone
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit:
                raise _Refused(413, f"the body is longer than {limit} bytes", connection="close")
            if not message.get("more_body", False):
                return b"".join(parts)


class _Gone(Exception):
    """The client has closed the connection."""


def _raw_path(scope: Scope) -> str:
    raw = scope.get("raw_path") or scope["path"].encode()
    return str(raw.partition(b"?")[0].decode("latin-1"))


async def _send(answer: Answer, send: Send, *, is_head: bool) -> None:
    headers = {"content-type": "application/json", **answer.headers}
    if answer.status not in (204, 304):
        headers["content-length"] = str(len(answer.body))
    else:
        headers.pop("content-type")
    listed = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": listed})
    await send({"type": "http.response.body", "body": b"" if is_head else answer.body})
