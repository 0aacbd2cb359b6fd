"""What a table's metadata file says, against itself: refs, sequence numbers, row ids, statistics and the hint."""

from __future__ import annotations

import re
from collections.abc import Iterator

from esker.errors import EskerError, NoSuchFile, StorageFailed
from esker.maintain.tended_table import TendedTable
from esker.maintain.verify.findings import Finding, Severity
from esker.tree.table_metadata import PartitionStatisticsFile, StatisticsFile

_VERSION = re.compile(r"/v([0-9]{1,18})\.[^/]*$")
_LONGEST_HINT = 32


def check_metadata(table: TendedTable) -> Iterator[Finding]:
    """The findings about the metadata file alone. Nothing else is read, except the version hint."""
    metadata, where = table.metadata, table.state.metadata_location
    ids = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    schemas = metadata.schema_by_id
    for name, ref in metadata.all_refs.items():
        if ref.snapshot_id not in ids:
            why = f"{ref.kind.value} {name!r} is at snapshot {ref.snapshot_id}, which the table does not have"
            yield Finding(rule="unknown-snapshot", file=where, why=why, snapshot_id=ref.snapshot_id)
    if len(ids) < len(metadata.snapshots):
        yield Finding(rule="unknown-snapshot", file=where, why="two snapshots have the same id")
    for snapshot in metadata.snapshots:
        if snapshot.schema_id is not None and snapshot.schema_id not in schemas:
            why = f"snapshot {snapshot.snapshot_id} has schema {snapshot.schema_id}, which the table does not have"
            yield Finding(rule="unknown-schema", file=where, why=why, snapshot_id=snapshot.snapshot_id)
    yield from _check_numbers(table)
    yield from _check_row_ids(table)
    yield from _check_hint(table)


def _check_numbers(table: TendedTable) -> Iterator[Finding]:
    metadata, where = table.metadata, table.state.metadata_location
    if metadata.format_version == 1:
        return
    by_id = {snapshot.snapshot_id: snapshot.sequence_number for snapshot in metadata.snapshots}
    seen: dict[int, int] = {}
    for snapshot in metadata.snapshots:
        number, id_ = snapshot.sequence_number, snapshot.snapshot_id
        why = None
        if number > metadata.last_sequence_number:
            why = f"{number} of snapshot {id_} is above the table's last, {metadata.last_sequence_number}"
        elif number and number in seen:
            why = f"snapshots {seen[number]} and {id_} have the same, {number}"
        elif number and snapshot.parent_snapshot_id in by_id and by_id[snapshot.parent_snapshot_id] >= number:
            why = f"{number} of snapshot {id_} is not above {by_id[snapshot.parent_snapshot_id]} of its parent"
        seen[number] = id_
        if why is not None:
            yield Finding(rule="sequence-number", file=where, why=f"sequence number {why}", snapshot_id=id_)


def _check_row_ids(table: TendedTable) -> Iterator[Finding]:
    metadata, where = table.metadata, table.state.metadata_location
    if metadata.format_version < 3:
        return
    ranges = sorted(
        (s.first_row_id, s.added_rows or 0, s.snapshot_id) for s in metadata.snapshots if s.first_row_id is not None
    )
    end = 0
    for first, rows, id_ in ranges:
        if rows and first < end:
            why = f"the row ids of snapshot {id_} begin with {first}, and those up to {end} are in use"
            yield Finding(rule="row-ids", file=where, why=why, snapshot_id=id_)
        end = max(end, first + rows)
    if metadata.next_row_id is not None and end > metadata.next_row_id:
        why = f"the next row id is {metadata.next_row_id}, and those up to {end} are in use"
        yield Finding(rule="row-ids", file=where, why=why)


def _check_hint(table: TendedTable) -> Iterator[Finding]:
    """The hint of a table in a directory names the current version. Readers of other engines start there."""
    current = _VERSION.search(table.state.metadata_location)
    if current is None:
        return
    location = f"{table.metadata.location.rstrip('/')}/metadata/version-hint.text"
    try:
        text = table.storage.read(location)[:_LONGEST_HINT].decode("ascii", "replace").strip()
    except NoSuchFile:
        return
    except StorageFailed:
        raise
    except EskerError:
        return
    if text.removeprefix("v").partition(".")[0] != current[1]:
        why = f"it names version {text!r}, the current version is {current[1]}"
        yield Finding(rule="stale-hint", file=location, why=why, severity=Severity.WARNING)


def check_statistics(table: TendedTable) -> Iterator[Finding]:
    """Statistics files exist, with the recorded length."""
    files: list[StatisticsFile | PartitionStatisticsFile] = [*table.metadata.statistics]
    files += table.metadata.partition_statistics
    for file in files:
        try:
            size = table.storage.size(file.path)
        except StorageFailed:
            raise
        except EskerError as error:
            missing = isinstance(error, NoSuchFile)
            yield Finding(
                rule="missing-file" if missing else "unreadable-file",
                file=file.path,
                why="the statistics file does not exist" if missing else error.message,
                snapshot_id=file.snapshot_id,
            )
            continue
        if size != file.file_size:
            why = f"it has {size} bytes where the metadata records {file.file_size}"
            yield Finding(rule="wrong-length", file=file.path, why=why, snapshot_id=file.snapshot_id)
