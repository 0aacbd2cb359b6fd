"""What the environment says of object stores, as the SDKs of the clouds read it, under PyIceberg's property names."""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from pathlib import Path

from esker.errors import InvalidInput

_AWS = {
    "AWS_ACCESS_KEY_ID": "s3.access-key-id",
    "AWS_SECRET_ACCESS_KEY": "s3.secret-access-key",
    "AWS_SESSION_TOKEN": "s3.session-token",
    "AWS_REGION": "s3.region",
    "AWS_ENDPOINT_URL_S3": "s3.endpoint",
    "AWS_PROFILE": "s3.profile-name",
}
_AWS_LAST = {"AWS_DEFAULT_REGION": "s3.region", "AWS_ENDPOINT_URL": "s3.endpoint"}
_AZURE = {
    "AZURE_STORAGE_CONNECTION_STRING": "adls.connection-string",
    "AZURE_STORAGE_ACCOUNT": "adls.account-name",
    "AZURE_STORAGE_ACCOUNT_NAME": "adls.account-name",
    "AZURE_STORAGE_KEY": "adls.account-key",
    "AZURE_STORAGE_ACCOUNT_KEY": "adls.account-key",
    "AZURE_STORAGE_SAS_TOKEN": "adls.sas-token",
    "AZURE_TENANT_ID": "adls.tenant-id",
    "AZURE_CLIENT_ID": "adls.client-id",
    "AZURE_CLIENT_SECRET": "adls.client-secret",
}
_GOOGLE = {"STORAGE_EMULATOR_HOST": "gcs.service.host"}
_FILES = ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "HOME", "USERPROFILE")
_CAPTURED = frozenset((*_AWS, *_AWS_LAST, *_AZURE, *_GOOGLE, *_FILES))


def captured(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that count. They travel to workers, whose own environment may lack them."""
    return {name: environ[name] for name in sorted(_CAPTURED) if environ.get(name)}


def settings_of(environ: Mapping[str, str], family: str) -> dict[str, str]:
    """The variables of one family of stores as properties."""
    match family:
        case "s3":
            return _named(environ, {**_AWS_LAST, **_AWS})
        case "gcs":
            found = _named(environ, _GOOGLE)
            return {**found, "gcs.no-auth": "true"} if found else {}
        case _:
            return _named(environ, _AZURE)


def _named(environ: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    return {names[variable]: environ[variable] for variable in names if environ.get(variable)}


def profile_settings(environ: Mapping[str, str], profile: str | None) -> dict[str, str]:
    """What the files of the AWS command line say of a profile: keys, region, endpoint.

    Without a profile, the one named ``default``, which need not be there. `InvalidInput` where a named one is not.
    """
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or "~").expanduser()
    keys = _section(Path(environ.get(_FILES[0]) or home / ".aws" / "credentials"), (profile or "default",))
    names = ("default",) if profile in (None, "default") else (f"profile {profile}", str(profile))
    config = _section(Path(environ.get(_FILES[1]) or home / ".aws" / "config"), names)
    if profile is not None and not keys and not config:
        raise InvalidInput(f"cannot use the AWS profile {profile}: neither the credentials nor the config file has it")
    both = {**config, **keys}
    names_of = {
        "aws_access_key_id": "s3.access-key-id",
        "aws_secret_access_key": "s3.secret-access-key",
        "aws_session_token": "s3.session-token",
        "region": "s3.region",
        "endpoint_url": "s3.endpoint",
    }
    found = {names_of[name]: value for name, value in both.items() if name in names_of and value}
    if "s3.access-key-id" not in found and any(
        name.startswith(("sso_", "role_arn", "credential_process")) for name in both
    ):
        found["s3.profile-needs"] = "boto3"  # signing in is for the cloud's own library
    return found


def _section(file: Path, names: tuple[str, ...]) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read(file, encoding="utf-8")
    except (OSError, configparser.Error, UnicodeDecodeError):
        return {}
    return next((dict(parser[name]) for name in names if parser.has_section(name)), {})
