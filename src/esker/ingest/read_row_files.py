"""Reads rows from Parquet, CSV and JSON files, batch by batch, in the types of the target table.

JSON that is nested too deep is detected before it is parsed: native parsers recurse, and would end the process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from esker.arrow.input.schema_from_arrow import schema_from_arrow
from esker.errors import InvalidInput, StorageFailed
from esker.storage.failures import failure_of

# ---------------------------------------------------------------- json depth
#
# Detected before a native parser reads it, because that would recurse and end the process.


MOST_LEVELS = 64  # nested objects and lists
_DEPTH_BLOCK = 1 << 20
_OTHER = bytes(set(range(256)) - set(b'"[]{}'))
_STEP = np.zeros(256, np.int64)
_STEP[list(b"[{")] = 1
_STEP[list(b"]}")] = -1


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def is_too_deep(stream: _Readable, *, most: int = MOST_LEVELS) -> bool:
    """Whether any value is nested deeper than ``most`` levels. Brackets in strings do not count."""
    depth, is_text, kept = 0, False, b""
    while block := stream.read(_DEPTH_BLOCK):
        block = kept + bytes(block)
        kept = b"\\" if (len(block) - len(block.rstrip(b"\\"))) % 2 else b""
        plain = block.removesuffix(kept) if kept else block
        signs = plain.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _OTHER)
        parts = signs.split(b'"')
        outside = b"".join(parts[int(is_text) :: 2])
        is_text ^= len(parts) % 2 == 0
        if outside:
            levels = depth + np.cumsum(_STEP[np.frombuffer(outside, np.uint8)])
            if int(levels.max()) > most:
                return True
            depth = max(0, int(levels[-1]))
    return False


# ---------------------------------------------------------------- row files
#
# Rows of files, batch by batch.


_PACKED = re.compile(r"\.(gz|zst|zstd|bz2)$")
_ROWS = 1 << 16
Groups = tuple[int, ...]  # numbers of row groups
_BLOCK = 4 << 20


class Unreadable(Exception):
    """A file's content is not valid in its format, or exceeds a limit. The message says why."""


class RowFormat(Enum):
    """The format of a file of rows."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"  # one object per line


_SUFFIXES = {
    ".parquet": RowFormat.PARQUET,
    ".pq": RowFormat.PARQUET,
    ".csv": RowFormat.CSV,
    ".tsv": RowFormat.CSV,
    ".json": RowFormat.JSON,
    ".jsonl": RowFormat.JSON,
    ".ndjson": RowFormat.JSON,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How files are read. With None, the name and the first bytes of a file decide."""

    format: RowFormat | None = None
    delimiter: str | None = None


def format_of(path: Path) -> RowFormat:
    """The format of a file, by its name, otherwise by its first bytes."""
    named = _SUFFIXES.get(Path(_PACKED.sub("", path.name.lower())).suffix)
    if named is not None:
        return named
    with path.open("rb") as file:
        head = file.read(64)
    if head.startswith(b"PAR1"):
        return RowFormat.PARQUET
    if head.lstrip()[:1] == b"{":
        return RowFormat.JSON
    raise InvalidInput(
        f"cannot detect the format of {path}: name it with --format parquet, csv or json", path=str(path)
    )


def schema_of(path: Path, reading: Reading, known: pa.Schema | None = None) -> pa.Schema:
    """The columns of a file. In CSV and JSON, the types of unknown columns are detected from the first rows.

    Raises `Unreadable` if the file cannot be read, or if no table can have such columns."""
    raw = raw_schema_of(path, reading, known)
    with _judging(path):
        found = pa.schema([_writable(field) for field in raw])
        schema_from_arrow(found)
    return found


def raw_schema_of(path: Path, reading: Reading, known: pa.Schema | None) -> pa.Schema:
    """The columns as they are in the file. Raises `Unreadable` if the file cannot be read."""
    with _judging(path), _opened(path, reading, known) as reader:
        return reader.schema


@dataclass(slots=True)
class Rows:
    """The rows of a file, or of some row groups of a Parquet file. ``count`` is the number of rows read so far."""

    path: Path
    reading: Reading
    known: pa.Schema
    groups: Groups | None = None
    count: int = 0

    def reader(self) -> pa.RecordBatchReader:
        """The rows, in bounded memory. Raises `Unreadable`, now or during reading, if the file cannot be read to its
        end."""
        return pa.RecordBatchReader.from_batches(raw_schema_of(self.path, self.reading, self.known), self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        with _judging(self.path):
            reader = _opened(self.path, self.reading, self.known, self.groups)
        with reader:
            while True:
                with _judging(self.path):
                    try:
                        batch = reader.read_next_batch()
                    except StopIteration:
                        return
                self.count += batch.num_rows
                yield batch


def groups_of(path: Path, reading: Reading, *, size: int) -> list[Groups]:
    """The row groups of a Parquet file, in sets of about this many bytes. Empty if the file has none or cannot be
    read."""
    from esker.arrow.read.open_parquet import open_parquet

    try:
        with _judging(path):
            if (reading.format or format_of(path)) is not RowFormat.PARQUET:
                return []
            metadata = open_parquet(pa.OSFile(str(path)))[1].metadata
            sizes = [metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups)]
    except Unreadable:
        return []
    found: list[Groups] = []
    held: list[int] = []
    for at in range(len(sizes)):
        held.append(at)
        if sum(sizes[held[0] : at + 1]) >= size or at == len(sizes) - 1:
            found.append(tuple(held))
            held = []
    return found


