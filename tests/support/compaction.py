"""A compaction: files of a table rewritten as one, in a snapshot whose operation is "replace"."""

from __future__ import annotations

from esker.ports.engine import WriteRequest
from esker.table import Table
from esker.write.build_snapshot import SnapshotChange
from esker.write.commit import commit
from esker.write.context import MetadataNames, Scratch
from esker.write.rows.rewrite_file import noted
from esker.write.steps import AddFiles, RemoveFiles


def compact(table: Table, where: str) -> None:
    """Rewrite the files that hold rows of this filter; all rows of them match it."""
    assert table._home is not None
    tools, metadata, names = table._home.tools, table.metadata, MetadataNames()
    scan = table.scan(where)
    paths = frozenset(task.data_file.path for task in scan.plan().tasks)
    scratch = Scratch(tools.storage)
    rows = tools.writer.fit(metadata, metadata.schema, scan.to_arrow())
    request = WriteRequest(metadata=metadata, schema=metadata.schema, data=rows, operation_id=names.operation_id)
    files = tuple(noted(tools.writer.write(request), scratch))
    change = SnapshotChange(
        tools=tools,
        steps=(RemoveFiles(paths), AddFiles(files)),
        scratch=scratch,
        names=names,
        start=table.current_snapshot,
        operation="replace",
    )
    commit(table._home.catalog, table._home.name, table._state, change)
