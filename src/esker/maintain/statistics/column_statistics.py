"""Compute the number of distinct values of columns, as sketches in a Puffin file."""

from __future__ import annotations

from collections.abc import Sequence

from esker.errors import InvalidInput
from esker.maintain.statistics.register import RegisterSketches, nearest
from esker.model.schema import Schema
from esker.model.types import StructType
from esker.ports.catalog import TableState
from esker.ports.statistics import can_be_sketched
from esker.read.resolve_snapshot import resolve_snapshot
from esker.read.scan import scan
from esker.tree.table_metadata import StatisticsFile, TableMetadata
from esker.write.commit import commit
from esker.write.context import Home, Scratch


def compute_statistics(
    home: Home, base: TableState, columns: Sequence[str] | None, snapshot_id: int | None
) -> tuple[TableState, StatisticsFile | None]:
    """Read the snapshot, write the sketches and register them. Returns None for a table without snapshots."""
    metadata = base.metadata
    snapshot_id = metadata.current_snapshot_id if snapshot_id is None else snapshot_id
    if snapshot_id is None:
        return base, None
    resolved = resolve_snapshot(metadata, snapshot_id=snapshot_id)
    assert resolved.snapshot is not None  # by id, it exists or an error was raised
    names = _columns(resolved.schema, columns)
    tools = home.tools
    rows = scan(
        metadata=metadata,
        table_format=tools.format,
        engine=tools.engine,
        where=None,
        columns=names,
        snapshot_id=snapshot_id,
        as_of=None,
        ref=None,
        limit=None,
    )
    wanted = [resolved.schema.find(name).id for name in names]
    found = tools.statistics.sketches(rows.spark_request(), wanted)
    change = RegisterSketches(
        name=home.name,
        tools=tools,
        snapshot=resolved.snapshot,
        sketches=tuple(found[field_id] for field_id in wanted),
        scratch=Scratch(tools.storage),
    )
    state = commit(home.catalog, home.name, base, change)
    return state, change.file


def distinct_values(metadata: TableMetadata, snapshot_id: int | None) -> dict[str, int]:
    """The recorded numbers of distinct values by the name of the column, of the snapshot or its nearest ancestor."""
    file = nearest(metadata, metadata.statistics, snapshot_id)
    names = {} if file is None else resolve_snapshot(metadata, snapshot_id=file.snapshot_id).schema.name_by_id
    found: dict[str, int] = {}
    for blob in () if file is None else file.blobs:
        fields, told = blob.get("fields"), (blob.get("properties") or {}).get("ndv", "")
        if isinstance(fields, list) and len(fields) == 1 and fields[0] in names and told.isdecimal():
            found[names[fields[0]]] = int(told)
    return found


def _columns(schema: Schema, columns: Sequence[str] | None) -> list[str]:
    """The full names of the columns, each once. Raises ``InvalidInput`` for a column that has no distinct values to
    count."""
    if columns is None:
        names = [field.name for field in schema if can_be_sketched(field.type)]
        if not names:
            raise InvalidInput("cannot compute statistics: the table has no column of a primitive type")
        return names
    if isinstance(columns, str) or not all(isinstance(name, str) for name in columns) or not columns:
        raise InvalidInput(f"cannot compute statistics of columns={columns!r}: give a list of names", columns=columns)
    found: dict[str, None] = {}
    for name in columns:
        column = schema.find(name)
        path = schema.path_by_id[column.id]
        if not can_be_sketched(column.type) or not all(isinstance(above.type, StructType) for above in path[:-1]):
            raise InvalidInput(
                f"cannot compute statistics of column {name!r}: its type {column.type} is not primitive, or it is in "
                "a list or a map",
                column=name,
            )
        found[schema.name_by_id[column.id]] = None
    return list(found)
