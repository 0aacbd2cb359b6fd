"""The server's HTTP side: an ASGI application around the service, with limits on what a client can use up."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

from esker.serve.call import Answer, Call, answer_json
from esker.serve.catalog_service import Service
from esker.serve.error_answers import error_answer
from esker.serve.listen.request_counts import Counts, SharedCounts
from esker.serve.openapi_document import openapi_document

access = logging.getLogger("esker.serve.access")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_MOST_PARAMETERS = 100
_SHORT_BODY = 64 << 10  # bytes
HEALTH, READY, METRICS, OPENAPI = "/health", "/ready", "/metrics", "/openapi.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the clients of a server may use up together."""

    body_bytes: int = 32 << 20
    long_bodies_bytes: int = 1 << 30  # of all bodies over 64 KiB that are in memory; more are answered with 503
    headers_bytes: int = 64 << 10
    headers_seconds: float = 30.0  # from a connection, or the first byte of a request, to the end of its headers
    body_seconds: float = 30.0
    unread_seconds: float = 60.0  # how long a client may read nothing of its answer
    waiting: int = 256  # requests that are in work or wait for it; more are answered with 503
    threads: int = 16
    tidy_seconds: float = 600.0  # how often the server looks for what is due
    ready_seconds: float = 5.0  # how long the catalog may take to answer ``/ready``


class _Refused(Exception):
    """A request that is answered before the service sees it."""

    def __init__(self, status: int, why: str, **headers: str) -> None:
        super().__init__(why)
        kinds = {403: "ForbiddenException", 503: "ServiceUnavailableException"}
        kind = kinds.get(status, "BadRequestException")
        self.answer = error_answer(status, kind, why, {name.replace("_", "-"): text for name, text in headers.items()})


