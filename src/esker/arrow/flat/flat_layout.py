"""The layout of Parquet files: which flat columns they have, by field id, and what rows have for those they lack.

Files of one layout have the same schema, byte for byte, so the layout is found once and a file is known by the start of
its footer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from esker.arrow.arrow_types import to_arrow
from esker.arrow.convert import convert
from esker.arrow.parquet_footer import LARGEST_FOOTER, MAGIC
from esker.arrow.read.file_columns import FileColumn, by_field_id
from esker.arrow.read.format_reader import Renumbered
from esker.arrow.read.parquet_file import ParquetFile
from esker.arrow.read.task_reader import identity_values
from esker.arrow.value_arrays import array_of, repeated
from esker.errors import EskerError
from esker.model.arrow_arrays import arrow_array
from esker.model.partition_and_sort import PartitionSpec
from esker.model.schema import Schema
from esker.model.transform import IdentityTransform
from esker.model.types import Field, Type
from esker.ports.storage import Storage
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata

_ARROW_SCHEMA = b"ARROW:schema"
_BOOLEAN, _BYTE_ARRAY, _FIXED = 0, 6, 7
_AS_STORED = 8  # bytes of a fixed length that are no number
_SMALL_NUMBERS = (pa.int8(), pa.int16(), pa.uint8(), pa.uint16())  # Parquet stores them as 32 bits with the same value
_PHYSICAL = {
    "BOOLEAN": (_BOOLEAN, 0),
    "INT32": (1, 4),
    "INT64": (2, 8),
    "FLOAT": (4, 4),
    "DOUBLE": (5, 8),
    "BYTE_ARRAY": (_BYTE_ARRAY, 0),
    "FIXED_LEN_BYTE_ARRAY": (_FIXED, -1),
}
_LONGEST_DECIMAL = 16
_COPIED = (1, 4, 8, 16)  # lengths of values that the compiled code copies


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatColumn:
    """A column with one value per row."""

    leaf: int
    type: pa.DataType  # as it is decoded
    physical: int
    optional: bool
    stored: int  # bytes of a value in a page
    width: int  # bytes of a value in Arrow; 0: of any length

    @property
    def is_boolean(self) -> bool:
        """Whether a value is a bit in Arrow, and a byte until then."""
        return self.physical == _BOOLEAN

    @property
    def kind(self) -> int:
        """The physical type for the compiled code, which takes bytes of a fixed length for a decimal."""
        return _AS_STORED if self.physical == _FIXED and pa.types.is_fixed_size_binary(self.type) else self.physical

    def typed(self, array: pa.Array, type_: Type) -> pa.Array:
        """Decoded values in a type of the table. Raises ``Corrupt`` if they do not fit."""
        return array if array.type == to_arrow(type_) else convert(array, type_, file="", column="")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatLayout:
    """What all files have in common whose footers start with ``prefix``."""

    prefix: bytes
    spec_id: int | None  # of the files, where it decides which columns have an id: the writer wrote none
    arrow_schema: bytes | None
    leaf_count: int
    columns: tuple[FileColumn, ...]
    ids: frozenset[int]  # of all columns
    flat: Mapping[int, FlatColumn]  # by field id

    def suits(self, footer: bytes, spec_id: int) -> bool:
        """Whether a file may have this layout, by its footer and partition spec."""
        return self.spec_id in (None, spec_id) and footer.startswith(self.prefix)

    def find(self, wanted: Field) -> FlatColumn | None:
        """The column of a field. None if the files do not have it, or not in a type that becomes the table's."""
        found = self.flat.get(wanted.id)
        if found is None or found.type == to_arrow(wanted.type):
            return found
        try:
            found.typed(pa.nulls(0, found.type), wanted.type)
        except (EskerError, pa.ArrowException):
            return None
        return found


# ---------------------------------------------------------------- Columns that files do not have
#
# Their rows have something else instead. `project.missing` says it for one file.


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentColumns:
    """The value of an identity partition, else the default of the column, else null."""

    metadata: TableMetadata
    row_schema: Schema

    def has(self, wanted: Field, ids: Collection[int], spec_id: int) -> bool:
        """Whether files with columns of these ids, and of this spec, have nothing of a top-level column, and it has a
        value."""
        if wanted.id in ids or len(self.row_schema.path_by_id.get(wanted.id, ())) != 1:
            return False
        return not wanted.required or wanted.initial_default is not None or self._is_shared(wanted, spec_id)

    def shared(self, file: DataFile) -> dict[int, Any]:
        """The values that all rows of a file share because of its partition, by field id."""
        return identity_values(self._spec(file.spec_id), file)

    def values(self, wanted: Field, files: Sequence[DataFile], counts: Sequence[int]) -> pa.Array:
        """The values of the column for so many rows of each file."""
        if not any(self._is_shared(wanted, spec_id) for spec_id in {file.spec_id for file in files}):
            return repeated(wanted.type, wanted.initial_default, sum(counts))
        values = [self.shared(file).get(wanted.id, wanted.initial_default) for file in files]
        return array_of(wanted.type, values).take(arrow_array(np.repeat(np.arange(len(files)), counts)))

    def _is_shared(self, wanted: Field, spec_id: int) -> bool:
        fields = self._spec(spec_id).fields
        return any(part.source_id == wanted.id and isinstance(part.transform, IdentityTransform) for part in fields)

    def _spec(self, spec_id: int) -> PartitionSpec:
        return self.metadata.spec_by_id.get(spec_id, PartitionSpec())


