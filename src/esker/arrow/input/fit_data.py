"""Data in any form that a user passes, as a stream of batches with exactly the table's types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any
from uuid import UUID

import pyarrow as pa

from esker.arrow.arrow_types import to_arrow_schema
from esker.arrow.input.fit_columns import Leniency, Member, members
from esker.arrow.input.fit_values import Misfit
from esker.errors import InvalidInput
from esker.model.schema import Schema
from esker.model.types import MapType, Type, VariantType, children
from esker.model.variant import encode

# ---------------------------------------------------------------- Any data as an Arrow schema and batches


_PIECE_ROWS, _PIECE_BYTES = 1 << 16, 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """Rows to write.

    ``again``: all rows are in memory and can be checked before they are written. ``whole_floats``: a column of whole
    floats may mean integers, because pandas stores integers with nulls as floats. ``round_floats``: the width of floats
    was not chosen by the user, as in Python rows.
    """

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
    again: bool = False
    whole_floats: bool = False
    round_floats: bool = False


def incoming(data: Any, schema: Schema) -> Incoming:
    """Rows from Arrow data, pandas, or Python lists and dicts. Raises `InvalidInput` for other types."""
    if isinstance(data, pa.Table):
        return _of_table(data)
    if isinstance(data, pa.RecordBatch):
        return _of_table(pa.Table.from_batches([data]))
    if isinstance(data, pa.RecordBatchReader):
        return _of_reader(data)
    if _is_pandas(data):
        return _of_pandas(data)
    if hasattr(data, "__arrow_c_stream__"):
        return _of_reader(_told(lambda: pa.RecordBatchReader.from_stream(data)))
    if hasattr(data, "__arrow_c_array__"):
        return _of_table(_told(lambda: pa.Table.from_batches([pa.record_batch(data)])))
    if callable(getattr(data, "to_reader", None)):  # a pyarrow scanner
        return _of_reader(_told(data.to_reader))
    if callable(getattr(data, "scanner", None)):  # a pyarrow dataset
        return _of_reader(_told(data.scanner().to_reader))
    if isinstance(data, Mapping):
        return _of_columns({str(name): list(values) for name, values in data.items()}, schema)
    if isinstance(data, Sequence) and all(isinstance(row, Mapping) for row in data):
        return _of_rows(data, schema)
    raise InvalidInput(
        f"cannot write rows from {_kind(data)}: give a pyarrow table or reader, pandas, anything with "
        "__arrow_c_stream__ (Polars, DuckDB), or a list of dicts"
    )


def _kind(data: object) -> str:
    return f"a {type(data).__module__.split('.')[0]} {type(data).__name__}".replace("a builtins ", "a ")


def _is_pandas(data: object) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas" and type(data).__name__ == "DataFrame"


def _of_table(table: pa.Table, **more: bool) -> Incoming:
    _check_sound(table)
    return Incoming(schema=table.schema, batches=lambda: _pieces(iter(table.to_batches())), again=True, **more)


def _of_reader(reader: pa.RecordBatchReader) -> Incoming:
    return Incoming(schema=reader.schema, batches=lambda: _pieces(_read(reader)))


def _read(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except pa.ArrowException as error:
            raise InvalidInput(f"cannot read the rows to write: {error}") from error
        _check_sound(batch)
        yield batch


def check_text(batch: pa.RecordBatch) -> None:
    """Check the text of data from Spark: its other values are valid, but it makes any bytes a string."""
    _check_sound(batch.select([field.name for field in batch.schema if _has_text(field.type)]))


def _has_text(type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return any(_has_text(type_.field(at).type) for at in range(type_.num_fields))
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _check_sound(data: pa.Table | pa.RecordBatch) -> None:
    """Raise `InvalidInput` for invalid data: text that is not UTF-8, offsets out of bounds, times of 25 hours."""
    for name, column in zip(data.schema.names, data.columns, strict=True):
        try:
            column.validate(full=True)
        except (pa.ArrowException, ValueError) as error:
            why = str(error).splitlines()[0]
            raise InvalidInput(f"column {name!r} does not fit: its data is not valid: {why}", column=name) from None


def _of_pandas(frame: Any) -> Incoming:
    names = [str(name) for name in frame.columns]
    table = _told(lambda: pa.Table.from_pandas(frame, preserve_index=False)).rename_columns(names)
    return _of_table(table.replace_schema_metadata(None), whole_floats=True)


def _of_rows(rows: Sequence[Mapping[Any, Any]], schema: Schema) -> Incoming:
    names = dict.fromkeys(str(name) for row in rows for name in row)
    return _of_columns({name: [row.get(name) for row in rows] for name in names}, schema)


def _of_columns(columns: Mapping[str, list[Any]], schema: Schema) -> Incoming:
    types = {field.name: field.type for field in schema}
    arrays = [_column(name, values, types.get(name)) for name, values in columns.items()]
    if len({len(array) for array in arrays}) > 1:
        raise InvalidInput("cannot write columns of different lengths as rows")
    table = pa.Table.from_arrays(arrays, names=list(columns))
    return _of_table(table, whole_floats=True, round_floats=True)


def _column(name: str, values: list[Any], type_: Type | None) -> pa.Array:
    try:
        return pa.array([value if type_ is None else _as_written(value, type_) for value in values])
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"cannot write column {name!r}: its values do not have one type: {error}", column=name
        ) from None


def _as_written(value: Any, type_: Type) -> Any:
    """A Python value in a form for which pyarrow infers the right type: for pyarrow a dict is a struct, but it may
    be a map."""
    if isinstance(type_, VariantType):
        return _encoded(value)
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(type_, MapType) and isinstance(value, Mapping):
        return [{"key": _as_written(k, type_.key), "value": _as_written(v, type_.value)} for k, v in value.items()]
    inner = children(type_)
    if isinstance(value, Mapping):
        types = {field.name: field.type for field in inner}
        return {key: _as_written(part, types[key]) if key in types else part for key, part in value.items()}
    if isinstance(value, list | tuple) and len(inner) == 1:
        return [_as_written(part, inner[0].type) for part in value]
    return value


def _encoded(value: Any) -> Any:
    """The two binaries of a variant, from any value. Returned unchanged if they are given as binaries."""
    if value is None or (
        isinstance(value, Mapping)
        and value.keys() == {"metadata", "value"}
        and all(isinstance(part, bytes) for part in value.values())
    ):
        return value
    metadata, data = encode(value)
    return {"metadata": metadata, "value": data}


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Slices of limited size, from batches of any size."""
    for batch in batches:
        per_row = max(1, batch.nbytes // max(1, batch.num_rows))
        rows = max(1, min(_PIECE_ROWS, _PIECE_BYTES // per_row))
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def _told(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"cannot read the data as Arrow columns: {error}") from error


# ---------------------------------------------------------------- Rows of the table


def fit(schema: Schema, data: object) -> pa.RecordBatchReader:
    """The data as rows of the schema. Raises ``InvalidInput`` with the column that does not fit, and the row.

    Faults in the schemas are raised here. Values are checked when the stream is read. Values in memory are also checked
    here, so that nothing is written if one does not fit.
    """
    return _fitted(schema, incoming(data, schema))


def fit_some(schema: Schema, data: object, full: Schema) -> pa.RecordBatchReader:
    """The columns of ``schema`` from data that may have other columns of the table too."""
    source = incoming(data, full)
    names = [field.name for field in schema]
    there = frozenset(source.schema.names)
    missing = [name for name in names if name not in there]
    if missing:
        raise InvalidInput(
            f"cannot use the rows: they have no column {missing[0]!r}, which is part of the key", column=missing[0]
        )
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
    """Batches of one schema as rows of the table, for a worker. Errors name no row number, because a worker's rows
    have none."""
    coming = iter(batches)
    first = next(coming, None)
    if first is None:
        return
    made = members(schema.fields, list(first.schema), (), Leniency())
    target = to_arrow_schema(schema.fields)
    for batch in chain((first,), coming):
        check_text(batch)
        try:
            columns = batch.columns  # creates a list each time: read it once, or the cost is quadratic
            arrays = [member.array(columns, batch.num_rows) for member in made]
        except Misfit as misfit:
            raise _refusal(Misfit(misfit.why, None, misfit.inside), 0) from None
        yield pa.record_batch(arrays, schema=target)


def _batches(source: Incoming, made: tuple[Member, ...], schema: Schema) -> Iterator[pa.RecordBatch]:
    target = to_arrow_schema(schema.fields)
    row = 0
    for batch in source.batches():
        try:
            columns = batch.columns  # creates a list each time: read it once, or the cost is quadratic
            arrays = [member.array(columns, batch.num_rows) for member in made]
        except Misfit as misfit:
            raise _refusal(misfit, row) from None
        row += batch.num_rows
        yield pa.record_batch(arrays, schema=target)


def _refusal(misfit: Misfit, row: int) -> InvalidInput:
    column = ".".join(misfit.inside)
    where = "" if misfit.at is None else f" in row {row + misfit.at}"
    facts = {} if misfit.at is None else {"row": row + misfit.at}
    return InvalidInput(
        f"cannot write the rows: column {column!r} does not fit{where}: {misfit.why}", column=column, **facts
    )
