"""The columns of a folder of Parquet files: the columns of the files, and those that only the folder names have."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from esker.arrow.input.schema_from_arrow import schema_from_arrow
from esker.arrow.read.format_reader import blaming, open_input
from esker.arrow.read.open_parquet import open_parquet
from esker.errors import InvalidInput
from esker.model.file_paths import type_of_texts
from esker.model.parsing.column_definitions import parse_columns
from esker.model.schema import Schema
from esker.model.types import Field
from esker.ports.storage import Storage
from esker.write.existing_files import ExistingFile


def folder_schema(storage: Storage, files: Sequence[ExistingFile], *, parallelism: int = 1) -> Schema:
    """The columns of the files in order, then the columns of the folder names, with the types that Spark infers. All
    optional.

    Raises ``InvalidInput`` if a column has types in two files that do not fit together.
    """
    with ThreadPoolExecutor(parallelism) as pool:
        found = list(pool.map(lambda file: _columns(storage, file.location), files))
    merged = found[0]
    for file, schema in zip(files[1:], found[1:], strict=True):
        try:
            merged = pa.unify_schemas([merged, schema])
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InvalidInput(
                f"cannot find the columns of a folder: {file.location} does not fit {files[0].location}: {error}",
                file=file.location,
            ) from None
    columns = schema_from_arrow(merged).fields
    held = {field.name.casefold() for field in columns}
    named = [name for name in files[0].values or () if name.casefold() not in held]
    return Schema(fields=(*columns, *(_of_folders(files, name) for name in named)))


def _columns(storage: Storage, location: str) -> pa.Schema:
    with blaming(location), open_input(storage, location) as source:
        _, file = open_parquet(source, coerce_int96_timestamp_unit="us", arrow_extensions_enabled=False)
        parquet, found = file.schema, file.schema_arrow
    instants = {parquet.column(at).path for at in range(len(parquet)) if parquet.column(at).physical_type == "INT96"}
    fields = [f.with_type(pa.timestamp("us", "UTC")) if f.name in instants else f for f in found]
    return pa.schema([field.with_nullable(True).remove_metadata() for field in fields])


def _of_folders(files: Sequence[ExistingFile], name: str) -> Field:
    """A column that no file has."""
    values = ({key.casefold(): text for key, text in (file.values or {}).items()} for file in files)
    type_ = type_of_texts({texts.get(name.casefold()) for texts in values})
    quoted = "`" + name.replace("`", "``") + "`"
    return parse_columns(f"{quoted} {type_}")[0]
