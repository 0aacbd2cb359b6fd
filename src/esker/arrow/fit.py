"""From any data a user hands over to a stream of exactly the table's types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

import pyarrow as pa

from esker.arrow.fit_columns import Leniency, Member, members
from esker.arrow.fit_values import Misfit
from esker.arrow.incoming import Incoming, check_text, incoming
from esker.arrow.types import to_arrow_schema
from esker.errors import InvalidInput
from esker.model.schema import Schema


def fit(schema: Schema, data: object) -> pa.RecordBatchReader:
    """The data as rows of the schema. ``InvalidInput`` names the column that does not fit, and the row.

    What the schemas alone tell is refused here. Values are checked as the stream is read; those that are in memory
    already are also checked here, so that nothing at all is written for them.
    """
    return _fitted(schema, incoming(data, schema))


def fit_some(schema: Schema, data: object, full: Schema) -> pa.RecordBatchReader:
    """The columns of ``schema`` out of data that may have others of the table's besides."""
    source = incoming(data, full)
    names = [field.name for field in schema]
    there = frozenset(source.schema.names)
    missing = [name for name in names if name not in there]
    if missing:
        raise InvalidInput(f"the rows have no column {missing[0]!r}, which is part of the key", column=missing[0])
    picked = pa.schema([source.schema.field(name) for name in names])
    return _fitted(
        schema, replace(source, schema=picked, batches=lambda: (batch.select(names) for batch in source.batches()))
    )


def _fitted(schema: Schema, source: Incoming) -> pa.RecordBatchReader:
    lenient = Leniency(whole_floats=source.whole_floats, round_floats=source.round_floats)
    made = members(schema.fields, list(source.schema), (), lenient)
    if source.again:
        for _ in _batches(source, made, schema):
            pass
    return pa.RecordBatchReader.from_batches(to_arrow_schema(schema.fields), _batches(source, made, schema))


def fit_batches(schema: Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of one schema as rows of the table's, for a worker: its rows have no number that anyone knows them by."""
    coming = iter(batches)
    first = next(coming, None)
    if first is None:
        return
    made = members(schema.fields, list(first.schema), (), Leniency())
    target = to_arrow_schema(schema.fields)
    for batch in chain((first,), coming):
        check_text(batch)
        try:
            columns = batch.columns  # made by every look: once, or the cost grows with the square of them
            arrays = [member.array(columns, batch.num_rows) for member in made]
        except Misfit as misfit:
            raise _refusal(Misfit(misfit.why, None, misfit.inside), 0) from None
        yield pa.record_batch(arrays, schema=target)


def _batches(source: Incoming, made: tuple[Member, ...], schema: Schema) -> Iterator[pa.RecordBatch]:
    target = to_arrow_schema(schema.fields)
    row = 0
    for batch in source.batches():
        try:
            columns = batch.columns  # made by every look: once, or the cost grows with the square of them
            arrays = [member.array(columns, batch.num_rows) for member in made]
        except Misfit as misfit:
            raise _refusal(misfit, row) from None
        row += batch.num_rows
        yield pa.record_batch(arrays, schema=target)


def _refusal(misfit: Misfit, row: int) -> InvalidInput:
    column = ".".join(misfit.inside)
    where = "" if misfit.at is None else f" in row {row + misfit.at}"
    facts = {} if misfit.at is None else {"row": row + misfit.at}
    return InvalidInput(f"column {column!r} does not fit{where}: {misfit.why}", column=column, **facts)
