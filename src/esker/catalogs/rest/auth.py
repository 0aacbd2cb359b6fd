"""Who is asking: nobody, a token, an OAuth2 client, or an AWS account."""

from __future__ import annotations

import configparser
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol
from urllib.parse import urlencode

import msgspec

from esker.catalogs.rest.secret import Secret, without
from esker.catalogs.rest.settings import RestSettings, shown_address
from esker.catalogs.rest.sigv4 import AwsKeys, signed_headers
from esker.catalogs.rest.transport import Answer, NoAnswer, Request, Transport
from esker.errors import InvalidInput, StorageFailed

Clock = Callable[[], float]
_EARLY_S = 60.0  # before a token ends, or a tenth of its life where that is less


class Auth(Protocol):
    """Adds to a request what proves who sends it."""

    def authorized(self, request: Request) -> Request:
        """The request with a token or a signature."""
        ...

    def renew(self) -> bool:
        """After the server refused what was sent: whether there is something new to try."""
        ...

    def secrets(self) -> tuple[Secret, ...]:
        """What is sent besides the user's properties, and must not be shown."""
        ...


class NoAuth:
    """Requests as they are."""

    def authorized(self, request: Request) -> Request:
        return request

    def renew(self) -> bool:
        return False

    def secrets(self) -> tuple[Secret, ...]:
        return ()


class BearerToken:
    """A token that the user or the server gave."""

    def __init__(self, token: Secret) -> None:
        self._token = token

    def authorized(self, request: Request) -> Request:
        return _bearing(request, self._token)

    def renew(self) -> bool:
        return False

    def secrets(self) -> tuple[Secret, ...]:
        return (self._token,)


