"""AWS Signature Version 4, as AWS publishes the algorithm: for services with a JSON or form body, and for S3."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from esker.catalogs.rest.secret import Secret

S3 = "s3"
_ALGORITHM = "AWS4-HMAC-SHA256"
_UNSIGNED = frozenset(("authorization", "user-agent", "connection", "expect", "x-amzn-trace-id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsKeys:
    """Keys of an AWS account or role."""

    access_key_id: str
    secret_access_key: Secret
    session_token: Secret | None = None


def signed_headers(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    keys: AwsKeys,
    region: str,
    service: str,
    at: datetime,
) -> dict[str, str]:
    """The headers with the signature and all that it needs. ``at`` is the time in UTC."""
    found = {name: value for name, value in headers.items() if name.lower() != "authorization"}
    found |= {
        "host": urlsplit(url).netloc,
        "x-amz-date": at.strftime("%Y%m%dT%H%M%SZ"),
        "x-amz-content-sha256": hashlib.sha256(body).hexdigest(),
    }
    if keys.session_token is not None:
        found["x-amz-security-token"] = keys.session_token.reveal()
    found["Authorization"] = authorization(method, url, found, body, keys=keys, region=region, service=service)
    return found


def authorization(
    method: str, url: str, headers: Mapping[str, str], body: bytes, *, keys: AwsKeys, region: str, service: str
) -> str:
    """The header that signs a request with these headers, ``x-amz-date`` among them.

    For the service ``s3`` the payload is what the header ``x-amz-content-sha256`` says of it, and the body is not read.
    """
    parts = urlsplit(url)
    canonical = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    is_s3 = service == S3
    moment = canonical["x-amz-date"]
    names = sorted(name for name in canonical if name not in _UNSIGNED)
    request = "\n".join(
        (
            method.upper(),
            s3_path(parts.path) if is_s3 else _canonical_path(parts.path),
            canonical_query(parts.query),
            *(f"{name}:{canonical[name]}" for name in names),
            "",
            ";".join(names),
            canonical["x-amz-content-sha256"] if is_s3 else hashlib.sha256(body).hexdigest(),
        )
    )
    scope = f"{moment[:8]}/{region}/{service}/aws4_request"
    to_sign = "\n".join((_ALGORITHM, moment, scope, hashlib.sha256(request.encode()).hexdigest()))
    key = _signing_key(keys.secret_access_key.reveal(), moment[:8], region, service)
    signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    return (
        f"{_ALGORITHM} Credential={keys.access_key_id}/{scope}, SignedHeaders={';'.join(names)}, Signature={signature}"
    )


def canonical_query(query: str) -> str:
    """The parameters sorted, each encoded once."""
    pairs = sorted((_encoded(name), _encoded(value)) for name, value in parse_qsl(query, keep_blank_values=True))
    return "&".join(f"{name}={value}" for name, value in pairs)


def s3_path(path: str) -> str:
    """The path of an object, encoded once: the form that S3 itself signs."""
    return quote(unquote(path) or "/", safe="/-_.~")


def _canonical_path(path: str) -> str:
    """The path as it is sent, encoded a second time: every service but S3 itself wants it so."""
    return quote(path or "/", safe="/-_.~")


def _encoded(text: str) -> str:
    return quote(text, safe="-_.~")


def _signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key
