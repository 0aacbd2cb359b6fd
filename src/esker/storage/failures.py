"""Errors of the operating system as Esker's errors. Only this module reads an ``errno``.

- A missing file is `NoSuchFile`.
- A name or a place that can never work (too long, a folder where a file should be) is `InvalidInput`.
- Everything else is `StorageFailed`. It is retryable, unless the same call would fail every time: a read-only file
  system, a missing permission, a limit on the size of a file. An I/O error is retryable, because disks and network file
  systems recover. A retry does no harm, because nothing was changed.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from esker.errors import EskerError, InvalidInput, NoSuchFile, StorageFailed

_AGAIN = "try again later"
_LOOK = "check the disk and the system log, then try again"
_SILENT = "the store does not answer: check that it can be reached, then try again"
_RIGHTS = "give this user permission to use it"


def _codes(*names: str) -> frozenset[int]:
    """The codes of these names that this operating system has."""
    return frozenset(getattr(errno, name) for name in names if hasattr(errno, name))


_MISSING = _codes("ENOENT", "ENOTDIR")
_IMPOSSIBLE = _codes("ENAMETOOLONG", "EINVAL", "EISDIR", "ELOOP", "EEXIST", "ENOTEMPTY", "EXDEV", "EILSEQ", "EMLINK")
_NEVER = {  # the same call would fail again; the text says what has to change first
    **dict.fromkeys(_codes("EACCES", "EPERM"), _RIGHTS),
    **dict.fromkeys(_codes("EROFS"), "the file system is read-only: make it writable, or use another location"),
    **dict.fromkeys(_codes("EFBIG"), "the file would be too large: raise the limit (ulimit -f) or write smaller files"),
    **dict.fromkeys(_codes("ENOTSUP", "ENOSYS"), "the file system does not support this: use another location"),
}
_LATER = {
    **dict.fromkeys(_codes("ENOSPC"), "the disk is full: free some space, then try again"),
    **dict.fromkeys(_codes("EDQUOT"), "the quota is used up: free some space or raise the quota, then try again"),
    **dict.fromkeys(_codes("EIO", "EREMOTEIO", "ENXIO", "ENODEV"), _LOOK),
    **dict.fromkeys(
        _codes("EMFILE"), "this process has too many files open: close some or raise the limit (ulimit -n)"
    ),
    **dict.fromkeys(_codes("ENFILE"), "the system has too many files open: close some, then try again"),
    **dict.fromkeys(_codes("ESTALE"), "the file handle is stale: try again, or open the table again"),
    **dict.fromkeys(
        _codes(
            *("ETIMEDOUT", "EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETUNREACH", "ENETRESET"),
            *("ECONNRESET", "ECONNREFUSED", "ECONNABORTED", "ENOTCONN", "ENOLINK", "ECOMM"),
        ),
        _SILENT,
    ),
}


def is_failure(error: OSError) -> bool:
    """Whether storage itself failed. False if the file is missing, the name is impossible or the error has no code."""
    return error.errno is not None and error.errno not in _MISSING | _IMPOSSIBLE


def failure_of(error: OSError, operation: str, file: str | Path, *, whole: bool = False) -> EskerError:
    """The Esker error for an error of the operating system: `NoSuchFile`, `InvalidInput` or `StorageFailed`.

    ``operation`` is what was tried on ``file``, for example "create". With ``whole``, ``operation`` is a full clause,
    such as "commit to sales.orders", and ``file`` is only the place of the failure.
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
    """Raise each ``OSError`` of the block as the error that `failure_of` returns."""
    try:
        yield
    except OSError as error:
        raise failure_of(error, operation, file, whole=whole) from error
