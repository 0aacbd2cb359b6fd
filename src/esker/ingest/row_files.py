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
    return field.with_type(_with_text(field.type))


def _with_text(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_null(type_):
        return pa.string()
    if pa.types.is_struct(type_):
        return pa.struct([_writable(type_.field(at)) for at in range(type_.num_fields)])
    if pa.types.is_list(type_):
        return pa.list_(_writable(type_.value_field))
    return type_


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

    wanted = [] if known is None else [field for field in known if _is_json(field.type)]
    # Arrow takes dates in JSON for numbers alone; people write them as text.
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
    """Whether CSV can hold it; a nested column is left to be refused by name."""
    return not pa.types.is_nested(field.type)


def _is_json(type_: pa.DataType) -> bool:
    """Whether Arrow reads such values from JSON; a column that it cannot is told from its values, if there are any."""
    if isinstance(type_, pa.BaseExtensionType) or pa.types.is_fixed_size_binary(type_) or pa.types.is_map(type_):
        return False
    return all(_is_json(type_.field(at).type) for at in range(type_.num_fields))
