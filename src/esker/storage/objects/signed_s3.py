"""A small client of S3 whose requests somebody else signs. It has the methods of ``obstore``'s clients that Esker uses.

``obstore`` signs with keys and takes no signature from outside. Here the catalog has the key: each request is described
to it, and is sent with the headers that come back. The payload is not part of the signature.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlencode, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from esker.errors import Corrupt
from esker.ports.credentials import Signer

if TYPE_CHECKING:
    import urllib3

_META = "x-amz-meta-"
_UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD"
_AGAIN = frozenset((408, 425, 429, 500, 502, 503, 504))
_LONGEST_WAIT_S = 15.0
_AT_ONCE = 16


class GenericError(Exception):
    """An answer that is no success, in the words of ``obstore``: ``status code: 503``, and the code of the store."""


class AlreadyExistsError(Exception):
    """The object exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Address:
    """A bucket: the address that keys are put behind, its region, and how patient the client is."""

    base: str  # without a slash at its end
    region: str
    connect_timeout_s: float = 5.0
    timeout_s: float = 60.0
    retries: int = 6
    first_wait_s: float = 0.1
    headers: Mapping[str, str] = field(default_factory=dict)  # for every object that is created: encryption


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Object:
    """An object, as ``get`` answers it."""

    meta: Mapping[str, Any]
    attributes: Mapping[str, str]
    content: bytes = field(repr=False)

    def bytes(self) -> bytes:
        return self.content


