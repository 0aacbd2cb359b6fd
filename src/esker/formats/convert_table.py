"""A table of another format becomes an Iceberg table over the same data files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from esker.errors import InvalidInput, Unsupported
from esker.iceberg.metadata.schema import PROPERTY, encode_name_mapping
from esker.model.evolution.nested_fields import with_children
from esker.model.partition_and_sort import PartitionSpec
from esker.model.schema import MappedField, Schema
from esker.model.types import Field, children, is_nested
from esker.ports.catalog import Catalog, Swap, TableState
from esker.ports.convertible import Convertible, ConvertibleFormat
from esker.ports.engine import NoFieldIds
from esker.table import Table
from esker.write.definition.create_or_replace import FirstCommit
from esker.write.definition.new_table import new_table_metadata
from esker.write.steps import AddFiles

if TYPE_CHECKING:
    import pyarrow as pa

    from esker.model.table_names import TableName
    from esker.ports.engine import ScanTask, Writer
    from esker.read.scan import Scan
    from esker.tree.data_file import DataFile
    from esker.tree.table_metadata import TableMetadata

Open = Callable[[TableState], Table]


def convert_table(source: Table, open_: Open, catalog: Catalog, name: TableName, *, format_version: int = 2) -> Table:
    """Create the Iceberg table ``name`` with the files of ``source`` and return it. ``open_`` opens it.

    Raises ``Unsupported`` if the source cannot be converted, or the rows of a file would differ.
    """
    source.refresh()
    table_format = source._workings.format
    if not isinstance(table_format, ConvertibleFormat):
        raise Unsupported(
            f"cannot convert {source.name}: it is an Iceberg table already; add it with esker register",
            feature="convert an Iceberg table",
        )
    found = table_format.convertible(source.metadata)
    bare = _new_metadata(found, catalog.location_for(name), format_version)
    catalog.check_place(name, bare)
    planned = TableState(metadata=bare, metadata_location="")
    table = open_(planned)
    files, mapping = _described(table._at_home().tools.writer, bare, found, source.metadata)
    if mapping:
        named = {**bare.properties, PROPERTY: encode_name_mapping(mapping)}
        planned = replace(planned, metadata=replace(bare, properties=named))
        table = open_(planned)
    if not files:
        return open_(catalog.create(name, planned.metadata))
    home = table._at_home()
    table._home = replace(home, catalog=CheckedCommit(FirstCommit(home.catalog, planned), source, open_))
    try:
        with table.transaction(summary={"converted-from": source.location}) as change:
            change._take("append", AddFiles(files, are_given=True))  # so that no failure deletes them
    finally:
        table._home = home
    return table


@dataclass(frozen=True, slots=True)
class CheckedCommit:
    """A catalog for the commit of a converted table: it compares all rows, then the table appears."""

    catalog: FirstCommit
    source: Table
    open_: Open

    def load(self, name: TableName, known: TableState | None = None) -> TableState:
        """The new table, empty."""
        return self.catalog.load(name, known)

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        """Compare, then create the table."""
        check_same_rows(self.source, self.open_(TableState(metadata=new, metadata_location="")))
        return self.catalog.swap(name, base, new)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.catalog, name)


def _new_metadata(found: Convertible, location: str, format_version: int) -> TableMetadata:
    """The empty Iceberg table. It keeps the source's field ids, since files may have them."""
    schema = replace(found.schema, schema_id=0)
    # The checks of a new table are for ids from 1 on. Paimon begins at 0, which readers of Iceberg accept.
    spec = PartitionSpec(fields=tuple(replace(field, source_id=field.source_id + 1) for field in found.spec.fields))
    checked = new_table_metadata(
        schema=Schema(
            fields=_shifted(schema.fields),
            identifier_field_ids=frozenset(id_ + 1 for id_ in schema.identifier_field_ids),
        ),
        spec=spec,
        location=location,
        properties={"gc.enabled": "false"},
        format_version=format_version,
    )
    last = max(schema.highest_id, found.last_column_id)
    return replace(checked, schemas=(schema,), specs=(found.spec,), last_column_id=last)


