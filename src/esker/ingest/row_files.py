"""Rows out of Parquet, CSV and JSON files, batch by batch, in the types of the table they are for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pyarrow as pa

from esker.errors import InvalidInput

_PACKED = re.compile(r"\.(gz|zst|zstd|bz2)$")
_ROWS = 1 << 16
_BLOCK = 4 << 20


class RowFormat(Enum):
    """How rows lie in a file."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"  # an object a line


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
    """How files are read; None: told from a file's name and first bytes."""

    format: RowFormat | None = None
    delimiter: str | None = None


def format_of(path: Path) -> RowFormat:
    """The format of a file, by its name, else by how it begins."""
    named = _SUFFIXES.get(Path(_PACKED.sub("", path.name.lower())).suffix)
    if named is not None:
        return named
    with path.open("rb") as file:
        head = file.read(64)
    if head.startswith(b"PAR1"):
        return RowFormat.PARQUET
    if head.lstrip()[:1] == b"{":
        return RowFormat.JSON
    raise InvalidInput(f"cannot tell how rows lie in {path}: say so with --format parquet, csv or json", path=str(path))


def schema_of(path: Path, reading: Reading, known: pa.Schema | None = None) -> pa.Schema:
    """The columns of a file; in CSV and JSON, those that are not known by name are told from the first rows."""
    return pa.schema([_writable(field) for field in raw_schema_of(path, reading, known)])


def raw_schema_of(path: Path, reading: Reading, known: pa.Schema | None) -> pa.Schema:
    """The columns as ``rows_of`` gives them."""
    with _opened(path, reading, known) as reader:
        return reader.schema


def rows_of(path: Path, reading: Reading, known: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a file, in bounded memory."""
    with _opened(path, reading, known) as reader:
        yield from reader


def _writable(field: pa.Field) -> pa.Field:
    """A column without a single value is text until it has one."""
    return field.with_type(pa.string()) if pa.types.is_null(field.type) else field


def _opened(path: Path, reading: Reading, known: pa.Schema | None) -> pa.RecordBatchReader:
    match reading.format or format_of(path):
        case RowFormat.PARQUET:
            return _parquet(path)
        case RowFormat.CSV:
            return _csv(path, reading, known)
        case RowFormat.JSON:
            return _json(path, known)


def _parquet(path: Path) -> pa.RecordBatchReader:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    return pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches(batch_size=_ROWS))


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

    return json.open_json(
        pa.input_stream(str(path), compression="detect"),
        read_options=json.ReadOptions(block_size=_BLOCK, use_threads=False),
        parse_options=json.ParseOptions(explicit_schema=known, unexpected_field_behavior="infer"),
    )


def _is_flat(field: pa.Field) -> bool:
    """Whether CSV can hold it; a nested column is left to be refused by name."""
    return not pa.types.is_nested(field.type)
