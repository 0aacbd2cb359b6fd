"""The columns of a data file as a tree with field ids, for any format. Also the path to a nested field.

Leaves are numbered in depth-first order, which is the order of Parquet's column chunks. So a set of leaf numbers
describes a projection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from esker.errors import Unsupported
from esker.model.schema import MappedField, Schema
from esker.model.types import Field, ListType, MapType, StructType, Type, UnknownType
from esker.tree.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumn:
    """A column of a file, or a part of one."""

    name: str
    field_id: int | None
    type: pa.DataType
    first_leaf: int
    leaf_count: int
    children: tuple[FileColumn, ...] = ()

    @property
    def leaves(self) -> range:
        """The numbers of its leaves."""
        return range(self.first_leaf, self.first_leaf + self.leaf_count)


def file_columns(schema: pa.Schema, id_key: bytes) -> tuple[FileColumn, ...]:
    """The tree of an Arrow schema whose fields have their ids under ``id_key``."""
    return _columns(list(schema), id_key, 0)


def _columns(fields: Iterable[pa.Field], id_key: bytes, first_leaf: int) -> tuple[FileColumn, ...]:
    found = []
    for field in fields:
        children = _columns(_parts(field.type), id_key, first_leaf)
        count = sum(child.leaf_count for child in children) or 1
        column = FileColumn(
            name=field.name,
            field_id=_field_id(field.metadata, id_key),
            type=field.type,
            first_leaf=first_leaf,
            leaf_count=count,
            children=children,
        )
        found.append(column)
        first_leaf += count
    return tuple(found)


def _parts(type_: pa.DataType) -> list[pa.Field]:
    kinds = pa.types
    if isinstance(type_, pa.BaseExtensionType):
        return _parts(type_.storage_type)
    if kinds.is_struct(type_):
        return [type_.field(at) for at in range(type_.num_fields)]
    if kinds.is_map(type_):
        return [type_.key_field, type_.item_field]
    if kinds.is_nested(type_) and hasattr(type_, "value_field"):
        return [type_.value_field]
    return []


def _field_id(metadata: Mapping[bytes, bytes] | None, id_key: bytes) -> int | None:
    text = (metadata or {}).get(id_key, b"")
    return int(text) if text.isdigit() else None


def every_column(columns: Iterable[FileColumn]) -> Iterator[FileColumn]:
    """The columns at all depths, parents first."""
    waiting = [iter(columns)]  # a stack, not recursion: what a deep level yields need not climb through those above
    while waiting:
        column = next(waiting[-1], None)
        if column is None:
            waiting.pop()
            continue
        yield column
        waiting.append(iter(column.children))


def has_ids(columns: Iterable[FileColumn]) -> bool:
    """Whether the writer wrote any field id."""
    return any(column.field_id is not None for column in every_column(columns))


def with_mapped_ids(columns: tuple[FileColumn, ...], mapping: Iterable[MappedField]) -> tuple[FileColumn, ...]:
    """The columns of a file without ids, found by their names (checklist E2: a dot is part of a name)."""
    by_name = {name: mapped for mapped in mapping for name in mapped.names}
    return tuple(_with_mapped_id(column, by_name.get(column.name)) for column in columns)


def _with_mapped_id(column: FileColumn, mapped: MappedField | None) -> FileColumn:
    if mapped is None:
        return column
    names = _part_names(column)
    children = tuple(
        _with_mapped_id(child, mapped.by_name.get(name)) for child, name in zip(column.children, names, strict=True)
    )
    return replace(column, field_id=mapped.field_id, children=children)


def _part_names(column: FileColumn) -> tuple[str, ...]:
    """The names of parts in mappings: writers call a list's element ``array``, ``item`` and so on."""
    type_ = column.type.storage_type if isinstance(column.type, pa.BaseExtensionType) else column.type
    if pa.types.is_struct(type_):
        return tuple(child.name for child in column.children)
    return ("key", "value") if pa.types.is_map(type_) else ("element",) * len(column.children)


