"""How a table wants its new files, settled once per write; what cannot be done is refused here."""

from __future__ import annotations

from esker.arrow.data_location import data_locations
from esker.arrow.metrics_mode import NONE, metrics_modes
from esker.arrow.new_data_file import FileLayout
from esker.arrow.parquet_schema import file_fields
from esker.arrow.partitioner import partitioner
from esker.arrow.sorting import check_sort_order
from esker.arrow.types import to_arrow_schema
from esker.arrow.write_properties import write_options
from esker.errors import InvalidInput
from esker.model.schema import Schema
from esker.model.types import LONG, Field
from esker.ports.engine import WriteRequest
from esker.tree.table_metadata import TableMetadata

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