@contextmanager
def judging_rows() -> Iterator[None]:
    """Raise every error about the rows of one file, for its target table, as `Unreadable`."""
    try:
        yield
    except InvalidInput as error:
        raise Unreadable(error.message) from error
    except (pa.ArrowException, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(_first_line(error)) from error


@contextmanager
def _judging(path: Path) -> Iterator[None]:
    """Raise a reader's error about the content of a file as `Unreadable`. A failing disk is another error."""
    try:
        yield
    except OSError as error:  # errors of Arrow about damaged data have no code
        failure = failure_of(error, "read", path) if error.errno is not None else None
        if isinstance(failure, StorageFailed) and failure.retryable:
            raise failure from error
        raise Unreadable(error.strerror or _first_line(error)) from error
    except InvalidInput as error:
        raise Unreadable(error.message) from error
    except (pa.ArrowException, ValueError, ArithmeticError, LookupError, TypeError) as error:
        raise Unreadable(_first_line(error)) from error
    except RecursionError as error:
        raise Unreadable("its values are nested too deeply") from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def _writable(field: pa.Field) -> pa.Field:
    """A column without any value is text until it has one."""
    return field.with_type(_with_text(field.type))


def _with_text(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_null(type_):
        return pa.string()
    if pa.types.is_struct(type_):
        return pa.struct([_writable(type_.field(at)) for at in range(type_.num_fields)])
    if pa.types.is_list(type_):
        return pa.list_(_writable(type_.value_field))
    return type_


def _opened(
    path: Path, reading: Reading, known: pa.Schema | None, groups: Groups | None = None
) -> pa.RecordBatchReader:
    match reading.format or format_of(path):
        case RowFormat.PARQUET:
            return _parquet(path, groups)
        case RowFormat.CSV:
            return _csv(path, reading, known)
        case RowFormat.JSON:
            return _json(path, known)


def _parquet(path: Path, groups: Groups | None) -> pa.RecordBatchReader:
    from esker.arrow.read.open_parquet import open_parquet

    _, file = open_parquet(pa.OSFile(str(path)))
    return pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches(batch_size=_ROWS, row_groups=groups))


def _csv(path: Path, reading: Reading, known: pa.Schema | None) -> pa.RecordBatchReader:
    from pyarrow import csv

    tabs = Path(_PACKED.sub("", path.name.lower())).suffix == ".tsv"
    return csv.open_csv(
        pa.input_stream(str(path), compression="detect"),
        read_options=csv.ReadOptions(block_size=_BLOCK, use_threads=False),
        parse_options=csv.ParseOptions(delimiter=reading.delimiter or ("\t" if tabs else ","), newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=None if known is None else {field.name: field.type for field in known if _is_flat(field)},
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _json(path: Path, known: pa.Schema | None) -> pa.RecordBatchReader:
    from pyarrow import json

    with pa.input_stream(str(path), compression="detect") as stream:
        if is_too_deep(stream):  # Arrow's parser recurses, and would end the process
            raise InvalidInput(f"its JSON is nested deeper than {MOST_LEVELS} levels")
    wanted = [] if known is None else [field for field in known if _is_json(field.type)]
    # In JSON, Arrow reads dates only as numbers, but they are usually text.
    texts = {field.name: field.type for field in wanted if pa.types.is_date(field.type)}
    explicit = pa.schema([field.with_type(pa.string()) if field.name in texts else field for field in wanted])
    reader = json.open_json(
        pa.input_stream(str(path), compression="detect"),
        read_options=json.ReadOptions(block_size=_BLOCK, use_threads=False),
        parse_options=json.ParseOptions(explicit_schema=explicit, unexpected_field_behavior="infer"),
    )
    if not texts:
        return reader
    target = pa.schema([field.with_type(texts.get(field.name, field.type)) for field in reader.schema])
    return pa.RecordBatchReader.from_batches(target, (batch.cast(target) for batch in reader))


def _is_flat(field: pa.Field) -> bool:
    """Whether CSV can contain the type. A nested column is refused later, by its name."""
    return not pa.types.is_nested(field.type)


def _is_json(type_: pa.DataType) -> bool:
    """Whether Arrow can read the type from JSON. Otherwise the type is detected from the values."""
    if isinstance(type_, pa.BaseExtensionType) or pa.types.is_fixed_size_binary(type_) or pa.types.is_map(type_):
        return False
    return all(_is_json(type_.field(at).type) for at in range(type_.num_fields))
