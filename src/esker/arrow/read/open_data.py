"""Open a data or delete file of any format."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from esker.arrow.read.file_columns import FileColumn, with_mapped_ids, with_positional_ids
from esker.arrow.read.format_reader import DataSource, Renumbered
from esker.errors import Unsupported
from esker.model.schema import MappedField, Schema, mapping_of
from esker.ports.storage import Storage
from esker.tree.data_file import DataFile


def open_data(storage: Storage, file: DataFile, without_ids: Renumbered) -> DataSource:
    """The file with the reader of its format. ``without_ids`` is called if its columns are found without their ids."""
    encrypted = file.key_metadata is not None
    by_name = file.schema_id is not None
    match file.file_format.lower():
        case "parquet":
            from esker.arrow.read.parquet_file import ParquetFile

            return ParquetFile(storage, file.path, without_ids=without_ids, encrypted=encrypted, by_name=by_name)
        case "orc":
            from esker.arrow.read.orc_file import OrcFile

            return OrcFile(storage, file.path, without_ids=without_ids, encrypted=encrypted, by_name=by_name)
        case "avro":
            from esker.arrow.read.avro_file import AvroFile

            return AvroFile(storage, file.path, without_ids=without_ids, rows=file.record_count, by_name=by_name)
        case other:
            raise Unsupported(f"cannot read {file.path}: no reader for {other!r} files", feature=other, file=file.path)


GetMapping = Callable[[int | None], Sequence[MappedField] | None]
"""The names of columns: by the schema that a file was written with, or of the table for None."""


def renumbered(
    file: DataFile, schema: Schema, get_mapping: GetMapping, partition_ids: Collection[int] = ()
) -> Renumbered:
    """How the columns of a file without ids are found.

    By the table's name mapping. Without a mapping, Parquet columns are found by position and others by the current
    names of the schema, as in Iceberg Java. A field that is an identity partition has the partition's value, which
    comes before any name (checklist E1).
    """

    def identify(columns: tuple[FileColumn, ...]) -> tuple[FileColumn, ...]:
        mapping = get_mapping(file.schema_id)  # only now, so that files with ids can be read despite a bad mapping
        if mapping is None and file.file_format.lower() == "parquet":
            found = with_positional_ids(columns)
        else:
            found = with_mapped_ids(columns, mapping_of(schema.fields) if mapping is None else mapping)
        return tuple(replace(column, field_id=None) if column.field_id in partition_ids else column for column in found)

    return identify


def usable_mapping(mapping: Sequence[MappedField], schemas: Iterable[Schema]) -> bool:
    """Whether the mapping is for the ids of this table.

    A field never changes its parent. If a mapping has an id at another place than the schemas, it was made for another
    schema. Hive's migration of nested columns leaves such mappings. They would exchange columns.
    """
    parents = {id_: path[-2].id if len(path) > 1 else None for s in schemas for id_, path in s.path_by_id.items()}
    return all(parents.get(id_, parent) == parent for id_, parent in _placed(mapping, None))


def _placed(mapping: Iterable[MappedField], parent: int | None) -> Iterable[tuple[int, int | None]]:
    for mapped in mapping:
        if mapped.field_id is not None:
            yield mapped.field_id, parent
            yield from _placed(mapped.fields, mapped.field_id)
