"""The Arrow engine for changing rows: updates by simple expressions, and upserts, without Spark.

One pass finds the rows to change, records their positions and returns the new rows. The remaining rows of rewritten
files follow in the same stream, so that one write makes all new files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.equal_rows import KeySet
from esker.arrow.value_arrays import held_array
from esker.errors import InvalidInput, Unsupported
from esker.model.predicates.predicate import FALSE, TRUE, Bound, Compare, IsNull, Op, all_of, any_of
from esker.model.predicates.predicate import OneOf as Among
from esker.model.schema import Schema
from esker.model.types import Field
from esker.ports.engine import Engine, ReadRequest, ScanTask, Writer, WriteRequest
from esker.ports.row_changes import ResolvedChange, RowChange, RowCounts, RowDecisions, RowDelta, RowView, UpdateRow
from esker.read.metadata_columns import metadata_column
from esker.tree.table_metadata import TableMetadata
from esker.write.rows.rewrite_file import with_lineage

if TYPE_CHECKING:
    from pyroaring import BitMap64

    from esker.model.parsing.value_text import Value


# ---------------------------------------------------------------- The rows of an upsert, by key


Int64s = npt.NDArray[np.int64]
FEW = 256  # up to so many keys are searched one by one; more, between the least and the largest
_SLICE = 1 << 16


@dataclass(slots=True)
class UpsertSource:
    """Rows with distinct keys, and which of them have matched a row of the table."""

    rows: pa.Table
    keys: KeySet
    row_of: Int64s  # the row of each key's number
    met: npt.NDArray[np.bool_] = field(repr=False)

    @classmethod
    def of(cls, rows: pa.Table, key: Schema) -> UpsertSource:
        """The rows by key. Raises ``InvalidInput`` with a key that occurs twice: it is not clear which row to use."""
        columns = [_whole(rows.column(f.name)) for f in key]
        keys = KeySet(columns)
        numbers = keys.numbers(columns)
        row_of = np.empty(keys.count, dtype=np.int64)
        row_of[numbers] = np.arange(rows.num_rows)
        if keys.count < rows.num_rows:
            twice = int(np.flatnonzero(row_of[numbers] != np.arange(rows.num_rows))[0])
            shown = ", ".join(f"{f.name} = {column[twice]}" for f, column in zip(key, columns, strict=True))
            raise InvalidInput(
                f"cannot upsert: the key {shown} occurs twice in the rows given; give each key once", row=twice
            )
        return cls(rows, keys, row_of, np.zeros(rows.num_rows, dtype=bool))

    def meeting(self, columns: Sequence[pa.Array]) -> Int64s:
        """For each row of the table, the row that replaces it. -1 for none."""
        numbers = self.keys.numbers(columns)
        if not len(self.row_of):
            return numbers
        found = np.where(numbers >= 0, self.row_of[numbers], -1)
        self.met[found[found >= 0]] = True
        return found

    def take(self, rows: Int64s) -> Iterator[pa.RecordBatch]:
        """These rows, in their order."""
        for start in range(0, len(rows), _SLICE):
            yield from self.rows.take(pa.array(rows[start : start + _SLICE])).combine_chunks().to_batches()

    def unmet(self) -> Iterator[pa.RecordBatch]:
        """Source rows without a match in the table."""
        return self.take(np.flatnonzero(~self.met))


def key_predicate(rows: pa.Table, key: Schema) -> Bound:
    """TRUE for every row that may have one of the keys. It prunes the table's files, and finds conflicts with other
    commits."""
    if not rows.num_rows:
        return FALSE
    return all_of(_one_key(f, _whole(rows.column(f.name))) for f in key)


def _one_key(f: Field, column: pa.Array) -> Bound:
    held = held_array(column, f.type)
    null = IsNull(f) if held.null_count else FALSE
    values = held.drop_null()
    if not len(values):
        return null
    distinct = values.unique()
    if len(distinct) <= FEW:
        return any_of((Among(f, frozenset(distinct.to_pylist())), null))
    ends = _ends(values)
    if ends is None:
        return TRUE
    return any_of((all_of((Compare(f, Op.GE, ends[0]), Compare(f, Op.LE, ends[1]))), null))


def _ends(values: pa.Array) -> tuple[Any, Any] | None:
    try:
        found = pc.min_max(values)
    except pa.ArrowNotImplementedError:  # fixed-length bytes have no kernel
        return None
    return found["min"].as_py(), found["max"].as_py()


def _whole(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    return array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)


# ---------------------------------------------------------------- The engine


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedByArrow(ResolvedChange):
    """An update with its expressions bound, or an upsert with its rows held here."""

    values: Mapping[str, Value] = field(default_factory=dict)  # of an update, by column
    key: tuple[str, ...] = ()  # of an upsert
    source: UpsertSource | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedByArrow(RowDecisions):
    """A pass over the files of the view. It decides row by row while ``write`` reads it: memory stays bounded."""

    change: Change
    rows: Iterator[pa.RecordBatch]  # those that come, read once


class ArrowRowEngine:
    """Implements ``ports.row_changes.RowEngine`` for updates by simple expressions and for upserts."""

    # Arrow's kernels take longer to load than a look at a table's metadata: imported late.

    def __init__(self, engine: Engine, writer: Writer) -> None:
        self._engine = engine
        self._writer = writer

    def takes(self, text: str) -> bool:
        """Conditions that are more than predicates are not computed here."""
        return False

    def resolve(self, metadata: TableMetadata, change: RowChange) -> ResolvedByArrow:
        """``InvalidInput`` where the rows of an upsert do not fit or one key occurs twice; ``Unsupported`` for an
        expression that Arrow does not compute."""
        if change.key:
            return self._upsert(metadata, change)
        (clause,) = change.clauses
        assert isinstance(clause.action, UpdateRow)
        assert clause.action.values is not None
        texts = {name: said.shown for name, said in clause.action.values.items()}
        return ResolvedByArrow(predicate=change.where, values=self._bound(metadata, texts))

    def _upsert(self, metadata: TableMetadata, change: RowChange) -> ResolvedByArrow:
        from esker.arrow.equal_rows import key_schema

        key = key_schema(metadata.schema, change.key)
        rows = self._writer.fit(metadata, metadata.schema, change.source).read_all()
        source = UpsertSource.of(rows, key)
        return ResolvedByArrow(predicate=key_predicate(rows, key), key=tuple(f.name for f in key), source=source)

    def _bound(self, metadata: TableMetadata, texts: Mapping[str, str]) -> dict[str, Value]:
        """The values of an update, each tried on no rows: ``Unsupported`` where Arrow does not know its types."""
        from esker.arrow.compute_values import assigned, bind_value
        from esker.model.parsing.value_text import parse_value

        schema = metadata.schema
        fields = {f.name: f for f in schema}
        for name in texts:
            if schema.find(name) not in fields.values():
                raise Unsupported(
                    f"cannot update {name!r} alone without Spark: it is inside another column",
                    feature="nested updates",
                )
        bound = {schema.find(name).name: bind_value(parse_value(text), schema) for name, text in texts.items()}
        empty = {column.name: pa.nulls(0, column.type) for column in self._engine.arrow_schema(schema)}
        for name, value in bound.items():
            with suppress(InvalidInput):  # about the values: raised for the first row that has one
                assigned(fields[name], value, empty, 0)
        return bound

    def decide(self, view: RowView, resolved: ResolvedByArrow) -> DecidedByArrow:
        """Begin the pass: no file is read before ``write`` asks for rows."""
        change = Change(self._engine, view)
        if resolved.source is not None:
            return DecidedByArrow(view=view, change=change, rows=change.upserted(resolved.source, resolved.key))
        return DecidedByArrow(view=view, change=change, rows=change.updated(_setting(view, resolved.values)))

    def write(self, decisions: DecidedByArrow) -> RowDelta:
        """Write what comes, and what stays of the files that are rewritten."""
        change, view = decisions.change, decisions.view
        stream = pa.RecordBatchReader.from_batches(change.schema, change.with_survivors(decisions.rows))
        request = WriteRequest(
            metadata=view.metadata, schema=view.metadata.schema, data=stream, operation_id=view.operation_id
        )
        added = tuple(self._writer.write(request))
        gone = {path: positions for path, positions in change.gone.items() if not view.rewrites(path)}
        return RowDelta(
            gone=gone,
            rewritten=frozenset(change.gone) - gone.keys(),
            added=added,
            counts=RowCounts(updated=sum(map(len, change.gone.values())), inserted=change.inserted),
        )


def _setting(view: RowView, values: Mapping[str, Value]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """What sets these columns of a batch to expressions over the old rows."""
    from esker.arrow.compute_values import assigned

    fields = {f.name: f for f in view.metadata.schema}

    def changed(batch: pa.RecordBatch) -> pa.RecordBatch:
        old = dict(zip(fields, batch.columns, strict=False))
        for name, value in values.items():
            array = assigned(fields[name], value, old, batch.num_rows)
            batch = batch.set_column(list(fields).index(name), batch.schema.field(name), array)
        return batch

    return changed


@dataclass(slots=True)
class Change:
    """One change: its new rows, and the positions that it deletes."""

    engine: Engine
    view: RowView
    gone: dict[str, BitMap64] = field(default_factory=dict)
    inserted: int = 0

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows to write: the table's columns, and in v3 the row lineage."""
        return self.engine.arrow_schema(with_lineage(self.view.metadata))

    def updated(self, changed: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Every matching row, changed."""
        columns = self.view.metadata.schema
        for task, batch, row_ids in self._read(columns):
            self._forget(task, batch.column(len(columns.fields)))
            rows = changed(batch.select(range(len(columns.fields))))
            yield self._with_lineage(rows, row_ids)

    def upserted(self, source: UpsertSource, on: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The source row for every row with its key, then the source rows without a match."""
        import pyarrow as pa

        columns = self.view.metadata.schema.select(list(on))
        for task, batch, row_ids in self._read(columns):
            found = source.meeting([batch.column(at) for at in range(len(columns.fields))])
            hits = found >= 0
            if not hits.any():
                continue
            self._forget(task, batch.column(len(columns.fields)).filter(pa.array(hits)))
            ids = None if row_ids is None else row_ids.filter(pa.array(hits))
            at = 0
            for rows in source.take(found[hits]):
                yield self._with_lineage(rows, None if ids is None else ids.slice(at, rows.num_rows))
                at += rows.num_rows
        for rows in source.unmet():
            self.inserted += rows.num_rows
            yield self._with_lineage(rows, None)

    def with_survivors(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows, then the remaining rows of rewritten files."""
        yield from rows
        by_path = {task.data_file.path: task for task in self.view.tasks}
        stay = []
        for path, positions in self.gone.items():
            if self.view.rewrites(path):
                task = by_path[path]
                stay.append(replace(task, residual=TRUE, gone=positions | task.gone if task.gone else positions))
        metadata = self.view.metadata
        yield from self.engine.read(
            ReadRequest(metadata=metadata, tasks=stay, row_schema=metadata.schema, projection=with_lineage(metadata))
        )

    def _read(self, columns: Schema) -> Iterator[tuple[ScanTask, pa.RecordBatch, pa.Array | None]]:
        """The matching rows, batch by batch, with their file and ids. The columns, then positions."""
        metadata = self.view.metadata
        wanted = ["_pos", "_row_id"] if metadata.format_version > 2 else ["_pos"]
        more = tuple(column for name in wanted if (column := metadata_column(name)) is not None)
        now: list[ScanTask] = []

        def tasks() -> Iterator[ScanTask]:
            for task in self.view.tasks:  # the engine reads in order, and starts the next task when one is done
                now[:] = [task]
                yield task

        request = ReadRequest(
            metadata=metadata,
            tasks=tasks(),
            row_schema=metadata.schema,
            projection=Schema(fields=(*columns.fields, *more)),
        )
        for batch in self.engine.read(request):
            row_ids = batch.column(batch.num_columns - 1) if len(more) > 1 else None
            yield now[0], batch, row_ids

    def _forget(self, task: ScanTask, positions: pa.Array) -> None:
        from esker.arrow.deletes.deleted_positions import bitmap_of

        found = bitmap_of(positions.to_numpy(zero_copy_only=False))
        path = task.data_file.path
        self.gone[path] = self.gone[path] | found if path in self.gone else found

    def _with_lineage(self, rows: pa.RecordBatch, row_ids: pa.Array | None) -> pa.RecordBatch:
        """A changed row keeps its id and is updated by this commit. A new row gets both from the commit (I7)."""
        import pyarrow as pa

        if self.view.metadata.format_version < 3:
            return rows
        none = pa.nulls(rows.num_rows, pa.int64())
        return pa.record_batch([*rows.columns, none if row_ids is None else row_ids, none], schema=self.schema)
