"""How an object store is reached: one configuration for S3, Google Cloud Storage and Azure.

Settings have PyIceberg's property names. They come from three places, the first of which wins: credentials that a
catalog vended, properties of the caller, the environment as the SDKs of the clouds read it. Credentials are taken from
one place as a whole, so that a key of one place is never used with the token of another.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Self

from esker.errors import InvalidInput, StorageFailed
from esker.ports.credentials import Refresh, SignedRequest, Signer, StorageCredentials
from esker.storage.location import Location
from esker.storage.objects.environment import captured, settings_of

FAMILIES = {"s3": "s3", "gs": "gcs", "az": "adls", "abfs": "adls", "wasb": "adls"}
"""The first part of the property names for each scheme of a location."""

_CREDENTIALS = {
    "s3": (
        *("s3.access-key-id", "s3.secret-access-key", "s3.session-token", "s3.session-token-expires-at-ms"),
        *("s3.profile-name", "s3.anonymous", "s3.role-arn", "s3.role-session-name"),
    ),
    "gcs": ("gcs.oauth2.token", "gcs.oauth2.token-expires-at", "gcs.no-auth"),
    "adls": (
        *("adls.account-key", "adls.sas-token", "adls.token", "adls.connection-string", "adls.anon"),
        *("adls.tenant-id", "adls.client-id", "adls.client-secret", "adls.sas-token-expires-at-ms"),
    ),
}
_RETRIES = ("retry.num-retries", "retry.min-wait-ms", "retry.max-wait-ms", "connect-timeout", "request-timeout")
_NAMES = frozenset(
    (
        *(name for names in _CREDENTIALS.values() for name in names),
        *(f"{family}.{name}" for family in _CREDENTIALS for name in _RETRIES),
        *("s3.endpoint", "s3.region", "s3.path-style-access", "s3.force-virtual-addressing", "s3.proxy-uri"),
        *("s3.remote-signing-enabled", "s3.signer", "s3.signer.uri", "s3.signer.endpoint"),
        *("s3.server-side-encryption", "s3.sse-kms-key-id", "gcs.service.host", "gcs.project-id"),
        *("adls.account-name", "adls.account-host"),
        *("client.region", "client.access-key-id", "client.secret-access-key", "client.session-token"),
        *("client.profile-name", "client.role-arn", "client.role-session-name"),
    )
)
_SECRET = ("secret", "key", "token", "password", "connection-string", "credential", "customer")
_SHORTEST = 8
_ALIASES = ("region", "access-key-id", "secret-access-key", "session-token", "profile-name", "role-arn")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectConfiguration:
    """Properties, environment and vended credentials. Nothing of it is ever shown; all of it travels to workers."""

    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    vended: tuple[StorageCredentials, ...] = field(default=(), repr=False)
    refresh: Refresh | None = field(default=None, repr=False)
    signer: Signer | None = field(default=None, repr=False)  # of a catalog that signs requests and vends no keys

    @classmethod
    def of(cls, properties: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None) -> Self:
        """From properties in PyIceberg's names and from the environment, which is read now."""
        return cls(properties=dict(properties or {}), environment=captured(os.environ if environ is None else environ))

    def with_vended(
        self, credentials: Iterable[StorageCredentials], refresh: Refresh | None = None
    ) -> ObjectConfiguration:
        """The same with credentials of a catalog. ``refresh`` is called before they expire."""
        return replace(self, vended=tuple(credentials), refresh=refresh)

    def with_signer(self, signer: Signer | None) -> ObjectConfiguration:
        """The same with requests to S3 that a catalog signs."""
        return replace(self, signer=signer)

    def vended_for(self, location: str) -> StorageCredentials | None:
        """The credentials with the longest prefix of a location."""
        return chosen(self.vended, location)

    def settings(self, family: str, vended: StorageCredentials | None = None) -> dict[str, str]:
        """What applies to one family of stores: every property by its name."""
        found: dict[str, str] = {}
        layers = (dict(vended.config) if vended else {}, self.properties, settings_of(self.environment, family))
        for layer in layers:
            own = _with_aliases(family, layer)
            has_credentials = any(name in found for name in _credentials(family, found))
            for name, value in own.items():
                if not (has_credentials and name in _credentials(family, own)):
                    found.setdefault(name, value)
        return found

    def secrets(self) -> frozenset[str]:
        """Every value that must not be shown."""
        layers = [self.properties, *(vended.config for vended in self.vended)]
        layers += [settings_of(self.environment, family) for family in _CREDENTIALS]
        return frozenset(value for layer in layers for name, value in layer.items() if value and is_secret(name))

    def masked(self, text: str) -> str:
        """A text without the secrets in it. What is shorter than any key of a cloud may be part of a word."""
        for secret in sorted(self.secrets(), key=len, reverse=True):
            if len(secret) >= _SHORTEST:
                text = text.replace(secret, "***")
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        signer = self.signer
        if signer is not None and not isinstance(signer, SentSigner):
            signer = SentSigner(pickle.dumps(signer))
        refresh = _travelling(self.refresh)
        return _rebuild, (dict(self.properties), dict(self.environment), self.vended, refresh, signer)


