"""Describe an existing Parquet file without reading its rows, for ``add_files``.

Its partition must follow from the statistics of its footer. For a column that the file does not have, as with Hive's
writers, it follows from the ``name=value`` folders in its path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any
from urllib.parse import unquote_plus

import pyarrow as pa
import pyarrow.parquet as pq

from esker.arrow.arrow_types import FIELD_ID
from esker.arrow.convert import convert
from esker.arrow.read.file_columns import FileColumn, LeafFinder, by_field_id, file_columns, has_ids, with_mapped_ids
from esker.arrow.read.format_reader import blaming, open_input
from esker.arrow.read.open_parquet import open_parquet
from esker.arrow.write.metrics import Seen, footer_metrics, metrics_modes, seen_columns, split_offsets
from esker.arrow.write.partition_and_sort_rows import partitioner
from esker.errors import EskerError, InvalidInput
from esker.model.file_paths import hive_values, value_of_text
from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.schema import Schema
from esker.model.transform import BucketTransform, IdentityTransform, VoidTransform, apply_transform
from esker.model.types import ListType, MapType, StructType, Type, VariantType, is_floating, is_nested
from esker.ports.engine import NoFieldIds
from esker.ports.storage import Storage
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata

# ---------------------------------------------------------------- The partition of an existing file


Folders = Mapping[str, str | None]


def found_partition(
    location: str,
    spec: PartitionSpec,
    schema: Schema,
    seen: Mapping[int, Seen],
    folders: Folders,
    *,
    must_agree: bool = False,
) -> tuple[Any, ...]:
    """The partition values. Raises ``InvalidInput`` with the reason if one cannot be decided.

    ``must_agree``: a column of the file must have the same value as the folder.
    """
    found = []
    for field in spec.fields:
        value = _member(location, field, schema, seen.get(field.source_id), folders)
        if must_agree and seen.get(field.source_id) is not None:
            _check_agrees(location, field, schema, value, folders)
        found.append(value)
    return tuple(found)


def _member(location: str, field: PartitionField, schema: Schema, seen: Seen | None, folders: Folders) -> Any:
    if isinstance(field.transform, VoidTransform):
        return None
    source = schema.by_id[field.source_id]
    name = schema.name_by_id[field.source_id]
    if seen is None:
        return _from_folder(location, field, name, source.type, folders)
    if not seen.values:
        if isinstance(field.transform, IdentityTransform) and _key(field, name, folders) is not None:
            return _from_folder(location, field, name, source.type, folders)
        raise _undecided(location, field, f"the file has no rows, so {name!r} has no value")
    if seen.nulls is None:
        raise _undecided(location, field, f"its footer has no statistics of {name!r}")
    if seen.nulls == seen.values:
        return None
    if seen.nulls:
        raise _undecided(location, field, f"column {name!r} has both nulls and values")
    if is_floating(source.type):
        raise _undecided(location, field, f"statistics of the float column {name!r} do not show NaN")
    if seen.low is None:
        raise _undecided(location, field, f"its footer has no bounds of {name!r}")
    low, high = (apply_transform(field.transform, source.type, value) for value in (seen.low, seen.high))
    # A bucket has no order. Only if there is one value, all rows are in its bucket.
    if low != high or (isinstance(field.transform, BucketTransform) and seen.low != seen.high):
        raise _undecided(location, field, f"{name!r} runs from {seen.low!r} to {seen.high!r}, over several partitions")
    return low


def _from_folder(location: str, field: PartitionField, name: str, type_: Type, folders: Folders) -> Any:
    if not isinstance(field.transform, IdentityTransform):
        raise _undecided(location, field, f"the file does not have column {name!r}")
    key = _key(field, name, folders)
    if key is None:
        raise _undecided(
            location, field, f"the file does not have column {name!r}, nor a folder {field.name}=… above it"
        )
    try:
        return value_of_text(type_, folders[key])
    except ValueError:
        raise _undecided(location, field, f"the folder's value {folders[key]!r} is not a valid {type_}") from None


def _key(field: PartitionField, name: str, folders: Folders) -> str | None:
    return next((key for key in (field.name, name) if key in folders), None)


def _check_agrees(location: str, field: PartitionField, schema: Schema, value: Any, folders: Folders) -> None:
    """Raise if folder and file differ: engines that use the folder's value and engines that use the file's must read
    the same rows."""
    name, type_ = schema.name_by_id[field.source_id], schema.by_id[field.source_id].type
    key = _key(field, name, folders)
    if key is None or not isinstance(field.transform, IdentityTransform):
        return
    text = folders[key]
    for meant in {text, None if text is None else unquote_plus(text)}:  # Iceberg's writers write a space as a plus
        try:
            if value_of_text(type_, meant) == value:
                return
        except ValueError:
            continue
    raise _undecided(location, field, f"column {name!r} is {value!r} in the file and {text!r} in its folder")


def _undecided(location: str, field: PartitionField, why: str) -> InvalidInput:
    return InvalidInput(
        f"cannot add {location}: its partition {field.name!r} ({field.transform}) cannot be decided, because {why}",
        file=location,
        column=field.name,
    )


# ---------------------------------------------------------------- The description


NAME_MAPPING = "schema.name-mapping.default"


@dataclass(frozen=True, slots=True)
class _Found:
    """An existing file: its footer, and its columns by field id."""

    location: str
    footer: pq.FileMetaData
    columns: tuple[FileColumn, ...]
    by_name: bool  # the ids are the table's, found by name


def describe(
    storage: Storage,
    metadata: TableMetadata,
    location: str,
    *,
    folders: Mapping[str, str | None] | None = None,
    ignore_extra_columns: bool = False,
) -> DataFile:
    """The file with its partition and metrics. Raises ``InvalidInput`` if it cannot be added to the table.

    ``folders`` are the partition values of its folders, as text. None: those of its location. Columns that the table
    does not have are refused, or ignored with ``ignore_extra_columns``.
    """
    schema = metadata.schema
    partitioner(schema, metadata.spec)
    found = _open(storage, metadata, location)
    seen = seen_columns(found.footer, found.columns, schema)
    hive = hive_values(location) if folders is None else folders
    _check_columns(found, schema, metadata, ignore_extra_columns)
    _check_required(found, schema, metadata, seen, hive)
    leaf_ids = tuple(_leaf_ids(found.columns, _variants(metadata)))
    modes = metrics_modes(schema, metadata.sort_order, metadata.properties)
    return DataFile(
        path=location,
        file_format="parquet",
        record_count=found.footer.num_rows,
        file_size=storage.size(location),
        spec_id=metadata.spec.spec_id,
        partition=found_partition(location, metadata.spec, schema, seen, hive, must_agree=folders is not None),
        metrics=footer_metrics(found.footer, leaf_ids, seen, schema, modes),
        split_offsets=split_offsets(found.footer),
        sort_order_id=0,  # no order is known
    )


def _open(storage: Storage, metadata: TableMetadata, location: str) -> _Found:
    with blaming(location), open_input(storage, location) as source:
        _, file = open_parquet(source, coerce_int96_timestamp_unit="us", arrow_extensions_enabled=False)
        columns, footer = file_columns(file.schema_arrow, FIELD_ID), file.metadata
    if has_ids(columns):
        return _Found(location, footer, columns, by_name=False)
    text = metadata.properties.get(NAME_MAPPING)
    if text is None:
        raise NoFieldIds(
            f"cannot add {location}: its columns have no field ids, and the table has no name mapping to find them "
            f"by; set {NAME_MAPPING} first",
            file=location,
        )
    from esker.iceberg.metadata.schema import decode_name_mapping

    mapping = decode_name_mapping(f"table property {NAME_MAPPING}", text)
    return _Found(location, footer, with_mapped_ids(columns, mapping), by_name=True)


def _check_columns(found: _Found, schema: Schema, metadata: TableMetadata, ignore_extra: bool) -> None:
    names: dict[int, set[str]] = {}
    for older in metadata.schemas:
        for field in older.by_id.values():
            names.setdefault(field.id, set()).add(field.name.casefold())
    for column in _named(found.columns, _variants(metadata)):
        if not (ignore_extra and _is_extra(column, names)):
            _check_known(found, column, names, schema)
    present = by_field_id(found.columns)
    if ignore_extra and found.columns and not any(field.id in present for field in schema.fields):
        raise InvalidInput(
            f"cannot add {found.location}: it has none of the table's columns, only "
            f"{', '.join(column.name for column in found.columns)}",
            file=found.location,
        )
    for field in schema.fields:
        if field.id in present:
            _check_type(found, present[field.id], field.type, field.name)


def _variants(metadata: TableMetadata) -> frozenset[int]:
    """The ids of all variants that the table has or had. The parts of a variant have no ids."""
    fields = (field for schema in metadata.schemas for field in schema.by_id.values())
    return frozenset(field.id for field in fields if isinstance(field.type, VariantType))


def _named(columns: tuple[FileColumn, ...], variants: frozenset[int]) -> Iterator[FileColumn]:
    """The columns at all depths, without the parts of variants."""
    for column in columns:
        yield column
        if column.field_id not in variants:
            yield from _named(column.children, variants)


def _leaf_ids(columns: tuple[FileColumn, ...], variants: frozenset[int]) -> Iterator[int | None]:
    """The field id of each leaf."""
    for column in columns:
        if not column.children or column.field_id in variants:
            yield from repeat(column.field_id, column.leaf_count)
        else:
            yield from _leaf_ids(column.children, variants)


def _is_extra(column: FileColumn, names: dict[int, set[str]]) -> bool:
    return column.field_id is None or column.field_id not in names


def _check_known(found: _Found, column: FileColumn, names: dict[int, set[str]], schema: Schema) -> None:
    if column.field_id is None or _is_extra(column, names):
        raise _refused(found, column.name, "the table has no such column")
    known = names[column.field_id]
    # The ids of a file may be from another table. Writers name elements, keys and values differently, so those are not
    # checked.
    if not found.by_name and column.name.casefold() not in known and known.isdisjoint(("element", "key", "value")):
        now = schema.name_by_id.get(column.field_id, "a dropped column")
        raise _refused(found, column.name, f"its field id {column.field_id} is {now!r} in the table")


def _check_type(found: _Found, column: FileColumn, type_: Type, name: str) -> None:
    held = column.type.storage_type if isinstance(column.type, pa.BaseExtensionType) else column.type
    kinds = pa.types
    match type_:
        case StructType(fields) if kinds.is_struct(held):
            inner = by_field_id(column.children)
            for field in fields:
                if field.id in inner:
                    _check_type(found, inner[field.id], field.type, f"{name}.{field.name}")
        case ListType() if column.children and not kinds.is_struct(held) and not kinds.is_map(held):
            _check_type(found, column.children[0], type_.element, f"{name}.element")
        case MapType() if kinds.is_map(held):
            _check_type(found, column.children[0], type_.key, f"{name}.key")
            _check_type(found, column.children[1], type_.value, f"{name}.value")
        case VariantType() if kinds.is_struct(held):
            names = {child.name for child in column.children}
            if "metadata" not in names or names.isdisjoint(("value", "typed_value")):
                raise _refused(found, name, f"it is {held} in the file and a variant in the table")
        case _:
            if is_nested(type_) or kinds.is_nested(held):
                raise _refused(found, name, f"it is {held} in the file and {type_} in the table")
            try:
                convert(pa.array([], held), type_, file=found.location, column=name)
            except EskerError:
                raise _refused(found, name, f"it is {held} in the file and {type_} in the table") from None


def _check_required(
    found: _Found, schema: Schema, metadata: TableMetadata, seen: dict[int, Seen], hive: Mapping[str, str | None]
) -> None:
    present = by_field_id(found.columns)
    leaves = LeafFinder(found.columns)
    from_path = {f.source_id for f in metadata.spec.fields if isinstance(f.transform, IdentityTransform)}
    for field in schema.fields:
        if not field.required:
            continue
        if field.id not in present:
            if field.initial_default is None and not (field.id in from_path and hive.get(field.name) is not None):
                raise _refused(found, field.name, "it is required, and the file does not have it")
        elif _nulls(found, leaves.find((field,)), seen.get(field.id)) != 0:
            raise _refused(found, field.name, "it is required, and the file's statistics do not rule out nulls")


def _nulls(found: _Found, column: FileColumn | None, seen: Seen | None) -> int | None:
    if seen is not None:
        optional = column is not None and found.footer.schema.column(column.first_leaf).max_definition_level > 0
        return seen.nulls if optional else 0
    return 0  # a nested column: its footer does not record it, and readers handle it


def _refused(found: _Found, column: str, why: str) -> InvalidInput:
    return InvalidInput(f"cannot add {found.location}: column {column!r}: {why}", file=found.location, column=column)
