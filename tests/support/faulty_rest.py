"""A small REST catalog on this machine that fails on command. It is for faults; other servers say what is right.

A test puts faults into ``server.faults``: each is taken by the next request whose method and path it fits.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

from request_signing import signed

from esker.catalogs.rest.apply_updates import applied, failed_requirement
from esker.iceberg.metadata.table_metadata import decode_table_metadata
from esker.iceberg.metadata.write_table_metadata import encode_table_metadata
from esker.model.schema import Schema
from esker.tree.table_metadata import TableMetadata

Route = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong. ``applies``: the request is carried out first. ``cut``: the connection ends without answer."""

    method: str = "POST"
    path: str = ""  # a part of the path
    status: int = 0
    body: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    applies: bool = False
    cut: bool = False
    half: bool = False  # half of the right answer comes, then the connection ends
    then: Callable[[Any], None] | None = None  # run on the server's tables after the request was carried out or not


@dataclass
class FaultyRest:
    """Tables by name, what the server says of itself, what came in, and the faults to come."""

    uri: str = ""
    warehouse: str = ""
    config: dict[str, Any] = field(default_factory=lambda: {"defaults": {}, "overrides": {}})
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    tables: dict[Route, TableMetadata] = field(default_factory=dict)
    views: dict[Route, bytes] = field(default_factory=dict)  # metadata of views that can be registered
    versions: dict[Route, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    seen: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    replays: dict[str, tuple[int, Any]] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)  # further fields of an answer to a load
    token: str | None = None  # what requests must bear
    tokens: list[dict[str, Any]] = field(default_factory=list)  # what the token endpoint gives, in turn
    page_size: int = 0
    signs_with: tuple[str, str] | None = None  # the key that requests to a store are signed with
    sent_headers: dict[str, tuple[str, str]] = field(default_factory=dict)  # by a part of the path
    lock: threading.RLock = field(default_factory=threading.RLock)

    def requests(self, method: str, part: str = "") -> list[tuple[str, str, dict[str, str], bytes]]:
        """The requests of a method whose path holds a text."""
        return [one for one in self.seen if one[0] == method and part in one[1]]

    def take(self, method: str, path: str) -> Fault | None:
        """The next fault that fits."""
        for fault in self.faults:
            if fault.method == method and fault.path in path:
                self.faults.remove(fault)
                return fault
        return None

    # ------------------------------------------------------------ what it does

    def handle(self, method: str, path: str, query: dict[str, str], headers: dict[str, str], body: Any) -> Any:
        """The status and the document of an answer."""
        parts = [unquote(part) for part in path.strip("/").split("/")][1:]
        match method, parts:
            case "GET", ["config"]:
                return 200, self.config
            case "POST", ["oauth", "tokens"]:
                found = self.tokens.pop(0) if self.tokens else {}
                self.token = found.get("access_token", self.token)
                return (200 if "access_token" in found else 401), found
            case _ if self.token is not None and headers.get("authorization") != f"Bearer {self.token}":
                return error(401, "NotAuthorizedException", f"not {headers.get('authorization')}")
            case "POST", ["aws", "s3", "sign"] if self.signs_with:
                return 200, signed(body, *self.signs_with)
            case "GET", ["namespaces"]:
                return self.page([[name] for name in sorted(self.namespaces)] if "parent" not in query else [], query)
            case "POST", ["namespaces"]:
                name = "\x1f".join(body["namespace"])
                if name in self.namespaces:
                    return error(409, "AlreadyExistsException", "it is there")
                self.namespaces[name] = body["properties"]
                return 200, body
            case (_, ["namespaces", namespace, *rest]) if namespace in self.namespaces:
                return self.inside(method, namespace, rest, headers, body)
            case "POST", ["transactions", "commit"]:
                return self.commit_all(body["table-changes"])
            case _:
                return error(404, "NoSuchNamespaceException", "no such thing")

    def page(self, items: list[Any], query: dict[str, str]) -> tuple[int, Any]:
        start = int(query.get("pageToken") or 0)
        size = self.page_size or len(items) or 1
        following = start + size
        token = str(following) if following < len(items) else None
        return 200, {"namespaces": items[start:following], "next-page-token": token}

    def inside(self, method: str, namespace: str, rest: list[str], headers: dict[str, str], body: Any) -> Any:
        match method, rest:
            case (("GET" | "HEAD"), []):
                return 200, {"namespace": [namespace], "properties": self.namespaces[namespace]}
            case "GET", ["tables"]:
                names = sorted(name for where, name in self.tables if where == namespace)
                return 200, {"identifiers": [{"namespace": [namespace], "name": name} for name in names]}
            case "POST", ["register-view"]:
                metadata = json.loads(self.views[namespace, body["name"]])
                return 200, {"metadata-location": body["metadata-location"], "metadata": metadata}
            case "POST", ["tables"]:
                place = f"{self.warehouse}/{namespace}/{body['name']}-{uuid4().hex[:6]}"
                probe = empty(place)
                return 200, {"metadata": document(probe), **self.extra}
            case "POST", ["tables", name]:
                return self.commit((namespace, name), body)
            case "POST", ["tables", _, "sign"] if self.signs_with:  # also for a table that is only staged
                return 200, signed(body, *self.signs_with)
            case "POST", ["tables", _, "metrics"]:
                return 204, None
            case (_, ["tables", name, *_]) if (namespace, name) not in self.tables:
                return error(404, "NoSuchTableException", "no such table")
            case (("GET" | "HEAD"), ["tables", name]):
                return self.loaded((namespace, name), headers)
            case "POST", ["tables", name, "unregister"]:
                found = self.answer((namespace, name))
                del self.tables[namespace, name]
                return 200, found
            case "GET", ["tables", _, "credentials"]:
                return 200, {"storage-credentials": self.extra.get("storage-credentials", [])}
            case "DELETE", ["tables", name]:
                del self.tables[namespace, name]
                return 204, None
            case _:
                return error(404, "NotFoundException", "no such route")

    def loaded(self, route: Route, headers: dict[str, str]) -> tuple[int, Any]:
        if headers.get("if-none-match") == f'"{self.versions[route]}"':
            return 304, None
        return 200, self.answer(route)

    def answer(self, route: Route) -> dict[str, Any]:
        return {
            "metadata-location": f"https://elsewhere.example/{'/'.join(route)}/{self.versions[route]}",
            "metadata": document(self.tables[route]),
            **self.extra,
        }

    def commit(self, route: Route, body: Any) -> tuple[int, Any]:
        current = self.tables.get(route)
        if current is None and body["requirements"] != [{"type": "assert-create"}]:
            return error(404, "NoSuchTableException", "it was dropped")
        failed = failed_requirement(current, body["requirements"])
        if failed is not None:
            return error(409, "CommitFailedException", f"requirement failed: {failed['type']}")
        self.tables[route] = applied(current or empty("", uuid=None), body["updates"])
        self.versions[route] = self.versions.get(route, 0) + 1
        return 200, self.answer(route)

    def commit_all(self, changes: list[Any]) -> tuple[int, Any]:
        before = dict(self.tables), dict(self.versions)
        for change in changes:
            named = change["identifier"]
            status, found = self.commit((named["namespace"][0], named["name"]), change)
            if status != 200:
                self.tables, self.versions = before
                return status, found
        return 204, None


