"""The port of an engine: it reads the files of a plan or of a change feed. The port of a writer: it writes data files.

`Engine` and `Writer` work with Arrow batches. `SparkFrames` makes the rows of a scan a Spark DataFrame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from esker.errors import InvalidInput
from esker.model.partition_and_sort import SortOrder
from esker.model.predicates.predicate import TRUE, Bound
from esker.model.schema import Schema
from esker.model.types import INT, LONG, STRING, Field
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    import pyarrow as pa
    from pyroaring import BitMap64
    from pyspark.sql import DataFrame, SparkSession

    from esker.model.pruning.evidence import Span
    from esker.ports.merge import MergeRule


class NoFieldIds(InvalidInput):
    """The columns of a file have no field ids, and the table has no name mapping to find them by."""


# ---------------------------------------------------------------- Engine and writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a snapshot did to a row. The metadata columns of a change feed show it."""

    kind: str  # insert or delete
    ordinal: int  # the position of the snapshot in the feed
    snapshot_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OddFloats:
    """The ids of a file's float columns that may contain NaN or zero, which need care in comparisons."""

    nan: frozenset[int]
    zero: frozenset[int]  # positive or negative zero


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """One data file to read, the deletes that apply to it, and the part of the filter that rows still have to pass.

    With ``taken_by``, only the rows that one of these deletes removes are read: the rows that disappear when these
    deletes are added, or come back when these deletes are removed.
    """

    data_file: DataFile
    deletes: tuple[DataFile, ...] = ()
    residual: Bound
    taken_by: tuple[DataFile, ...] | None = None
    change: Change | None = None  # what happened to the rows, in a change feed
    odd_floats: OddFloats | None = None  # None: not examined, so any column may have them
    gone: BitMap64 | None = None  # positions that an earlier step of the transaction deleted and no file records yet


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """What to read: the tasks in order, and the columns of the result.

    ``projection`` has the wanted columns in order. It may contain metadata columns by their reserved ids (``_file``,
    ``_pos``, ``_row_id`` and so on). ``row_schema`` is the schema that the filter is bound to.
    """

    metadata: TableMetadata
    tasks: Iterable[ScanTask]
    row_schema: Schema
    projection: Schema
    limit: int | None = None
    filter: Bound = TRUE  # the whole filter, for rows that are merged before they are filtered
    merge: MergeRule | None = None  # for tables whose files have versions of rows
    spans: Mapping[int, Span] = field(default_factory=dict)  # of some columns, one row per task