# ---------------------------------------------------------------- Layouts, read from a file


def footer_length(tail: bytes) -> int | None:
    """The length of the footer, from the last 8 bytes of a file. None if these are not of a plain Parquet file."""
    length = int.from_bytes(tail[:4], "little")
    return length if tail[4:] == MAGIC and length <= LARGEST_FOOTER else None


def read_layout(storage: Storage, location: str, prefix: bytes, *, spec_id: int, without_ids: Renumbered) -> FlatLayout:
    """The layout of a file. ``without_ids`` gives its columns ids if the writer wrote none.

    Raises what `ParquetFile` and ``without_ids`` raise.
    """
    renumbered = False

    def identify(columns: tuple[FileColumn, ...]) -> tuple[FileColumn, ...]:
        nonlocal renumbered
        renumbered = True
        return without_ids(columns)

    with closing(ParquetFile(storage, location, without_ids=identify)) as file:
        columns = by_field_id(file.columns)
        schema = file.file.schema
        flat = {id_: _flat(schema, column) for id_, column in columns.items()}
        return FlatLayout(
            prefix=prefix,
            spec_id=spec_id if renumbered else None,
            arrow_schema=(file.file.metadata.metadata or {}).get(_ARROW_SCHEMA),
            leaf_count=len(schema),
            columns=file.columns,
            ids=frozenset(columns),
            flat={} if file.is_mended else {id_: column for id_, column in flat.items() if column is not None},
        )


def _flat(schema: pq.ParquetSchema, column: FileColumn) -> FlatColumn | None:
    if column.children or column.leaf_count != 1:
        return None
    leaf = schema.column(column.first_leaf)
    type_ = _plain(column.type)
    physical, stored = _PHYSICAL.get(leaf.physical_type, (-1, 0))
    stored = leaf.length if stored < 0 else stored
    width = _width(type_, physical, stored)
    if leaf.max_repetition_level or leaf.max_definition_level > 1 or width is None:
        return None
    return FlatColumn(
        leaf=column.first_leaf,
        type=type_,
        physical=physical,
        optional=leaf.max_definition_level == 1,
        stored=stored,
        width=width,
    )


def _plain(type_: pa.DataType) -> pa.DataType:
    """The type without dictionary and 64-bit offsets: Parquet stores the same bytes for it."""
    kinds = pa.types
    if isinstance(type_, pa.BaseExtensionType):
        type_ = type_.storage_type
    if kinds.is_dictionary(type_):
        type_ = type_.value_type
    if kinds.is_large_string(type_) or kinds.is_string_view(type_):
        return pa.string()
    if kinds.is_large_binary(type_) or kinds.is_binary_view(type_):
        return pa.binary()
    return pa.int32() if type_ in _SMALL_NUMBERS else type_


def _width(type_: pa.DataType, physical: int, stored: int) -> int | None:
    """The bytes of a value in Arrow. None if the pages have it in a way that is not read here."""
    kinds = pa.types
    if kinds.is_decimal128(type_):
        return 16 if physical in (1, 2) or (physical == _FIXED and 0 < stored <= _LONGEST_DECIMAL) else None
    if kinds.is_fixed_size_binary(type_):
        return stored if physical == _FIXED and stored == type_.byte_width and stored in _COPIED else None
    fits = {
        _BOOLEAN: type_ == pa.bool_(),
        1: type_ in (pa.int32(), pa.date32(), pa.time32("ms")),
        2: type_ == pa.int64() or kinds.is_time64(type_) or (kinds.is_timestamp(type_) and type_.unit != "s"),
        4: type_ == pa.float32(),
        5: type_ == pa.float64(),
        _BYTE_ARRAY: type_ in (pa.string(), pa.binary()),
    }.get(physical, False)
    if not fits:
        return None
    return 1 if physical == _BOOLEAN else stored
