"""Parquet data files: columns by field id, row groups pruned by their statistics, one batch at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from esker.arrow.arrow_types import FIELD_ID, to_arrow
from esker.arrow.convert import convert
from esker.arrow.parquet_footer import ChunkStatistics, RowGroupStatistics, read_statistics
from esker.arrow.read.exact_int96 import check_nanoseconds, int96_leaves
from esker.arrow.read.file_columns import FileColumn, LeafFinder, file_columns, has_ids, pruned
from esker.arrow.read.format_reader import (
    BATCH_BYTES,
    Chunk,
    ChunkRequest,
    Renumbered,
    blaming,
    encrypted_file,
    open_input,
)
from esker.arrow.read.open_parquet import open_parquet
from esker.errors import EskerError
from esker.model.predicates.predicate import TRUE, Bound, field_ids
from esker.model.pruning.evidence import Statistics
from esker.model.pruning.verdict import examine
from esker.model.schema import Schema
from esker.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    Field,
    FixedType,
    FloatType,
    IntType,
    LongType,
    StringType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
)
from esker.model.values import from_unscaled, to_bytes
from esker.ports.storage import Storage
from esker.tree.manifest import ColumnMetrics

# ---------------------------------------------------------------- Statistics of row groups


def columns_asked(residual: Bound, schema: Schema, columns: tuple[FileColumn, ...]) -> dict[int, FileColumn]:
    """The file's columns that the filter uses, by field id, if they have one value per row."""
    paths = {id_: schema.path_by_id[id_] for id_ in field_ids(residual) if id_ in schema.path_by_id}
    leaves = LeafFinder(columns)
    found = {id_: leaves.find(path) for id_, path in paths.items()}
    return {id_: column for id_, column in found.items() if column is not None}


def row_group_evidence(
    groups: Sequence[RowGroupStatistics], asked: Mapping[int, FileColumn], schema: Schema
) -> Statistics:
    """The counts and bounds of the columns that the filter uses, one row per row group."""
    metrics = {id_: _metrics(groups, schema.by_id[id_], column) for id_, column in asked.items()}
    counts = pa.array([group.rows for group in groups], pa.int64())
    return Statistics(schema=schema, rows=len(groups), metrics=metrics, record_count=counts)


def _metrics(groups: Sequence[RowGroupStatistics], field: Field, column: FileColumn) -> ColumnMetrics:
    chunks = [group.columns.get(column.first_leaf, ChunkStatistics()) for group in groups]
    bound = _bound_maker(field.type, column.type)
    pairs = [(bound(chunk.minimum), bound(chunk.maximum)) for chunk in chunks]
    # If one side is NaN or makes no sense, the writer's order was wrong: neither side is used.
    trusted = [pair if None not in pair else (None, None) for pair in pairs]
    return ColumnMetrics(
        lower=pa.array([low for low, _ in trusted], pa.binary()),
        upper=pa.array([high for _, high in trusted], pa.binary()),
        value_count=pa.array([chunk.value_count for chunk in chunks], pa.int64()),
        null_count=pa.array([chunk.null_count for chunk in chunks], pa.int64()),
        nan_count=pa.nulls(len(chunks), pa.int64()),
    )


BoundMaker = Callable[[Any], bytes | None]


def _bound_maker(type_: Type, held: pa.DataType) -> BoundMaker:
    """A function from a footer's raw minimum or maximum to single-value bytes. It returns None if that is not
    possible."""

    def make(raw: Any) -> bytes | None:
        if raw is None:
            return None
        try:
            value = _held(raw, type_, held)
            return None if value is None else to_bytes(type_, value)
        except (EskerError, ValueError, TypeError, OverflowError, ArithmeticError, pa.ArrowException):
            return None

    return make


def _held(raw: Any, type_: Type, held: pa.DataType) -> Any:
    match type_:
        case IntType() | LongType() | DateType() | TimeType() | TimestampType():
            return _ticks(raw, type_, held)
        case FloatType() | DoubleType():
            return None if math.isnan(raw) else float(raw)
        case BooleanType():
            return bool(raw)
        case DecimalType(scale=scale):
            if not pa.types.is_decimal(held) or held.scale != scale:
                return None
            return from_unscaled(int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw, scale)
        case StringType():
            return bytes(raw).decode()
        case UuidType() | FixedType() | BinaryType():
            return bytes(raw)
        case _:
            return None


def _ticks(raw: Any, type_: Type, held: pa.DataType) -> int | None:
    """An integer in the unit of the table, by the same conversion as the rows."""
    if not isinstance(raw, int) or pa.types.is_unsigned_integer(held):
        return None  # INT96 has no fixed order; unsigned numbers are not ordered like signed ones
    if held == to_arrow(type_):
        return raw
    width = pa.int32() if held.bit_width == 32 else pa.int64()
    array = pa.array([raw], pa.int64()).cast(width) if held.bit_width >= 32 else pa.array([raw], pa.int64())
    if pa.types.is_temporal(held):
        array = array.view(held)
    found: Sequence[Any] = convert(array, type_, file="", column="").cast(_integers(type_)).to_pylist()
    return int(found[0])


def _integers(type_: Type) -> pa.DataType:
    return pa.int32() if isinstance(type_, IntType | DateType) else pa.int64()


