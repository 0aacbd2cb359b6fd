"""What the system answers when storage fails, as errors of Esker: the one place that reads an ``errno``.

- A missing file is `NoSuchFile`.
- A name or a place that can never work (too long, a folder where a file should be) is `InvalidInput`.
- Everything else is `StorageFailed`. It is retryable unless the same call would fail again for ever: a read-only file
  system, a missing permission, a limit on the size of a file. An I/O error is retryable: cables, controllers and
  network file systems recover, and a retry does no harm because nothing was changed.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from esker.errors import EskerError, InvalidInput, NoSuchFile, StorageFailed

_AGAIN = "try again later"
_LOOK = "look at the disk and at the log of the system, then try again"
_SILENT = "the store does not answer: check that it can be reached, then try again"
_RIGHTS = "give this user the right to it"


def _codes(*names: str) -> frozenset[int]:
    """Not every system has every code."""
    return frozenset(getattr(errno, name) for name in names if hasattr(errno, name))


_MISSING = _codes("ENOENT", "ENOTDIR")
_IMPOSSIBLE = _codes("ENAMETOOLONG", "EINVAL", "EISDIR", "ELOOP", "EEXIST", "ENOTEMPTY", "EXDEV", "EILSEQ", "EMLINK")
_NEVER = {  # the same call would fail again: what has to change first
    **dict.fromkeys(_codes("EACCES", "EPERM"), _RIGHTS),
    **dict.fromkeys(_codes("EROFS"), "the file system is read-only: make it writable, or use another place"),
    **dict.fromkeys(
        _codes("EFBIG"), "files may not grow that large: raise the limit (ulimit -f) or write smaller ones"
    ),
    **dict.fromkeys(_codes("ENOTSUP", "ENOSYS"), "the file system cannot do that: use another place"),
}
_LATER = {
    **dict.fromkeys(_codes("ENOSPC"), "the disk is full: free some space, then try again"),
    **dict.fromkeys(_codes("EDQUOT"), "the quota is used up: free some space or raise the quota, then try again"),
    **dict.fromkeys(_codes("EIO", "EREMOTEIO", "ENXIO", "ENODEV"), _LOOK),
    **dict.fromkeys(
        _codes("EMFILE"), "this process has too many files open: close some or raise the limit (ulimit -n)"
    ),
    **dict.fromkeys(_codes("ENFILE"), "the system has too many files open: close some, then try again"),
    **dict.fromkeys(_codes("ESTALE"), "the file server has forgotten the file: try again, or open the table again"),
    **dict.fromkeys(
        _codes(
            *("ETIMEDOUT", "EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETUNREACH", "ENETRESET"),
            *("ECONNRESET", "ECONNREFUSED", "ECONNABORTED", "ENOTCONN", "ENOLINK", "ECOMM"),
        ),
        _SILENT,
    ),
}


def is_failure(error: OSError) -> bool:
    """Whether storage itself failed; ``False`` where the file is missing, the name impossible, or no code is given."""
    return error.errno is not None and error.errno not in _MISSING | _IMPOSSIBLE


def failure_of(error: OSError, operation: str, file: str | Path, *, whole: bool = False) -> EskerError:
    """What a refusal of the system means: `NoSuchFile`, `InvalidInput` or `StorageFailed`.

    ``operation`` is what was tried on ``file``: "create". With ``whole`` it is a clause of its own, "commit to
    sales.orders", and ``file`` is only where that failed.
    """
    place, reason = str(file), error.strerror or str(error) or type(error).__name__
    said = f"cannot {operation}: {place}" if whole else f"cannot {operation} {place}"
    if error.errno in _MISSING and not whole:
        missing = "there is no such file" if error.errno == errno.ENOENT else reason
        return NoSuchFile(f"{said}: {missing}", file=place)
    if error.errno in _IMPOSSIBLE | _MISSING:
        return InvalidInput(f"{said}: {reason}", file=place)
    retryable = error.errno not in _NEVER
    advice = _LATER.get(error.errno or 0, _AGAIN) if retryable else _NEVER[error.errno or 0]
    return StorageFailed(
        f"{said}: {reason}; {advice}",
        retryable=retryable,
        operation=operation,
        file=place,
        reason=reason,
        errno=error.errno,
    )


@contextmanager
def naming_failures(operation: str, file: str | Path, *, whole: bool = False) -> Iterator[None]:
    """Whatever the system refuses inside is raised as `failure_of` says."""
    try:
        yield
    except OSError as error:
        raise failure_of(error, operation, file, whole=whole) from error
