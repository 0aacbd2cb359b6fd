"""What the readers of all file formats share: the `DataSource` interface, chunks of rows,
and opening stored files with errors that name the file.
"""

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

# ---------------------------------------------------------------- chunk
#
# A stretch of a data file, as its reader gives it: the file's own columns, and where in the file they stand.


BATCH_ROWS = 1 << 16
BATCH_BYTES = 32 << 20  # what a batch should stay below, where rows are wide


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Consecutive rows of a file. ``residual`` is what of the filter its statistics do not settle."""

    position: int
    length: int
    columns: tuple[tuple[FileColumn, pa.Array], ...]
    residual: Bound = TRUE


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRequest:
    """Which part of a file is wanted: leaves by number, and rows that may pass the filter."""

    leaves: frozenset[int]
    residual: Bound = TRUE
    schema: Schema  # the one the residual was bound to
    batch_rows: int = BATCH_ROWS
    touches: Callable[[int, int], bool] | None = None  # whether so many rows from a position on have one that is wanted


class DataSource(Protocol):
    """An opened data file of some format."""

    @property
    def columns(self) -> tuple[FileColumn, ...]:
        """What the file has."""
        ...

    def chunks(self, request: ChunkRequest) -> Iterator[Chunk]:
        """The rows in file order, but for those that cannot pass the filter."""
        ...


class Renumbered(Protocol):
    """How ids are found for the columns of a file whose writer left none."""

    def __call__(self, columns: tuple[FileColumn, ...]) -> tuple[FileColumn, ...]:
        """The same columns with ids."""
        ...


# ---------------------------------------------------------------- input file
#
# Opening stored objects for Arrow's readers, and turning what they raise into errors that name the file.


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
