"""Credentials for the files of one table, for less than an hour: a role that a session policy limits to the table."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlencode
from xml.etree import ElementTree

import msgspec

from esker.catalogs.rest.sigv4 import signed_headers
from esker.errors import InvalidInput, StorageFailed
from esker.serve.store.server_keys import Place, ServerStore

LIFETIME_S = 3600
_KEPT = 1000
_FRESH_MS = LIFETIME_S * 1000 // 2  # an answer has at least this much of its life before it
_READ = ("s3:GetObject",)
_WRITE = ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts")


@dataclass(frozen=True, slots=True)
class Vended:
    """Keys that end at a time. They are never shown."""

    config: dict[str, str] = field(repr=False)
    expires_at_ms: int


class Vending:
    """Asks the token service of the store for credentials, and keeps them while they are fresh."""

    def __init__(self, store: ServerStore, role: str, *, now: Callable[[], float] = time.time) -> None:
        if not role.startswith("arn:") or ":role/" not in role:
            raise InvalidInput(
                f"cannot give credentials of {role!r}: name a role, as in arn:aws:iam::123456789012:role/lake"
            )
        self._store = store
        self._role = role
        self._now = now
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[tuple[Place, ...], bool], Vended] = OrderedDict()

    def credentials(self, places: tuple[Place, ...], *, may_write: bool) -> Vended:
        """Credentials for the objects below places, and for no others. Raises ``StorageFailed``."""
        key = (places, may_write)
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None and kept.expires_at_ms - self._now() * 1000 > _FRESH_MS:
            return kept
        found = self._asked(session_policy(places, may_write=may_write, partition=self._role.split(":")[1]))
        with self._lock:
            self._kept[key] = found
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found

    def _asked(self, policy: str) -> Vended:
        form = {
            "Action": "AssumeRole",
            "Version": "2011-06-15",
            "RoleArn": self._role,
            "RoleSessionName": "esker-serve",
            "DurationSeconds": str(LIFETIME_S),
            "Policy": policy,
        }
        body = urlencode(form).encode()
        url = f"{self._store.token_service()}/"
        headers = signed_headers(
            "POST",
            url,
            {"content-type": "application/x-www-form-urlencoded"},
            body,
            keys=self._store.keys(),
            region=self._store.region,
            service="sts",
            at=datetime.fromtimestamp(self._now(), UTC),
        )
        request = urllib.request.Request(url, body, headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                content = answer.read(1 << 20)
        except urllib.error.HTTPError as error:
            code = _text(error.read(1 << 16), "Code")
            raise _failed(f"the token service answered {error.code} {code}", retryable=error.code >= 500) from None
        except OSError as error:
            raise _failed(f"the token service did not answer: {error}", retryable=True) from None
        return _credentials(content)


def session_policy(places: Sequence[Place], *, may_write: bool, partition: str = "aws") -> str:
    """What limits a role to the objects below places: to read them, and with ``may_write`` to change them."""
    actions = [*_READ, *(_WRITE if may_write else ())]
    buckets: dict[str, list[str]] = {}
    for place in places:
        buckets.setdefault(place.bucket, []).append(_plain(place.prefix))
    statements: list[dict[str, object]] = []
    for bucket, prefixes in buckets.items():
        arn = f"arn:{partition}:s3:::{bucket}"
        objects = [f"{arn}/{prefix}/*" for prefix in prefixes]
        statements.append({"Effect": "Allow", "Action": actions, "Resource": objects})
        listed = {"StringLike": {"s3:prefix": [f"{prefix}/*" for prefix in prefixes]}}
        statements.append({"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [arn], "Condition": listed})
        statements.append({"Effect": "Allow", "Action": ["s3:GetBucketLocation"], "Resource": [arn]})
    return msgspec.json.encode({"Version": "2012-10-17", "Statement": statements}).decode()


def _plain(prefix: str) -> str:
    """A prefix of which no character is a wildcard of policies."""
    return "".join(f"${{{sign}}}" if sign in "*?$" else sign for sign in prefix)


def _credentials(content: bytes) -> Vended:
    found = {name: _text(content, name) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")}
    if not all(found.values()):
        raise _failed("the answer of the token service has no credentials", retryable=False)
    expires = int(datetime.fromisoformat(found["Expiration"]).timestamp() * 1000)
    config = {
        "s3.access-key-id": found["AccessKeyId"],
        "s3.secret-access-key": found["SecretAccessKey"],
        "s3.session-token": found["SessionToken"],
        "s3.session-token-expires-at-ms": str(expires),
    }
    return Vended(config, expires)


def _text(content: bytes, name: str) -> str:
    try:
        return ElementTree.fromstring(content).findtext(f".//{{*}}{name}") or ""
    except ElementTree.ParseError:
        return ""


def _failed(why: str, *, retryable: bool) -> StorageFailed:
    return StorageFailed(f"cannot get credentials for the files of the table: {why}", retryable=retryable)
