"""Equality delete files: keys, divided by partition, each saying which columns it compares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from esker.arrow.data_location import delete_locations
from esker.arrow.data_writer import DataWriter
from esker.arrow.delete_layout import delete_layout
from esker.arrow.partitioner import partitioner
from esker.arrow.writer import Limits
from esker.model.partition import PartitionSpec
from esker.model.schema import Schema
from esker.ports.storage import Storage
from esker.tree.data_file import DataFile, FileContent
from esker.tree.table_metadata import TableMetadata


def equality_delete_files(
    storage: Storage,
    metadata: TableMetadata,
    schema: Schema,
    specs: Sequence[PartitionSpec],
    keys: pa.RecordBatchReader,
    *,
    name: tuple[int, str],
) -> Iterator[DataFile]:
    """Write the keys once per spec, so that they reach data of each."""
    batches = iter(keys) if len(specs) == 1 else list(keys)
    for task, spec in enumerate(specs):
        writer = DataWriter(
            storage,
            delete_layout(metadata, schema, spec),
            partitioner(schema, spec),
            delete_locations(metadata),
            name=name,
            limits=Limits(),
            task=task,
        )
        for file in writer.write(batches):
            yield replace(
                file,
                content=FileContent.EQUALITY_DELETES,
                equality_ids=tuple(sorted(field.id for field in schema)),
                sort_order_id=None,
            )
