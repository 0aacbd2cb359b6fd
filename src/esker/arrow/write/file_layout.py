"""The layout of a table's new data files and delete files, decided once per write.

Raises for properties that cannot be applied.
"""

from __future__ import annotations

from dataclasses import replace

from esker.arrow.arrow_types import to_arrow_schema
from esker.arrow.write.file_locations import data_locations
from esker.arrow.write.metrics import FULL, NONE, metrics_modes
from esker.arrow.write.new_data_file import FileLayout
from esker.arrow.write.parquet_columns import file_fields
from esker.arrow.write.partition_and_sort_rows import check_sort_order, partitioner
from esker.arrow.write.write_properties import write_options
from esker.errors import InvalidInput
from esker.model.partition_and_sort import UNSORTED, PartitionSpec, SortOrder
from esker.model.schema import Schema
from esker.model.types import LONG, Field
from esker.ports.engine import WriteRequest
from esker.tree.table_metadata import TableMetadata

# ---------------------------------------------------------------- Data files


_LINEAGE = (
    Field(id=2147483540, name="_row_id", type=LONG),
    Field(id=2147483539, name="_last_updated_sequence_number", type=LONG),
)


def file_layout(metadata: TableMetadata, schema: Schema, order: SortOrder | None = None) -> FileLayout:
    """The layout of data files with these columns, in the table's order or in the one that the rows have.

    Raises ``InvalidInput`` or ``Unsupported`` if there is none.
    """
    partitioner(schema, metadata.spec)
    check_sort_order(schema, metadata.sort_order)
    data_locations(metadata)
    modes = metrics_modes(schema, metadata.sort_order, metadata.properties)
    return FileLayout(
        schema=schema,
        columns=file_fields(schema.fields),
        options=write_options(metadata, schema),
        modes={**modes, **{field.id: NONE for field in _LINEAGE}},
        spec_id=metadata.spec.spec_id,
        order=metadata.sort_order if order is None else order,
    )


def with_lineage(request: WriteRequest) -> Schema:
    """The schema of the rows: the table's columns, and the lineage columns of rewritten rows (I7)."""
    names = set(request.data.schema.names)
    known = {field.name for field in request.schema}
    carried = tuple(field for field in _LINEAGE if field.name in names and field.name not in known)
    schema = Schema(fields=(*request.schema.fields, *carried), schema_id=request.schema.schema_id)
    expected = to_arrow_schema(schema.fields)
    for field in expected:
        at = request.data.schema.get_field_index(field.name)
        if at < 0 or request.data.schema.field(at).type != field.type:
            found = "missing" if at < 0 else str(request.data.schema.field(at).type)
            raise InvalidInput(
                f"cannot write the rows: column {field.name!r} is {found}, not {field.type}; fit them first",
                column=field.name,
            )
    return schema


# ---------------------------------------------------------------- Delete files
#
# As data files, with the properties for deletes.


_TARGET_BYTES = 64 << 20


def delete_layout(metadata: TableMetadata, schema: Schema, spec: PartitionSpec) -> FileLayout:
    """The layout of delete files with these columns, under that spec.

    Bounds are not shortened: a shortened path would not identify the data file.
    """
    return FileLayout(
        schema=schema,
        columns=file_fields(schema.fields),
        options=write_options(_as_deletes(metadata), schema),
        modes=dict.fromkeys(schema.by_id, FULL),
        spec_id=spec.spec_id,
        order=UNSORTED,
    )


def _as_deletes(metadata: TableMetadata) -> TableMetadata:
    """The table with its properties for deletes in place of those for data."""
    own = {
        key.replace("write.delete.", "write.", 1): value
        for key, value in metadata.properties.items()
        if key.startswith("write.delete.parquet.") or key == "write.delete.target-file-size-bytes"
    }
    size = {"write.target-file-size-bytes": str(_TARGET_BYTES)}
    return replace(metadata, properties={**metadata.properties, **size, **own})
