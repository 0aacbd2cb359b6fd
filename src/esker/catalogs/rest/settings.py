"""How a REST catalog is reached: its address, and properties under the names that PyIceberg and Java use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from esker.catalogs.rest.secret import Secret
from esker.errors import InvalidInput

_SECRET = re.compile(
    r"token$|credential$|secret|password|access-key|authorization|api-key|sas|account-key", re.IGNORECASE
)
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSettings:
    """The address and the properties, which hold secrets and are never shown."""

    uri: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, uri: str, *, warehouse: str | None = None, properties: Mapping[str, str] | None = None) -> RestSettings:
        """Checked settings. ``InvalidInput`` for an address with a user, a query or a fragment in it, and for one
        that would send secrets over a network in plain text."""
        given = {name: str(value) for name, value in (properties or {}).items() if value is not None}
        given.pop("uri", None)
        if warehouse is not None:
            given["warehouse"] = warehouse
        found = cls(uri=uri.rstrip("/"), properties=given)
        parts = found.parts
        if not parts.hostname or parts.username or parts.password or parts.query or parts.fragment:
            raise InvalidInput(
                f"cannot open the REST catalog at {shown_address(uri)}: write https://host/path, without user, query "
                "or fragment; secrets go into the properties token or credential",
            )
        found.check_plain_text(found.uri)
        return found

    @property
    def parts(self) -> SplitResult:
        """The address in its parts."""
        try:
            parts = urlsplit(self.uri)
            _ = parts.port
        except ValueError as error:
            raise InvalidInput(f"cannot open the REST catalog at {shown_address(self.uri)}: {error}") from None
        return parts

    @property
    def warehouse(self) -> str | None:
        """The warehouse that the server is asked for."""
        return self.properties.get("warehouse")

    def text(self, name: str) -> str | None:
        """A property; None where it is absent or empty."""
        return self.properties.get(name) or None

    def secret(self, name: str) -> Secret | None:
        """A property that is never shown."""
        value = self.text(name)
        return None if value is None else Secret(value)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A property that is true or false."""
        value = self.properties.get(name)
        if value is None:
            return default
        if value.lower() not in (*_TRUE, *_FALSE):
            raise InvalidInput(f"cannot use the property {name}: it is {value!r}, not true or false", property=name)
        return value.lower() in _TRUE

    def number(self, name: str, default: int) -> int:
        """A property that is a whole number above 0."""
        value = self.properties.get(name)
        if value is None:
            return default
        if not value.isascii() or not value.isdecimal() or int(value) < 1:
            raise InvalidInput(f"cannot use the property {name}: it is {value!r}, not a number above 0", property=name)
        return int(value)

    def headers(self) -> dict[str, str]:
        """The properties ``header.*`` as headers."""
        found = {name[len("header.") :]: value for name, value in self.properties.items() if name.startswith("header.")}
        for name, value in found.items():
            if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name) or re.search(r"[\r\n\0]", value):
                raise InvalidInput(f"cannot use the property header.{name}: it is no header", property=f"header.{name}")
        return found

    def secrets(self) -> tuple[Secret, ...]:
        """Every value that no message may show, the longest first."""
        found = [Secret(value) for name, value in self.properties.items() if value and _SECRET.search(name)]
        credential = self.properties.get("credential", "")
        if ":" in credential:
            found.append(Secret(credential.partition(":")[2]))
        return tuple(sorted(found, key=lambda secret: -len(secret.reveal())))

    def check_plain_text(self, uri: str) -> None:
        """``InvalidInput`` for an address without TLS on another machine, if there are secrets to send."""
        parts = urlsplit(uri)
        if parts.scheme == "https" or is_loopback(parts.hostname or ""):
            return
        if parts.scheme != "http":
            raise InvalidInput(f"cannot use {shown_address(uri)}: a REST catalog is reached by http or https")
        if self.secrets() or self.flag("rest.sigv4-enabled"):
            raise InvalidInput(
                f"cannot send secrets to {shown_address(uri)}: plain http shows them to the whole network; use https"
            )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def shown_address(uri: str) -> str:
    """An address without a user, a password, a query and a fragment, for messages."""
    return re.sub(r"//[^/@]*@", "//", uri).partition("?")[0].partition("#")[0]


def same_origin(one: str, other: str) -> bool:
    """Whether two addresses have the same scheme, host and port."""
    return _origin(one) == _origin(other)


def _origin(uri: str) -> tuple[str, str, int | None]:
    parts = urlsplit(uri)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or {"http": 80, "https": 443}.get(parts.scheme)
