"""Every error Esker raises, under one root.

EskerError
├── NotFound
│   ├── NoSuchTable         the catalog or directory holds no such table
│   ├── NoSuchView          the catalog holds no such view
│   ├── NoSuchNamespace     the catalog holds no such namespace
│   ├── NoSuchSnapshot      no snapshot has that id, time, branch or tag
│   └── NoSuchFile          the store holds no such object
├── AlreadyExists           the name is taken
├── Conflict                another writer won; nothing of ours is visible
├── OutcomeUnknown          the catalog never answered; our files may be live and are kept
├── StorageFailed           a full disk, an I/O error, a store that does not answer; says whether to retry
├── SparkFailed             Spark gave up a job; nothing of it is visible
├── Corrupt                 a file says what its format forbids; names the file
├── Unsupported             a feature nobody here can do; names the feature
└── InvalidInput            the caller asked for something that cannot be

A message says what could not be done, to what, why, and where it helps what to do next. Facts are
attributes, so a caller never parses a message, and every error survives pickling between processes.
"""

from __future__ import annotations

from typing import Any, Self


class EskerError(Exception):
    """The root of every error raised on purpose by Esker.

    ``message`` is the whole sentence for a person; ``facts`` holds what a program may want to know,
    each also readable as an attribute (``error.file``, ``error.feature``).
    """

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.facts)

    def with_facts(self, **facts: Any) -> Self:
        """The same error with more facts; existing ones win."""
        return type(self)(self.message, **{**facts, **self.facts})


def _rebuild(kind: type[EskerError], message: str, facts: dict[str, Any]) -> EskerError:
    return kind(message, **facts)


class NotFound(EskerError):
    """Something named does not exist."""


class NoSuchTable(NotFound):
    """The catalog or directory holds no such table."""


class NoSuchView(NotFound):
    """The catalog holds no such view."""


class NoSuchNamespace(NotFound):
    """The catalog holds no such namespace."""


class NoSuchSnapshot(NotFound):
    """No snapshot has that id, time, branch or tag; the message names what is available."""


class NoSuchFile(NotFound):
    """The store holds no such object (``file``)."""


class AlreadyExists(EskerError):
    """The name is taken."""


class Conflict(EskerError):
    """Another writer won; nothing of ours is visible."""


class OutcomeUnknown(EskerError):
    """The catalog never answered; our files may be live and are kept."""


class StorageFailed(EskerError):
    """The storage could not do its work: a full disk, an I/O error, a store that does not answer.

    Nothing was changed. ``retryable`` is ``True`` where the same call may succeed later without a change to it, for
    example once there is space. ``operation`` and ``file`` say what was tried on which file, ``reason`` is the answer
    of the system.
    """

    def __init__(self, message: str, *, retryable: bool, **facts: Any) -> None:
        super().__init__(message, retryable=retryable, **facts)


class SparkFailed(EskerError):
    """Spark gave up a job (``doing``), for instance because executors died too often. Nothing of it is visible, and
    the same statement can be run again."""


class Corrupt(EskerError):
    """A file says what its format forbids (``file``, ``reason``)."""

    def __init__(self, file: str, reason: str, **facts: Any) -> None:
        super().__init__(f"{file} is corrupt: {reason}", file=file, reason=reason, **facts)

    def __reduce__(self) -> tuple[Any, ...]:
        rest = {key: value for key, value in self.facts.items() if key not in ("file", "reason")}
        return _rebuild_corrupt, (self.file, self.reason, rest)


def _rebuild_corrupt(file: str, reason: str, facts: dict[str, Any]) -> Corrupt:
    return Corrupt(file, reason, **facts)


class Unsupported(EskerError):
    """A feature that cannot be done here (``feature``)."""


class InvalidInput(EskerError):
    """The caller asked for something that cannot be."""
