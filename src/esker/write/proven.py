"""What must be known of a table's files before its definition may promise it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from esker.errors import Conflict, InvalidInput
from esker.model.naming import TableName
from esker.model.predicate_sql import quote_name
from esker.read.scan import scan
from esker.tree.snapshot import RefKind
from esker.tree.table_metadata import TableMetadata
from esker.write.table_changes import MAIN
from esker.write.workbench import Tools

GetTools = Callable[[], Tools] | None


def heads(metadata: TableMetadata) -> dict[str, int]:
    """The snapshot at the head of every branch. Tags are read with the columns of their own time."""
    found = {name: ref.snapshot_id for name, ref in metadata.refs.items() if ref.kind is RefKind.BRANCH}
    return found if metadata.current_snapshot_id is None else {**found, MAIN: metadata.current_snapshot_id}


def heads_without_null(get_tools: GetTools, metadata: TableMetadata, field_id: int, name: str) -> dict[str, int]:
    """The heads of all branches, none of which has a row with null in the column; ``InvalidInput`` where one has."""
    if field_id not in metadata.schema.by_id:
        raise InvalidInput(
            f"cannot make column {name!r} required in the alteration that adds it: alter the table twice", column=name
        )
    found = heads(metadata)
    test = ".".join(quote_name(part.name) for part in metadata.schema.path_by_id[field_id]) + " IS NULL"
    for branch in found:
        if get_tools is None or _has_row(get_tools(), metadata, branch, test):
            where = "" if branch == MAIN else f" on branch {branch!r}"
            raise InvalidInput(
                f"cannot make column {name!r} required: a row{where} has null in it; find such rows by "
                f"WHERE {test}, and update or delete them first",
                column=name,
                branch=branch,
            )
    return found


def check_heads(table: TableName, metadata: TableMetadata, seen: Mapping[str, int], name: str) -> None:
    """``Conflict`` where a branch has moved, or is new, since the heads were looked at."""
    moved = sorted(branch for branch, head in heads(metadata).items() if seen.get(branch) != head)
    if moved:
        raise Conflict(
            f"cannot make column {name!r} of {table} required: another writer has changed branch {moved[0]!r} "
            "meanwhile; try again",
            table=str(table),
        )


def check_empty(get_tools: GetTools, location: str) -> None:
    """``InvalidInput`` where files are below the location."""
    there = None if get_tools is None else next(iter(get_tools().storage.list(location)), None)
    if there is not None:
        raise InvalidInput(
            f"cannot move the table to {location}: files are there, {there.location} for one; name an empty place",
            location=location,
        )


def _has_row(tools: Tools, metadata: TableMetadata, branch: str, test: str) -> bool:
    rows = scan(
        metadata=metadata,
        table_format=tools.format,
        engine=tools.engine,
        where=test,
        columns=[],
        snapshot_id=None,
        as_of=None,
        ref=branch,
        limit=1,
    )
    return any(batch.num_rows for batch in rows.to_batches())
