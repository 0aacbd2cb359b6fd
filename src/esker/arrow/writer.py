"""The embedded engine's way of writing: data in any form in, described data files out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pyarrow as pa

from esker.arrow.data_location import data_locations, file_name
from esker.arrow.data_writer import DataWriter, Limits
from esker.arrow.describe import describe
from esker.arrow.fit import fit
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
from esker.ports.storage import Storage
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata

_LINEAGE = (
    Field(id=2147483540, name="_row_id", type=LONG),
    Field(id=2147483539, name="_last_updated_sequence_number", type=LONG),
)


class ArrowWriter:
    """Implements ``ports.engine.Writer`` with pyarrow, in this process."""

    def __init__(self, storage: Storage, *, limits: Limits | None = None) -> None:
        self._storage = storage
        self._limits = limits or Limits()
        self._calls = count()  # one operation may write several times, and its files must not clash

    def fit(self, metadata: TableMetadata, schema: Schema, data: object) -> pa.RecordBatchReader:
        """Any data as a stream of the table's types; refused here where the table cannot be written at all."""
        _layout(metadata, schema)
        return fit(schema, data)

    def write(self, request: WriteRequest) -> Iterator[DataFile]:
        """Write the rows. What can be refused is refused now, before the first file is asked for."""
        schema = _with_lineage(request)
        layout = _layout(request.metadata, schema)
        call = next(self._calls)
        file_name(call, request.operation_id, 0)
        writer = DataWriter(
            self._storage,
            layout,
            partitioner(schema, request.metadata.spec),
            data_locations(request.metadata),
            name=(call, request.operation_id),
            limits=self._limits,
        )
        return writer.write(request.data)

    def describe(self, metadata: TableMetadata, location: str) -> DataFile:
        """A Parquet file that lies there already, with its partition and metrics."""
        return describe(self._storage, metadata, location)


def _layout(metadata: TableMetadata, schema: Schema) -> FileLayout:
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


def _with_lineage(request: WriteRequest) -> Schema:
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
