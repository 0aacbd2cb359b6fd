"""Changes of rows with pyarrow, in this process and without a JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from esker.errors import Unsupported
from esker.ports.engine import Engine, Writer
from esker.ports.row_changes import KeyedRows, RowDelta, RowView
from esker.tree.table_metadata import TableMetadata


class ArrowRowEngine:
    """Implements ``ports.row_changes.RowEngine``."""

    def __init__(self, engine: Engine, writer: Writer) -> None:
        self._engine = engine
        self._writer = writer

    def keyed(self, metadata: TableMetadata, data: object, on: Sequence[str]) -> KeyedRows:
        """Rows to upsert; ``InvalidInput`` where they do not fit or one key occurs twice."""
        raise Unsupported("cannot upsert yet", feature="upsert")

    def upsert(self, view: RowView, keyed: KeyedRows) -> RowDelta:
        """Rows with a key of the source are replaced by the source's, the rest of the source is inserted."""
        raise Unsupported("cannot upsert yet", feature="upsert")

    def update(self, view: RowView, values: Mapping[str, str]) -> RowDelta:
        """The rows that match with some columns set to SQL expressions over the old row."""
        raise Unsupported("cannot update yet", feature="update")
