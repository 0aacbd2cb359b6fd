"""The interface that the readers of all file formats implement (`DataSource`), chunks of rows, and opening stored
files with errors that name the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from esker.arrow.read.file_columns import FileColumn
from esker.errors import Corrupt, Unsupported
from esker.model.predicates.predicate import TRUE, Bound
from esker.model.schema import Schema
from esker.ports.storage import Storage
from esker.storage.failures import failure_of, is_failure, naming_failures

BATCH_ROWS = 1 << 16
BATCH_BYTES = 32 << 20  # the target size of a batch with wide rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Consecutive rows of a file. ``residual`` is the part of the filter that its statistics do not decide."""

    position: int
    length: int
    columns: tuple[tuple[FileColumn, pa.Array], ...]
    residual: Bound = TRUE


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRequest:
    """The wanted part of a file: leaves by number, and rows that may pass the filter."""

    leaves: frozenset[int]
    residual: Bound = TRUE
    schema: Schema  # the residual is bound to it
    batch_rows: int = BATCH_ROWS
    touches: Callable[[int, int], bool] | None = None  # whether a range of rows has a wanted one
    groups: frozenset[int] | None = None  # the row groups of a Parquet file to read; None: all


class DataSource(Protocol):
    """An open data file of any format."""

    @property
    def columns(self) -> tuple[FileColumn, ...]:
        """The columns of the file."""
        ...

    def chunks(self, request: ChunkRequest) -> Iterator[Chunk]:
        """The rows in file order, without those that cannot pass the filter."""
        ...


class Renumbered(Protocol):
    """Finds the ids of a file's columns if the writer wrote none."""

    def __call__(self, columns: tuple[FileColumn, ...]) -> tuple[FileColumn, ...]:
        """The same columns with ids."""
        ...


# ---------------------------------------------------------------- Opening files


def open_input(storage: Storage, location: str) -> pa.NativeFile:
    """The object as an Arrow file: opened natively if it is on this machine, else through the storage."""
    path = storage.local_path(location)
    if path is not None:
        with naming_failures("open", location):
            return pa.OSFile(path)
    return pa.PythonFile(storage.open(location), mode="r")


@contextmanager
def blaming(file: str, *, encrypted: bool = False) -> Iterator[None]:
    """Raise Arrow's errors in the block as `Corrupt` with the name of the file.

    ``encrypted``: the manifest has a key for the file, so `Unsupported` is raised instead.
    """
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and is_failure(error):  # the disk failed: the file may be fine
            raise failure_of(error, "read", file) from error
        if encrypted:
            raise encrypted_file(file) from None
        raise Corrupt(file, _sentence(error)) from None
    except RecursionError:
        raise Corrupt(file, "its schema is nested too deeply") from None


def encrypted_file(file: str) -> Unsupported:
    """The error for an encrypted file."""
    return Unsupported(f"cannot read {file}: it is encrypted", feature="encryption", file=file)


def _sentence(error: BaseException) -> str:
    """The first line of Arrow's message. The rest is about its source code."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
