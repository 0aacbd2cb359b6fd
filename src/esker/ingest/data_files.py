"""Rows of a batch into data files of a table, ahead of the commit that will name them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from esker.errors import EskerError
from esker.ingest.receipts import Delivery, delivery_of
from esker.ports.engine import WriteRequest
from esker.table import Table
from esker.tree.data_file import DataFile

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("esker.ingest")


class DataFiles:
    """The files of one table in one batch. Nothing of them is visible."""

    def __init__(self, table: Table) -> None:
        draft = table.transaction()
        self.name = table.name
        self.table = table
        self.metadata = draft.base.metadata
        self._tools = draft.tools
        self._operation_id = str(uuid4())
        self._files: list[DataFile] = []

    def add(self, rows: object, *, spread: bool = True) -> None:
        """Write rows, in any form that a table takes. Unless they are to be spread, the tasks of a DataFrame write
        the rows that they have, where the table does not say otherwise."""
        metadata, schema = self.metadata, self.metadata.schema
        if not spread:
            metadata = replace(metadata, properties={"write.distribution-mode": "none", **metadata.properties})
        fitted = self._tools.writer.fit(metadata, schema, rows)
        request = WriteRequest(metadata=metadata, schema=schema, data=fitted, operation_id=self._operation_id)
        for file in self._tools.writer.write(request):
            self._files.append(file)

    def take(self, files: Iterable[DataFile]) -> None:
        """Files that others wrote for this table."""
        self._files += files

    @property
    def files(self) -> tuple[DataFile, ...]:
        """What is written so far."""
        return tuple(self._files)

    def replace(self, file: DataFile, rows: pa.Table) -> None:
        """Other rows in place of a file's."""
        if rows.num_rows:
            self.add(rows)
        self.drop((file,))

    def drop(self, files: Iterable[DataFile]) -> None:
        """Let go of files of these, and delete them."""
        for file in tuple(files):
            self._files.remove(file)
            self._delete(file)

    @property
    def rows(self) -> int:
        """How many rows are written."""
        return sum(file.record_count for file in self._files)

    def delivery(self, *, replaces: tuple[str, ...] = ()) -> Delivery:
        """What the receipt says of them."""
        return delivery_of(self.name, self.metadata, self._files, replaces=replaces)

    def discard(self) -> None:
        """Delete them: no receipt names them, nor ever will."""
        for file in self._files:
            self._delete(file)

    def _delete(self, file: DataFile) -> None:
        try:
            self._tools.storage.delete(file.path)
        except (EskerError, OSError) as error:  # an orphan is no harm; hiding the cause of a failure is
            log.warning("cannot delete %s, which is not part of the table: %s", file.path, error)