def with_positional_ids(columns: tuple[FileColumn, ...]) -> tuple[FileColumn, ...]:
    """Top-level columns numbered from 1, as in Iceberg Java for Parquet with neither ids nor a mapping."""
    return tuple(replace(column, field_id=at) for at, column in enumerate(columns, start=1))


def by_field_id(columns: Iterable[FileColumn]) -> dict[int, FileColumn]:
    """The columns of one level by id. If an id is repeated, the first is used."""
    found: dict[int, FileColumn] = {}
    for column in columns:
        if column.field_id is not None:
            found.setdefault(column.field_id, column)
    return found


class LeafFinder:
    """Finds columns with one value per row, by the path to a field. Each level is indexed once: there may be
    thousands."""

    def __init__(self, columns: tuple[FileColumn, ...]) -> None:
        self._top = by_field_id(columns)
        self._below: dict[int, dict[int, FileColumn]] = {}  # by the identity of the parent column

    def find(self, path: tuple[Field, ...]) -> FileColumn | None:
        """The file's column of a field that is reached only through structs. None if there is none."""
        level, column = self._top, None
        for depth, field in enumerate(path):
            if depth:
                above = path[depth - 1]
                if column is None or not isinstance(above.type, StructType):
                    return None
                level = self._members(column)
            column = level.get(field.id)
        return None if column is None or column.children else column

    def _members(self, column: FileColumn) -> dict[int, FileColumn]:
        key = id(column)
        if key not in self._below:
            self._below[key] = by_field_id(column.children)
        return self._below[key]


def wanted_leaves(fields: Iterable[Field], columns: tuple[FileColumn, ...]) -> frozenset[int]:
    """The leaves that must be read for these fields."""
    ids = by_field_id(columns)
    return frozenset(leaf for f in fields if f.id in ids for leaf in _leaves(f.type, ids[f.id]))


def _leaves(type_: Type, column: FileColumn) -> frozenset[int]:
    match type_:
        case StructType(fields):
            found = wanted_leaves(fields, column.children)
        case ListType() if column.children:
            found = _leaves(type_.element, column.children[0])
        case MapType() if len(column.children) == 2:
            key, value = column.children
            found = frozenset(key.leaves) | (_leaves(type_.value, value) or frozenset((value.first_leaf,)))
        case UnknownType():
            return frozenset()
        case _:
            return frozenset(column.leaves)
    # Whether a struct is null, or how long a list is, is only known from one of its leaves.
    return found or frozenset((column.first_leaf,))


def pruned(columns: Iterable[FileColumn], leaves: frozenset[int]) -> tuple[FileColumn, ...]:
    """The part of the tree that has these leaves."""
    return tuple(
        replace(column, children=pruned(column.children, leaves))
        for column in columns
        if not leaves.isdisjoint(column.leaves)
    )


# ---------------------------------------------------------------- Nested fields


def path_of(field_id: int, schema: Schema, metadata: TableMetadata | None = None) -> tuple[Field, ...] | None:
    """The path from the top-level column to the field. For a dropped field, as in older schemas (checklist H4)."""
    if field_id in schema.path_by_id:
        return schema.path_by_id[field_id]
    if metadata is None:
        return None
    for known in (metadata.schema, *reversed(metadata.schemas)):
        if field_id in known.path_by_id:
            return known.path_by_id[field_id]
    return None


def branch(path: tuple[Field, ...]) -> Field:
    """The top-level column reduced to the path to the field."""
    field = path[-1]
    for above in reversed(path[:-1]):
        if not isinstance(above.type, StructType):
            name = ".".join(part.name for part in path)
            raise Unsupported(f"cannot compare {name!r}: a row has many values of it", feature="keys inside lists")
        field = replace(above, type=StructType((field,)))
    return field


def tip(array: pa.Array, path: tuple[Field, ...]) -> pa.Array:
    """The values of the field, from its reduced column. Null where a struct above it is null."""
    if len(path) == 1:
        return array
    import pyarrow.compute as pc

    return pc.struct_field(array, [0] * (len(path) - 1))
