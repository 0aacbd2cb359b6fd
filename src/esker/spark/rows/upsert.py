"""An upsert of a DataFrame as a merge: by the key's columns, null equal to null, every column from the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from esker.arrow.fit_columns import Leniency, members
from esker.arrow.keys import key_schema
from esker.errors import InvalidInput
from esker.model.predicate_sql import quote_name
from esker.model.types import Field
from esker.ports.merging import Clause, InsertRow, MergePlan, Side, SqlText, UpdateRow
from esker.spark.fitting_names import FittingNames
from esker.spark.frame_schema import arrow_schema_of
from esker.spark.literals import stored_literal
from esker.spark.rows.outputs import written_fields
from esker.spark.stored_columns import quoted
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def upsert_plan(metadata: TableMetadata, data: Any, on: Sequence[str]) -> MergePlan:
    """The merge that an upsert is; ``InvalidInput`` where the frame's columns do not fit the table's."""
    key = key_schema(metadata.schema, on)
    frame: DataFrame = data
    members(metadata.schema.fields, list(arrow_schema_of(frame.schema)), (), Leniency(whole_structs=True))
    names = {name.lower(): name for name in frame.columns}
    for field in key:
        if field.name.lower() not in names:
            raise InvalidInput(f"the rows have no column {field.name!r}, which is part of the key", column=field.name)
    given = FittingNames((name, name) for name in frame.columns)
    rows = frame.select(*(_column(given, f) for f in written_fields(metadata.schema)))
    same = " AND ".join(f"t.{quote_name(f.name)} <=> s.{quote_name(f.name)}" for f in key)
    values = {f.name: SqlText.plain(f"s.{quote_name(f.name)}") for f in written_fields(metadata.schema)}
    return MergePlan(
        on=SqlText.plain(same),
        clauses=(
            Clause(side=Side.MATCHED, action=UpdateRow(values)),
            Clause(side=Side.NOT_MATCHED, action=InsertRow(values)),
        ),
        source=rows,
        verb="upsert",
        key=tuple(field.name for field in key),
    )


def _column(given: FittingNames[str], field: Field) -> Column:
    """The frame's column of that name, or what a writer fills in."""
    from pyspark.sql import functions as F  # noqa: N812

    fits = given.fits(field.name)
    made = F.col(quoted(fits[0])) if fits else stored_literal(field.type, field.write_default)
    return made.alias(field.name)
