"""The store as the server reaches it: its own keys, and the settings that clients may know."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from esker.catalogs.rest.secret import Secret
from esker.catalogs.rest.sigv4 import AwsKeys
from esker.catalogs.warehouse import PATHS
from esker.errors import InvalidInput
from esker.storage.location import Location
from esker.storage.objects.configuration import ObjectConfiguration
from esker.storage.objects.environment import profile_settings
from esker.tree.table_metadata import TableMetadata

_ID, _SECRET, _TOKEN = "s3.access-key-id", "s3.secret-access-key", "s3.session-token"


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of a bucket: the prefix of keys without a slash at its end, and the folder as the table names it."""

    bucket: str
    prefix: str
    named: str = ""

    def holds(self, bucket: str, key: str) -> bool:
        """Whether an object is below this place."""
        return bucket == self.bucket and key.startswith(f"{self.prefix}/") and len(key) > len(self.prefix) + 1


@dataclass(frozen=True, slots=True)
class ServerStore:
    """How the server reaches S3. It shows nothing of its keys."""

    configuration: ObjectConfiguration = field(repr=False)

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the server, its secrets among them."""
        own = self.configuration.settings("s3")
        if _ID not in own:
            own = {**profile_settings(self.configuration.environment, own.get("s3.profile-name")), **own}
        return own

    @property
    def region(self) -> str:
        """The region of the store."""
        return self.settings.get("s3.region") or "us-east-1"

    @property
    def endpoint(self) -> str | None:
        """The address of the store; None for Amazon's own."""
        found = self.settings.get("s3.endpoint")
        return None if found is None else found.rstrip("/")

    def public_settings(self) -> dict[str, str]:
        """What clients need to know to reach the store. There is no secret among it."""
        own = self.settings
        found = {"client.region": self.region, "s3.region": self.region}
        if self.endpoint is not None:
            found["s3.endpoint"] = self.endpoint
            virtual = own.get("s3.force-virtual-addressing", "false").lower() == "true"
            found["s3.path-style-access"] = own.get("s3.path-style-access", "false" if virtual else "true")
        return found

    def keys(self) -> AwsKeys:
        """The server's own keys. Raises ``InvalidInput`` if it has none."""
        own = self.settings
        if own.get(_ID) and own.get(_SECRET):
            return _keys(own[_ID], own[_SECRET], own.get(_TOKEN))
        if importlib.util.find_spec("boto3") is not None:  # roles of machines and containers
            import boto3

            session = boto3.Session(profile_name=own.get("s3.profile-name"), region_name=self.region)
            if (found := session.get_credentials()) is not None:
                frozen = found.get_frozen_credentials()
                return _keys(frozen.access_key, frozen.secret_key, frozen.token)
        raise InvalidInput(
            "cannot give clients access to S3: the server has no key of its own; set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or install boto3 to sign in"
        )

    def token_service(self) -> str:
        """The address of the service that gives credentials of roles. Other stores than Amazon's have their own."""
        named = self.configuration.environment.get("AWS_ENDPOINT_URL_STS")
        return (named or self.endpoint or f"https://sts.{self.region}.amazonaws.com").rstrip("/")

    def object_at(self, url: str) -> tuple[str, str] | None:
        """The bucket and the encoded key of a request's address, in both styles; None for another host."""
        parts = urlsplit(url)
        host, path = parts.netloc.lower(), parts.path.lstrip("/")
        if self.endpoint is not None:
            known = urlsplit(self.endpoint)
            bases = [(known.scheme, known.netloc.lower())]
        else:
            names = ("s3.amazonaws.com", f"s3.{self.region}.amazonaws.com", f"s3.{self.region}.amazonaws.com.cn")
            bases = [("https", name) for name in names]
        for scheme, base in bases:
            if parts.scheme != scheme:
                continue
            if host == base:
                bucket, _, key = path.partition("/")
                return bucket, key
            if host.endswith(f".{base}"):
                return host.removesuffix(f".{base}"), path
        return None


def _keys(id_: str, secret: str, token: str | None) -> AwsKeys:
    return AwsKeys(access_key_id=id_, secret_access_key=Secret(secret), session_token=Secret(token) if token else None)


def places_of(metadata: TableMetadata) -> tuple[Place, ...]:
    """The folders of a table in S3: its location, and where its writers are told to write. None if it is elsewhere."""
    named = (metadata.location, *(metadata.properties.get(name) for name in PATHS))
    found: dict[Place, None] = {}
    for text in named:
        location = Location.parse(text or "")
        prefix = location.path.strip("/")
        if location.scheme == "s3" and location.authority and prefix and ".." not in prefix.split("/"):
            found[Place(location.authority, prefix, (text or "").rstrip("/"))] = None
    return tuple(found)
