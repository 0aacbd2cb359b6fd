"""A REST server as it described itself: what it offers, where, and how it is asked.

There are two kinds of request. One that changes nothing is sent again after a failure. One that changes something
is sent again only with an idempotency key, or where the caller knows that a second one cannot apply.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import msgspec

from esker.catalogs.rest.auth import Auth, auth_of
from esker.catalogs.rest.nessie import is_nessie
from esker.catalogs.rest.operations import (
    ASSUMED,
    DEFAULT_SEPARATOR,
    GLUE,
    KEYED,
    NESSIE,
    NOT_ON_NESSIE,
    S3_TABLES,
    VIEWS,
    Operation,
    Routes,
)
from esker.catalogs.rest.server_errors import RENEWED, error_in, failure, is_unknown, is_unreadable, may_be_asked_again
from esker.catalogs.rest.settings import RestSettings, same_origin, shown_address
from esker.catalogs.rest.transport import Answer, HttpTransport, NoAnswer, Request, Transport
from esker.errors import Corrupt, InvalidInput, NotFound, OutcomeUnknown, StorageFailed, Unsupported
from esker.model.table_names import Namespace, TableName
from esker.version import VERSION

ATTEMPTS = 4
_WAIT_S = 0.2
# Not "remote-signing": a server that has both, such as Nessie, would then sign, and signs no listings. A server that
# can only sign says so in the table's settings.
_DELEGATION, _ACCESS = "X-Iceberg-Access-Delegation", "vended-credentials"
Sleep = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What the server says of itself, merged with the user's properties."""

    settings: RestSettings
    operations: frozenset[Operation]
    routes: Routes
    has_keys: bool  # whether the server takes idempotency keys
    is_advertised: bool  # whether the server listed its operations


@dataclass(frozen=True, slots=True)
class Told:
    """How a change was answered. ``may_be_made``: an earlier attempt, or this one, got no clear answer."""

    answer: Answer | None
    why: str
    may_be_made: bool


