"""All errors that Esker raises. Their common base class is ``EskerError``.

EskerError
├── NotFound
│   ├── NoSuchTable         the catalog or directory has no such table
│   ├── NoSuchView          the catalog has no such view
│   ├── NoSuchNamespace     the catalog has no such namespace
│   ├── NoSuchSnapshot      no snapshot has that id, time, branch or tag
│   └── NoSuchFile          the store has no such object
├── AlreadyExists           the name is in use
├── Conflict                another writer committed first; nothing of this write is visible
├── OutcomeUnknown          the catalog did not answer; the commit may have succeeded, so its files are kept
├── StorageFailed           a full disk, an I/O error, a store that does not answer; see ``retryable``
├── SparkFailed             a Spark job failed; nothing of it is visible
├── Corrupt                 a file's content breaks the rules of its format; names the file
├── Unsupported             a feature that Esker does not have; names the feature
└── InvalidInput            an argument is wrong; the caller has to change it

A message says what could not be done, to what, why, and what to do next. The facts are also attributes,
so a program need not parse the message. Every error can be pickled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self


class EskerError(Exception):
    """The base class of all errors that Esker raises on purpose.

    ``message`` is the full text for a person. ``facts`` is a dictionary for programs; each fact is also an attribute
    (``error.file``, ``error.feature``).

        try:
            lake.table("sales.orders")
        except esker.NoSuchTable as error:
            print(error.message, error.available)
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
        """Return the same error with more facts. A fact that the error already has is not changed."""
        return type(self)(self.message, **{**facts, **self.facts})


def _rebuild(kind: type[EskerError], message: str, facts: dict[str, Any]) -> EskerError:
    return kind(message, **facts)


class NotFound(EskerError):
    """Something that was named does not exist."""


class NoSuchTable(NotFound):
    """The catalog or directory has no such table."""


class NoSuchView(NotFound):
    """The catalog has no such view."""


class NoSuchNamespace(NotFound):
    """The catalog has no such namespace."""


class NoSuchSnapshot(NotFound):
    """No snapshot has that id, time, branch or tag. The message says which ones exist."""


class NoSuchFile(NotFound):
    """The store has no such object (``file``)."""


class AlreadyExists(EskerError):
    """The name is in use."""


class Conflict(EskerError):
    """Another writer committed first. Nothing of this write is visible; it may be tried again."""


class OutcomeUnknown(EskerError):
    """The catalog did not answer, so the commit may have succeeded. Its files are kept. Check the table, then retry."""


class StorageFailed(EskerError):
    """The storage could not do its work: a full disk, an I/O error, a store that does not answer.

    Nothing was changed. ``retryable`` is ``True`` if the same call may succeed later, for example when there is space
    again. ``operation`` and ``file`` say what was tried on which file. ``reason`` is the operating system's message.
    """

    def __init__(self, message: str, *, retryable: bool, **facts: Any) -> None:
        super().__init__(message, retryable=retryable, **facts)


class SparkFailed(EskerError):
    """A Spark job (``doing``) failed, for example because executors died too often.

    Nothing of it is visible. The same statement can be run again.
    """


class Corrupt(EskerError):
    """A file's content breaks the rules of its format (``file``, ``reason``)."""

    def __init__(self, file: str, reason: str, **facts: Any) -> None:
        super().__init__(f"{file} is corrupt: {reason}", file=file, reason=reason, **facts)

    def __reduce__(self) -> tuple[Any, ...]:
        rest = {key: value for key, value in self.facts.items() if key not in ("file", "reason")}
        return _rebuild_corrupt, (self.file, self.reason, rest)


def _rebuild_corrupt(file: str, reason: str, facts: dict[str, Any]) -> Corrupt:
    return Corrupt(file, reason, **facts)


class Unsupported(EskerError):
    """Esker does not have this feature (``feature``)."""


class InvalidInput(EskerError):
    """An argument is wrong, and the caller has to change it."""


def with_similar_names(error: EskerError, asked: str, there: Iterable[str], holder: str) -> EskerError:
    """Return the error with similar names in its message; without any, with the names that ``holder`` has."""
    names = sorted(there)
    # All names here share their namespace, so only the last part is compared.
    last = {name.rpartition(".")[2]: name for name in names}
    near = _similar(asked.rpartition(".")[2], last)
    if near:
        more = f"did you mean {' or '.join(near)}?"
    elif names:
        more = f"{holder} {', '.join(names[:12])}" + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    else:
        more = f"{holder} none"
    return type(error)(f"{error.message}; {more}", **error.facts, available=names)


def _similar(asked: str, names: Mapping[str, str]) -> list[str]:
    """The full names whose last part is similar to the one asked for, in any case."""
    import difflib  # only for an error

    by_case: dict[str, list[str]] = {}
    for part, whole in names.items():
        by_case.setdefault(part.casefold(), []).append(whole)
    return [name for part in difflib.get_close_matches(asked.casefold(), by_case, n=3) for name in by_case[part]][:3]