def judged_groups(
    source: pa.NativeFile, groups: int, columns: tuple[FileColumn, ...], residual: Bound, schema: Schema
) -> list[tuple[Bound | None, int]]:
    """For each row group, what is left to check (None: no row can match) and its number of rows (0: not known)."""
    unjudged: list[tuple[Bound | None, int]] = [(residual, 0)] * groups
    asked = columns_asked(residual, schema, columns) if residual != TRUE else {}
    if not asked:
        return unjudged
    statistics = read_statistics(source, {column.first_leaf for column in asked.values()})
    if statistics is None or len(statistics) != groups:
        return unjudged
    examination = examine(residual, row_group_evidence(statistics, asked, schema))
    pattern, left = examination.residuals()
    judged = zip(pattern, examination.verdict.some, statistics, strict=True)
    return [(left[at] if some else None, group.rows) for at, some, group in judged]


# ---------------------------------------------------------------- The reader


_ENCRYPTED_MAGIC = b"PARE"
_FEWEST_ROWS = 16
_UNPACKED = 4  # rows are about this much larger in memory than in a file


class ParquetFile:
    """An open Parquet file. Its footer is read, its pages are not."""

    def __init__(
        self,
        storage: Storage,
        location: str,
        *,
        without_ids: Renumbered,
        encrypted: bool = False,
        by_name: bool = False,
    ) -> None:
        self._location = location
        self._encrypted = encrypted
        with blaming(location, encrypted=encrypted):
            source = open_input(storage, location)
            _refuse_encrypted(source, location)
            self._source, self._file = _opened(source, "us")
            self.is_mended = self._source is not source  # readers that open the file themselves refuse it
            # INT96 has a larger range than nanoseconds, and the spec defines it as microseconds. Formats that find
            # columns by name have it only for timestamps with more digits than that.
            self._exact = int96_leaves(self._file) if by_name else frozenset()
            if self._exact:
                self._micros, self._file = self._file, _opened(self._source, "ns")[1]
            columns = file_columns(self._file.schema_arrow, FIELD_ID)
        self._columns = columns if has_ids(columns) and not by_name else without_ids(columns)

    @property
    def columns(self) -> tuple[FileColumn, ...]:
        """The columns of the file."""
        return self._columns

    @property
    def file(self) -> pq.ParquetFile:
        """The file as pyarrow knows it."""
        return self._file

    def close(self) -> None:
        """Close the file, of which no chunk was asked for."""
        self._source.close()

    def chunks(self, request: ChunkRequest) -> Iterator[Chunk]:
        """The rows in file order. Row groups are read one after the other, so memory is one row group."""
        try:
            yield from self._chunks(request)
        finally:
            self._source.close()

    def _chunks(self, request: ChunkRequest) -> Iterator[Chunk]:
        kept = pruned(self._columns, request.leaves)
        indices = sorted(request.leaves)
        position, row_bytes = 0, self._guessed_row_bytes(indices)
        for group, (residual, rows) in enumerate(self._judged(request.residual, request.schema)):
            rows = rows or self._file.metadata.row_group(group).num_rows
            is_asked = request.groups is None or group in request.groups
            if residual is None or not is_asked or not (request.touches is None or request.touches(position, rows)):
                position += rows
                continue
            batch_rows = int(np.clip(BATCH_BYTES / max(row_bytes, 1.0), _FEWEST_ROWS, request.batch_rows))
            for batch in self._batches(group, indices, batch_rows):
                columns = tuple(zip(kept, batch.columns, strict=True))
                yield Chunk(position=position, length=batch.num_rows, columns=columns, residual=residual)
                position += batch.num_rows
                row_bytes = batch.nbytes / max(1, batch.num_rows)

    def _batches(self, group: int, indices: list[int], rows: int) -> Iterator[pa.RecordBatch]:
        with blaming(self._location, encrypted=self._encrypted):
            batches = self._file.reader.iter_batches(rows, row_groups=[group], column_indices=indices)
            exact = not self._exact.isdisjoint(indices)
            micros = (
                self._micros.reader.iter_batches(rows, row_groups=[group], column_indices=indices) if exact else None
            )
        while True:
            with blaming(self._location, encrypted=self._encrypted):
                batch = next(batches, None)
                same = None if micros is None else next(micros, None)
            if batch is None:
                return
            if same is not None:
                check_nanoseconds(batch, same, self._location)
            yield batch

    def _judged(self, residual: Bound, schema: Schema) -> list[tuple[Bound | None, int]]:
        with blaming(self._location):
            return judged_groups(self._source, self._file.num_row_groups, self._columns, residual, schema)

    def _guessed_row_bytes(self, indices: list[int]) -> float:
        """The approximate memory of a row, until a first batch is measured."""
        leaves = sum(column.leaf_count for column in self._columns)
        share = len(indices) / max(1, leaves)
        return _UNPACKED * share * self._source.size() / max(1, self._file.metadata.num_rows)


def _opened(source: pa.NativeFile, unit: str) -> tuple[pa.NativeFile, pq.ParquetFile]:
    return open_parquet(source, pre_buffer=True, coerce_int96_timestamp_unit=unit, arrow_extensions_enabled=False)


def _refuse_encrypted(source: pa.NativeFile, location: str) -> None:
    size = source.size()
    if size >= len(_ENCRYPTED_MAGIC):
        source.seek(size - len(_ENCRYPTED_MAGIC))
        if source.read(len(_ENCRYPTED_MAGIC)) == _ENCRYPTED_MAGIC:
            raise encrypted_file(location)
        source.seek(0)
