"""Layouts of data files: which columns a file has, and whether Spark's own reader reads them exactly.

Manifests do not say whether a file has field ids, nor which columns it has. So footers are read: all of them where the
table makes a difference likely, otherwise those of a few files.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from esker.arrow.read.file_columns import FileColumn, by_field_id, every_column
from esker.arrow.read.open_data import GetMapping, open_data, renumbered
from esker.arrow.read.parquet_file import ParquetFile
from esker.model.partition_and_sort import PartitionSpec
from esker.model.schema import Schema, walk
from esker.model.transform import IdentityTransform
from esker.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    Field,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
    VariantType,
    children,
)
from esker.ports.storage import Storage
from esker.spark.expressions.column_expressions import default_sql
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata

# ---------------------------------------------------------------- footers
#
# Spark raises an error for a file without field ids, and returns null for a missing column. So if the table makes
# either likely, every footer is read, otherwise those of a few files spread over the plan.


_KEPT = 20_000
_THREADS = 8


@dataclass(frozen=True, slots=True)
class Layout:
    """A file's columns, each with its id in the table. The ids are those in the file, or come from the name mapping."""

    columns: tuple[FileColumn, ...]
    has_ids: bool
    is_mended: bool = False  # Arrow reads the file with a repaired footer; Spark would refuse it


class Survey:
    """Reads the layouts of files, and keeps them, because a file never changes."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._seen: OrderedDict[tuple[str, int], Layout] = OrderedDict()

    def layouts(
        self,
        files: Sequence[DataFile],
        schema: Schema,
        get_mapping: GetMapping,
        constants_of: Callable[[DataFile], frozenset[int]],
    ) -> list[Layout]:
        """Return one layout per file.

        ``constants_of`` returns the ids of columns whose value the file's partition has (E1).
        """

        def look(file: DataFile) -> Layout:
            key = (file.path, schema.schema_id)
            found = self._seen.get(key)
            if found is None:
                found = self._seen[key] = self._look(file, schema, get_mapping, constants_of(file))
            return found

        if len(files) < 2:
            found = [look(file) for file in files]
        else:
            with ThreadPoolExecutor(min(_THREADS, len(files))) as pool:
                found = list(pool.map(look, files))
        while len(self._seen) > _KEPT:
            self._seen.popitem(last=False)
        return found

    def _look(self, file: DataFile, schema: Schema, get_mapping: GetMapping, constants: frozenset[int]) -> Layout:
        named = []
        identify = renumbered(file, schema, get_mapping, constants)

        def without_ids(columns: tuple[FileColumn, ...]) -> tuple[FileColumn, ...]:
            named.append(True)
            return identify(columns)

        source = open_data(self._storage, file, without_ids)
        is_mended = isinstance(source, ParquetFile) and source.is_mended
        return Layout(source.columns, not named, is_mended)


def spread(files: Sequence[DataFile], most: int) -> list[DataFile]:
    """Return at most ``most`` of the files, including the first and the last."""
    if len(files) <= most:
        return list(files)
    step = (len(files) - 1) / (most - 1)
    return [files[round(at * step)] for at in range(most)]


_SIGNED = (pa.int8(), pa.int16(), pa.int32())
_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def reads_natively(type_: Type, column: FileColumn, file_format: str) -> bool:
    """Return whether Spark's reader of that format reads the column as the type, without changing a value."""
    held = _stored(column.type)
    match type_:
        case StructType(fields):
            members = by_field_id(column.children)
            return pa.types.is_struct(held) and all(_member_reads(f, members, file_format) for f in fields)
        case ListType():
            return _is_list(held) and reads_natively(type_.element, column.children[0], file_format)
        case MapType():
            return pa.types.is_map(held) and all(
                reads_natively(part, child, file_format)
                for part, child in zip((type_.key, type_.value), column.children, strict=True)
            )
        case UnknownType():
            return True
        case VariantType():
            return file_format == "parquet" and pa.types.is_struct(held)
        case _:
            return _parquet(type_, held) if file_format == "parquet" else _orc(type_, held)


def _stored(held: pa.DataType) -> pa.DataType:
    """Return the type in the file, without Arrow's views and dictionaries, which only describe the writer's memory."""
    if isinstance(held, pa.BaseExtensionType):
        return _stored(held.storage_type)
    if pa.types.is_dictionary(held):
        return _stored(held.value_type)
    return _VIEWS.get(held, held)


def _is_list(held: pa.DataType) -> bool:
    kinds = pa.types
    return any(
        is_so(held) for is_so in (kinds.is_list, kinds.is_large_list, kinds.is_list_view, kinds.is_large_list_view)
    )


def _member_reads(field: Field, members: dict[int, FileColumn], file_format: str) -> bool:
    found = members.get(field.id)
    if found is None:  # the reader returns null for it
        return field.initial_default is None and not field.required
    return reads_natively(field.type, found, file_format)


def _parquet(type_: Type, held: pa.DataType) -> bool:
    match type_:
        case BooleanType():
            return pa.types.is_boolean(held)
        case IntType():
            return held in _SIGNED
        case LongType():
            return held in (*_SIGNED, pa.int64())
        case FloatType():
            return held == pa.float32()
        case DoubleType():
            return held in (pa.float32(), pa.float64())
        case DecimalType(precision, scale):
            return pa.types.is_decimal(held) and held.scale == scale and held.precision <= precision
        case DateType():
            return pa.types.is_date32(held)
        case TimeType():
            return held == pa.time64("us")
        case TimestampType(zoned):
            micros = pa.types.is_timestamp(held) and held.unit in ("us", "ms")
            return micros or (pa.types.is_date32(held) and not zoned)
        case StringType() | BinaryType() | GeometryType() | GeographyType():
            return held in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())
        case UuidType():
            return held in (pa.binary(16), pa.binary())
        case FixedType(length):
            return held in (pa.binary(length), pa.binary())
        case _:
            return False