class SignedS3:
    """The objects of one bucket. ``signer`` signs each request."""

    def __init__(self, address: S3Address, signer: Signer) -> None:
        import urllib3

        self._address = address
        self._signer = signer
        self._pool: urllib3.PoolManager = urllib3.PoolManager(
            maxsize=_AT_ONCE,
            timeout=urllib3.Timeout(connect=address.connect_timeout_s, read=address.timeout_s),
        )

    # ------------------------------------------------------------ reading

    def head(self, key: str) -> Mapping[str, Any]:
        """The facts of an object. Raises ``FileNotFoundError``."""
        return _facts(key, self._send("HEAD", key))

    def get(self, key: str, *, options: Mapping[str, Any] | None = None) -> _Object:
        """An object: whole, its head alone, or its last bytes."""
        asked = options or {}
        if asked.get("head"):
            answer = self._send("HEAD", key)
        else:
            suffix = asked.get("range", {}).get("suffix")
            answer = self._send("GET", key, unsigned={} if suffix is None else {"Range": f"bytes=-{suffix}"})
        attributes = {name[len(_META) :]: value for name, value in answer.headers.items() if name.startswith(_META)}
        return _Object(_facts(key, answer), attributes, answer.body)

    def get_range(self, key: str, *, start: int, end: int) -> bytes:
        """Bytes of an object."""
        answer = self._send("GET", key, unsigned={"Range": f"bytes={start}-{end - 1}"})
        found = answer.body[start:end] if answer.status == 200 else answer.body
        if len(found) != end - start:
            raise GenericError("the answer was cut: error decoding response body")
        return found

    def list(self, prefix: str | None, *, offset: str | None = None, chunk_size: int = 1000) -> Iterator[Any]:
        """The facts of all objects below a prefix, in chunks."""
        for found in self._pages(prefix, {"max-keys": str(chunk_size), **({"start-after": offset} if offset else {})}):
            yield _listed(found)

    def list_with_delimiter(self, prefix: str | None) -> Mapping[str, Sequence[Any]]:
        """The folders and objects directly below a prefix."""
        folders: list[str] = []
        objects: list[Any] = []
        for found in self._pages(prefix, {"delimiter": "/"}):
            folders += [unquote(_text(one, "Prefix")) for one in found.iterfind("{*}CommonPrefixes")]
            objects += _listed(found)
        return {"common_prefixes": folders, "objects": objects}

    def _pages(self, prefix: str | None, query: Mapping[str, str]) -> Iterator[ElementTree.Element]:
        asked = {"list-type": "2", "encoding-type": "url", **query, **({"prefix": f"{prefix}/"} if prefix else {})}
        while True:
            found = _xml(self._send("GET", "", query=asked), "ListBucketResult")
            yield found
            token = _text(found, "NextContinuationToken")
            if not token:
                return
            asked = {**asked, "continuation-token": token}

    # ------------------------------------------------------------ writing

    def put(self, key: str, data: bytes, *, mode: str, attributes: Mapping[str, str] | None = None) -> None:
        """Create an object; with the mode ``create`` only where there is none."""
        headers = {**self._address.headers, **_meta(attributes)}
        if mode == "create":
            headers["If-None-Match"] = "*"
        answer = self._send("PUT", key, headers=headers, body=data)
        if "etag" not in answer.headers:
            raise GenericError("the answer of the store has no tag")

    def delete(self, keys: str | Sequence[str]) -> None:
        """Remove objects; one that is not there is no error."""
        if isinstance(keys, str):
            with suppress(FileNotFoundError):
                self._send("DELETE", keys)
            return
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="esker-deletes") as pool:
            list(pool.map(self.delete, keys))

    def open_writer(self, key: str, *, part: int, attributes: Mapping[str, str]) -> SignedUpload:
        """An object that is uploaded in parts."""
        headers = {**self._address.headers, **_meta(attributes)}
        answer = self._send("POST", key, query={"uploads": ""}, headers=headers)
        upload = _text(_xml(answer, "InitiateMultipartUploadResult"), "UploadId")
        return SignedUpload(self, key, upload, part)

    # ------------------------------------------------------------ one request

    def _send(
        self,
        method: str,
        key: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        unsigned: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> _Answer:
        """The answer, if it is a success. Requests that fail on the way are signed and sent again, within bounds."""
        path = quote(key, safe="/-_.~")
        tail = f"?{urlencode(sorted(query.items()), quote_via=quote, safe='-_.~')}" if query else ""
        url = f"{self._address.base}/{path}{tail}"
        own = _lower({"host": urlsplit(url).netloc, "x-amz-content-sha256": _UNSIGNED_PAYLOAD, **(headers or {})})
        for attempt in range(self._address.retries + 1):
            wait = min(self._address.first_wait_s * 3**attempt, _LONGEST_WAIT_S) * random.uniform(0.5, 1.0)
            is_last = attempt == self._address.retries
            signed = self._signer.sign(method, url, own, region=self._address.region, fresh=attempt > 0)
            if _place(signed.uri) != _place(url):
                raise Corrupt("the signature of a request", "the catalog signed a request to another address")
            try:
                answer = self._sent(method, signed.uri, {**_lower(signed.headers), **own, **(unsigned or {})}, body)
            except _NoAnswer as error:
                if is_last:
                    raise GenericError(str(error)) from None
            else:
                if 200 <= answer.status < 300:
                    return answer
                if is_last or not (answer.status in _AGAIN or (answer.status == 403 and attempt == 0)):
                    raise _refusal(answer)
                wait = max(wait, _asked_wait(answer))
            time.sleep(wait)
        raise AssertionError  # the last attempt returns or raises

    def _sent(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> _Answer:
        from urllib3 import exceptions

        try:
            answer = self._pool.request(
                method, url, headers=dict(headers), body=body or None, redirect=False, retries=False
            )
        except exceptions.TimeoutError:
            raise _NoAnswer("operation timed out") from None
        except (exceptions.HTTPError, OSError):
            raise _NoAnswer("error sending request: the connection was cut or refused") from None
        return _Answer(answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.data)


class SignedUpload:
    """An object that is uploaded in parts. Nothing is visible before ``close``."""

    def __init__(self, store: SignedS3, key: str, upload: str, part: int) -> None:
        self._store = store
        self._key = key
        self._upload = upload
        self._size = part
        self._held = bytearray()
        self._tags: list[str] = []

    def write(self, data: bytes) -> None:
        """Take data, and send what fills a part."""
        self._held += data
        while len(self._held) >= self._size:
            self._part(bytes(self._held[: self._size]))
            del self._held[: self._size]

    def close(self) -> None:
        """Make the object of all parts."""
        if self._held or not self._tags:
            self._part(bytes(self._held))
            self._held.clear()
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(tag)}</ETag></Part>"
            for number, tag in enumerate(self._tags, 1)
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        # a failure can also come with the status 200
        _xml(
            self._store._send("POST", self._key, query={"uploadId": self._upload}, body=body),
            "CompleteMultipartUploadResult",
        )

    def __exit__(self, *_: object) -> None:
        self._store._send("DELETE", self._key, query={"uploadId": self._upload})

    def _part(self, data: bytes) -> None:
        query = {"partNumber": str(len(self._tags) + 1), "uploadId": self._upload}
        answer = self._store._send("PUT", self._key, query=query, body=data)
        self._tags.append(answer.headers.get("etag", ""))


class _NoAnswer(Exception):
    pass


def _place(url: str) -> tuple[str, str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower(), unquote(parts.path)


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _meta(attributes: Mapping[str, str] | None) -> dict[str, str]:
    return {f"{_META}{name}": value for name, value in (attributes or {}).items()}


def _refusal(answer: _Answer) -> Exception:
    text = f"status code: {answer.status} {answer.body[:2000].decode('utf-8', 'replace')}"
    if answer.status == 404 and "NoSuchBucket" not in text and "NoSuchUpload" not in text:
        return FileNotFoundError(text)
    if answer.status == 412 or (answer.status == 409 and "ConditionalRequestConflict" in text):
        return AlreadyExistsError(text)
    return GenericError(text)


def _asked_wait(answer: _Answer) -> float:
    """What ``Retry-After`` asks for, within reason."""
    said = answer.headers.get("retry-after", "")
    return min(float(said), _LONGEST_WAIT_S) if said.isdecimal() else 0.0


def _facts(key: str, answer: _Answer) -> dict[str, Any]:
    whole = answer.headers.get("content-range", "").rpartition("/")[2] or answer.headers.get("content-length", "")
    date = answer.headers.get("last-modified")
    return {
        "path": key,
        "size": int(whole) if whole.isdecimal() else len(answer.body),
        "e_tag": answer.headers.get("etag"),
        "last_modified": parsedate_to_datetime(date) if date else datetime.fromtimestamp(0, UTC),
    }


def _xml(answer: _Answer, name: str) -> ElementTree.Element:
    """The document of an answer; it must be the one that was asked for."""
    try:
        found = ElementTree.fromstring(answer.body)
    except ElementTree.ParseError:
        found = None
    if found is None or found.tag.rpartition("}")[2] != name:
        text = answer.body[:2000].decode("utf-8", "replace")
        raise GenericError(f"status code: {500 if '<Error>' in text else answer.status} {text}")
    return found


def _text(element: ElementTree.Element, name: str) -> str:
    return element.findtext(f"{{*}}{name}") or ""


def _listed(found: ElementTree.Element) -> list[dict[str, Any]]:
    return [
        {
            "path": unquote(_text(one, "Key")),
            "size": int(_text(one, "Size") or 0),
            "e_tag": _text(one, "ETag"),
            "last_modified": datetime.fromisoformat(_text(one, "LastModified")),
        }
        for one in found.iterfind("{*}Contents")
    ]
