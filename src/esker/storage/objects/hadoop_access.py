"""The settings with which Hadoop's file systems reach a bucket, made from the same configuration as Esker's client.

Only what Esker's configuration has is set, under names for this bucket or account alone, so a session keeps its other
settings. Credentials that must be renewed are no settings: then Hadoop is not used.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from esker.errors import InvalidInput
from esker.ports.storage import HadoopAccess
from esker.storage.objects.configuration import ObjectConfiguration
from esker.storage.objects.make_store import (
    Making,
    add_connection_string,
    add_profile,
    azure_credentials,
    expiry,
    making_for,
    s3_endpoint,
)

_PROVIDERS = "org.apache.hadoop.fs.s3a"
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_AZURE_HOST = ".dfs.core.windows.net"
_EXPIRES = "the credentials expire, and only Esker's own readers renew them"


def hadoop_access(configuration: ObjectConfiguration, location: str) -> tuple[str, HadoopAccess]:
    """The root of the location's bucket in Hadoop's spelling, such as ``s3a://bucket``, and how it is reached.

    Raises `InvalidInput` for settings that make no sense.
    """
    making = making_for(configuration, location)
    find = {"s3": _s3, "gcs": _gcs, "adls": _azure}[making.family]
    root, found = find(making, location.partition(":")[0].lower())
    renewed = making.vended is not None and configuration.refresh is not None
    if renewed or expiry(making.vended, making.settings, making.family) is not None:
        found = _EXPIRES
    if configuration.signer is not None:
        found = "the catalog signs every request, and only Esker's own readers ask it to"
    if isinstance(found, str):
        return root, HadoopAccess(obstacle=found)
    return root, HadoopAccess(settings=tuple(sorted(found.items())))


def _s3(making: Making, scheme: str) -> tuple[str, dict[str, str] | str]:
    bucket = making.place.authority
    root = f"s3a://{bucket}"
    if not _HOST.fullmatch(bucket):
        return root, f"Hadoop does not accept the name of the bucket {bucket}"
    if add_profile(making):
        return root, "only Esker's own readers sign in with a role or a profile"
    found: dict[str, str] = {}
    if endpoint := making.get("endpoint"):
        found["endpoint"] = endpoint.rstrip("/")
        found["path.style.access"] = str(not s3_endpoint(making, bucket)[1]).lower()
    elif making.get("path-style-access") or making.get("force-virtual-addressing"):
        found["path.style.access"] = str(not s3_endpoint(making, bucket)[1]).lower()
    if (region := making.get("region")) or endpoint:
        found["endpoint.region"] = region or "us-east-1"
    found |= _s3_credentials(making)
    if proxy := making.get("proxy-uri"):
        parts = urlsplit(proxy)
        if parts.username or not parts.hostname:
            return root, "Hadoop does not accept the proxy's address"
        found["proxy.host"] = parts.hostname
        found["proxy.port"] = str(parts.port or (443 if parts.scheme == "https" else 80))
    for name, key in (("connect-timeout", "establish"), ("request-timeout", "request")):
        if making.get(name):
            found[f"connection.{key}.timeout"] = f"{int(making.number(name, 0) * 1000)}ms"
    if making.get("retry.num-retries"):
        found["attempts.maximum"] = str(int(making.number("retry.num-retries", 0)) + 1)
    return root, {f"fs.s3a.bucket.{bucket}.{name}": value for name, value in found.items()}


def _s3_credentials(making: Making) -> dict[str, str]:
    if making.is_set("anonymous"):
        return {"aws.credentials.provider": f"{_PROVIDERS}.AnonymousAWSCredentialsProvider"}
    key, secret, token = (making.get(name) for name in ("access-key-id", "secret-access-key", "session-token"))
    if key is None and secret is None:
        return {}  # those of the session or of the machine
    if not key or not secret:
        raise InvalidInput("cannot sign requests to S3: s3.access-key-id and s3.secret-access-key go together")
    found = {"access.key": key, "secret.key": secret}
    if token:
        found["session.token"] = token
    kind = "Temporary" if token else "Simple"
    return {**found, "aws.credentials.provider": f"{_PROVIDERS}.{kind}AWSCredentialsProvider"}


def _gcs(making: Making, scheme: str) -> tuple[str, dict[str, str] | str]:
    root = f"gs://{making.place.authority}"
    if making.get("oauth2.token"):
        return root, "Hadoop does not accept a token for Google Cloud Storage"
    found = {}
    if host := making.get("service.host"):
        found["fs.gs.storage.root.url"] = (host if "://" in host else f"http://{host}").rstrip("/") + "/"
    if making.is_set("no-auth"):
        found["fs.gs.auth.type"] = "UNAUTHENTICATED"
    return root, found


def _azure(making: Making, scheme: str) -> tuple[str, dict[str, str] | str]:
    container, _, host = making.place.authority.rpartition("@")
    if not container:
        container, host = host, ""
    add_connection_string(making)
    account = host.partition(".")[0] or making.get("account-name") or ""
    named = making.get("account-host") or making.get("endpoint") or host or f"{account}{_AZURE_HOST}"
    host = named.replace(".blob.", ".dfs.")
    root = f"{'abfs' if scheme == 'abfs' else 'abfss'}://{container}@{host}"
    if not account or not _HOST.fullmatch(host):
        return root, f"Hadoop does not accept {host or 'no account'} as the host of an Azure account"
    if making.is_set("anon"):
        return root, "Hadoop does not read Azure without credentials"
    given = azure_credentials(making.settings, account) or {}
    if "token" in given:
        return root, "Hadoop does not accept a token for Azure"
    if "sas_token" in given:
        return root, _of_account(host, {"account.auth.type": "SAS", "sas.fixed.token": given["sas_token"]})
    if "access_key" in given:
        return root, _of_account(host, {"account.auth.type": "SharedKey", "account.key": given["access_key"]})
    tenant, client, secret = (making.get(name) for name in ("tenant-id", "client-id", "client-secret"))
    if not (tenant and client and secret):
        return root, {}
    return root, _of_account(
        host,
        {
            "account.auth.type": "OAuth",
            "account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
            "account.oauth2.client.endpoint": f"https://login.microsoftonline.com/{tenant}/oauth2/token",
            "account.oauth2.client.id": client,
            "account.oauth2.client.secret": secret,
        },
    )


def _of_account(host: str, found: dict[str, str]) -> dict[str, str]:
    return {f"fs.azure.{name}.{host}": value for name, value in found.items()}
