"""The job for rows of Parquet, CSV and JSON files, for any table. On request it creates the table or adds columns."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from esker.arrow.arrow_types import to_arrow_schema
from esker.errors import AlreadyExists, NoSuchNamespace, NoSuchTable
from esker.ingest.checkpoint import Plan
from esker.ingest.files.source_files import SourceFile
from esker.ingest.job import DataFiles, Refused, Staged, check_sources
from esker.ingest.read_row_files import Reading, Rows, Unreadable, judging_rows, schema_of
from esker.ingest.receipts import BatchCounts
from esker.lake import Lake
from esker.model.table_names import TableName
from esker.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The table that rows go to, and how it may be changed for them."""

    name: str
    create: bool = False
    evolve: bool = False
    partition_by: Sequence[str] = ()
    sort_by: Sequence[str] = ()


class Unfit(Exception):
    """A file of a batch cannot be read, or its rows do not fit the table. The message says why."""

    def __init__(self, source: SourceFile, reason: str) -> None:
        super().__init__(f"{source.path}: {reason}")
        self.source = source
        self.reason = reason


WriteRows = Callable[[DataFiles, Sequence[SourceFile], Reading], int]


def write_here(writing: DataFiles, files: Sequence[SourceFile], reading: Reading) -> int:
    """Write the rows of files in this process, one file after the other. Returns how many were read. Raises ``Unfit``
    for a file that does not fit."""
    known = to_arrow_schema(writing.metadata.schema.fields)
    read = 0
    for source in files:
        rows = Rows(Path(source.path), reading, known)
        try:
            with judging_rows():
                writing.add(rows.reader())
        except Unreadable as error:
            raise Unfit(source, str(error)) from error
        read += rows.count
    return read


class FilesJob:
    """Loads files of rows. A file that does not fit is refused and named; the others are loaded.

    ``write_rows`` reads the files of a batch and writes their rows: in this process, or by Spark's workers.
    """

    def __init__(
        self, lake: Lake, target: Target, *, reading: Reading | None = None, write_rows: WriteRows = write_here
    ) -> None:
        self._lake = lake
        self._target = target
        self._reading = reading or Reading()
        self._write_rows = write_rows

    def stage(self, plan: Plan, batch_id: str) -> Staged:
        """Write the rows of the plan's files."""
        if not plan.files:
            return Staged(deliveries=(), counts=BatchCounts())
        check_sources(plan, may_grow=False)
        writing = DataFiles(self._table(plan))
        try:
            received = self._write_rows(writing, plan.files, self._reading)
        except Unfit as error:
            writing.discard()
            raise Refused(error.source, error.reason, self.way()) from error
        except BaseException:
            writing.discard()
            raise
        counts = BatchCounts(received=received, rows={self._target.name: writing.rows}, requests=len(plan.files))
        return Staged(deliveries=(writing.delivery(),), counts=counts)

    def release(self, plan: Plan) -> tuple[SourceFile, ...]:
        """Release nothing: the files belong to the user."""
        return ()

    def way(self) -> str:
        """A digest of how files are read now. A file that cannot be read in one way may be readable in another."""
        try:
            schema = repr(self._lake.table(self._target.name).schema)
        except (NoSuchTable, NoSuchNamespace):
            schema = ""
        told = repr((self._reading, self._target.evolve, schema))
        return hashlib.sha256(told.encode()).hexdigest()

    @contextmanager
    def _naming(self, source: SourceFile) -> Iterator[None]:
        """Raise an error about one file as ``Refused``, so that the others are loaded."""
        try:
            with judging_rows():
                yield
        except Unreadable as error:
            raise Refused(source, str(error), self.way()) from error

    def _table(self, plan: Plan) -> Table:
        try:
            table = self._lake.table(self._target.name)
        except (NoSuchTable, NoSuchNamespace) as error:
            if not self._target.create:
                raise type(error)(f"{error.message}; to make it, say --create", **error.facts) from error
            table = self._made(plan.files[0])
        if self._target.evolve:
            self._evolve(table, plan.files)
        return table

    def _made(self, first: SourceFile) -> Table:
        with self._naming(first):
            schema = schema_of(Path(first.path), self._reading)
        namespace = ".".join(TableName.parse(self._target.name).namespace)
        with suppress(AlreadyExists):
            self._lake.create_namespace(namespace)
        try:
            return self._lake.create_table(
                self._target.name, schema, partition_by=self._target.partition_by, sort_by=self._target.sort_by
            )
        except AlreadyExists:  # another ingest created it first
            return self._lake.table(self._target.name)

    def _evolve(self, table: Table, files: Sequence[SourceFile]) -> None:
        """Add the columns that are in the files but not in the table, before the first file that needs them."""
        for source in files:
            known = to_arrow_schema(table.schema.fields)
            with self._naming(source):
                found = schema_of(Path(source.path), self._reading, known)
            new = [field for field in found if field.name not in known.names]
            wider = [field.name for field in found if _is_wider(field, known)]
            if new or wider:
                with table.alter() as change:
                    for field in new:
                        change.add_column(_quoted(field.name), field.type)
                    for name in wider:
                        change.widen_column(_quoted(name), found.field(name).type)


def _is_wider(field: pa.Field, known: pa.Schema) -> bool:
    pairs = ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))
    return field.name in known.names and (known.field(field.name).type, field.type) in pairs


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
