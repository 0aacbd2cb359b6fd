"""Opening stored objects for Arrow's readers, and turning what they raise into errors that name the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from esker.errors import Corrupt, Unsupported
from esker.ports.storage import Storage
from esker.storage.failures import failure_of, is_failure, naming_failures


def open_input(storage: Storage, location: str) -> pa.NativeFile:
    """The object as an Arrow file: natively where it lies on this machine, else through the storage."""
    path = storage.local_path(location)
    if path is not None:
        with naming_failures("open", location):
            return pa.OSFile(path)
    return pa.PythonFile(storage.open(location), mode="r")


@contextmanager
def blaming(file: str, *, encrypted: bool = False) -> Iterator[None]:
    """Whatever Arrow finds wrong inside is said of ``file``; its own exceptions do not get out.

    ``encrypted`` says that the manifest holds a key for the file, which explains why it makes no sense.
    """
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and is_failure(error):  # the disk failed, which says nothing of the file
            raise failure_of(error, "read", file) from error
        if encrypted:
            raise encrypted_file(file) from None
        raise Corrupt(file, _sentence(error)) from None
    except RecursionError:
        raise Corrupt(file, "its schema is nested too deeply") from None


def encrypted_file(file: str) -> Unsupported:
    """The refusal of a file that is encrypted."""
    return Unsupported(f"cannot read {file}: it is encrypted", feature="encryption", file=file)


def _sentence(error: BaseException) -> str:
    """The first line of what Arrow says; the rest is its own source code."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