def empty(location: str, uuid: str | None = "") -> TableMetadata:
    return TableMetadata(
        format_version=2,
        uuid=str(uuid4()) if uuid == "" else uuid,
        location=location,
        last_updated_ms=1_700_000_000_000,
        last_column_id=0,
        schemas=(Schema(fields=()),) if uuid == "" else (),
        current_schema_id=0,
        specs=() if uuid is None else TableMetadata.__dataclass_fields__["specs"].default,
        sort_orders=() if uuid is None else TableMetadata.__dataclass_fields__["sort_orders"].default,
    )


def document(metadata: TableMetadata) -> Any:
    content = encode_table_metadata(metadata)
    decode_table_metadata("the fake", content)
    return json.loads(content)


def error(status: int, kind: str, message: str) -> tuple[int, Any]:
    return status, {"error": {"type": kind, "message": message, "code": status}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are sent one by one: without this, each answer takes 40 ms

    def _handle(self) -> None:
        server: FaultyRest = self.server.catalog  # type: ignore[attr-defined]
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        content = self.rfile.read(int(headers.get("content-length") or 0))
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        is_form = headers.get("content-type", "").endswith("urlencoded")
        body = json.loads(content) if content and not is_form else None
        with server.lock:
            server.seen.append((self.command, self.path, headers, content))
            fault = server.take(self.command, parts.path)
            key = headers.get("idempotency-key")
            status, found = 0, None
            if fault is None or fault.applies or fault.half:
                status, found = server.replays.get(key or "", (0, None))
                if not status:
                    status, found = server.handle(self.command, parts.path, query, headers, body)
                    if key and status < 500:
                        server.replays[key] = status, found
            if fault is not None and fault.then is not None:
                fault.then(server)
            etag = f'"{found["metadata-location"].rsplit("/", 1)[1]}"' if found and "metadata-location" in found else ""
        if fault is not None and fault.cut:
            self.close_connection = True
            return
        text = json.dumps(found).encode() if found is not None else b""
        extra = [("ETag", etag)] if etag else []
        extra += [header for part, header in server.sent_headers.items() if part in parts.path]
        if fault is not None and fault.status:
            status, text, extra = fault.status, fault.body.encode(), list(fault.headers)
        self.send_response(status)
        for name, value in extra:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text[: len(text) // 2] if fault is not None and fault.half else text)
        self.close_connection = fault is not None and fault.half

    do_GET = do_POST = do_HEAD = do_DELETE = _handle  # noqa: N815

    def log_message(self, *args: object) -> None:
        """Nothing."""


Server = TypeVar("Server", bound=FaultyRest)


@contextmanager
def faulty_rest(warehouse: str) -> Iterator[FaultyRest]:
    """A server on a free port of this machine, stopped at the end."""
    with serving(FaultyRest(warehouse=warehouse)) as catalog:
        yield catalog


@contextmanager
def serving(catalog: Server) -> Iterator[Server]:
    """That server on a free port of this machine, stopped at the end."""
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    httpd.daemon_threads = True
    catalog.uri = f"http://127.0.0.1:{httpd.server_address[1]}"
    httpd.catalog = catalog  # type: ignore[attr-defined]
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield catalog
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join(5)
