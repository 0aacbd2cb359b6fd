"""Reads one group of files with Spark's own reader: filter, deletes, constants of each file, the columns to return."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # noqa: N812

from esker.arrow.deletes.delete_store import DeleteStore, takers_of
from esker.arrow.read.file_columns import by_field_id
from esker.arrow.read.row_metadata import (
    CHANGE,
    DELETED,
    FILE,
    LAST_UPDATED_SEQUENCE_NUMBER,
    METADATA_COLUMNS,
    PARTITION,
    POS,
    ROW_ID,
    SPEC_ID,
    change_value,
    partition_value,
)
from esker.arrow.value_arrays import array_of
from esker.model.partition_and_sort import PartitionSpec
from esker.model.predicates.predicate import TRUE, Bound
from esker.model.pruning.evidence import Span, has_span
from esker.model.types import BOOLEAN, INT, LONG, STRING, Field, LongType, Type, UnknownType, is_floating
from esker.ports.engine import ReadRequest, ScanTask
from esker.spark.expressions.arrow_frames import frame_of_columns
from esker.spark.expressions.column_expressions import condition, stored_literal
from esker.spark.expressions.plan_arrays import MOST_BYTES, Int64s, has_plan_arrays, plan_array
from esker.spark.scan.apply_deletes import Way, only_positions, way_for, without_keys, without_positions
from esker.spark.scan.file_layouts import identity_constants, kept_its_type
from esker.spark.scan.file_scan import NUMBER, POSITION, FileScan, FixedColumn, PlacedFile
from esker.spark.scan.group_files import Kind
from esker.spark.scan.routes import Routes
from esker.spark.scan.select_columns import can_select_plainly, select_plainly, shown_column
from esker.spark.scan.stored_columns import (
    StoredColumns,
    columns_by_id,
    columns_by_name,
    filter_paths,
    without_columns,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


# ---------------------------------------------------------------- constants of a file
#
# These are values that all rows of a file share: its path, spec, partition values and lineage. If all files of a scan
# have the same value, it is a literal. Otherwise numbers are an array in the plan, and a row finds its value by the
# number of its file. Other values are a small table, which is joined.


_NUMBER = "__esker_fact_of"


@dataclass(frozen=True, slots=True)
class Fact:
    """One value per file, in the order of the scan's files."""

    type: Type
    values: Sequence[Any]

    @property
    def is_shared(self) -> bool:
        """Whether all files have the same value. The two zeros are equal, but count as different."""
        first = self.values[0]
        return all(value is first or (value == first and repr(value) == repr(first)) for value in self.values)


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of a scan's files as columns of the frame that ``joined`` returns."""

    columns: dict[str, Column]
    differ: bool  # whether the frame needs each row's file
    table: Sequence[tuple[str, Type, pa.Array]]  # what is joined, if anything

    @classmethod
    def of(cls, session: SparkSession, numbers: Sequence[int], facts: Mapping[str, Fact]) -> Constants:
        """``numbers`` are those of the files, in the order of the values."""
        columns: dict[str, Column] = {}
        table: list[tuple[str, Type, pa.Array]] = []
        for name, fact in facts.items():
            if fact.is_shared:
                columns[name] = stored_literal(fact.type, fact.values[0])
            elif isinstance(fact.type, LongType) and None not in fact.values and _fits(session, numbers):
                columns[name] = _found_by_number(session, numbers, fact.values)
            else:
                columns[name] = F.col(f"__esker_{name}")
                table.append((f"__esker_{name}", fact.type, array_of(fact.type, fact.values)))
        if table:
            table.insert(0, (_NUMBER, LONG, array_of(LONG, numbers)))
        return cls(columns, any(not fact.is_shared for fact in facts.values()), table)

    def joined(self, session: SparkSession, frame: DataFrame) -> DataFrame:
        """Return the frame with the constants that an array cannot have."""
        if not self.table:
            return frame
        table = frame_of_columns(session, self.table)
        return frame.join(F.broadcast(table), F.col(NUMBER) == F.col(_NUMBER), "left").drop(_NUMBER)


def _fits(session: SparkSession, numbers: Sequence[int]) -> bool:
    return 8 * max(numbers) < MOST_BYTES >> 3 and has_plan_arrays(session)


