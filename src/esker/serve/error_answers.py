"""What an error means to a client: its status, and the name by which clients of other languages know it.

A status below 500 says that nothing was changed. Whatever may have had an effect is 500.
"""

from __future__ import annotations

import logging

from esker.errors import (
    AlreadyExists,
    Conflict,
    Corrupt,
    EskerError,
    InvalidInput,
    NoSuchFile,
    NoSuchNamespace,
    NoSuchSnapshot,
    NoSuchTable,
    NoSuchView,
    OutcomeUnknown,
    StorageFailed,
    Unsupported,
)
from esker.serve.call import REQUEST, Answer, answer_json

log = logging.getLogger("esker.serve")


class CommitRefused(Conflict):
    """A requirement of a commit is not met. Nothing was changed."""


class NotEmpty(InvalidInput):
    """A namespace that still contains something."""


class BadArgument(InvalidInput):
    """An argument that Iceberg's own clients know as illegal."""


class NotOffered(Unsupported):
    """An operation of the protocol that this server does not have."""


class NotAllowed(EskerError):
    """The caller is known and may not do this."""


class NotKnown(EskerError):
    """The caller has no token, or one that is not valid."""


class NoSuchPlan(EskerError):
    """The server has no plan of that name."""


class NoSuchPlanTask(EskerError):
    """The server has no plan task of that name."""


_KINDS: tuple[tuple[type[EskerError], int, str], ...] = (
    (NotKnown, 401, "NotAuthorizedException"),
    (NotAllowed, 403, "ForbiddenException"),
    (NoSuchPlan, 404, "NoSuchPlanIdException"),
    (NoSuchPlanTask, 404, "NoSuchPlanTaskException"),
    (NoSuchTable, 404, "NoSuchTableException"),
    (NoSuchView, 404, "NoSuchViewException"),
    (NoSuchNamespace, 404, "NoSuchNamespaceException"),
    (NotOffered, 406, "UnsupportedOperationException"),
    (CommitRefused, 409, "CommitFailedException"),
    (AlreadyExists, 409, "AlreadyExistsException"),
    (NotEmpty, 409, "NamespaceNotEmptyException"),
    (Conflict, 409, "CommitFailedException"),
    (NoSuchFile, 404, "NotFoundException"),
    (NoSuchSnapshot, 400, "BadRequestException"),
    (OutcomeUnknown, 500, "CommitStateUnknownException"),
    (BadArgument, 400, "IllegalArgumentException"),
    (InvalidInput, 400, "BadRequestException"),
    (Unsupported, 406, "UnsupportedOperationException"),
    (Corrupt, 500, "InternalServerError"),
)


def answer_to(error: Exception) -> Answer:
    """The answer that reports an error. The text of an unknown error stays in the log of the server."""
    if isinstance(error, Corrupt) and error.file == REQUEST:
        error = InvalidInput(f"cannot read {REQUEST}: {error.reason}")
    if isinstance(error, Unsupported) and (error.facts.get("file") == REQUEST or "location" in error.facts):
        error = InvalidInput(error.message)  # a type or a place in the request, not an operation
    if isinstance(error, StorageFailed):
        if error.retryable:
            return error_answer(503, "ServiceUnavailableException", error.message, {"retry-after": "2"})
        return error_answer(500, "InternalServerError", error.message)
    for kind, status, name in _KINDS:
        if isinstance(error, kind):
            headers = {"www-authenticate": "Bearer"} if status == 401 else None
            return error_answer(status, name, _in_the_words_of_clients(error), headers)
    if isinstance(error, EskerError):
        return error_answer(500, "InternalServerError", error.message)
    log.error("a request failed", exc_info=error)
    return error_answer(500, "InternalServerError", "the server met an error that it does not know; see its log")


def _in_the_words_of_clients(error: EskerError) -> str:
    """The message. For what is missing or exists it begins with the words that every Iceberg catalog uses."""
    facts = error.facts
    match error:
        case NoSuchNamespace() if "namespace" in facts:
            return f"Namespace does not exist: {facts['namespace']}"
        case NoSuchTable() if "table" in facts:
            return f"Table does not exist: {facts['table']}"
        case NoSuchView() if "view" in facts:
            return f"View does not exist: {facts['view']}"
        case NoSuchFile() if "file" in facts:
            return f"Failed to open input stream for file: {facts['file']}"
        case AlreadyExists() if "namespace" in facts:
            return f"Namespace already exists: {facts['namespace']}"
        case AlreadyExists() if "there" in facts:
            new = "table" if "table" in facts else "view"
            other = "" if new == facts["there"] else " with same name"
            return f"{facts['there'].capitalize()}{other} already exists: {facts[new]}"
        case _:
            return error.message


def error_answer(status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> Answer:
    """An error as the protocol has it."""
    document = {"error": {"message": message, "type": kind, "code": status}}
    return answer_json(document, status=status, headers=headers)
