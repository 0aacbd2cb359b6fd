"""Who may do what: tokens with roles, each for the whole catalog or for some of its namespaces."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qs

import msgspec

from esker.catalogs.rest.operations import Operation
from esker.errors import InvalidInput
from esker.model.table_names import Namespace, parse_namespace
from esker.serve.call import Answer, Call, answer_json
from esker.serve.error_answers import NotAllowed, NotKnown
from esker.serve.find_operation import OWN_OPERATIONS

LIFETIME_S = 3600
_DIGEST = "sha256:"
_SHORTEST = 16
_LONGEST_FORM = 64 << 10  # bytes
_GRANTS = ("client_credentials", "urn:ietf:params:oauth:grant-type:token-exchange")
_GRANT_HELP = f"grant_type is {' or '.join(_GRANTS)}"


class Role(IntEnum):
    """What a caller may do. Each role includes those before it."""

    READ = 1
    """Look at everything."""
    WRITE = 2
    """Create, change and drop tables and views."""
    ADMIN = 3
    """Create, change and drop namespaces too, and bring dropped tables back."""


_ADMIN = frozenset(
    {
        *(Operation.CREATE_NAMESPACE.value, Operation.DROP_NAMESPACE.value, Operation.UPDATE_NAMESPACE.value),
        *OWN_OPERATIONS,
    }
)
_READ = frozenset(
    {
        *(Operation.REPORT_METRICS.value, Operation.PLAN_SCAN.value, Operation.FETCH_TASKS.value),
        *(Operation.CANCEL_PLAN.value, Operation.SIGN_REQUEST.value),  # what may be signed depends on the role
    }
)
_LEADS = frozenset({Operation.LIST_NAMESPACES.value, Operation.LOAD_NAMESPACE.value, Operation.NAMESPACE_EXISTS.value})
"""What a caller may ask about a namespace above its own: whether it is there, and what leads to its own."""


def role_for(operation: str) -> Role:
    """The role that an operation needs."""
    if operation in _ADMIN:
        return Role.ADMIN
    if operation in _READ or operation.startswith(("GET ", "HEAD ")):
        return Role.READ
    return Role.WRITE


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody with a role, in some namespaces and what is below them; in all if none is named.

    ``name`` is for the log; it says nothing about the token.
    """

    name: str
    role: Role
    namespaces: tuple[Namespace, ...] = ()

    def check(self, operation: str, namespaces: Sequence[Namespace]) -> None:
        """Raise ``NotAllowed`` if the caller may not do this there. It does not depend on what exists."""
        needed = role_for(operation)
        if self.role < needed:
            raise NotAllowed(f"your role is {self.role.name.lower()}, and this needs {needed.name.lower()}")
        is_allowed = self.sees if operation in _LEADS else self.has
        if not all(map(is_allowed, namespaces)):
            raise NotAllowed("your token is not valid for this namespace")

    def sees(self, namespace: Namespace) -> bool:
        """Whether a list shows the namespace: it is allowed, or it leads to an allowed one."""
        return self.has(namespace) or any(one[: len(namespace)] == namespace for one in self.namespaces)

    def has(self, namespace: Namespace) -> bool:
        """Whether the caller's role is valid in the namespace."""
        return not self.namespaces or any(namespace[: len(one)] == one for one in self.namespaces)


EVERYONE = Caller("anonymous", Role.ADMIN)
"""The caller of a server without tokens, which listens to this machine alone."""


class StoredCallers(Protocol):
    """Callers whose tokens are kept elsewhere, and may come and go."""

    @property
    def are_fresh(self) -> bool:
        """Whether `callers` can answer from memory."""
        ...

    def callers(self) -> Mapping[bytes, Caller]:
        """The callers by the digests of their tokens."""
        ...