class Engine(Protocol):
    """Reads planned files."""

    def arrow_schema(self, projection: Schema) -> pa.Schema:
        """The Arrow schema of the batches of this projection."""
        ...

    def read(self, request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """The rows that pass the filter and the deletes, in task order, in bounded memory."""
        ...

    def read_changes(self, request: ChangeRequest) -> Iterator[pa.RecordBatch]:
        """The changed rows, commit by commit. In each commit, removed rows come before added rows.

        A row that is on both sides of a commit is no change.
        """
        ...

    def position_deletes(self, delete: DataFile) -> Iterator[pa.RecordBatch]:
        """The rows of a position delete file or deletion vector: ``file_path`` and ``pos``."""
        ...

    def deleted_positions(self, data_file: DataFile, deletes: Sequence[DataFile]) -> BitMap64:
        """Every position that these position deletes and vectors remove from the data file."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """Rows to write as new data files of a table, in the layout that its metadata asks for.

    ``data`` fits ``schema`` already (``Writer.fit`` has checked it). It is a ``pa.RecordBatchReader``, or a DataFrame
    of an engine whose workers write it. When rows are rewritten, ``data`` contains the row lineage columns under their
    reserved names (v3).
    """

    metadata: TableMetadata
    schema: Schema
    data: Any
    operation_id: str  # part of every file name, so that two writers never use the same name
    order: SortOrder | None = None  # that the rows have, and stay in; None: the writer brings them into the table's
    most_rows: int | None = None  # how many rows there are at most, if that is known


class Writer(Protocol):
    """Writes data files. A file is invisible until a commit adds it."""

    def fit(self, metadata: TableMetadata, schema: Schema, data: object) -> Any:
        """Convert any data that a user may pass to what ``write`` accepts.

        Raises ``InvalidInput`` with the name of the column that does not fit, before anything is written. Values are
        checked when they are read.
        """
        ...

    def write(self, request: WriteRequest) -> Iterator[DataFile]:
        """Write new data files, complete and safe against a crash. Describe each with its partition and metrics."""
        ...

    def describe(
        self,
        metadata: TableMetadata,
        location: str,
        *,
        folders: Mapping[str, str | None] | None = None,
        ignore_extra_columns: bool = False,
    ) -> DataFile:
        """Describe an existing file for ``add_files``: its partition, and its metrics from its footer.

        ``folders`` are partition values as text, by the names of partition fields and columns. None: use the values in
        the location.
        """
        ...


# ---------------------------------------------------------------- Change feed


INSERT, DELETE = "insert", "delete"
UPDATE_BEFORE, UPDATE_AFTER = "update_before", "update_after"

CHANGE_COLUMNS = (
    Field(id=2147483543, name="_change_type", type=STRING, required=True, doc="insert or delete"),
    Field(id=2147483542, name="_change_ordinal", type=INT, required=True, doc="the snapshot's place in the feed"),
    Field(id=2147483541, name="_commit_snapshot_id", type=LONG, required=True, doc="the snapshot that did it"),
)
"""The columns of a change feed besides the table's, with the ids that the spec reserves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeGroup:
    """The rows that one snapshot removed and added. None of them can equal a row of another group.

    A row on both sides was only moved, as copy-on-write does, and is no change.
    """

    deleted: tuple[ScanTask, ...] = ()
    inserted: tuple[ScanTask, ...] = ()

    @property
    def is_mixed(self) -> bool:
        """Whether a row may be on both sides."""
        return bool(self.deleted and self.inserted)

    @property
    def tasks(self) -> tuple[ScanTask, ...]:
        """The tasks of both sides, removed rows first."""
        return self.deleted + self.inserted


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What one snapshot did to the rows of a table."""

    snapshot_id: int
    ordinal: int
    groups: tuple[ChangeGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """Which changes to read, and the columns of the result.

    ``keys`` are the columns that identify a row: if a snapshot removes a row and adds one with the same key, this is an
    update. Without ``keys`` there are no updates. With ``net``, only the difference between the first and the last
    snapshot is returned; rows are compared by all columns of ``row_schema``.
    """

    metadata: TableMetadata
    commits: Sequence[Commit]
    row_schema: Schema  # the filter is bound to it, and rows are compared with its types
    projection: Schema  # the wanted columns of it; the columns of the feed follow
    keys: tuple[Field, ...] = ()
    net: bool = False


# ---------------------------------------------------------------- Spark


Part = TypeVar("Part")
Result = TypeVar("Result")


class SparkFrames(Protocol):
    """Makes DataFrames of planned files. Spark is loaded when the first DataFrame is made."""

    def frame(self, request: ReadRequest, predicate: Bound, session: SparkSession | None = None) -> DataFrame:
        """The rows that pass ``predicate`` and the deletes, not read yet. Uses ``session``, or the lake's session
        for None."""
        ...

    def change_frame(self, request: ChangeRequest, predicate: Bound, session: SparkSession | None = None) -> DataFrame:
        """The changed rows that pass ``predicate``, not read yet and in no order."""
        ...

    def spread(
        self, work: Callable[[Part], Result], parts: Sequence[Part], session: SparkSession | None = None
    ) -> Iterable[Result]:
        """What a function returns for each part, in their order, computed by Spark's workers. The function, the parts
        and the results are pickled."""
        ...

    def explained(self, request: ReadRequest) -> str | None:
        """One line: who reads the files in Spark, and why. None if no session is running; none is started."""
        ...
