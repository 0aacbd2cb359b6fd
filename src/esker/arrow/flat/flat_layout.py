"""The layout of Parquet files: which flat columns they have, by field id. Files of one layout have the same schema,
byte for byte, so the layout is found once and a file is known by the start of its footer."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from esker.arrow.arrow_types import to_arrow
from esker.arrow.parquet_footer import LARGEST_FOOTER, MAGIC
from esker.arrow.read.file_columns import FileColumn, by_field_id
from esker.arrow.read.parquet_file import ParquetFile
from esker.model.types import Field
from esker.ports.storage import Storage

_ARROW_SCHEMA = b"ARROW:schema"
_BOOLEAN, _BYTE_ARRAY, _FIXED = 0, 6, 7
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatColumn:
    """A column with one value per row, in the table's own type."""

    leaf: int
    type: pa.DataType
    physical: int
    optional: bool
    stored: int  # bytes of a value in a page
    width: int  # bytes of a value in Arrow; 0: of any length

    @property
    def is_boolean(self) -> bool:
        """Whether a value is a bit in Arrow, and a byte until then."""
        return self.physical == _BOOLEAN


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatLayout:
    """What all files have in common whose footers start with ``prefix``."""

    prefix: bytes
    arrow_schema: bytes | None
    leaf_count: int
    columns: tuple[FileColumn, ...]
    flat: Mapping[int, FlatColumn]  # by field id

    def find(self, wanted: Field) -> FlatColumn | None:
        """The column of a field. None if the files do not have it in the table's type."""
        found = self.flat.get(wanted.id)
        return found if found is not None and found.type == to_arrow(wanted.type) else None


def footer_length(tail: bytes) -> int | None:
    """The length of the footer, from the last 8 bytes of a file. None if these are not of a plain Parquet file."""
    length = int.from_bytes(tail[:4], "little")
    return length if tail[4:] == MAGIC and length <= LARGEST_FOOTER else None


def read_layout(storage: Storage, location: str, prefix: bytes) -> FlatLayout:
    """The layout of a file. It has no columns if the writer wrote no field ids.

    Raises what `ParquetFile` raises.
    """
    with closing(ParquetFile(storage, location, without_ids=lambda columns: ())) as file:
        columns = by_field_id(file.columns)
        schema = file.file.schema
        flat = {id_: _flat(schema, column) for id_, column in columns.items()}
        return FlatLayout(
            prefix=prefix,
            arrow_schema=(file.file.metadata.metadata or {}).get(_ARROW_SCHEMA),
            leaf_count=len(schema),
            columns=file.columns,
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
    if kinds.is_dictionary(type_):
        type_ = type_.value_type
    if kinds.is_large_string(type_) or kinds.is_string_view(type_):
        return pa.string()
    return pa.binary() if kinds.is_large_binary(type_) or kinds.is_binary_view(type_) else type_


def _width(type_: pa.DataType, physical: int, stored: int) -> int | None:
    """The bytes of a value in Arrow. None if the pages have it in a way that is not read here."""
    kinds = pa.types
    if kinds.is_decimal128(type_):
        return 16 if physical in (1, 2) or (physical == _FIXED and 0 < stored <= _LONGEST_DECIMAL) else None
    fits = {
        _BOOLEAN: type_ == pa.bool_(),
        1: type_ in (pa.int32(), pa.date32()),
        2: type_ == pa.int64() or kinds.is_time64(type_) or (kinds.is_timestamp(type_) and type_.unit in ("us", "ns")),
        4: type_ == pa.float32(),
        5: type_ == pa.float64(),
        _BYTE_ARRAY: type_ in (pa.string(), pa.binary()),
    }.get(physical, False)
    if not fits:
        return None
    return 1 if physical == _BOOLEAN else stored
