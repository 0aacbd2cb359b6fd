"""Which rows of a file match, and the file without them. Each question is answered once, however many attempts."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from esker.model.predicates.predicate import TRUE, Bound, complement
from esker.model.schema import Schema
from esker.ports.engine import ReadRequest, ScanTask, WriteRequest
from esker.read.metadata_columns import metadata_column
from esker.tree.data_file import DataFile, FileContent
from esker.tree.table_metadata import TableMetadata
from esker.write.context import Scratch, Tools
from esker.write.steps import listed_name

if TYPE_CHECKING:
    from pyroaring import BitMap64


@dataclass(slots=True)
class Rewriter:
    """Answers for one operation, remembered over its attempts."""

    tools: Tools
    scratch: Scratch
    operation_id: str
    _copies: dict[Hashable, tuple[DataFile, ...] | None] = field(default_factory=dict)
    _matches: dict[Hashable, BitMap64] = field(default_factory=dict)
    _live: dict[Hashable, int] = field(default_factory=dict)

    def without(self, metadata: TableMetadata, task: ScanTask, predicate: Bound) -> tuple[DataFile, ...] | None:
        """New files with the rows that do not match; None where no row matches, so the file can stay."""
        key = _question(task, predicate)
        if key not in self._copies:
            self._copies[key] = self._copy(metadata, task, predicate)
        return self._copies[key]

    def matching(self, metadata: TableMetadata, task: ScanTask, predicate: Bound) -> BitMap64:
        """The positions of the rows that match and are not deleted yet."""
        key = _question(task, predicate)
        if key not in self._matches:
            self._matches[key] = self._find(metadata, task, predicate)
        return self._matches[key]

    def live_rows(self, metadata: TableMetadata, task: ScanTask, *, reads_data: bool) -> int | None:
        """How many rows of a file are not deleted yet. None where only its data could say, and that is not to be read:
        equality deletes compare columns."""
        rows = task.data_file.record_count
        if not task.deletes:
            return rows - (len(task.gone) if task.gone is not None else 0)
        if len(task.deletes) == 1 and not task.gone and task.deletes[0].referenced_data_file == task.data_file.path:
            return rows - task.deletes[0].record_count
        if not reads_data and any(delete.content is FileContent.EQUALITY_DELETES for delete in task.deletes):
            return None
        key = _question(task, TRUE)
        if key not in self._live:
            self._live[key] = self._count(metadata, task)
        return self._live[key]

    def _count(self, metadata: TableMetadata, task: ScanTask) -> int:
        request = ReadRequest(
            metadata=metadata,
            tasks=[replace(task, residual=TRUE)],
            row_schema=metadata.schema,
            projection=Schema(fields=()),
        )
        return sum(batch.num_rows for batch in self.tools.engine.read(request))

    def _copy(self, metadata: TableMetadata, task: ScanTask, predicate: Bound) -> tuple[DataFile, ...] | None:
        if not self._any_match(metadata, task, predicate):
            return None
        import pyarrow as pa

        projection = with_lineage(metadata)
        stay = replace(task, residual=complement(predicate))
        request = ReadRequest(metadata=metadata, tasks=[stay], row_schema=metadata.schema, projection=projection)
        rows = pa.RecordBatchReader.from_batches(
            self.tools.engine.arrow_schema(projection), self.tools.engine.read(request)
        )
        written = self.tools.writer.write(
            WriteRequest(metadata=metadata, schema=metadata.schema, data=rows, operation_id=self.operation_id)
        )
        return tuple(noted(written, self.scratch))

    def _any_match(self, metadata: TableMetadata, task: ScanTask, predicate: Bound) -> bool:
        request = ReadRequest(
            metadata=metadata,
            tasks=[replace(task, residual=predicate)],
            row_schema=metadata.schema,
            projection=Schema(fields=()),
            limit=1,
        )
        return any(batch.num_rows for batch in self.tools.engine.read(request))

    def _find(self, metadata: TableMetadata, task: ScanTask, predicate: Bound) -> BitMap64:
        from pyroaring import BitMap64

        position = metadata_column("_pos")
        assert position is not None
        request = ReadRequest(
            metadata=metadata,
            tasks=[replace(task, residual=predicate)],
            row_schema=metadata.schema,
            projection=Schema(fields=(position,)),
        )
        found = BitMap64()
        for batch in self.tools.engine.read(request):
            numbers = batch.column(0).to_numpy(zero_copy_only=False).astype("uint64")
            found |= BitMap64(array("Q", numbers.tobytes()))  # an array of the machine's own is taken in one go
        return found


def _question(task: ScanTask, predicate: Bound) -> Hashable:
    deletes = tuple(listed_name(delete) for delete in task.deletes)
    return task.data_file.path, predicate, deletes, fingerprint(task.gone)


def fingerprint(positions: BitMap64 | None) -> bytes | None:
    """The same for the same positions, in a few bytes."""
    return blake2b(positions.serialize(), digest_size=16).digest() if positions else None


def noted(files: Iterable[DataFile], scratch: Scratch) -> Iterator[DataFile]:
    """Files as they are written, each remembered."""
    for file in files:
        scratch.note(file.path)
        yield file


def with_lineage(metadata: TableMetadata) -> Schema:
    """The table's columns; from v3 on also those by which a row keeps its identity when it is copied."""
    if metadata.format_version < 3:
        return metadata.schema
    lineage = (metadata_column("_row_id"), metadata_column("_last_updated_sequence_number"))
    fields = (*metadata.schema.fields, *(column for column in lineage if column is not None))
    return Schema(fields=fields, schema_id=metadata.schema.schema_id)
