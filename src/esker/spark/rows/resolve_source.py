"""Step *resolve* of a row change: the source of a merge as a frame, and an upsert as a merge by its key columns."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from esker.arrow.equal_rows import key_schema
from esker.arrow.input.fit_columns import Leniency, members
from esker.errors import InvalidInput
from esker.model.predicates.predicate_sql import quote_name
from esker.model.schema import Schema
from esker.model.types import Field
from esker.ports.row_changes import Clause, InsertRow, RowChange, Side, SqlText, UpdateRow
from esker.spark.expressions.column_expressions import stored_literal
from esker.spark.rows.resolve_outputs import written_fields
from esker.spark.rows.store_assignment import FittingNames
from esker.spark.scan.stored_columns import quoted
from esker.spark.sql.queries.query_frames import arrow_frame
from esker.spark.write.frame_schema import arrow_schema_of, is_spark_frame
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

HERE = "__esker_here"
"""The column that says that a row of the source is there."""


# ---------------------------------------------------------------- source
#
# The source of a merge as a frame, whatever type it was given as.


def source_frame(data: Any, schema: Schema, session: SparkSession) -> DataFrame:
    """The rows with a mark that they are there; ``InvalidInput`` where a name occurs twice."""
    from pyspark.sql import functions as F  # noqa: N812

    frame = data if is_spark_frame(data) else arrow_frame(_arrow_table(data, schema), session)
    names = [name.lower() for name in frame.columns]
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise InvalidInput(f"cannot merge: the source has two columns {twice[0]!r}", column=twice[0])
    return frame.withColumn(HERE, F.lit(True))


def _arrow_table(data: object, schema: Schema) -> pa.Table:
    from esker.arrow.input.fit_data import incoming

    found = incoming(data, schema)
    return pa.Table.from_batches(found.batches(), found.schema)


# ---------------------------------------------------------------- upsert
#
# An upsert of a DataFrame as a merge: by the key's columns, null equal to null, every column from the source.


def merge_of_upsert(metadata: TableMetadata, change: RowChange) -> RowChange:
    """The upsert as a merge; ``InvalidInput`` where the frame's columns do not fit the table's."""
    key = key_schema(metadata.schema, change.key)
    frame: DataFrame = change.source
    members(metadata.schema.fields, list(arrow_schema_of(frame.schema)), (), Leniency(whole_structs=True))
    names = {name.lower(): name for name in frame.columns}
    for field in key:
        if field.name.lower() not in names:
            raise InvalidInput(f"the rows have no column {field.name!r}, which is part of the key", column=field.name)
    given = FittingNames((name, name) for name in frame.columns)
    rows = frame.select(*(_column(given, f) for f in written_fields(metadata.schema)))
    same = " AND ".join(f"t.{quote_name(f.name)} <=> s.{quote_name(f.name)}" for f in key)
    values = {f.name: SqlText.plain(f"s.{quote_name(f.name)}") for f in written_fields(metadata.schema)}
    return RowChange(
        verb=change.verb,
        on=SqlText.plain(same),
        clauses=(
            Clause(side=Side.MATCHED, action=UpdateRow(values)),
            Clause(side=Side.NOT_MATCHED, action=InsertRow(values)),
        ),
        source=rows,
        key=tuple(field.name for field in key),
    )


def _column(given: FittingNames[str], field: Field) -> Column:
    """The frame's column of that name, or what a writer fills in."""
    from pyspark.sql import functions as F  # noqa: N812

    fits = given.fits(field.name)
    made = F.col(quoted(fits[0])) if fits else stored_literal(field.type, field.write_default)
    return made.alias(field.name)
