"""The client of one bucket, made by ``obstore`` from the settings that apply to it."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from esker.errors import InvalidInput, Unsupported
from esker.ports.credentials import StorageCredentials
from esker.storage.location import Location
from esker.storage.objects.configuration import FAMILIES, ObjectConfiguration, chosen
from esker.storage.objects.environment import profile_settings

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_EXTRAS = {"s3": "s3", "gcs": "gcs", "adls": "azure"}
_REFRESH_BEFORE_MS = 5 * 60_000
_EXPIRES = {
    "s3": "s3.session-token-expires-at-ms",
    "gcs": "gcs.oauth2.token-expires-at",
    "adls": "adls.sas-token-expires-at-ms",
}
_RETRIES, _MIN_WAIT_MS, _MAX_WAIT_MS = 6, 100, 15_000
_RETRY_SECONDS = 120
_LEAST_REPETITIONS = 3  # of a create, whose answer says whether a commit was made
_AZURE_HOST = ".dfs.core.windows.net"


def make_store(configuration: ObjectConfiguration, location: str, *, repeats: bool = True) -> ObjectStore:
    """The client for the bucket of a location, with the credentials for that location.

    Without ``repeats`` it sends each request once, so that the caller sees every answer.
    `Unsupported` where ``obstore`` is not installed or a setting needs something that it cannot do, `InvalidInput` for
    settings that make no sense.
    """
    place = Location.parse(location)
    family = FAMILIES[place.scheme]
    try:
        import obstore.store  # noqa: F401
    except ImportError:
        raise Unsupported(
            f"cannot reach {location}: {place.scheme} locations need obstore: pip install 'esker[{_EXTRAS[family]}]'",
            feature=place.scheme,
        ) from None
    make = {"s3": _s3, "gcs": _gcs, "adls": _azure}[family]
    try:
        return make(making_for(configuration, location, repeats=repeats))
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"cannot reach {location}: {configuration.masked(str(error))}", location=location) from None


def making_for(configuration: ObjectConfiguration, location: str, *, repeats: bool = True) -> Making:
    """What applies to the bucket of a location."""
    place = Location.parse(location)
    family = FAMILIES[place.scheme]
    vended = configuration.vended_for(location)
    return Making(configuration, place, family, configuration.settings(family, vended), vended, repeats=repeats)


def waits_of(configuration: ObjectConfiguration, location: str) -> list[float]:
    """The seconds to wait before each repetition of a request, at least three times: each a random part of a bound that
    grows."""
    making = making_for(configuration, location)
    least, most = making.number("retry.min-wait-ms", _MIN_WAIT_MS), making.number("retry.max-wait-ms", _MAX_WAIT_MS)
    repetitions = max(int(making.number("retry.num-retries", _RETRIES)), _LEAST_REPETITIONS)
    return [random.uniform(0.5, 1) * min(most, least * 3**turn) / 1000 for turn in range(repetitions)]


class Making:
    """What a client is made from."""

    def __init__(
        self,
        configuration: ObjectConfiguration,
        place: Location,
        family: str,
        settings: dict[str, str],
        vended: StorageCredentials | None,
        *,
        repeats: bool = True,
    ) -> None:
        self.repeats = repeats
        self.configuration = configuration
        self.place = place
        self.family = family
        self.settings = settings
        self.vended = vended

    def get(self, name: str) -> str | None:
        return self.settings.get(f"{self.family}.{name}")

    def number(self, name: str, default: float) -> float:
        text = self.get(name)
        try:
            found = default if text is None else float(text)
        except ValueError:
            found = -1
        if found < 0:
            raise InvalidInput(
                f"cannot use {self.family}.{name}: {text!r} is not a number", property=f"{self.family}.{name}"
            )
        return found

    def is_set(self, name: str) -> bool | None:
        text = self.get(name)
        return None if text is None else text.strip().lower() == "true"

    def client(self, endpoint: str | None) -> dict[str, Any]:
        options: dict[str, Any] = {
            "connect_timeout": timedelta(seconds=self.number("connect-timeout", 5)),
            "timeout": timedelta(seconds=self.number("request-timeout", 60)),
            "allow_http": bool(endpoint and endpoint.startswith("http://")),
        }
        if proxy := self.get("proxy-uri"):
            options["proxy_url"] = proxy
        return options

    def retries(self) -> dict[str, Any]:
        return {
            "max_retries": int(self.number("retry.num-retries", _RETRIES)) if self.repeats else 0,
            "retry_timeout": timedelta(seconds=_RETRY_SECONDS),
            "backoff": {
                "init_backoff": timedelta(milliseconds=self.number("retry.min-wait-ms", _MIN_WAIT_MS)),
                "max_backoff": timedelta(milliseconds=self.number("retry.max-wait-ms", _MAX_WAIT_MS)),
                "base": 3,
            },
        }

    def provider(self, shape: Callable[[Mapping[str, str]], dict[str, Any] | None]) -> CredentialProvider | None:
        """What gives the credentials of the settings, renewed before they expire; None where there are none."""
        if shape(self.settings) is None:
            return None
        return CredentialProvider(self, shape)


class CredentialProvider:
    """Gives ``obstore`` credentials and asks the catalog for new ones before they expire."""

    def __init__(self, making: Making, shape: Callable[[Mapping[str, str]], dict[str, Any] | None]) -> None:
        self._making = making
        self._shape = shape
        self._settings = making.settings
        self._expires_at_ms = expiry(making.vended, making.settings, making.family)
        self._lock = threading.Lock()

    def __call__(self) -> dict[str, Any]:
        with self._lock:
            self._renew()
            given = self._shape(self._settings) or {}
            at = self._expires_at_ms
            return {**given, "expires_at": None if at is None else datetime.fromtimestamp(at / 1000, UTC)}

    def _renew(self) -> None:
        making = self._making
        refresh = making.configuration.refresh
        if refresh is None or making.vended is None or self._expires_at_ms is None:
            return
        if self._expires_at_ms - time.time() * 1000 > _REFRESH_BEFORE_MS:
            return
        found = chosen(refresh(), making.vended.prefix)
        if found is not None:
            self._settings = making.configuration.settings(making.family, found)
            self._expires_at_ms = expiry(found, found.config, making.family)


def expiry(vended: StorageCredentials | None, settings: Mapping[str, str], family: str) -> int | None:
    """When credentials expire, in milliseconds; None if they do not."""
    if vended is not None and vended.expires_at_ms is not None:
        return vended.expires_at_ms
    text = settings.get(_EXPIRES[family], "")
    return int(text) if text.isdigit() else None


def _s3(making: Making) -> ObjectStore:
    from obstore.store import S3Store

    bucket = making.place.authority
    if not bucket:
        raise InvalidInput(f"cannot reach {making.place}: it names no bucket, as in s3://bucket/warehouse")
    endpoint, virtual = s3_endpoint(making, bucket)
    if making.configuration.signer is not None:
        return _signed_s3(making, bucket, endpoint, virtual)
    signs = making.is_set("remote-signing-enabled") or bool(making.get("signer"))
    if signs and not making.get("access-key-id"):  # keys, where there are some, need nobody to sign
        raise Unsupported(
            f"cannot reach s3://{bucket}: only a REST catalog can sign requests; give the lake keys of its own",
            feature="remote signing",
        )
    needs_boto3 = add_profile(making)
    endpoint, virtual = s3_endpoint(making, bucket)  # a profile may name it
    config: dict[str, Any] = {"region": making.get("region") or "us-east-1"}
    config["virtual_hosted_style_request"] = virtual
    if endpoint:
        config["endpoint"] = config["aws_endpoint_url_s3"] = endpoint
    if making.is_set("anonymous"):
        config["skip_signature"] = True
    for name, key in (("server-side-encryption", "server_side_encryption"), ("sse-kms-key-id", "sse_kms_key_id")):
        if value := making.get(name):
            config[key] = value
    return S3Store(
        bucket,
        config=config,
        client_options=making.client(endpoint),
        retry_config=making.retries(),
        credential_provider=_boto3_provider(making) if needs_boto3 else making.provider(_s3_credentials),
    )


def s3_endpoint(making: Making, bucket: str) -> tuple[str | None, bool]:
    """The address of the store, with the bucket in it where that is its style; and whether it is."""
    endpoint = making.get("endpoint")
    virtual = making.is_set("force-virtual-addressing")
    if virtual is None:
        virtual = not making.is_set("path-style-access") if making.get("path-style-access") else endpoint is None
    if "." in bucket and endpoint is None:
        virtual = False  # the certificate of the service covers one level of names
    if endpoint:
        scheme, _, host = endpoint.rstrip("/").partition("://")
        endpoint = f"{scheme}://{bucket}.{host}" if virtual else endpoint.rstrip("/")
    return endpoint, virtual


def _signed_s3(making: Making, bucket: str, endpoint: str | None, virtual: bool) -> ObjectStore:
    from esker.storage.objects.signed_s3 import S3Address, SignedS3

    assert making.configuration.signer is not None
    region = making.get("region") or "us-east-1"
    host = endpoint or f"https://{f'{bucket}.' if virtual else ''}s3.{region}.amazonaws.com"
    named = (("server-side-encryption", ""), ("sse-kms-key-id", "-aws-kms-key-id"))
    encryption = {
        f"x-amz-server-side-encryption{rest}": value for name, rest in named if (value := making.get(name)) is not None
    }
    address = S3Address(
        base=host if virtual else f"{host}/{bucket}",
        region=region,
        connect_timeout_s=making.number("connect-timeout", 5),
        timeout_s=making.number("request-timeout", 60),
        retries=making.retries()["max_retries"],
        first_wait_s=making.number("retry.min-wait-ms", _MIN_WAIT_MS) / 1000,
        headers=encryption,
    )
    return cast("ObjectStore", SignedS3(address, making.configuration.signer))


def add_profile(making: Making) -> bool:
    """Add what the files of the AWS command line say; whether its own library has to sign in."""
    if making.get("role-arn"):
        return True
    profile = making.get("profile-name")
    has_keys = making.get("access-key-id") or making.is_set("anonymous") or making.vended
    if has_keys and profile is None:
        return False
    found = profile_settings(making.configuration.environment, profile)
    for name, value in found.items():
        if not (has_keys and name in ("s3.access-key-id", "s3.secret-access-key", "s3.session-token")):
            making.settings.setdefault(name, value)
    return making.get("profile-needs") is not None and not has_keys


def _boto3_provider(making: Making) -> Any:
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider, StsCredentialProvider
    except ImportError:
        raise Unsupported(
            "cannot sign in to AWS: roles and profiles that sign in need boto3: pip install boto3",
            feature="AWS sign-in",
        ) from None
    session = boto3.Session(
        aws_access_key_id=making.get("access-key-id"),
        aws_secret_access_key=making.get("secret-access-key"),
        aws_session_token=making.get("session-token"),
        profile_name=making.get("profile-name"),
        region_name=making.get("region"),
    )
    if role := making.get("role-arn"):
        name = making.get("role-session-name") or "esker"
        return StsCredentialProvider(session, RoleArn=role, RoleSessionName=name)
    return Boto3CredentialProvider(session)


def _s3_credentials(settings: Mapping[str, str]) -> dict[str, Any] | None:
    key, secret = settings.get("s3.access-key-id"), settings.get("s3.secret-access-key")
    if key is None and secret is None:
        return None
    if not key or not secret:
        raise InvalidInput("cannot sign requests to S3: s3.access-key-id and s3.secret-access-key go together")
    return {"access_key_id": key, "secret_access_key": secret, "token": settings.get("s3.session-token")}


def _gcs(making: Making) -> ObjectStore:
    from obstore.store import GCSStore

    host = making.get("service.host")
    if host and "://" not in host:
        host = f"http://{host}"
    config: dict[str, Any] = {"base_url": host.rstrip("/")} if host else {}
    if making.is_set("no-auth"):
        config["skip_signature"] = True
    return GCSStore(
        making.place.authority,
        config=config,
        client_options=making.client(host),
        retry_config=making.retries(),
        credential_provider=making.provider(_gcs_credentials),
    )


def _gcs_credentials(settings: Mapping[str, str]) -> dict[str, Any] | None:
    token = settings.get("gcs.oauth2.token")
    return {"token": token} if token else None


def _azure(making: Making) -> ObjectStore:
    from obstore.store import AzureStore

    container, _, host = making.place.authority.rpartition("@")
    if not container:
        container, host = host, ""
    add_connection_string(making)
    account = host.partition(".")[0] or making.get("account-name")
    if not account:
        raise InvalidInput(
            f"cannot reach the container {container}: name the account, as in "
            f"abfss://{container}@account{_AZURE_HOST}/path, or set adls.account-name"
        )
    config: dict[str, Any] = {"account_name": account, "container_name": container}
    endpoint = making.get("account-host") or making.get("endpoint")
    if endpoint:
        endpoint = endpoint if "://" in endpoint else f"https://{endpoint}"
        config["endpoint"] = endpoint.replace(".dfs.", ".blob.")
    for name in ("tenant-id", "client-id", "client-secret"):
        if value := making.get(name):
            config[name.replace("-", "_")] = value
    if making.is_set("anon"):
        config["skip_signature"] = True
    return AzureStore(
        config=config,
        client_options=making.client(endpoint),
        retry_config=making.retries(),
        credential_provider=making.provider(lambda settings: azure_credentials(settings, account)),
    )


def add_connection_string(making: Making) -> None:
    """Add what a connection string of Azure says."""
    text = making.get("connection-string") or ""
    parts = dict(part.partition("=")[::2] for part in text.split(";") if "=" in part)
    names = {
        "AccountName": "account-name",
        "AccountKey": "account-key",
        "SharedAccessSignature": "sas-token",
        "BlobEndpoint": "endpoint",
    }
    for part, name in names.items():
        if value := parts.get(part):
            making.settings.setdefault(f"adls.{name}", value)


def azure_credentials(settings: Mapping[str, str], account: str) -> dict[str, Any] | None:
    """The credentials for an account: a SAS token, a key or a token; None if there are none."""
    prefix = f"adls.sas-token.{account}"
    own = next((value for name, value in settings.items() if name == prefix or name.startswith(f"{prefix}.")), None)
    if sas := own or settings.get("adls.sas-token"):
        return {"sas_token": sas.lstrip("?")}
    if key := settings.get("adls.account-key"):
        return {"access_key": key}
    if token := settings.get("adls.token"):
        return {"token": token}
    return None