class Application:
    """An ASGI application. The service is synchronous, so it runs in threads of the application's own."""

    def __init__(self, service: Service, limits: Limits | None = None, counts: Counts | None = None) -> None:
        self._service = service
        self._limits = limits or Limits()
        self._threads = ThreadPoolExecutor(self._limits.threads, thread_name_prefix="esker-serve")
        self._ready_thread = ThreadPoolExecutor(1, thread_name_prefix="esker-ready")  # busy threads do not delay it
        self._ready: asyncio.Future[Answer] | None = None  # the question that the catalog is asked, or was asked last
        self._counts = counts or SharedCounts().of(0)
        self._long_bytes = 0  # of the long bodies that are in memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._request(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                tidying = asyncio.create_task(self._tidy())
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                tidying.cancel()
                self._threads.shutdown(wait=True)  # answers what was taken
                self._ready_thread.shutdown(wait=False)
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(self._limits.tidy_seconds)
            await asyncio.get_running_loop().run_in_executor(self._threads, self._service.tidy)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.monotonic()
        method, path = scope["method"], _raw_path(scope)
        try:
            answer = await self._about_itself(path) or await self._answered(method, path, scope, receive)
        except _Refused as refused:
            answer = refused.answer
        except _Gone:
            return
        took = time.monotonic() - began
        self._counts.count(method, answer.status, took)
        _log(scope, path, answer, took)
        await _send(answer, send, is_head=method == "HEAD")

    async def _about_itself(self, path: str) -> Answer | None:
        if path == HEALTH:
            return answer_json({"status": "ok"})
        if path == OPENAPI:
            return answer_json(openapi_document())
        if path == READY:
            return await self._readiness()
        if path == METRICS:
            headers = {"content-type": "text/plain; version=0.0.4"}
            return Answer(status=200, body=self._counts.text().encode(), headers=headers)
        return None

    async def _readiness(self) -> Answer:
        """The catalog is asked once at a time. All who ask meanwhile share the answer: they need no token."""
        if self._ready is None or self._ready.done():
            self._ready = asyncio.get_running_loop().run_in_executor(self._ready_thread, self._service.ready)
        try:
            return await asyncio.wait_for(asyncio.shield(self._ready), self._limits.ready_seconds)
        except TimeoutError:
            why = f"the catalog behind this server did not answer within {self._limits.ready_seconds:g} s"
            return error_answer(503, "ServiceUnavailableException", why)

    async def _answered(self, method: str, path: str, scope: Scope, receive: Receive) -> Answer:
        size = len(path) + len(scope["query_string"])
        if size + sum(len(name) + len(value) for name, value in scope["headers"]) > self._limits.headers_bytes:
            raise _Refused(431, f"the headers are longer than {self._limits.headers_bytes} bytes", connection="close")
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        _check_page(headers, is_open=self._service.is_open)
        call = Call(query=_parameters(scope["query_string"]), headers=headers)
        if "content-length" in headers or "transfer-encoding" in headers:
            return await self._with_body(method, path, call, receive)
        if (ready := self._service.answer_at_once(method, path, call)) is not None:
            return ready  # a thread would take longer to start than the answer takes
        return await self._in_work(method, path, call)

    async def _with_body(self, method: str, path: str, call: Call, receive: Receive) -> Answer:
        """The answer to a request with a body. It is in work when it is complete: slow clients take no place."""
        parts: list[bytes] = []
        size = held = 0
        try:
            async for part in self._body(call.headers, receive):
                parts.append(part)
                size += len(part)
                if size > _SHORT_BODY:
                    if self._long_bytes + size - held > self._limits.long_bodies_bytes:
                        why = "the server has too many long requests in memory; try again"
                        raise _Refused(503, why, retry_after="1", connection="close")
                    self._long_bytes += size - held
                    held = size
            return await self._in_work(method, path, replace(call, body=b"".join(parts)))
        finally:
            self._long_bytes -= held

    async def _in_work(self, method: str, path: str, call: Call) -> Answer:
        if self._counts.in_work >= self._limits.waiting:
            raise _Refused(503, "the server has too much to do; try again", retry_after="1")
        self._counts.begin()
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._service.answer, method, path, call)
        finally:
            self._counts.end()

    async def _body(self, headers: Mapping[str, str], receive: Receive) -> AsyncIterator[bytes]:
        limit = self._limits.body_bytes
        declared = headers.get("content-length", "0")
        if declared.isdecimal() and int(declared) > limit:
            raise _Refused(413, f"the body is longer than {limit} bytes")
        size = 0
        ends = time.monotonic() + self._limits.body_seconds
        more = True
        while more:
            try:
                message = await asyncio.wait_for(receive(), max(0.01, ends - time.monotonic()))
            except TimeoutError:
                raise _Refused(408, "the body did not arrive in time", connection="close") from None
            if message["type"] == "http.disconnect":
                raise _Gone
            part = message.get("body", b"")
            size += len(part)
            if size > limit:
                raise _Refused(413, f"the body is longer than {limit} bytes", connection="close")
            yield part
            more = message.get("more_body", False)


def _check_page(headers: Mapping[str, str], *, is_open: bool) -> None:
    """Refuse requests that a web page of another address makes in a browser.

    A page can make its own name lead to this machine. Its requests then look as if they came from this server's page,
    so a server without tokens is asked by its address or as localhost, which no page can be.
    """
    host = headers.get("host", "")
    if "origin" in headers and headers["origin"].partition("://")[2] != host:
        raise _Refused(403, "requests that a page of another address makes in a browser are refused")
    if is_open and host and not _is_this_machine(host):
        raise _Refused(
            403,
            f"this server has no tokens, so it is not reached as {host[:100]!r}; use 127.0.0.1 or localhost, or start "
            "it with --token-file FILE or --catalog-tokens",
        )


@lru_cache(maxsize=64)
def _is_this_machine(host: str) -> bool:
    """Whether a header ``Host`` has an address or localhost in it, and no name that somebody else may define."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if name.lower() == "localhost" or name.lower().endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _parameters(query: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS))
    except ValueError:
        raise _Refused(400, f"the request has over {_MOST_PARAMETERS} parameters") from None


def _log(scope: Scope, path: str, answer: Answer, took: float) -> None:
    if not access.isEnabledFor(logging.INFO):
        return
    fields = {
        "client": (scope.get("client") or ("",))[0],
        "method": scope["method"],
        "path": path,
        "status": answer.status,
        "bytes": len(answer.body),
        "ms": round(took * 1000, 1),
    }
    access.info("%(method)s %(path)s %(status)d %(bytes)d bytes %(ms).1f ms", fields, extra={"fields": fields})


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
