"""How a table wants its delete files: as data files, with the properties that are for deletes."""

from __future__ import annotations

from dataclasses import replace

from esker.arrow.metrics_mode import FULL
from esker.arrow.new_data_file import FileLayout
from esker.arrow.parquet_schema import file_fields
from esker.arrow.write_properties import write_options
from esker.model.partition import PartitionSpec
from esker.model.schema import Schema
from esker.model.sort_order import UNSORTED
from esker.tree.table_metadata import TableMetadata

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
