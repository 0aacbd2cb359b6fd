"""The columns that a native scan requests from Spark: which, under which names, and how they become table columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as spark

from esker.arrow.read.file_columns import FileColumn, branch, by_field_id, path_of
from esker.arrow.read.row_metadata import LINEAGE, METADATA_COLUMNS
from esker.model.predicates.predicate import Bound, terms
from esker.model.schema import walk
from esker.model.types import Field, ListType, MapType, StructType, Type, UnknownType
from esker.spark.expressions.column_expressions import default_sql, stored_literal
from esker.spark.expressions.types import FIELD_ID, stored_field, stored_primitive, stored_type
from esker.spark.scan.file_layouts import Layout
from esker.spark.scan.protected_columns import protect
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    from pyspark.sql import Column

    from esker.model.schema import Schema
    from esker.ports.engine import ReadRequest


# ---------------------------------------------------------------- names in a scan
#
# Spark's Parquet reader finds columns by id, but filters that are pushed down find them by name. If column ``x`` was
# dropped and created again, or has the former name of another column, a filter on ``x`` would use the statistics of the
# old column, and rows would be lost. So a column keeps its name in the scan only if no file can have that name for
# another column. Other columns get a name that no file has, and are renamed above the scan.
#
# If a query uses only some members of a struct, Spark's optimiser drops the ids, and its reader finds members by name.
# A renamed member would be null. So if a member was ever renamed, the footers are read.


HIDDEN = "__esker_"
_TAKEN = ("_metadata", "_tmp_metadata_")  # names that Spark uses itself


def scan_names(metadata: TableMetadata, fields: Iterable[Field]) -> dict[int, str]:
    """Return the name of each top-level column, by its id."""
    ids = _ids_by_name(metadata)
    complete = _history_is_whole(metadata)
    return {f.id: f.name if complete and _is_own(f, ids) else f"{HIDDEN}{f.id}" for f in fields}


def members_kept_their_names(metadata: TableMetadata, fields: Iterable[Field]) -> bool:
    """Return whether every member of a struct in these columns has one name in all files, which no other member has."""
    members = [(field, path) for field, path in walk(tuple(fields)) if len(path) > 1]
    if not members:
        return True
    if not _history_is_whole(metadata):
        return False
    names: dict[int, set[str]] = {}
    ids: dict[tuple[int, str], set[int]] = {}
    for schema in metadata.schemas:
        for field, path in walk(schema.fields):
            if len(path) > 1:
                names.setdefault(field.id, set()).add(field.name)
                ids.setdefault((path[-2].id, field.name.casefold()), set()).add(field.id)
    return all(
        names.get(field.id, set()) <= {field.name}
        and ids.get((path[-2].id, field.name.casefold()), set()) <= {field.id}
        for field, path in members
    )


def _history_is_whole(metadata: TableMetadata) -> bool:
    """Return whether some schema has every id. An id without a schema belonged to a column whose name is unknown."""
    known = frozenset().union(*(schema.by_id for schema in metadata.schemas))
    return all(id_ in known for id_ in range(1, metadata.last_column_id + 1))


def _ids_by_name(metadata: TableMetadata) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for schema in metadata.schemas:
        for field, path in walk(schema.fields):
            found.setdefault(_dotted(path), set()).add(field.id)
    return found


def _is_own(field: Field, ids: dict[str, set[int]]) -> bool:
    name = field.name.casefold()
    if name.startswith((HIDDEN, *_TAKEN)):
        return False
    return all(ids.get(_dotted(path), set()) <= {inner.id} for inner, path in walk((field,)))


def _dotted(path: tuple[Field, ...]) -> str:
    return ".".join(part.name for part in path).casefold()


Path = tuple[Field, ...]


def filter_paths(predicate: Bound, schema: Schema) -> tuple[Path, ...]:
    """Return the path to each column that the filter uses."""
    fields = {term.field.id: term.field for term in terms(predicate)}
    return tuple(path_of(id_, schema) or (field,) for id_, field in fields.items())


def stored_fields(request: ReadRequest, paths: Iterable[Path]) -> tuple[Field, ...]:
    """Return the top-level columns to read: only the needed members, or the whole column if the uses differ."""
    wanted: dict[int, Field] = {}
    for field in (*request.projection, *(branch(path) for path in paths)):
        if isinstance(field.type, UnknownType) or (field.id in METADATA_COLUMNS and field.id not in LINEAGE):
            continue
        known = wanted.setdefault(field.id, field)
        if known.type != field.type:
            wanted[field.id] = _whole(request, field)
    return tuple(wanted.values())


def _whole(request: ReadRequest, field: Field) -> Field:
    path = path_of(field.id, request.row_schema, request.metadata)
    return field if path is None else replace(path[-1], required=field.required)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoredColumns:
    """A schema for Spark's reader, and the table's columns by id as expressions over it."""

    schema: spark.StructType
    fields: Mapping[int, Field]
    names: Mapping[int, str]  # columns that the schema has as they are
    made: Mapping[int, Column] = dataclasses.field(default_factory=dict)  # the other columns
    protected: frozenset[int] = frozenset()  # ids at any depth to which no filter may be pushed

    def column(self, field_id: int) -> Column:
        """Return a column of the table, to be shown."""
        return protect(self._raw(field_id), self.fields[field_id], self.protected)

    def _raw(self, field_id: int) -> Column:
        name = self.names.get(field_id)
        return self.made[field_id] if name is None else F.col(quoted(name))

    def at(self, path: Sequence[Field], *, pushes: bool = False) -> Column:
        """Return a column at any depth.

        It is null if a struct above it is null. With ``pushes``, filters may be pushed to it.
        """
        column, field = self._raw(path[0].id), self.fields[path[0].id]
        for part in path[1:]:
            assert isinstance(field.type, StructType)
            field = next(inner for inner in field.type if inner.id == part.id)
            column = column.getField(field.name)
        return column if pushes else protect(column, field, self.protected)


def columns_by_id(metadata: TableMetadata, fields: Sequence[Field]) -> StoredColumns:
    """Return columns that are found by their ids. Spark fills in the default of a missing column."""
    names = scan_names(metadata, fields)
    return StoredColumns(
        schema=spark.StructType([_with_default(stored_field(f, names[f.id]), f) for f in fields]),
        fields={f.id: f for f in fields},
        names={f.id: names[f.id] for f in fields},
    )


def columns_by_name(layout: Layout, fields: Sequence[Field], fixed: Mapping[int, Column]) -> StoredColumns:
    """Return columns under the names that files of this layout have. ``fixed`` are those that the partition decides."""
    found = by_field_id(layout.columns)
    schema, names, made = [], {}, {}
    for field in fields:
        held = found.get(field.id)
        if held is None:
            made[field.id] = fixed.get(field.id, stored_literal(field.type, field.initial_default))
            continue
        asked = _as_found(field.type, held, field.name)
        schema.append(spark.StructField(held.name, asked, True))
        meant = _without_ids(stored_type(field.type, field.name))
        if asked == meant:
            names[field.id] = held.name
        else:
            made[field.id] = F.col(quoted(held.name)).cast(meant)
    return StoredColumns(schema=spark.StructType(schema), fields={f.id: f for f in fields}, names=names, made=made)


def without_columns(schema: spark.StructType, names: Collection[str]) -> spark.StructType:
    """Return the schema without these columns."""
    return spark.StructType([field for field in schema.fields if field.name not in names]) if names else schema


def quoted(name: str) -> str:
    """Return a name that ``F.col`` uses as a whole, including dots."""
    return "`" + name.replace("`", "``") + "`"


def _with_default(stored: spark.StructField, field: Field) -> spark.StructField:
    if field.initial_default is None:
        return stored
    text = default_sql(field.type, field.initial_default)
    if text is None:  # files that lack the column are not read by id
        return stored
    return spark.StructField(
        stored.name, stored.dataType, True, {**stored.metadata, "EXISTS_DEFAULT": text, "CURRENT_DEFAULT": text}
    )


def _as_found(type_: Type, column: FileColumn, name: str) -> spark.DataType:
    """Return the table's type with the names that the file has."""
    match type_:
        case StructType(fields):
            held = by_field_id(column.children)
            members = [
                spark.StructField(held[f.id].name, _as_found(f.type, held[f.id], name), True)
                if f.id in held
                else spark.StructField(f"{HIDDEN}{f.id}", _without_ids(stored_type(f.type, name)), True)
                for f in fields
                if not isinstance(f.type, UnknownType)
            ]
            return spark.StructType(members)
        case ListType():
            return spark.ArrayType(_as_found(type_.element, column.children[0], name), True)
        case MapType():
            key, value = column.children
            return spark.MapType(_as_found(type_.key, key, name), _as_found(type_.value, value, name), True)
        case _:
            return stored_primitive(type_, name)


def _without_ids(type_: spark.DataType) -> spark.DataType:
    match type_:
        case spark.StructType(fields=fields):
            return spark.StructType(
                [
                    spark.StructField(
                        f.name, _without_ids(f.dataType), True, {k: v for k, v in f.metadata.items() if k != FIELD_ID}
                    )
                    for f in fields
                ]
            )
        case spark.ArrayType():
            return spark.ArrayType(_without_ids(type_.elementType), True)
        case spark.MapType():
            return spark.MapType(_without_ids(type_.keyType), _without_ids(type_.valueType), True)
        case _:
            return type_