class RestService:
    """Sends requests with the right headers, retries what may be retried, and reads answers."""

    def __init__(
        self,
        settings: RestSettings,
        transport: Transport | None = None,
        *,
        auth: Auth | None = None,
        sleep: Sleep = time.sleep,
    ) -> None:
        self._given = settings
        self._transport = transport or HttpTransport(settings)
        self._auth = auth or auth_of(settings, self._transport)
        self._sleep = sleep
        self._known: Configuration | None = None
        self._lock = threading.RLock()

    @property
    def address(self) -> str:
        """The server, for messages."""
        return shown_address(self._given.uri)

    # ------------------------------------------------------------ configuration

    @property
    def configuration(self) -> Configuration:
        """What the server says of itself; asked for once, when it is needed first."""
        # not a cached_property: until Python 3.12 that has one lock for all servers, and one may be slow
        with self._lock:
            if self._known is None:
                self._known = self._configured()
            return self._known

    def _configured(self) -> Configuration:
        warehouse = self._given.warehouse
        query = f"?{urlencode({'warehouse': warehouse})}" if warehouse else ""
        answer = self._asked(Request(method="GET", url=f"{self._given.uri}/v1/config{query}"), "read its configuration")
        if answer.status == 404:
            raise NotFound(
                f"cannot open the REST catalog at {self.address}: "
                + (f"it has no warehouse {warehouse!r}" if warehouse else "there is no such catalog")
                + f" ({error_in(answer, self.secrets)})"
            )
        document = self.document(answer, "read its configuration")
        found = self._merged(document)
        if found.settings.properties != self._given.properties:
            self._auth = auth_of(found.settings, self._transport)
        return found

    def _merged(self, document: Mapping[str, Any]) -> Configuration:
        """Defaults of the server, then the user's properties, then overrides of the server."""
        defaults, overrides = _texts(document.get("defaults")), _texts(document.get("overrides"))
        for name in ("uri", "oauth2-server-uri"):
            self._check_origin(name, overrides.get(name) or defaults.get(name))
        merged = {**defaults, **self._given.properties, **overrides}
        uri = (overrides.get("uri") or self._given.uri).rstrip("/")
        settings = replace(self._given, uri=uri, properties={k: v for k, v in merged.items() if k != "uri"})
        listed = document.get("endpoints")
        separator = settings.text("namespace-separator") or DEFAULT_SEPARATOR
        return Configuration(
            settings=settings,
            operations=_operations(listed, settings),
            routes=Routes(uri, settings.text("prefix") or "", separator),
            has_keys=isinstance(document.get("idempotency-key-lifetime"), str),
            is_advertised=isinstance(listed, list),
        )

    def _check_origin(self, name: str, uri: str | None) -> None:
        """A server may not send the user's secrets to another host (S16)."""
        own = self._given.text(name) or self._given.uri
        if uri is not None and "://" in uri and not same_origin(uri, self._given.uri) and not same_origin(uri, own):
            raise InvalidInput(
                f"cannot use the REST catalog at {self.address}: its configuration sends {name} to "
                f"{shown_address(uri)}, another host; name that address yourself if you trust it"
            )

    @property
    def settings(self) -> RestSettings:
        """The properties, the server's included."""
        return self.configuration.settings

    def own(self, name: str) -> str | None:
        """A property as the user gave it; None where the user gave none."""
        return self._given.text(name)

    @property
    def secrets(self) -> tuple[Any, ...]:
        """What no message may show: the user's secrets, those of the server's configuration, and tokens from it."""
        merged = () if self._known is None else self._known.settings.secrets()
        return (*self._given.secrets(), *merged, *self._auth.secrets())

    @property
    def tended_by(self) -> str | None:
        """S3 Tables, which lets no client delete files, and Nessie, whose older versions may need any file."""
        if is_nessie(self.settings):
            return "Nessie"
        return "S3 Tables" if self.settings.text("rest.signing-name") == "s3tables" else None

    def offers(self, operation: Operation) -> bool:
        """Whether the server has the operation."""
        return operation in self.configuration.operations

    def require(self, operation: Operation, doing: str) -> None:
        """``Unsupported`` where the server does not offer the operation: it is then not called at all."""
        if not self.offers(operation):
            how = "does not advertise" if self.configuration.is_advertised else "is not known to offer"
            raise Unsupported(
                f"cannot {doing}: the REST catalog at {self.address} {how} the operation "
                f"{operation.words} ({operation.value})",
                feature=operation.words,
            )

    def url(self, operation: Operation, name: Namespace | TableName | None = None, **how: Any) -> str:
        """The address of an operation."""
        return self.configuration.routes.url(operation, name, **how)

    # ------------------------------------------------------------ requests that change nothing

    def ask(
        self,
        operation: Operation,
        name: Namespace | TableName | None,
        doing: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: object = None,
        **how: Any,
    ) -> Answer:
        """The answer of an operation that changes nothing: a success, 304 or 404; every other status is raised."""
        self.require(operation, doing)
        url = self.url(operation, name, query=query, **how)
        content = b"" if body is None else msgspec.json.encode(body)
        own = {"Idempotency-Key": str(new_key())} if self.configuration.has_keys and operation in KEYED else {}
        request = Request(method=operation.method, url=url, headers={**own, **(headers or {})}, body=content)
        return self._asked(request, doing)

    def ask_at(self, url: str, body: object, doing: str, *, headers: Mapping[str, str] | None = None) -> Answer:
        """The answer of an address that the server named, to a request that changes nothing; every status but a
        success is raised."""
        self.settings.check_plain_text(url)
        request = Request(method="POST", url=url, headers=headers or {}, body=msgspec.json.encode(body))
        answer = self._asked(request, doing)
        if not answer.is_success:
            raise failure(answer, doing, self.address, self.secrets)
        return answer

    def pages(
        self,
        operation: Operation,
        name: Namespace | None,
        doing: str,
        field: str,
        query: Mapping[str, str] | None = None,
    ) -> Iterator[Any] | None:
        """The items of a list over all its pages; None where the server says 404."""
        size = self.settings.text("rest-page-size")
        asked = {**(query or {}), "pageToken": "", **({"pageSize": size} if size else {})}
        found: list[Any] = []
        seen = {""}
        while True:
            answer = self.ask(operation, name, doing, query=asked)
            if answer.status == 404:
                return None
            document = self.document(answer, doing)
            items = document.get(field)
            if not isinstance(items, list):
                raise Corrupt(f"the answer of {self.address}", f"{field!r} must be an array")
            found += items
            token = document.get("next-page-token")
            if not token:
                return iter(found)
            if not isinstance(token, str) or token in seen:
                raise Corrupt(f"the answer of {self.address}", "it names the same next page twice")
            seen.add(token)
            asked["pageToken"] = token

    def _asked(self, request: Request, doing: str) -> Answer:
        why: Answer | NoAnswer
        for attempt in range(ATTEMPTS):
            try:
                answer = why = self._sent(request)
            except NoAnswer as error:
                why = error
                wait = _WAIT_S * 2**attempt
            else:
                if not may_be_asked_again(answer.status):
                    break
                wait = answer.wait_s(_WAIT_S * 2**attempt)
            if attempt + 1 < ATTEMPTS:
                self._sleep(wait * random.uniform(0.5, 1.0) if isinstance(why, NoAnswer) else wait)
        if isinstance(why, NoAnswer):
            raise self.silence(doing, why.why)
        if why.is_success or why.status in (304, 404):
            return why
        raise failure(why, doing, self.address, self.secrets)

    # ------------------------------------------------------------ requests that change something

    def tell(
        self, operation: Operation, name: Namespace | TableName | None, body: object, *, resend: bool, **how: Any
    ) -> Told:
        """Send a change. It is sent again, under the same key, where the server takes keys or ``resend`` says that a
        second one cannot apply; and where the server certainly did not look at it."""
        content = b"" if body is None else msgspec.json.encode(body)
        request = Request(method=operation.method, url=self.url(operation, name, **how), body=content)
        if self.configuration.has_keys and operation in KEYED:
            request = replace(request, headers={"Idempotency-Key": str(new_key())})
            resend = True
        may_be_made, why = False, ""
        answer: Answer | None = None
        for attempt in range(ATTEMPTS):
            wait = _WAIT_S * 2**attempt
            try:
                answer = self._sent(request)
            except NoAnswer as error:
                answer, why = None, error.why
                may_be_made = may_be_made or error.was_sent
                if error.was_sent and not resend:
                    break
            else:
                why = str(error_in(answer, self.secrets))
                if is_unknown(answer.status):
                    may_be_made = True
                if not may_be_asked_again(answer.status) or (answer.status != 429 and not resend):
                    break
                wait = answer.wait_s(wait)
            if attempt + 1 < ATTEMPTS:
                self._sleep(wait)
        return Told(answer, why, may_be_made)

    def change(
        self,
        operation: Operation,
        name: Namespace | TableName | None,
        body: object,
        doing: str,
        *,
        needs_body: bool = True,
        **how: Any,
    ) -> Answer:
        """The answer to a change that is no commit: a success, 404 or 409; every other status is raised.

        ``OutcomeUnknown`` where nobody can say whether the change was made.
        """
        self.require(operation, doing)
        told = self.tell(operation, name, body, resend=False, **how)
        answer = told.answer
        if answer is not None and answer.is_success and not (needs_body and is_unreadable(answer)):
            return answer
        if answer is not None and answer.is_success:
            told = Told(answer, "the answer cannot be read", may_be_made=True)
        if told.may_be_made:
            raise OutcomeUnknown(
                f"cannot tell whether the REST catalog at {self.address} did this: {doing}; {told.why}; "
                "look before you try again"
            )
        if answer is None:
            raise self.silence(doing, told.why)
        if answer.status in (404, 409):
            return answer
        raise failure(answer, doing, self.address, self.secrets)

    def silence(self, doing: str, why: str) -> StorageFailed:
        """The error for a server that does not answer."""
        return StorageFailed(
            f"cannot {doing}: the REST catalog at {self.address} does not answer: {why}",
            retryable=True,
            operation=doing,
            reason=why,
        )

    def document(self, answer: Answer, doing: str) -> dict[str, Any]:
        """The JSON object of a successful answer."""
        try:
            found = msgspec.json.decode(answer.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise Corrupt(
                f"the answer of {self.address}", f"asked to {doing}, it has status {answer.status} and no JSON object"
            )
        return found

    def _sent(self, request: Request) -> Answer:
        """One answer; a token that the server does not take is renewed once."""
        full = replace(request, headers={**self._headers(request), **request.headers})
        answer = self._transport.send(self._auth.authorized(full))
        if answer.status in RENEWED and self._auth.renew():
            answer = self._transport.send(self._auth.authorized(full))
        return answer

    def _headers(self, request: Request) -> dict[str, str]:
        settings = self._given if self._known is None else self._known.settings
        own = {"Accept": "application/json", "User-Agent": f"esker/{VERSION}", _DELEGATION: _ACCESS}
        if request.body:
            own["Content-Type"] = "application/json"
        names = {name.lower() for name in settings.headers()}
        return {name: value for name, value in own.items() if name.lower() not in names} | settings.headers()


def new_key() -> UUID:
    """A UUID of version 7: the time in milliseconds, then random bits."""
    ms = time.time_ns() // 1_000_000
    value = (ms & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 7 << 76
    return UUID(int=value & ~(0b11 << 62) | 0b10 << 62)


def _operations(listed: Any, settings: RestSettings) -> frozenset[Operation]:
    if isinstance(listed, list):
        named = {" ".join(str(one).split()) for one in listed}
        found = frozenset(one for one in Operation if one.value in named)
        return found - NOT_ON_NESSIE if is_nessie(settings) else found
    service = settings.text("rest.signing-name") if settings.flag("rest.sigv4-enabled") else None
    if service == "s3tables":
        return S3_TABLES
    if service == "glue":
        return GLUE
    if is_nessie(settings):
        return NESSIE
    return ASSUMED | VIEWS if settings.flag("view-endpoints-supported") else ASSUMED


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {str(name): str(one) for name, one in value.items() if one is not None}