class Tokens:
    """The tokens of a server, as digests: those of a file, and those that ``stored`` has at each request.

    Each line of the file is ``ROLE TOKEN [NAMESPACE …]``; a line of one word is a token of an administrator. A token
    may be written as ``sha256:`` and the hexadecimal digest of it. Empty lines and lines that begin with ``#`` are
    ignored.
    """

    def __init__(
        self,
        callers: Mapping[bytes, Caller],
        now: Callable[[], float] = time.time,
        *,
        stored: StoredCallers | None = None,
    ) -> None:
        self._callers = dict(callers)
        self._now = now
        self._stored = stored

    @classmethod
    def read(cls, path: Path, *, stored: StoredCallers | None = None) -> Tokens:
        """The tokens of a file. Raises ``InvalidInput`` if it cannot be read or holds none."""
        try:
            lines = path.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"cannot read the token file {path}: {error}") from None
        found: dict[bytes, Caller] = {}
        for number, line in enumerate(lines, 1):
            if line.strip() and not line.lstrip().startswith("#"):
                digest, caller = _entry(line.split(), number, path)
                if digest in found:
                    raise InvalidInput(
                        f"cannot use the token file {path}: line {number} has the token of {found[digest].name}; name "
                        "all its namespaces in one line"
                    )
                found[digest] = caller
        if not found:
            raise InvalidInput(f"cannot use the token file {path}: it holds no token")
        return cls(found, stored=stored)

    def caller(self, authorization: str | None) -> Caller:
        """The caller with a header ``Authorization``. Raises ``NotKnown`` for one without a valid token."""
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip()
        if scheme.lower() == "bearer" and token:
            if (found := self._of(_digest(token))) is not None:
                return found
            if (found := self._of_access_token(token)) is not None:
                return found
            raise NotKnown("the token is not valid: it is wrong, it was removed, or it has ended")
        raise NotKnown("a token is needed: send the header Authorization: Bearer TOKEN")

    @property
    def are_at_hand(self) -> bool:
        """Whether all tokens are in memory, so that `caller` does not wait for a database."""
        return self._stored is None or self._stored.are_fresh

    def _known(self) -> Mapping[bytes, Caller]:
        return self._callers if self._stored is None else {**self._stored.callers(), **self._callers}

    def _of(self, digest: bytes) -> Caller | None:
        found: Caller | None = None
        for known, caller in self._known().items():  # all of them, so that the time says nothing
            if hmac.compare_digest(known, digest):
                found = caller
        return found

    def exchange(self, call: Call) -> Answer:
        """An access token for a client's credentials, or for a token (OAuth2). It is valid for an hour.

        Clients also send an access token that is about to end, to get the next one. The client's secret is one of the
        tokens. Access tokens are signed, not kept: every process of the server that has the same tokens accepts them,
        as long as the token itself is valid.
        """
        if len(call.body) > _LONGEST_FORM:  # it is read before anybody is known
            return answer_json({"error": "invalid_request", "error_description": "the form is too long"}, status=400)
        form = {name: values[0] for name, values in parse_qs(call.body.decode("latin-1")).items()}
        if form.get("grant_type", _GRANTS[0]) not in _GRANTS:
            return answer_json({"error": "unsupported_grant_type", "error_description": _GRANT_HELP}, status=400)
        digest = self._exchanged(form, call.headers.get("authorization"))
        if digest is None:
            return answer_json({"error": "invalid_client", "error_description": "unknown client or secret"}, status=401)
        payload = msgspec.json.encode({"d": digest[:8].hex(), "e": int(self._now()) + LIFETIME_S})
        token = f"{_text(payload)}.{_text(hmac.digest(digest, payload, 'sha256'))}"
        return answer_json(
            {
                "access_token": token,
                "token_type": "bearer",
                "expires_in": LIFETIME_S,
                "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            }
        )

    def _exchanged(self, form: Mapping[str, str], authorization: str | None) -> bytes | None:
        """The digest of the token that a request proves to have; None if it proves none.

        Iceberg's Java client sends its access token as the subject: while it is valid alone, and later with the
        client's secret in the header.
        """
        subject = form.get("subject_token")
        for secret in (form.get("client_secret"), subject, _basic(authorization)):
            if secret and self._of(digest := _digest(secret)) is not None:
                return digest
        return None if subject is None else self._digest_of_access_token(subject)

    def _of_access_token(self, token: str) -> Caller | None:
        digest = self._digest_of_access_token(token)
        return None if digest is None else self._known().get(digest)

    def _digest_of_access_token(self, token: str) -> bytes | None:
        """The digest of the token that an access token was given for; None if the access token is not valid."""
        try:
            payload, signature = (base64.urlsafe_b64decode(f"{part}==") for part in token.split("."))
            claims = msgspec.json.decode(payload, type=dict[str, str | int])
        except (ValueError, msgspec.MsgspecError):
            return None
        if not isinstance(expiry := claims.get("e"), int) or expiry < self._now():
            return None
        for digest in self._known():
            same = hmac.compare_digest(hmac.digest(digest, payload, "sha256"), signature)
            if same and digest[:8].hex() == claims.get("d"):
                return digest
        return None


def _entry(words: list[str], number: int, path: Path) -> tuple[bytes, Caller]:
    if len(words) == 1:
        words = ["admin", *words]
    try:
        role = Role[words[0].upper()]
    except KeyError:
        raise InvalidInput(
            f"cannot read line {number} of {path}: it begins with a role, which is read, write or admin"
        ) from None
    text = words[1]
    if text.startswith(_DIGEST):
        try:
            digest = bytes.fromhex(text.removeprefix(_DIGEST))
        except ValueError:
            digest = b""
        if len(digest) != 32:
            raise InvalidInput(f"cannot read line {number} of {path}: sha256: needs 64 hexadecimal digits")
    elif len(text) < _SHORTEST:
        raise InvalidInput(f"cannot use the token in line {number} of {path}: it has fewer than {_SHORTEST} characters")
    elif not text.isascii():
        raise InvalidInput(
            f"cannot use the token in line {number} of {path}: clients send tokens in a header, so it must be ASCII"
        )
    else:
        digest = _digest(text)
    return digest, Caller(f"line {number}", role, tuple(parse_namespace(word) for word in words[2:]))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _basic(authorization: str | None) -> str | None:
    """The password of an ``Authorization: Basic`` header."""
    scheme, _, encoded = (authorization or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(encoded).decode().partition(":")[2]
    except ValueError:
        return None
