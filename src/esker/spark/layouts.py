"""What the layout of a file is good for: reading by id, by the names it has, or neither."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from esker.arrow.file_columns import FileColumn, by_field_id, every_column
from esker.model.partition import PartitionSpec
from esker.model.schema import walk
from esker.model.transform import IdentityTransform
from esker.model.types import Field, StructType, Type, children
from esker.spark.literals import default_sql
from esker.spark.native_types import reads_natively
from esker.spark.survey import Layout
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def identity_constants(spec: PartitionSpec, data_file: DataFile) -> dict[int, Any]:
    """Held values of the columns that a file's partition fixes, by their ids."""
    pairs = zip(spec.fields, data_file.partition, strict=False)
    return {part.source_id: value for part, value in pairs if isinstance(part.transform, IdentityTransform)}


def identity_ids(metadata: TableMetadata) -> frozenset[int]:
    """Columns that some spec partitions by as they are."""
    return frozenset(
        part.source_id
        for spec in metadata.specs
        for part in spec.fields
        if isinstance(part.transform, IdentityTransform)
    )


def has_awkward_default(fields: Sequence[Field]) -> bool:
    """Whether a default is none that Spark's reader fills in: inside a column, or of a type it does not take."""
    return any(
        inner.initial_default is not None and (len(path) > 1 or default_sql(inner.type, inner.initial_default) is None)
        for inner, path in walk(tuple(fields))
    )


def is_plain(layout: Layout, fields: Sequence[Field], constants: Iterable[int]) -> bool:
    """Whether the file can be read by id with nothing lost."""
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
    """Whether members can be found by name as by id, for Spark goes by the name where a query uses some of them."""
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
    """Whether the columns of such a file can be read under the names they have there."""
    found = by_field_id(layout.columns)
    fixed = frozenset(constants)
    if any(f.id not in found and f.id not in fixed and f.initial_default is None and f.required for f in fields):
        return False
    wanted = [(f, found[f.id]) for f in fields if f.id in found]
    if file_format == "orc" and not all(_PLAIN.fullmatch(c.name) for c in every_column(c for _, c in wanted)):
        return False  # Spark puts the names into a text of its own, and finds some of them no more
    return _names_differ(layout.columns) and all(reads_natively(f.type, column, file_format) for f, column in wanted)


def narrowed(layout: Layout, fields: Sequence[Field]) -> Layout:
    """What of a layout matters for these columns, so that files which differ elsewhere are read together."""
    found = by_field_id(layout.columns)
    return Layout(tuple(_unplaced(found[f.id]) for f in fields if f.id in found), layout.has_ids)


def _unplaced(column: FileColumn) -> FileColumn:
    return replace(column, first_leaf=0, children=tuple(_unplaced(child) for child in column.children))


def _names_differ(columns: Iterable[FileColumn]) -> bool:
    """Spark finds names without regard to case, and has some of its own."""
    names = [column.name.casefold() for column in columns]
    clean = all(name and not name.startswith(("_metadata", "_tmp_metadata_", "__esker_")) for name in names)
    return clean and len(set(names)) == len(names) and all(_names_differ(c.children) for c in columns if _is_struct(c))


def _is_struct(column: FileColumn) -> bool:
    return bool(pa.types.is_struct(column.type))
