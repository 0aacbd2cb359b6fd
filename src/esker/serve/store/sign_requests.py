"""Signatures of requests to S3, with the server's own key: only for the files of one table, and only for what the
caller may do.

A request that is signed may do all that its address and headers say. So only what is known to be harmless is signed:
objects below the table's places, lists of them, uploads in parts. Copies, access lists, tags and policies are not.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from urllib.parse import parse_qsl, unquote_to_bytes, urlsplit
from xml.etree import ElementTree

from esker.catalogs.rest.sigv4 import S3, authorization, canonical_query, s3_path
from esker.errors import InvalidInput
from esker.iceberg.json_document import JsonObject
from esker.serve.call import REQUEST, Answer, answer_json
from esker.serve.error_answers import NotAllowed
from esker.serve.store.server_keys import Place, ServerStore

_READ = frozenset({"GET", "HEAD"})
_WRITE = frozenset({"PUT", "POST", "DELETE"})
_LISTS = frozenset(
    {
        *("list-type", "prefix", "delimiter", "continuation-token", "start-after", "max-keys", "encoding-type"),
        *("fetch-owner", "x-id"),
    }
)
_OBJECTS = frozenset({"uploads", "uploadId", "partNumber", "x-id", "max-parts", "part-number-marker"})
_HEADERS = re.compile(
    r"x-amz-(content-sha256|date|meta-[\w.-]+|server-side-encryption(-[\w-]+)?|checksum-[\w-]+|sdk-[\w-]+|trailer|"
    r"decoded-content-length|te|user-agent|expected-bucket-owner|storage-class|mp-object-size|request-payer)"
)
_PAYLOADS = re.compile(r"[0-9a-f]{64}|UNSIGNED-PAYLOAD|STREAMING-UNSIGNED-PAYLOAD-TRAILER")
_UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Signing:
    """Signs requests for the files of tables."""

    def __init__(self, store: ServerStore, *, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._now = now

    def signed(self, document: JsonObject, places: tuple[Place, ...], *, may_write: bool) -> Answer:
        """The signed request in ``document``. The answer has the headers that the client has to add.

        Raises ``NotAllowed`` for a request that is not for the files below places or that the caller may not send, and
        ``InvalidInput`` for one that cannot be read.
        """
        method, url, headers = _read(document)
        if method in _WRITE and not may_write:
            raise NotAllowed("cannot sign the request: your role may only read this table")
        body = document.string_or_none("body")
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True)
        self._check(method, url, query, places, body)
        path = s3_path(parts.path)
        tail = canonical_query(parts.query)
        uri = f"{parts.scheme}://{parts.netloc}{path}{'?' + tail if tail else ''}"
        given = {name: value for name, value in headers.items() if name.startswith("x-amz-") or name == "content-md5"}
        new = self._stamped(method, headers, body)
        region = document.string("region")
        if region != self._store.region:
            raise NotAllowed(f"cannot sign the request: the store is in the region {self._store.region}")
        keys = self._store.keys()
        if keys.session_token is not None:
            new["x-amz-security-token"] = keys.session_token.reveal()
        whole = {**given, **new, "host": parts.netloc}
        new["Authorization"] = authorization(method, uri, whole, b"", keys=keys, region=region, service=S3)
        answer = {"uri": uri, "headers": {name: [value] for name, value in new.items()}}
        return answer_json(answer, headers={"cache-control": "private" if method in _READ else "no-cache"})

    def _stamped(self, method: str, headers: Mapping[str, str], body: str | None) -> dict[str, str]:
        """The headers that the client does not have yet: the time, and what is said of the payload."""
        moment = datetime.fromtimestamp(self._now(), UTC).strftime("%Y%m%dT%H%M%SZ")
        found = {"x-amz-date": moment}
        sent = headers.get("x-amz-content-sha256")
        if sent is not None and not _PAYLOADS.fullmatch(sent):
            raise InvalidInput("cannot sign the request: x-amz-content-sha256 is neither a digest nor a known word")
        if body is not None:  # what was checked is what must be sent
            digest = hashlib.sha256(body.encode()).hexdigest()
            if sent not in (None, digest):
                raise InvalidInput("cannot sign the request: x-amz-content-sha256 is not the digest of its body")
            found["x-amz-content-sha256"] = digest
        elif sent is None:
            found["x-amz-content-sha256"] = _UNSIGNED_PAYLOAD
        return found

    def _check(
        self, method: str, url: str, query: list[tuple[str, str]], places: tuple[Place, ...], body: str | None
    ) -> None:
        found = self._store.object_at(url)
        if found is None:
            raise NotAllowed("cannot sign the request: its address is not the store of this server")
        bucket, key = found[0], _decoded(found[1])
        names = [name for name, _ in query]
        if len(set(names)) != len(names):
            raise InvalidInput("cannot sign the request: a parameter is given twice")
        if key:
            is_known = set(names) <= _OBJECTS and ("uploads" not in names or method in ("POST", "GET"))
            if not is_known or (method == "POST" and not {"uploads", "uploadId"} & set(names)):
                raise NotAllowed("cannot sign the request: only reads, writes and uploads of objects are signed")
            if not any(place.holds(bucket, key) for place in places):
                raise NotAllowed("cannot sign the request: the object is not below the table's location")
        elif method in _READ and dict(query).get("list-type") == "2" and set(names) <= _LISTS:
            if not any(_lists(place, bucket, dict(query).get("prefix", "")) for place in places):
                raise NotAllowed("cannot sign the request: the list is not below the table's location")
        elif method == "POST" and set(names) <= {"delete", "x-id"} and "delete" in names and body is not None:
            if not all(any(place.holds(bucket, one) for place in places) for one in _deleted(body)):
                raise NotAllowed("cannot sign the request: an object to delete is not below the table's location")
        else:
            raise NotAllowed("cannot sign the request: of a bucket only lists, and deletes with their body, are signed")


def _read(document: JsonObject) -> tuple[str, str, dict[str, str]]:
    """Method, address and headers of the request to sign. Raises ``InvalidInput``, and ``NotAllowed`` for a header."""
    if document.string_or_none("provider") not in (None, S3):
        raise InvalidInput("cannot sign the request: the provider must be s3")
    method, url = document.string("method"), document.string("uri")
    if method not in _READ | _WRITE:
        raise InvalidInput(f"cannot sign the request: the method {method[:20]!r} is not known")
    if _CONTROL.search(url) or "#" in url or "@" in urlsplit(url).netloc:
        raise InvalidInput("cannot sign the request: its address is wrong")
    headers: dict[str, str] = {}
    fields = document.object("headers").fields
    for name, values in fields.items():
        if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
            raise InvalidInput("cannot sign the request: each header is an array of texts")
        lower, text = name.lower(), ", ".join(values)
        if _CONTROL.search(lower + text):
            raise InvalidInput(f"cannot sign the request: the header {name[:40]!r} has a control character")
        if lower.startswith("x-amz-") and not _HEADERS.fullmatch(lower) and lower != "x-amz-security-token":
            raise NotAllowed(f"cannot sign the request: the header {name[:60]} is not allowed")
        if lower not in ("x-amz-security-token", "x-amz-date"):  # the server's own are added
            headers[lower] = text
    return method, url, headers


def _decoded(key: str) -> str:
    try:
        found = unquote_to_bytes(key).decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"cannot read {REQUEST}: the key of the object is not UTF-8") from None
    if _CONTROL.search(found) or {".", ".."} & set(found.split("/")):
        raise InvalidInput("cannot sign the request: the key of the object has a part that leads elsewhere")
    return found


def _lists(place: Place, bucket: str, prefix: str) -> bool:
    return bucket == place.bucket and prefix.startswith(f"{place.prefix}/")


def _deleted(body: str) -> list[str]:
    """The keys in the body of a request that deletes several objects. Raises ``InvalidInput``."""
    if "<!" in body or len(body) > 4 << 20:  # no document types: they can define entities
        raise InvalidInput("cannot sign the request: its body is too long or has a document type")
    try:
        found = ElementTree.fromstring(body)
    except ElementTree.ParseError:
        raise InvalidInput("cannot sign the request: its body is not XML") from None
    if found.tag.rpartition("}")[2] != "Delete":
        raise InvalidInput("cannot sign the request: its body is not a Delete document")
    return [one.text or "" for one in found.iterfind(".//{*}Key")]