class ClientCredentials:
    """Tokens by OAuth2's client credentials flow. One is asked for when the first is needed, and again in time."""

    def __init__(self, settings: RestSettings, transport: Transport, *, now: Clock = time.monotonic) -> None:
        self._settings = settings
        self._transport = transport
        self._now = now
        self._lock = threading.Lock()
        self._token = settings.secret("token")
        self._former: Secret | None = None  # a late answer may quote it
        self._ends: float | None = None

    def authorized(self, request: Request) -> Request:
        with self._lock:
            if self._token is None or (self._ends is not None and self._now() >= self._ends):
                self._fetch()
            assert self._token is not None
            return _bearing(request, self._token)

    def renew(self) -> bool:
        with self._lock:
            self._fetch()
        return True

    def secrets(self) -> tuple[Secret, ...]:
        return tuple(token for token in (self._token, self._former) if token is not None)

    def _fetch(self) -> None:
        url = self._settings.text("oauth2-server-uri") or f"{self._settings.uri}/v1/oauth/tokens"
        if "://" not in url:
            url = f"{self._settings.uri}/{url.lstrip('/')}"
        self._settings.check_plain_text(url)
        before, colon, after = (self._settings.text("credential") or "").partition(":")
        client_id, secret = (before, after) if colon else ("", before)
        form = {
            "grant_type": "client_credentials",
            "client_id": client_id,
            "client_secret": secret,
            "scope": self._settings.text("scope") or "catalog",
            "audience": self._settings.text("audience") or "",
            "resource": self._settings.text("resource") or "",
        }
        body = urlencode({name: value for name, value in form.items() if value}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        began = self._now()
        try:
            answer = self._transport.send(Request(method="POST", url=url, headers=headers, body=body))
        except NoAnswer as error:
            raise StorageFailed(
                f"cannot get a token from {shown_address(url)}: {error.why}",
                retryable=True,
                operation="get a token",
                reason=error.why,
            ) from None
        found, life = _token_in(answer, url, (*self._settings.secrets(), *self.secrets()))
        self._token, self._former = found, self._token
        self._ends = None if life is None else began + max(life - min(_EARLY_S, life / 10), 0)


def _token_in(answer: Answer, url: str, secrets: tuple[Secret, ...]) -> tuple[Secret, float | None]:
    """The token in an answer and its life in seconds. No error ever shows what was sent or came back as a token."""
    try:
        document = msgspec.json.decode(answer.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        document = {}
    fields: Mapping[str, object] = document if isinstance(document, dict) else {}
    token, life = fields.get("access_token"), fields.get("expires_in")
    if not answer.is_success or not isinstance(token, str) or not token:
        said = ": ".join(str(fields[name]) for name in ("error", "error_description") if fields.get(name))
        why = without(said, *secrets)[:300] or f"the answer has status {answer.status} and no token"
        if answer.status >= 500 or answer.status == 429:
            raise StorageFailed(
                f"cannot get a token from {shown_address(url)}: {why}",
                retryable=True,
                operation="get a token",
                reason=why,
            )
        raise InvalidInput(
            f"cannot get a token from {shown_address(url)}: {why}; check the properties credential, scope and "
            "oauth2-server-uri"
        )
    return Secret(token), float(life) if isinstance(life, int | float) and life > 0 else None


class SigV4:
    """Requests signed with keys of an AWS account, for S3 Tables and Glue."""

    def __init__(self, settings: RestSettings, *, now: Callable[[], datetime] | None = None) -> None:
        region = settings.text("rest.signing-region") or settings.text("client.region")
        region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if region is None:
            raise InvalidInput(
                "cannot sign requests: there is no region; set the property rest.signing-region or $AWS_REGION"
            )
        self._region = region
        self._service = settings.text("rest.signing-name") or "execute-api"
        self._settings = settings
        self._keys = aws_keys(settings)
        self._now = now or (lambda: datetime.now(UTC))

    def authorized(self, request: Request) -> Request:
        headers = signed_headers(
            request.method,
            request.url,
            request.headers,
            request.body,
            keys=self._keys,
            region=self._region,
            service=self._service,
            at=self._now(),
        )
        return replace(request, headers=headers)

    def renew(self) -> bool:
        found = aws_keys(self._settings)  # a file of keys may have been written again
        is_new = found != self._keys
        self._keys = found
        return is_new

    def secrets(self) -> tuple[Secret, ...]:
        keys = (self._keys.secret_access_key, self._keys.session_token)
        return tuple(key for key in keys if key is not None)


def aws_keys(settings: RestSettings) -> AwsKeys:
    """Keys from the properties, from the environment, or from AWS's file of credentials, in this order."""
    for prefix in ("rest.", "client."):
        if key := settings.text(f"{prefix}access-key-id"):
            return _keys(
                key, settings.text(f"{prefix}secret-access-key"), settings.text(f"{prefix}session-token"), prefix
            )
    profile = settings.text("client.profile-name")
    if profile is None and (key := os.environ.get("AWS_ACCESS_KEY_ID")):
        return _keys(key, os.environ.get("AWS_SECRET_ACCESS_KEY"), os.environ.get("AWS_SESSION_TOKEN"), "$AWS_")
    return _keys_in_file(profile or os.environ.get("AWS_PROFILE") or "default")


def _keys(key: str, secret: str | None, session: str | None, source: str) -> AwsKeys:
    if not secret:
        raise InvalidInput(f"cannot sign requests: {source} has an access key id and no secret access key")
    return AwsKeys(
        access_key_id=key, secret_access_key=Secret(secret), session_token=Secret(session) if session else None
    )


def _keys_in_file(profile: str) -> AwsKeys:
    file = Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials").expanduser()
    parser = configparser.RawConfigParser()
    try:
        parser.read(file)
        found = dict(parser[profile]) if parser.has_section(profile) else {}
    except (configparser.Error, OSError, UnicodeDecodeError):
        raise InvalidInput(f"cannot sign requests: {file} cannot be read as AWS's file of credentials") from None
    if "aws_access_key_id" not in found:
        raise InvalidInput(
            "cannot sign requests: there are no AWS keys; set client.access-key-id and client.secret-access-key, "
            f"$AWS_ACCESS_KEY_ID and $AWS_SECRET_ACCESS_KEY, or a profile {profile!r} in {file}"
        )
    return _keys(
        found["aws_access_key_id"], found.get("aws_secret_access_key"), found.get("aws_session_token"), str(file)
    )


def auth_of(settings: RestSettings, transport: Transport) -> Auth:
    """What the properties ask for: a signature, a credential, a token, or nothing."""
    if settings.flag("rest.sigv4-enabled"):
        return SigV4(settings)
    if settings.text("credential"):
        return ClientCredentials(settings, transport)
    token = settings.secret("token")
    return NoAuth() if token is None else BearerToken(token)


def _bearing(request: Request, token: Secret) -> Request:
    return replace(request, headers={**request.headers, "Authorization": f"Bearer {token.reveal()}"})