def _shifted(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    return tuple(
        replace(
            field,
            id=field.id + 1,
            type=with_children(field.type, _shifted(children(field.type))) if is_nested(field.type) else field.type,
        )
        for field in fields
    )


# ---------------------------------------------------------------- Files


def _described(
    writer: Writer, metadata: TableMetadata, found: Convertible, source: TableMetadata
) -> tuple[tuple[DataFile, ...], tuple[MappedField, ...]]:
    """The files as Iceberg's manifests have them, and the name mapping of those without field ids."""
    # with the older schemas, because a column has its name of that time in older files
    older = tuple(replace(schema, schema_id=1 + number) for number, schema in enumerate(source.schemas))
    plain = replace(metadata, specs=(PartitionSpec(),), default_spec_id=0, schemas=(*metadata.schemas, *older))
    described: dict[str, DataFile] = {}
    nameless = []
    for file in found.files:
        try:
            if file.file_format == "parquet":
                described[file.path] = writer.describe(plain, file.path, folders={}, ignore_extra_columns=True)
            else:
                nameless.append(file)
        except NoFieldIds:
            nameless.append(file)
    written = [source.schema_by_id[id_] for id_ in sorted({file.schema_id or 0 for file in nameless})]
    mapping = _merged_names([schema.fields for schema in written])
    if mapping:  # PyIceberg finds every column of a file by it, also those that no reader asks for
        mapping = (*mapping, *found.beside)
    named = replace(plain, properties={**plain.properties, PROPERTY: encode_name_mapping(mapping)})
    for file in nameless:
        if file.file_format == "parquet":
            described[file.path] = writer.describe(named, file.path, folders={}, ignore_extra_columns=True)
        else:
            described[file.path] = replace(file, schema_id=None, merge_group=None)
    files = tuple(
        replace(described[file.path], partition=file.partition, spec_id=metadata.spec.spec_id) for file in found.files
    )
    return files, mapping


def _merged_names(schemas: Iterable[tuple[Field, ...]]) -> tuple[MappedField, ...]:
    """Every name that a column has in one of the schemas. Raises ``Unsupported`` if two columns have the same name."""
    names: dict[int, dict[str, None]] = {}
    parts: dict[int, list[tuple[Field, ...]]] = {}
    owner: dict[str, int] = {}
    for field in chain.from_iterable(schemas):
        if owner.setdefault(field.name, field.id) != field.id:
            raise Unsupported(
                f"cannot convert the table: files without field ids use the name {field.name!r} for two columns, and "
                "Iceberg finds their columns by name; compact the table first",
                feature="a name of two columns",
            )
        names.setdefault(field.id, {})[field.name] = None
        parts.setdefault(field.id, []).append(children(field.type))
    return tuple(
        MappedField(names=tuple(found), field_id=id_, fields=_merged_names(parts[id_])) for id_, found in names.items()
    )


# ---------------------------------------------------------------- Comparison


def check_same_rows(source: Table, converted: Table) -> None:
    """Raise ``Unsupported`` with a file's name if its rows are not the same in both tables, and ``InvalidInput`` if the
    tables do not have the same files."""
    theirs, ours = source.scan(), converted.scan()
    expected, found = _by_file(theirs), _by_file(ours)
    if expected.keys() != found.keys():
        raise InvalidInput(f"cannot convert {source.name}: it changed meanwhile; try again", table=source.name)
    for path, task in expected.items():
        if not _same_rows(_rows(theirs, task), _rows(ours, found[path])):
            raise Unsupported(
                f"cannot convert {source.name}: {path} has other rows if it is read as Iceberg; compact the table "
                "first, so that it is written again",
                feature="rows that differ",
                file=path,
            )
    if theirs.count() != ours.count():
        raise Unsupported(f"cannot convert {source.name}: the numbers of rows differ", feature="rows that differ")


def _by_file(scan: Scan) -> Mapping[str, ScanTask]:
    return {task.data_file.path: task for task in scan.plan().tasks}


def _rows(scan: Scan, task: ScanTask) -> Iterator[pa.RecordBatch]:
    return scan.engine.read(scan._request([task], scan.projection))


def _same_rows(one: Iterator[pa.RecordBatch], other: Iterator[pa.RecordBatch]) -> bool:
    """Whether two streams have the same rows in the same order, however they are cut into batches."""
    left = right = None
    while True:
        left, right = _filled(left, one), _filled(right, other)
        if left is None or right is None:
            return left is right
        count = min(left.num_rows, right.num_rows)
        if not _equal(left.slice(0, count), right.slice(0, count)):
            return False
        left, right = left.slice(count), right.slice(count)


def _filled(batch: pa.RecordBatch | None, more: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    while batch is None or not batch.num_rows:
        batch = next(more, None)
        if batch is None:
            return None
    return batch


def _equal(one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    if one.schema.names != other.schema.names:
        return False
    # Arrow finds NaN unequal to itself, so columns that differ are compared by their text
    return all(
        a.equals(b) or (a.type == b.type and repr(a.to_pylist()) == repr(b.to_pylist()))
        for a, b in zip(one.columns, other.columns, strict=True)
    )
