"""How a table wants its new data files and delete files, decided once per write.

Settings that cannot be honoured are refused here.
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
from esker.model.partition_and_sort import UNSORTED, PartitionSpec
from esker.model.schema import Schema
from esker.model.types import LONG, Field
from esker.ports.engine import WriteRequest
from esker.tree.table_metadata import TableMetadata

# ---------------------------------------------------------------- write layout
#
# How a table wants its new files, settled once per write; what cannot be done is refused here.


_LINEAGE = (
    Field(id=2147483540, name="_row_id", type=LONG),
    Field(id=2147483539, name="_last_updated_sequence_number", type=LONG),
)


def file_layout(metadata: TableMetadata, schema: Schema) -> FileLayout:
    """The layout of data files with these columns; ``InvalidInput`` or ``Unsupported`` where there can be none."""
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
        order=metadata.sort_order,
    )


def with_lineage(request: WriteRequest) -> Schema:
    """The schema of the rows as they come: the table's, and the lineage columns that rewritten rows carry (I7)."""
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
                f"column {field.name!r} of the rows to write is {found}, not {field.type}: fit them first",
                column=field.name,
            )
    return schema


# ---------------------------------------------------------------- delete layout
#
# How a table wants its delete files: as data files, with the properties that are for deletes.


_TARGET_BYTES = 64 << 20


def delete_layout(metadata: TableMetadata, schema: Schema, spec: PartitionSpec) -> FileLayout:
    """The layout of delete files with these columns, filed under that spec. Bounds are whole: a path cut short
    would no longer tell which file is meant."""
    return FileLayout(
        schema=schema,
        columns=file_fields(schema.fields),
        options=write_options(_as_deletes(metadata), schema),
        modes=dict.fromkeys(schema.by_id, FULL),
        spec_id=spec.spec_id,
        order=UNSORTED,
    )


def _as_deletes(metadata: TableMetadata) -> TableMetadata:
    """The table with what it says of deletes in the place of what it says of data."""
    own = {
        key.replace("write.delete.", "write.", 1): value
        for key, value in metadata.properties.items()
        if key.startswith("write.delete.parquet.") or key == "write.delete.target-file-size-bytes"
    }
    size = {"write.target-file-size-bytes": str(_TARGET_BYTES)}
    return replace(metadata, properties={**metadata.properties, **size, **own})
