"""What the answers of a REST server mean where they are no success."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from esker.catalogs.rest.secret import Secret, without
from esker.catalogs.rest.transport import Answer
from esker.errors import Conflict, EskerError, InvalidInput, StorageFailed, Unsupported

RENEWED = frozenset((401, 419))
"""Statuses that a new token may mend."""
_LONGEST = 400


def is_unknown(status: int) -> bool:
    """Whether a change may have been made although the answer has this status: 5xx of a server or of a proxy before it,
    except 501, which says that nobody tried."""
    return status == 408 or (status >= 500 and status != 501)


def may_be_asked_again(status: int) -> bool:
    """Whether a request that changes nothing is sent again after an answer with this status."""
    return status == 429 or is_unknown(status)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerError:
    """An error as the server worded it, without secrets."""

    status: int
    kind: str
    message: str

    def __str__(self) -> str:
        said = ": ".join(part for part in (self.kind, self.message) if part)
        return f"status {self.status}" + (f" ({said})" if said else "")


def error_in(answer: Answer, secrets: tuple[Secret, ...] = ()) -> ServerError:
    """The error in an answer; an answer that is no JSON has none but its status."""
    kind = message = ""
    try:
        document = msgspec.json.decode(answer.body) if answer.body else {}
        error = document.get("error", document) if isinstance(document, dict) else {}
        if isinstance(error, dict):
            kind, message = str(error.get("type") or ""), str(error.get("message") or "")
        elif isinstance(error, str):
            kind = error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    plain = " ".join(without(message, *secrets).split())
    return ServerError(
        status=answer.status, kind=without(kind, *secrets)[:100], message=plain.partition(" at org.")[0][:_LONGEST]
    )


def is_unreadable(answer: Answer) -> bool:
    """Whether an answer that should hold JSON holds none: a page of a proxy, or nothing."""
    try:
        return not isinstance(msgspec.json.decode(answer.body), dict)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return True


def failure(answer: Answer, doing: str, address: str, secrets: tuple[Secret, ...] = ()) -> EskerError:
    """The error for an answer that the caller has no better word for."""
    error = error_in(answer, secrets)
    text = f"cannot {doing}: the REST catalog at {address} answered with {error}"
    match answer.status:
        case 401 | 419:
            return InvalidInput(f"{text}; check the properties token and credential", status=answer.status)
        case 403:
            return InvalidInput(f"{text}; you are known to the server and not allowed to do this", status=403)
        case 405 | 406 | 501:
            return Unsupported(text, feature=doing, status=answer.status)
        case 409:
            return Conflict(text, status=409)
        case status if may_be_asked_again(status):
            return StorageFailed(text, retryable=True, operation=doing, reason=str(error), status=status)
        case status if 300 <= status < 400:
            return InvalidInput(f"{text}; redirects are not followed, name the final address", status=status)
        case status:
            return InvalidInput(text, status=status)