def _orc(type_: Type, held: pa.DataType) -> bool:
    """Return whether ORC is exact.

    Times are left to Arrow, because Spark reads them in the time zone of its JVM. So are promoted columns.
    """
    match type_:
        case BooleanType():
            return pa.types.is_boolean(held)
        case IntType():
            return held == pa.int32()
        case LongType():
            return held == pa.int64()
        case FloatType():
            return held == pa.float32()
        case DoubleType():
            return held == pa.float64()
        case DecimalType(precision, scale):
            return pa.types.is_decimal(held) and (held.precision, held.scale) == (precision, scale)
        case StringType():
            return held == pa.string()
        case BinaryType():
            return held == pa.binary()
        case _:
            return False


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def identity_constants(spec: PartitionSpec, data_file: DataFile) -> dict[int, Any]:
    """Return the values of the columns that a file's partition fixes, by their ids."""
    pairs = zip(spec.fields, data_file.partition, strict=False)
    return {part.source_id: value for part, value in pairs if isinstance(part.transform, IdentityTransform)}


def identity_ids(metadata: TableMetadata) -> frozenset[int]:
    """Return the columns that some spec uses as identity partitions."""
    return frozenset(
        part.source_id
        for spec in metadata.specs
        for part in spec.fields
        if isinstance(part.transform, IdentityTransform)
    )


def kept_its_type(metadata: TableMetadata, field: Field) -> bool:
    """Return whether a column has the same type in every schema that the table lists."""
    known = (schema.by_id.get(field.id) for schema in metadata.schemas)
    return all(one is None or one.type == field.type for one in known)


def has_awkward_default(fields: Sequence[Field]) -> bool:
    """Return whether Spark's reader cannot fill in a default: it is inside a column, or of a type that Spark
    refuses."""
    return any(
        inner.initial_default is not None and (len(path) > 1 or default_sql(inner.type, inner.initial_default) is None)
        for inner, path in walk(tuple(fields))
    )


def is_plain(layout: Layout, fields: Sequence[Field], constants: Iterable[int]) -> bool:
    """Return whether the file can be read by id, without losing anything."""
    if not layout.has_ids or layout.is_mended:
        return False
    found = by_field_id(layout.columns)
    lacking = [f for f in fields if f.id not in found]
    fixed = frozenset(constants)
    if any(f.id in fixed or _needs_filling(f) for f in lacking):
        return False
    return all(
        reads_natively(f.type, found[f.id], "parquet") and _members_are_called_so(f.type, found[f.id])
        for f in fields
        if f.id in found
    )


def _members_are_called_so(type_: Type, column: FileColumn) -> bool:
    """Return whether members can be found by name. Spark finds them by name if a query uses only some of them."""
    if not isinstance(type_, StructType):
        inner = children(type_)
        return all(_members_are_called_so(f.type, c) for f, c in zip(inner, column.children, strict=False))
    held = by_field_id(column.children)
    taken = {child.name.casefold() for child in column.children}
    return all(
        f.name == held[f.id].name and _members_are_called_so(f.type, held[f.id])
        if f.id in held
        else f.name.casefold() not in taken
        for f in type_
    )


def _needs_filling(field: Field) -> bool:
    default = field.initial_default
    if default is None:
        return field.required
    return default_sql(field.type, default) is None


def reads_by_name(layout: Layout, fields: Sequence[Field], file_format: str, constants: Iterable[int]) -> bool:
    """Return whether the columns of the file can be read under the names that the file has."""
    found = by_field_id(layout.columns)
    fixed = frozenset(constants)
    if any(f.id not in found and f.id not in fixed and f.initial_default is None and f.required for f in fields):
        return False
    wanted = [(f, found[f.id]) for f in fields if f.id in found]
    if file_format == "orc" and not all(_PLAIN.fullmatch(c.name) for c in every_column(c for _, c in wanted)):
        return False  # Spark puts the names into its own schema text, and then does not find some of them
    return _names_differ(layout.columns) and all(reads_natively(f.type, column, file_format) for f, column in wanted)


def narrowed(layout: Layout, fields: Sequence[Field]) -> Layout:
    """Return the parts of a layout that matter for these columns, so that files that differ elsewhere are read
    together."""
    found = by_field_id(layout.columns)
    return Layout(tuple(_unplaced(found[f.id]) for f in fields if f.id in found), layout.has_ids)


def _unplaced(column: FileColumn) -> FileColumn:
    return replace(column, first_leaf=0, children=tuple(_unplaced(child) for child in column.children))


def _names_differ(columns: Iterable[FileColumn]) -> bool:
    """Return whether all names differ. Spark ignores case, and reserves some names."""
    names = [column.name.casefold() for column in columns]
    clean = all(name and not name.startswith(("_metadata", "_tmp_metadata_", "__esker_")) for name in names)
    return clean and len(set(names)) == len(names) and all(_names_differ(c.children) for c in columns if _is_struct(c))


def _is_struct(column: FileColumn) -> bool:
    return bool(pa.types.is_struct(column.type))
