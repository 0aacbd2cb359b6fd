"""What an ingest does with a batch: writes the rows of its sources to data files, before the commit that names them."""

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


log = logging.getLogger("esker.ingest")


class DataFiles:
    """The files of one table in one batch. They are not visible yet."""

    def __init__(self, table: Table) -> None:
        draft = table.transaction()
        self.name = table.name
        self.table = table
        self.metadata = draft.base.metadata
        self._tools = draft.tools
        self._operation_id = str(uuid4())
        self._files: list[DataFile] = []

    def add(self, rows: object, *, spread: bool = True) -> None:
        """Write rows, in any form that a table takes. With ``spread=False``, the tasks of a DataFrame write the rows
        that they have, if the table's properties do not say otherwise."""
        metadata, schema = self.metadata, self.metadata.schema
        if not spread:
            metadata = replace(metadata, properties={"write.distribution-mode": "none", **metadata.properties})
        fitted = self._tools.writer.fit(metadata, schema, rows)
        request = WriteRequest(metadata=metadata, schema=schema, data=fitted, operation_id=self._operation_id)
        for file in self._tools.writer.write(request):
            self._files.append(file)

    def take(self, files: Iterable[DataFile]) -> None:
        """Add files that others wrote for this table."""
        self._files += files

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The files so far."""
        return tuple(self._files)

    def replace(self, file: DataFile, rows: pa.Table) -> None:
        """Replace the rows of a file."""
        if rows.num_rows:
            self.add(rows)
        self.drop((file,))

    def drop(self, files: Iterable[DataFile]) -> None:
        """Remove these files and delete them."""
        for file in tuple(files):
            self._files.remove(file)
            self._delete(file)

    @property
    def rows(self) -> int:
        """How many rows are written."""
        return sum(file.record_count for file in self._files)

    def delivery(self, *, replaces: tuple[str, ...] = ()) -> Delivery:
        """The files' entry in the receipt."""
        return delivery_of(self.name, self.metadata, self._files, replaces=replaces)

    def discard(self) -> None:
        """Delete the files: no receipt names them."""
        for file in self._files:
            self._delete(file)

    def _delete(self, file: DataFile) -> None:
        try:
            self._tools.storage.delete(file.path)
        except (EskerError, OSError) as error:  # an orphan is no harm; hiding the cause of a failure is
            log.warning("cannot delete %s, which is not part of the table: %s", file.path, error)


# ---------------------------------------------------------------- jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A batch whose files are written, but not named by a receipt yet."""

    deliveries: tuple[Delivery, ...]
    counts: BatchCounts


class Refused(EskerError):
    """One source of a batch cannot be read; the batch continues without it. With the way it was read, it is set aside:
    reading it in this way would fail again."""

    def __init__(self, source: SourceFile, reason: str, way: str | None = None) -> None:
        super().__init__(f"cannot ingest {source.path}: {reason}", source=source, reason=reason, way=way)

    def __reduce__(self) -> tuple[type[Refused], tuple[SourceFile, str, str | None]]:
        return type(self), (self.source, self.reason, self.way)


class Job(Protocol):
    """A kind of ingest."""

    def stage(self, plan: Plan, batch_id: str) -> Staged:
        """Write the batch's rows. If this fails, the written files are deleted. Raises ``Refused`` for a source."""
        ...

    def release(self, plan: Plan) -> tuple[SourceFile, ...]:
        """After the commit: release sources that are no longer needed. Returns those that are deleted."""
        ...


def check_sources(plan: Plan, *, may_grow: bool) -> None:
    """Raise ``Refused`` for a source that is not what was planned, or whose new part is unknown. Nothing of it has been
    read."""
    for source in plan.files:
        trouble = trouble_with(source, may_grow=may_grow)
        if trouble is None and source.start and not (may_grow and _has_places(source)):
            trouble = "it has grown since it was ingested; give what is new in a file of its own"
        if trouble is not None:
            raise Refused(source, trouble)


def _has_places(source: SourceFile) -> bool:
    """Whether the new part of a file is known; in a compressed one, by its decompressed bytes."""
    return source.length is not None or not is_compressed(Path(source.path))
