"""What an object store answers, as errors of Esker. No text of the store is shown but its code and its message: the
whole answer may contain keys and signatures."""

from __future__ import annotations

import re

from esker.errors import EskerError, InvalidInput, NoSuchFile, StorageFailed

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([^<]{1,100})</Code>")
_MESSAGE = re.compile(r"<Message>([^<]{1,300})</Message>")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist", "ContainerBeingDeleted")
_EXPIRED = ("ExpiredToken", "TokenRefreshRequired", "AuthenticationFailed", "InvalidToken")
_CREDENTIAL_HOSTS = ("//169.254.", "//metadata.google.internal", "//metadata/")  # asked where no key is set
_AGAIN = frozenset({408, 425, 429})

_THROTTLED = "the store asks for fewer requests: try again later, or run fewer workers"
_SILENT = "the store does not answer: check that it can be reached, then try again"
_BROKEN = "the store failed: try again later"
_FOREIGN = "the answer is not one of an object store"
_CUT = "the answer was cut"
_ON_THE_WAY = "check the address of the store and the proxies on the way, then try again"
SPOILED = frozenset({_FOREIGN, _CUT})
"""Reasons that say nothing of the store: the answer was lost or replaced on its way. The request may be repeated."""
_RIGHTS = "check the credentials and what they allow"


class ForeignAnswer(Exception):
    """A success without the headers of an object store: a proxy or a web server has answered."""


def failure_of_store(error: Exception, operation: str, location: str) -> EskerError:
    """`NoSuchFile`, `InvalidInput` or `StorageFailed` for what ``obstore`` raised."""
    text = str(error)
    said = f"cannot {operation} {location}"
    if isinstance(error, ForeignAnswer):
        return _failed(said, _FOREIGN, _ON_THE_WAY, location, operation, retryable=True)
    if any(name in text for name in _NO_BUCKET):
        return _failed(said, "there is no such bucket", "check its name", location, operation, retryable=False)
    if isinstance(error, FileNotFoundError):
        return NoSuchFile(f"{said}: there is no such object", file=location)
    if isinstance(error, ValueError):
        return InvalidInput(f"{said}: the name cannot be that of an object: {_first_line(text)}", file=location)
    reason, status = _reason(text), _status(text)
    kind = type(error).__name__
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or status in (401, 403):
        expired = any(name in text for name in _EXPIRED)
        advice = "the credentials have expired: get new ones" if expired else _RIGHTS
        return _failed(said, reason, advice, location, operation, retryable=False)
    if "incorrectly configured region" in text or status in (301, 307, 308):
        return _failed(said, "the bucket is in another region", "set s3.region", location, operation, retryable=False)
    if status == 416:  # fewer bytes than the store has announced: the client asked for the rest
        return _failed(said, _CUT, _BROKEN, location, operation, retryable=True, status=status)
    if status is None:
        return _failed(said, reason, _advice_without_status(text, reason), location, operation, retryable=True)
    if status in (429, 503) or "SlowDown" in text:
        return _failed(said, reason, _THROTTLED, location, operation, retryable=True, status=status)
    retryable = status >= 500 or status in _AGAIN
    advice = _BROKEN if retryable else "check the settings of the store"
    return _failed(said, reason, advice, location, operation, retryable=retryable, status=status)


def _failed(
    said: str, reason: str, advice: str, location: str, operation: str, *, retryable: bool, status: int | None = None
) -> StorageFailed:
    return StorageFailed(
        f"{said}: {reason}; {advice}",
        retryable=retryable,
        operation=operation,
        file=location,
        reason=reason,
        status=status,
    )


def is_refusal(error: StorageFailed) -> bool:
    """Whether the store said no, so that nothing was done. After silence or a fault of the server it may have been."""
    return not error.retryable or error.facts.get("status") == 429


def _status(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found[1]) if found else None


def _reason(text: str) -> str:
    code, message, status = _CODE.search(text), _MESSAGE.search(text), _status(text)
    if code:
        return f"{code[1]}: {message[1]}" if message else code[1]
    if status is not None:
        return f"status {status}"
    for words, reason in (
        ("timed out", "no answer in time"),
        ("operation timed out", "no answer in time"),
        ("error sending request", "no connection"),
        ("connection closed", "the connection was cut"),
        ("error decoding response body", _CUT),
        ("response body error", _CUT),
        ("header missing", _FOREIGN),
        ("header not present", _FOREIGN),
        ("non-partial response", _FOREIGN),
        ("got invalid", _FOREIGN),  # XML of another kind, or none
        ("refresh", "no new credentials"),
    ):
        if words in text.lower():
            return reason
    return "the request failed"


def _advice_without_status(text: str, reason: str) -> str:
    if reason == _FOREIGN:
        return _ON_THE_WAY
    if any(host in text for host in _CREDENTIAL_HOSTS):
        return "no credentials were found: set them in the environment or as properties"
    return _SILENT


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:200]
