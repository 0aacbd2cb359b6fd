"""Creates or replaces a table and writes its rows in the same commit: both happen, or neither."""

from __future__ import annotations

from dataclasses import replace

from esker.table import Table
from esker.tree.table_metadata import TableMetadata


def create_with(table: Table, data: object) -> None:
    """Create a table that exists only as a plan so far, with its first rows or with existing data files.

    Raises ``AlreadyExists`` if another writer has created the table in the meantime.
    """
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
    """Commit a new definition of a table together with rows; without ``data`` the table is empty afterwards.

    Raises ``Conflict`` if another writer changes the table in the meantime.
    """
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