def _rebuild(
    properties: dict[str, str],
    environment: dict[str, str],
    vended: tuple[StorageCredentials, ...],
    refresh: Refresh | None,
    signer: Signer | None = None,
) -> ObjectConfiguration:
    return ObjectConfiguration(
        properties=properties, environment=environment, vended=vended, refresh=refresh, signer=signer
    )


@dataclass(frozen=True, slots=True)
class SentRefresh:
    """A call-back that was sent to another process. It is unpacked when credentials expire, not before: a worker that
    lacks the code of the catalog, or a library, can use the credentials that it was given."""

    pickled: bytes = field(repr=False)

    def __call__(self) -> Sequence[StorageCredentials]:
        refresh: Refresh = _unpacked(self.pickled, "renew the credentials of the store", "start the job again, or ")
        return refresh()


@dataclass(slots=True)
class SentSigner:
    """A signer that was sent to another process. It is unpacked when the first request is to be signed."""

    pickled: bytes = field(repr=False)
    _signer: Signer | None = field(default=None, repr=False, compare=False)

    def sign(
        self, method: str, uri: str, headers: Mapping[str, str], *, region: str, fresh: bool = False
    ) -> SignedRequest:
        if self._signer is None:
            self._signer = _unpacked(self.pickled, "have requests to the store signed", "")
        assert self._signer is not None
        return self._signer.sign(method, uri, headers, region=region, fresh=fresh)

    def __reduce__(self) -> tuple[Any, ...]:
        return SentSigner, (self.pickled,)


def _unpacked(pickled: bytes, doing: str, advice: str) -> Any:
    try:
        return pickle.loads(pickled)
    except ImportError as error:
        raise StorageFailed(
            f"cannot {doing} in this process: {error}; {advice}install urllib3 and msgspec where it runs",
            retryable=True,
            operation=doing,
            reason=str(error),
        ) from error


def _travelling(refresh: Refresh | None) -> Refresh | None:
    """The call-back, if it can be sent to another process; a worker without it uses the credentials it was given."""
    if refresh is None or isinstance(refresh, SentRefresh):
        return refresh
    try:
        return SentRefresh(pickle.dumps(refresh))
    except Exception:  # whatever a foreign object raises when it cannot be pickled
        return None


class HiddenProperties(dict[str, str]):
    """Properties of a caller that may contain secrets: a mapping that shows its names alone."""

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{name}: ***' for name in sorted(self))}}}"


def chosen(credentials: Iterable[StorageCredentials], location: str) -> StorageCredentials | None:
    """Of credentials, those with the longest prefix of a location."""
    place = Location.parse(location)
    fitting = [vended for vended in credentials if _covers(vended.prefix, place)]
    return max(fitting, key=lambda vended: len(vended.prefix), default=None)


def _covers(prefix: str, place: Location) -> bool:
    """Whether a prefix, which may end within a name, covers a location. A bare scheme covers the whole of it."""
    if "://" not in prefix:
        return FAMILIES.get(prefix.strip(":/"), prefix) == FAMILIES.get(place.scheme)
    base = Location.parse(prefix)
    if (base.scheme, base.authority) != (place.scheme, place.authority):
        return False
    return place.path.startswith(base.path.rstrip("/") if not prefix.endswith("/") else base.path.rstrip("/") + "/")


def is_secret(name: str) -> bool:
    """Whether the value of a property must not be shown."""
    return any(word in name for word in _SECRET) and not name.endswith(("-expires-at-ms", "-expires-at", "kms-key-id"))


def check_names(properties: Mapping[str, str]) -> None:
    """`InvalidInput` for a storage property that nobody knows: a typing error must not go unnoticed."""
    for name in properties:
        if not name.startswith(("s3.", "gcs.", "adls.")) or name in _NAMES or name.startswith("adls.sas-token"):
            continue
        near = get_close_matches(name, _NAMES, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; known ones: {', '.join(sorted(_NAMES))}"
        raise InvalidInput(f"cannot use the property {name}: there is no such property{hint}", property=name)


def _credentials(family: str, names: Iterable[str]) -> set[str]:
    return {name for name in names if name in _CREDENTIALS[family] or name.startswith("adls.sas-token.")}


def _with_aliases(family: str, layer: Mapping[str, str]) -> dict[str, str]:
    own = {name: value for name, value in layer.items() if name.startswith(f"{family}.") and value != ""}
    if family == "s3":  # what all clients of AWS share
        for name in (*_ALIASES, "role-session-name"):
            if value := layer.get(f"client.{name}"):
                own.setdefault(f"s3.{name}", value)
    return own
