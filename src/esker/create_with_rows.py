"""Creates a table together with its first rows, or replaces a table together with its rows: both happen, or neither."""

from __future__ import annotations

from dataclasses import replace

from esker.table import Table
from esker.tree.table_metadata import TableMetadata


def create_with(table: Table, data: object) -> None:
    """Make a table, which is only planned so far, with its first rows or with files that are there already."""
    from esker.write.definition.create_or_replace import FirstCommit
    from esker.write.existing_files import ExistingFiles

    home = table._at_home()
    table._home = replace(home, catalog=FirstCommit(home.catalog, table._state))
    try:
        if isinstance(data, ExistingFiles):
            table.add_files(data.files, ignore_extra_columns=True, parallelism=data.parallelism)
        else:
            table.append(data)
    finally:
        table._home = home


def replace_with(table: Table, new: TableMetadata, data: object) -> None:
    """Give a table a new definition, and rows or none. Raises ``Conflict`` where another writer changes it."""
    from esker.write.definition.create_or_replace import ReplacingCommit, replaced

    home, old = table._at_home(), table._state
    planned = replace(old, metadata=replaced(old.metadata, new))
    replacing = ReplacingCommit(home.catalog, old, planned)
    if data is None:
        from esker.write.commit import commit
        from esker.write.refs.branches_and_tags import MetadataChange

        table._move_to(commit(replacing, home.name, planned, MetadataChange(lambda base: replace(base))))
        return
    table._state = planned
    table._home = replace(home, catalog=replacing)
    try:
        table.append(data)
    except BaseException:
        table._state = old
        raise
    finally:
        table._home = home