def _found_by_number(session: SparkSession, numbers: Sequence[int], values: Sequence[int]) -> Column:
    if all(number == value for number, value in zip(numbers, values, strict=True)):
        return F.col(NUMBER)
    held = np.zeros(max(numbers) + 1, np.int64)
    held[np.asarray(numbers)] = values
    return F.get(plan_array(session, held), F.col(NUMBER).cast("int"))


Placed = Sequence[tuple[ScanTask, PlacedFile]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeScans:
    """Makes the frames of one request, and holds what its groups share."""

    session: SparkSession
    routes: Routes
    request: ReadRequest
    predicate: Bound
    fields: Sequence[Field]  # the columns to read from files
    deletes: DeleteStore

    def frame(self, kind: Kind, placed: Placed) -> DataFrame:
        """Return the rows of a group, in the columns of the projection."""
        facts = self._facts(kind, placed)
        numbers = [file.number for _, file in placed]
        constants = Constants.of(self.session, numbers, facts)
        columns = self._columns(kind, constants.columns)
        picks = kind.has_positions or kind.takes  # rows by their positions
        way = way_for(self.session, [(file.number, task.data_file) for task, file in placed]) if picks else Way.ALONE
        frames = self.routes.file_frames(self.session)
        fixed = {} if frames is None or kind.layout is not None else self._fixed(placed)
        scan = FileScan(
            file_format=kind.file_format,
            schema=without_columns(columns.schema, {columns.names[id_] for id_ in fixed}),
            files=[file for _, file in placed],
            by_id=kind.layout is None,
            opening=kind.opening,
            with_number=constants.differ or way is not Way.ALONE,
            with_position=picks or any(f.id in (POS, ROW_ID) for f in self.request.projection),
            fixed=[FixedColumn(columns.schema[columns.names[id_]], *column) for id_, column in fixed.items()],
            spans={} if frames is None else self._spans(placed, columns, fixed.keys()),
        )
        frame = self.routes.open(self.session, scan)
        # The filter is below the joins, so that Spark pushes it into the scan, but above the constants that it may use.
        frame = constants.joined(self.session, frame)
        frame = self._filtered(frame, kind, placed, columns)
        if kind.takes:
            frame = only_positions(self.session, frame, self._taken(placed), way)
        if kind.has_positions and not kind.takes:  # the deletes already left out the others
            frame = without_positions(self.session, frame, self._positions(placed), way)
        if kind.equality:
            keys = self.deletes.equality_rows(placed[0][0].deletes)
            frame = without_keys(self.session, frame, keys, columns.at)
        wanted = self.request.projection.fields
        if frames is not None and can_select_plainly(columns, wanted):
            return select_plainly(frames, frame, columns, wanted)
        return frame.select(*(self._shown(f, columns, constants.columns) for f in wanted))

    def _columns(self, kind: Kind, made: Mapping[str, Column]) -> StoredColumns:
        if kind.layout is None:
            return replace(columns_by_id(self.request.metadata, self.fields), protected=kind.protected.ids)
        fixed = {f.id: made[_constant(f.id)] for f in self.fields if _constant(f.id) in made}
        return replace(columns_by_name(kind.layout, self.fields, fixed), protected=kind.protected.ids)

    def _facts(self, kind: Kind, placed: Placed) -> dict[str, Fact]:
        """Return the constants that the projection and the layout need."""
        files = [task.data_file for task, _ in placed]
        wanted = {f.id for f in self.request.projection}
        facts: dict[str, Fact] = {}
        if FILE in wanted:
            facts["path"] = Fact(STRING, [file.path for file in files])
        if SPEC_ID in wanted:
            facts["spec"] = Fact(INT, [file.spec_id for file in files])
        if DELETED in wanted:
            facts["deleted"] = Fact(BOOLEAN, [kind.takes] * len(files))
        specs = self.request.metadata.spec_by_id
        for field in self.request.projection:
            if field.id == PARTITION:
                held = [partition_value(field, file, specs.get(file.spec_id, PartitionSpec())) for file in files]
                facts["partition"] = Fact(field.type, held)
            if field.id in CHANGE:
                facts[field.name] = Fact(field.type, [change_value(field.id, task.change) for task, _ in placed])
        if wanted & {ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER}:
            facts["first_row"] = Fact(LONG, [file.first_row_id for file in files])
            facts["sequence"] = Fact(LONG, [file.sequence_number for file in files])
        if kind.layout is not None:
            fixed = [identity_constants(specs.get(file.spec_id, PartitionSpec()), file) for file in files]
            found = by_field_id(kind.layout.columns)
            for field in self.fields:
                if field.id not in found and any(field.id in values for values in fixed):
                    held = [values.get(field.id, field.initial_default) for values in fixed]
                    facts[_constant(field.id)] = Fact(field.type, held)
        return facts

    def _fixed(self, placed: Placed) -> dict[int, tuple[Type, list[Any]]]:
        """Return the columns that the partition of every file fixes, with their values."""
        specs = self.request.metadata.spec_by_id
        found = [
            identity_constants(specs.get(task.data_file.spec_id, PartitionSpec()), task.data_file) for task, _ in placed
        ]
        return {
            field.id: (field.type, [values[field.id] for values in found])
            for field in self.fields
            if has_span(field.type)
            and all(field.id in values for values in found)
            and kept_its_type(self.request.metadata, field)
        }

    def _spans(self, placed: Placed, columns: StoredColumns, without: Collection[int]) -> dict[str, Span]:
        """Return the spans of the columns that are read under one name, of these files."""
        rows = np.array([file.number for _, file in placed])
        spans = self.request.spans
        return {
            name: spans[id_].take(rows) for id_, name in columns.names.items() if id_ in spans and id_ not in without
        }

    def _filtered(self, frame: DataFrame, kind: Kind, placed: Placed, columns: StoredColumns) -> DataFrame:
        if self.predicate == TRUE or all(task.residual == TRUE for task, _ in placed):
            return frame
        paths = {path[-1].id: path for path in filter_paths(self.predicate, self.request.row_schema)}

        def asked(field: Field) -> Column:
            pushes = is_floating(field.type) and field.id not in kind.protected.nan
            return columns.at(paths[field.id], pushes=pushes)

        def asked_without_nan(field: Field) -> Column:
            return columns.at(paths[field.id], pushes=is_floating(field.type))

        return frame.filter(condition(self.predicate, asked, asked_without_nan))

    def _positions(self, placed: Placed) -> list[tuple[int, Int64s]]:
        found = []
        for task, file in placed:
            rows = task.data_file.record_count
            parts = [deleted.within(0, rows) for deleted in self.deletes.positions(task.data_file, task.deletes)]
            found.append((file.number, np.unique(np.concatenate(parts)) if len(parts) != 1 else parts[0]))
        return found

    def _taken(self, placed: Placed) -> list[tuple[int, Int64s]]:
        found = []
        for task, file in placed:
            takers = takers_of(task, self.deletes)
            assert takers is not None
            rows = task.data_file.record_count
            found += [(file.number, taken.within(0, rows)) for taken in takers.positions]
        return found

    def _shown(self, wanted: Field, columns: StoredColumns, facts: dict[str, Column]) -> Column:
        if wanted.id in METADATA_COLUMNS:
            return _metadata_column(wanted, columns, facts).alias(wanted.name)
        if isinstance(wanted.type, UnknownType):
            return F.lit(None).alias(wanted.name)
        return shown_column(columns.column(wanted.id), columns.fields[wanted.id].type, wanted)


def _metadata_column(wanted: Field, columns: StoredColumns, facts: dict[str, Column]) -> Column:
    if wanted.id in CHANGE:
        return facts[wanted.name]
    match wanted.id:
        case 2147483646:
            return facts["path"]
        case 2147483645:
            return F.col(POSITION)
        case 2147483644:
            return facts["deleted"]
        case 2147483643:
            return facts["spec"]
        case 2147483642:
            return shown_column(facts["partition"], wanted.type, wanted)
        case 2147483540:
            inherited = facts["first_row"] + F.col(POSITION)
        case _:
            inherited = facts["sequence"]
    # A file without a first row id has neither of the two (I8).
    return F.when(facts["first_row"].isNotNull(), F.coalesce(columns.column(wanted.id), inherited))


def _constant(field_id: int) -> str:
    return f"constant_{field_id}"
