"""Under which names columns are read by id, and where ids do not suffice.

Spark's Parquet reader finds columns by id, but the filters it pushes down find them by name. In a table whose column
``x`` was dropped and made again, or took the name of another, a filter on ``x`` would be asked of the old column's
statistics and rows would be lost. So a column keeps its name in the scan only where no file can have that name for
another column; the others get one that no file has, and are renamed above the scan.

When a query uses some members of a struct only, Spark's optimiser forgets the ids of all, and its reader goes by name:
a member that was renamed reads as null. So a table whose members ever changed names has its files looked into.
"""

from __future__ import annotations

from collections.abc import Iterable

from esker.model.schema import walk
from esker.model.types import Field
from esker.tree.table_metadata import TableMetadata

HIDDEN = "__esker_"
_TAKEN = ("_metadata", "_tmp_metadata_")  # names that Spark itself gives


def scan_names(metadata: TableMetadata, fields: Iterable[Field]) -> dict[int, str]:
    """The name of each top-level column, by its id."""
    ids = _ids_by_name(metadata)
    complete = _history_is_whole(metadata)
    return {f.id: f.name if complete and _is_own(f, ids) else f"{HIDDEN}{f.id}" for f in fields}


def members_kept_their_names(metadata: TableMetadata, fields: Iterable[Field]) -> bool:
    """Whether every member of a struct in these columns has one name in all files, which is no other member's."""
    members = [(field, path) for field, path in walk(tuple(fields)) if len(path) > 1]
    if not members:
        return True
    if not _history_is_whole(metadata):
        return False
    names: dict[int, set[str]] = {}
    ids: dict[tuple[int, str], set[int]] = {}
    for schema in metadata.schemas:
        for field, path in walk(schema.fields):
            if len(path) > 1:
                names.setdefault(field.id, set()).add(field.name)
                ids.setdefault((path[-2].id, field.name.casefold()), set()).add(field.id)
    return all(
        names.get(field.id, set()) <= {field.name}
        and ids.get((path[-2].id, field.name.casefold()), set()) <= {field.id}
        for field, path in members
    )


def _history_is_whole(metadata: TableMetadata) -> bool:
    """An id that no schema has any more belonged to a column of a name that nobody remembers."""
    known = frozenset().union(*(schema.by_id for schema in metadata.schemas))
    return all(id_ in known for id_ in range(1, metadata.last_column_id + 1))


def _ids_by_name(metadata: TableMetadata) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for schema in metadata.schemas:
        for field, path in walk(schema.fields):
            found.setdefault(_dotted(path), set()).add(field.id)
    return found


def _is_own(field: Field, ids: dict[str, set[int]]) -> bool:
    name = field.name.casefold()
    if name.startswith((HIDDEN, *_TAKEN)):
        return False
    return all(ids.get(_dotted(path), set()) <= {inner.id} for inner, path in walk((field,)))


def _dotted(path: tuple[Field, ...]) -> str:
    return ".".join(part.name for part in path).casefold()
