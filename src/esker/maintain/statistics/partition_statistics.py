"""Compute the partition statistics of a snapshot, from those of an ancestor if there are any, and register them."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa

from esker.errors import Corrupt, EskerError, InvalidInput
from esker.maintain.statistics.partition_counts import Earlier, PartitionCounts, partition_statistics_schema
from esker.maintain.statistics.register import RegisterPartitions, nearest, partitions_location
from esker.metadata_tables.inspected_table import Subject
from esker.model.predicates.predicate import TRUE
from esker.model.transform import VoidTransform
from esker.ports.catalog import TableState
from esker.ports.engine import Engine, ReadRequest, ScanTask
from esker.read.resolve_snapshot import resolve_snapshot
from esker.tree.data_file import DataFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import PartitionStatisticsFile, TableMetadata
from esker.write.commit import commit
from esker.write.context import Home, Scratch
from esker.write.table_changes import ancestors

log = logging.getLogger("esker.statistics")


def compute_partition_statistics(
    home: Home, base: TableState, snapshot_id: int | None, *, incremental: bool
) -> tuple[TableState, PartitionStatisticsFile | None]:
    """Write the statistics and register them. Returns None for a table or a snapshot without files.

    Statistics that the snapshot has already are returned as they are, unless ``incremental`` is false or their file
    cannot be read.
    """
    metadata, tools = base.metadata, home.tools
    if all(isinstance(field.transform, VoidTransform) for spec in metadata.specs for field in spec.fields):
        raise InvalidInput(f"cannot compute partition statistics of {home.name}: it is not partitioned")
    snapshot = resolve_snapshot(metadata, snapshot_id=snapshot_id).snapshot
    if snapshot is None:
        return base, None
    earlier = next(_earlier(metadata, tools.engine, snapshot), None) if incremental else None
    if earlier is not None and earlier.snapshot.snapshot_id == snapshot.snapshot_id:
        return base, partition_statistics_of(metadata, snapshot.snapshot_id)
    rows = _rows(PartitionCounts.of(_subject(base, home)), snapshot, earlier)
    if not rows.num_rows:
        return base, None
    scratch = Scratch(tools.storage)
    with scratch.writing(partitions_location(metadata, snapshot)) as location:
        size = tools.statistics.write_partitions(location, partition_statistics_schema(metadata), rows)
    file = PartitionStatisticsFile(snapshot_id=snapshot.snapshot_id, path=location, file_size=size)
    change = RegisterPartitions(name=home.name, snapshot=snapshot, file=file, scratch=scratch)
    return commit(home.catalog, home.name, base, change), file


def read_partition_statistics(metadata: TableMetadata, engine: Engine, file: PartitionStatisticsFile) -> pa.Table:
    """The rows of a file, in the schema of the table now. Columns are found by their ids."""
    schema = partition_statistics_schema(metadata)
    stored = DataFile(
        path=file.path,
        file_format=file.path.rpartition(".")[2].lower(),
        record_count=0,  # not known
        file_size=file.file_size,
    )
    task = ScanTask(data_file=stored, residual=TRUE)
    request = ReadRequest(metadata=metadata, tasks=[task], row_schema=schema, projection=schema)
    return pa.Table.from_batches(engine.read(request), engine.arrow_schema(schema))


def partition_statistics(metadata: TableMetadata, engine: Engine, snapshot_id: int | None) -> pa.Table | None:
    """The rows of the file of the snapshot or of its nearest ancestor that has one. None if there is none."""
    file = nearest(metadata, metadata.partition_statistics, snapshot_id)
    return None if file is None else read_partition_statistics(metadata, engine, file)


def partition_statistics_of(metadata: TableMetadata, snapshot_id: int) -> PartitionStatisticsFile | None:
    """The partition statistics of a snapshot, or None."""
    return next((file for file in metadata.partition_statistics if file.snapshot_id == snapshot_id), None)


def _earlier(metadata: TableMetadata, engine: Engine, snapshot: Snapshot) -> Iterator[Earlier]:
    """The statistics of the snapshot and of its ancestors, the newest first. Files that cannot be read are skipped."""
    files = {file.snapshot_id: file for file in metadata.partition_statistics}
    for one in ancestors(metadata, snapshot.snapshot_id) if files else ():
        if one.snapshot_id not in files:
            continue
        try:
            yield Earlier(snapshot=one, rows=read_partition_statistics(metadata, engine, files[one.snapshot_id]))
        except EskerError as error:
            log.warning("cannot use the partition statistics of snapshot %d: %s", one.snapshot_id, error)


def _rows(counts: PartitionCounts, snapshot: Snapshot, earlier: Earlier | None) -> pa.Table:
    if earlier is not None:
        try:
            return counts.rows(snapshot, earlier)
        except Corrupt as error:
            log.warning("cannot use the partition statistics of snapshot %d: %s", earlier.snapshot.snapshot_id, error)
    return counts.rows(snapshot)


def _subject(base: TableState, home: Home) -> Subject:
    tools = home.tools
    return Subject(
        metadata=base.metadata,
        metadata_location=base.metadata_location,
        table_format=tools.format,
        engine=tools.engine,
    )
