"""Requests to S3 that the catalog signs: the client has no key. Each request is described to the server, which answers
with the headers of the signed one.

Signatures are kept for a short time where the server allows it (``Cache-Control: private``), for reads alone. A range
is not part of a signature, so one signature serves all reads of an object.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

from esker.catalogs.rest.operations import Operation
from esker.catalogs.rest.service import RestService
from esker.catalogs.rest.settings import RestSettings, same_origin, shown_address
from esker.errors import Corrupt, InvalidInput
from esker.model.table_names import TableName
from esker.ports.credentials import SignedRequest

ENABLED = "s3.remote-signing-enabled"
_URI, _ENDPOINT = ("signer.uri", "s3.signer.uri"), ("signer.endpoint", "s3.signer.endpoint")
_OLD_ENDPOINT = "v1/aws/s3/sign"  # before the protocol had an operation for it
_KEPT_S, _KEPT = 30.0, 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningConfig:
    """How a server wants to be asked for the files of one table."""

    url: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)  # passed through with each request
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, service: RestService, name: TableName, config: Mapping[str, str], document: Mapping[str, Any]
    ) -> SigningConfig:
        """From the settings that came with a table, and its ``remote-signing-config``.

        Raises ``InvalidInput`` where the server sends the user's token to another host that the user did not name.
        """
        own = next((uri for one in _URI if (uri := service.own(one))), None)
        base = next((config[one] for one in _URI if config.get(one)), own or service.settings.uri)
        endpoint = next((config[one] for one in _ENDPOINT if config.get(one)), None)
        if endpoint is not None:
            url = urljoin(f"{base.rstrip('/')}/", endpoint.lstrip("/") if "://" not in endpoint else endpoint)
        elif service.offers(Operation.SIGN_REQUEST):
            url = service.url(Operation.SIGN_REQUEST, name)
        else:
            url = f"{base.rstrip('/')}/{_OLD_ENDPOINT}"
        if not same_origin(url, service.settings.uri) and not (own is not None and same_origin(url, own)):
            raise InvalidInput(
                f"cannot use table {name}: the server sends requests for signatures to {shown_address(url)}, another "
                "host; set the property s3.signer.uri to that address if you trust it"
            )
        return cls(
            url=url,
            properties=_strings(document.get("properties")),
            headers={
                str(header): ", ".join(map(str, values)) if isinstance(values, list) else str(values)
                for header, values in (document.get("headers") or {}).items()
            },
        )


class RemoteSigner:
    """Asks the server for signatures. It can be sent to another process, and begins there without kept ones."""

    def __init__(self, settings: RestSettings, name: TableName, config: SigningConfig) -> None:
        self._settings = settings
        self._name = name
        self._config = config
        self._begin()

    def _begin(self) -> None:
        self._service = RestService(self._settings)
        self._kept: OrderedDict[tuple[str, str, str], tuple[float, SignedRequest]] = OrderedDict()
        self._lock = threading.Lock()

    def __getstate__(self) -> tuple[RestSettings, TableName, SigningConfig]:
        return self._settings, self._name, self._config

    def __setstate__(self, state: tuple[RestSettings, TableName, SigningConfig]) -> None:
        self._settings, self._name, self._config = state
        self._begin()

    def sign(
        self, method: str, uri: str, headers: Mapping[str, str], *, region: str, fresh: bool = False
    ) -> SignedRequest:
        key = (method, region, uri)
        with self._lock:
            ends, kept = self._kept.get(key, (0.0, None))
            if kept is not None and not fresh and time.monotonic() < ends:
                return kept
        found, may_keep = self._asked(method, uri, headers, region)
        if may_keep and method in ("GET", "HEAD"):
            with self._lock:
                self._kept[key] = time.monotonic() + _KEPT_S, found
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
        return found

    def _asked(self, method: str, uri: str, headers: Mapping[str, str], region: str) -> tuple[SignedRequest, bool]:
        body: dict[str, Any] = {
            "method": method,
            "region": region,
            "uri": uri,
            "headers": {name: [value] for name, value in headers.items()},
            "provider": "s3",
        }
        if self._config.properties:
            body["properties"] = dict(self._config.properties)
        doing = f"sign a request for files of {self._name}"
        answer = self._service.ask_at(self._config.url, body, doing, headers=self._config.headers)
        document = self._service.document(answer, doing)
        signed, given = document.get("uri"), document.get("headers")
        if not isinstance(signed, str) or not isinstance(given, dict):
            raise Corrupt(f"the answer of {self._service.address}", f"asked to {doing}, it has no uri and headers")
        merged = {
            str(name): ", ".join(map(str, values)) if isinstance(values, list) else str(values)
            for name, values in given.items()
            if str(name).lower() != "cache-control"
        }
        return SignedRequest(signed, merged), answer.headers.get("cache-control", "").strip().lower() == "private"


def _strings(value: Any) -> dict[str, str]:
    return {str(name): str(one) for name, one in value.items()} if isinstance(value, dict) else {}
