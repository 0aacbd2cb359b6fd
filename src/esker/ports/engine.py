"""What moves rows: an engine reads the files of a plan or of a change feed, and a writer makes data files.

`Engine` and `Writer` work with Arrow batches. `SparkFrames` gives the rows of a scan to Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from esker.errors import InvalidInput
from esker.model.predicates.predicate import Bound
from esker.model.schema import Schema
from esker.model.types import INT, LONG, STRING, Field
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    import pyarrow as pa
    from pyroaring import BitMap64
    from pyspark.sql import DataFrame, SparkSession


# ---------------------------------------------------------------- no field ids
#
# What a writer answers when asked to describe a file that nothing ties to the table's columns.


class NoFieldIds(InvalidInput):
    """A file's columns carry no field ids, and the table has no name mapping to find them by."""


# ---------------------------------------------------------------- engine
#
# What moves rows: given the files of a plan, an engine gives batches.


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a snapshot did to rows; the metadata columns of a change feed tell it of each."""

    kind: str  # insert or delete
    ordinal: int  # the snapshot's place in the feed
    snapshot_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OddFloats:
    """Ids of a file's float columns that may hold what comparisons treat in a special way."""

    nan: frozenset[int]
    zero: frozenset[int]  # of either sign


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """One data file to read, the deletes that apply to it, and what of the filter it does not settle.

    Where there is ``taken_by``, of the rows that are left only those that one of these deletes takes are meant: the
    rows that die when they are added, or come back when they go.
    """

    data_file: DataFile
    deletes: tuple[DataFile, ...] = ()
    residual: Bound
    taken_by: tuple[DataFile, ...] | None = None
    change: Change | None = None  # what became of the rows, in a change feed
    odd_floats: OddFloats | None = None  # None: not examined, so any may be
    gone: BitMap64 | None = None  # positions that no file deletes yet: an earlier step of a transaction did


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """What to read: tasks in order, and the shape the rows are wanted in.

    ``projection`` holds the columns wanted, in order, and may name metadata columns by their reserved ids
    (``_file``, ``_pos``, ``_row_id`` and so on). ``row_schema`` is the schema the filter was bound to.
    """

    metadata: TableMetadata
    tasks: Iterable[ScanTask]
    row_schema: Schema
    projection: Schema
    limit: int | None = None


class Engine(Protocol):
    """Reads planned files."""

    def arrow_schema(self, projection: Schema) -> pa.Schema:
        """The Arrow schema that batches of this projection have."""
        ...

    def read(self, request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """Rows that pass filter and deletes, in task order, in bounded memory."""
        ...

    def read_changes(self, request: ChangeRequest) -> Iterator[pa.RecordBatch]:
        """Changed rows, commit by commit, in each what was taken out before what was put in. A row that is on both
        sides of a commit is no change."""
        ...

    def position_deletes(self, delete: DataFile) -> Iterator[pa.RecordBatch]:
        """The rows of a position delete file or deletion vector: ``file_path`` and ``pos``."""
        ...

    def deleted_positions(self, data_file: DataFile, deletes: Sequence[DataFile]) -> BitMap64:
        """Every position that these position deletes and vectors take out of the data file."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """Rows to write as new data files of a table, laid out as its metadata asks.

    ``data`` fits ``schema`` already (``Writer.fit`` saw to that): a ``pa.RecordBatchReader``, or a DataFrame of an
    engine whose workers write it themselves. Row lineage columns travel in ``data`` under their reserved names when
    rows are rewritten (v3).
    """

    metadata: TableMetadata
    schema: Schema
    data: Any
    operation_id: str  # part of every file name, so that no two writers clash


class Writer(Protocol):
    """Writes data files. Nothing it writes is visible until a commit names it."""

    def fit(self, metadata: TableMetadata, schema: Schema, data: object) -> Any:
        """Any data a user may hand over, as ``write`` takes it; ``InvalidInput`` names the column that does not fit,
        before a byte is written. Values are checked as they are read."""
        ...

    def write(self, request: WriteRequest) -> Iterator[DataFile]:
        """Write new data files, durable and whole, and describe each with its partition and metrics."""
        ...

    def describe(
        self,
        metadata: TableMetadata,
        location: str,
        *,
        folders: Mapping[str, str | None] | None = None,
        ignore_extra_columns: bool = False,
    ) -> DataFile:
        """A file that lies there already, as ``add_files`` wants it: partition and metrics from its footer.

        ``folders`` are partition values as text, by the names of partition fields and columns; None: those that the
        location names.
        """
        ...


# ---------------------------------------------------------------- changes
#
# What an engine is told of a change feed: what each snapshot did to the rows, as files to read.


INSERT, DELETE = "insert", "delete"
UPDATE_BEFORE, UPDATE_AFTER = "update_before", "update_after"

CHANGE_COLUMNS = (
    Field(id=2147483543, name="_change_type", type=STRING, required=True, doc="insert or delete"),
    Field(id=2147483542, name="_change_ordinal", type=INT, required=True, doc="the snapshot's place in the feed"),
    Field(id=2147483541, name="_commit_snapshot_id", type=LONG, required=True, doc="the snapshot that did it"),
)
"""What a row of the feed has besides the table's columns, under the ids that the spec reserves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeGroup:
    """Rows that one snapshot took out and put in, none of which can equal a row of another group.

    A row that is on both sides was only moved, as copy-on-write does, and is no change.
    """

    deleted: tuple[ScanTask, ...] = ()
    inserted: tuple[ScanTask, ...] = ()

    @property
    def is_mixed(self) -> bool:
        """Whether a row may be on both sides."""
        return bool(self.deleted and self.inserted)

    @property
    def tasks(self) -> tuple[ScanTask, ...]:
        """Both sides, what was taken out first."""
        return self.deleted + self.inserted


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What one snapshot did to the rows of a table."""

    snapshot_id: int
    ordinal: int
    groups: tuple[ChangeGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """Which changes to read, and the shape the rows are wanted in.

    ``keys`` are columns that tell rows apart: a row that one snapshot takes out and puts in again under one key is
    an update. Without any there are none. ``net``: of rows that come and go, only the difference between the first and
    the last snapshot is wanted; rows are compared by all columns of ``row_schema``.
    """

    metadata: TableMetadata
    commits: Sequence[Commit]
    row_schema: Schema  # what the filter was bound to; rows are compared as it shows them
    projection: Schema  # whole columns of it that are wanted; those of the feed come behind them
    keys: tuple[Field, ...] = ()
    net: bool = False


# ---------------------------------------------------------------- What gives the rows of a scan to Spark


class SparkFrames(Protocol):
    """Makes DataFrames of planned files. Nothing of Spark is loaded before the first one is asked for."""

    def frame(self, request: ReadRequest, predicate: Bound, session: SparkSession | None = None) -> DataFrame:
        """The rows that pass ``predicate`` and deletes, not read yet; on the session given, or the lake's own."""
        ...

    def change_frame(self, request: ChangeRequest, predicate: Bound, session: SparkSession | None = None) -> DataFrame:
        """The changed rows that pass ``predicate``, not read yet and in no order."""
        ...
