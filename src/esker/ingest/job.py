"""What an ingest does with a batch: rows of its sources into data files, before the commit that names them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from esker.errors import EskerError
from esker.ingest.checkpoint import Plan
from esker.ingest.files.source_files import SourceFile, is_compressed, trouble_with
from esker.ingest.receipts import BatchCounts, Delivery, delivery_of
from esker.ports.engine import WriteRequest
from esker.table import Table
from esker.tree.data_file import DataFile

if TYPE_CHECKING:
    import pyarrow as pa


# ---------------------------------------------------------------- data files
#
# Rows of a batch into data files of a table, ahead of the commit that will name them.


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


# ---------------------------------------------------------------- job
#
# What an ingest does with a batch: rows out of its sources, into data files of tables.


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A batch whose files are written, and named by nobody yet."""

    deliveries: tuple[Delivery, ...]
    counts: BatchCounts


class Refused(EskerError):
    """One source of a batch cannot be read, and says why; the batch goes on without it. Given the way it was read, it
    is set aside: reading it again that way would fail again."""

    def __init__(self, source: SourceFile, reason: str, way: str | None = None) -> None:
        super().__init__(f"cannot ingest {source.path}: {reason}", source=source, reason=reason, way=way)

    def __reduce__(self) -> tuple[type[Refused], tuple[SourceFile, str, str | None]]:
        return type(self), (self.source, self.reason, self.way)


class Job(Protocol):
    """A kind of ingest."""

    def stage(self, plan: Plan, batch_id: str) -> Staged:
        """Write the batch's rows. What was written is deleted again where this fails; ``Refused`` names a source."""
        ...

    def release(self, plan: Plan) -> tuple[SourceFile, ...]:
        """After the batch is committed: let go of sources that are no longer needed; those that are gone for good."""
        ...


def check_sources(plan: Plan, *, may_grow: bool) -> None:
    """Refuse a source that is not what was planned, or whose new part cannot be told: nothing of it has been read."""
    for source in plan.files:
        trouble = trouble_with(source, may_grow=may_grow)
        if trouble is None and source.start and not (may_grow and _has_places(source)):
            trouble = "it has grown since it was ingested; give what is new in a file of its own"
        if trouble is not None:
            raise Refused(source, trouble)


def _has_places(source: SourceFile) -> bool:
    """Whether it is known where the new part of a file begins: in a compressed one, by its unpacked bytes."""
    return source.length is not None or not is_compressed(Path(source.path))
