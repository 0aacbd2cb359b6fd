"""Read a data file or delete file, and compare its rows with what its manifest records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from esker.errors import EskerError, StorageFailed
from esker.maintain.tended_table import TendedTable
from esker.maintain.verify.findings import Finding
from esker.model.partition_and_sort import PartitionField
from esker.model.predicates.predicate import TRUE, Bound, Compare, IsNaN, Op, all_of, any_of
from esker.model.pruning.orderable import held_values, is_orderable
from esker.model.schema import Schema
from esker.model.transform import BucketTransform, Transform, UnknownTransform, VoidTransform, apply_transform
from esker.model.types import Field, FixedType, Type, UuidType, VariantType, is_floating, is_nested
from esker.model.values import from_bytes
from esker.ports.engine import ReadRequest, ScanTask
from esker.tree.data_file import DataFile, FileContent, Metrics


def check_rows(table: TendedTable, file: DataFile) -> Iterator[Finding]:
    """The findings about one file. Raises ``StorageFailed`` if the storage does not answer."""
    try:
        if file.content is FileContent.POSITION_DELETES:
            rows = sum(batch.num_rows for batch in table.engine.position_deletes(file))
            yield from _check_count(file, "rows", rows, file.record_count)
        else:
            yield from _check_columns(table, file)
    except StorageFailed:
        raise
    except EskerError as error:
        yield Finding(rule="unreadable-file", file=file.path, why=error.message)


def _check_columns(table: TendedTable, file: DataFile) -> Iterator[Finding]:
    import pyarrow.compute as pc

    metrics = file.metrics or Metrics()
    fields = [field for field in table.metadata.schema.fields if _is_compared(field)]
    counted = [field for field in fields if field.id in metrics.value_counts or field.id in metrics.null_counts]
    sources = _sources(table, file, fields)
    needed = tuple(dict.fromkeys([*counted, *(source for source, _, _ in sources)]))
    projection = Schema(fields=needed or tuple(fields[:1] or table.metadata.schema.fields[:1]))
    outside: set[int] = set()  # partition fields to which a row does not belong
    rows, nulls, nans = 0, dict.fromkeys(range(len(counted)), 0), dict.fromkeys(range(len(counted)), 0)
    for batch in table.engine.read(_request(table, file, projection, TRUE)):
        rows += batch.num_rows
        for at, field in enumerate(counted):
            nulls[at] += batch.column(at).null_count
            if is_floating(field.type):
                nans[at] += pc.sum(pc.is_nan(batch.column(at))).as_py() or 0
        for at, (source, part, value) in enumerate(sources):
            if at not in outside and not _all_in(part.transform, source.type, batch.column(source.name), value):
                outside.add(at)
    yield from _check_count(file, "rows", rows, file.record_count)
    for at, field in enumerate(counted):
        yield from _check_count(file, f"values of {field.name}", rows, metrics.value_counts.get(field.id))
        yield from _check_count(file, f"nulls of {field.name}", nulls[at], metrics.null_counts.get(field.id))
        if is_floating(field.type):
            yield from _check_count(file, f"NaNs of {field.name}", nans[at], metrics.nan_counts.get(field.id))
    for at in sorted(outside):
        source, part, value = sources[at]
        why = f"a row does not belong to {part.name} = {value!r}, which its manifest records, by its {source.name}"
        yield Finding(rule="wrong-partition", file=file.path, why=why)
    yield from _check_bounds(table, file, fields, metrics)


# ---------------------------------------------------------------- partitions


_MOST_VALUES = 10_000  # of a batch, if the partition of each value is computed


def _sources(table: TendedTable, file: DataFile, fields: Sequence[Field]) -> list[tuple[Field, PartitionField, Any]]:
    """The columns that decide the partition of a data file, with the partition field and its recorded value.

    A delete file may lack these columns. A column inside a struct, one that was dropped and an unknown transform are
    not compared.
    """
    spec = table.metadata.spec_by_id.get(file.spec_id)
    if spec is None or file.content is not FileContent.DATA or len(spec.fields) != len(file.partition):
        return []
    by_id = {field.id: field for field in fields}
    return [
        (by_id[part.source_id], part, value)
        for part, value in zip(spec.fields, file.partition, strict=True)
        if part.source_id in by_id
        and not part.other_sources
        and not isinstance(part.transform, VoidTransform | UnknownTransform)
        and is_orderable(by_id[part.source_id].type)
    ]


def _all_in(transform: Transform, type_: Type, column: pa.Array, value: Any) -> bool:
    """Whether all rows of a column belong to a partition. Of many different values, some are compared."""
    import pyarrow.compute as pc

    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if value is None or column.null_count:
        return value is None and column.null_count == len(column)
    in_order = not isinstance(transform, BucketTransform) and not is_floating(type_)
    if in_order and not isinstance(type_, UuidType | FixedType):
        ends = pc.min_max(column)  # these transforms keep the order, so the other rows are between
        chosen = pa.array([ends["min"].as_py(), ends["max"].as_py()], column.type) if len(column) else column
    else:
        chosen = pc.unique(column)[:_MOST_VALUES]
    found = (apply_transform(transform, type_, one) for one in held_values(type_, chosen))
    return all(one == value or (one != one and value != value) for one in found)


def _check_count(file: DataFile, what: str, found: int, recorded: int | None) -> Iterator[Finding]:
    if recorded is not None and recorded != found:
        why = f"it has {found} {what} where its manifest records {recorded}"
        yield Finding(rule="wrong-rows", file=file.path, why=why)


def _check_bounds(table: TendedTable, file: DataFile, fields: Sequence[Field], metrics: Metrics) -> Iterator[Finding]:
    """No row is outside of the bounds. The engine filters the rows, so bounds are compared as a scan compares them."""
    outside: dict[str, Bound] = {}
    for field in fields:
        if not is_orderable(field.type):
            continue
        try:
            terms = _outside(field, metrics.lower_bounds.get(field.id), metrics.upper_bounds.get(field.id))
        except ValueError as error:
            yield Finding(rule="wrong-bounds", file=file.path, why=f"a bound of {field.name} is no value: {error}")
            continue
        if terms:
            outside[field.name] = any_of(terms)
    if not outside or not _any_row(table, file, any_of(outside.values())):
        return
    for name, predicate in outside.items():
        if _any_row(table, file, predicate):
            why = f"a value of {name} is outside of the bounds that its manifest records"
            yield Finding(rule="wrong-bounds", file=file.path, why=why)


def _outside(field: Field, lower: bytes | None, upper: bytes | None) -> list[Bound]:
    """The terms that select values outside of the bounds. NaN is in no bound."""
    found: list[Bound] = []
    for op, bound in ((Op.LT, lower), (Op.GT, upper)):
        if bound is None:
            continue
        value = from_bytes(field.type, bound)
        if isinstance(value, float) and value != value:
            raise ValueError("it is NaN")
        term: Bound = Compare(field, op, value)
        found.append(all_of((term, IsNaN(field, negated=True))) if is_floating(field.type) else term)
    return found


def _any_row(table: TendedTable, file: DataFile, predicate: Bound) -> bool:
    projection = Schema(fields=table.metadata.schema.fields[:1])
    return any(batch.num_rows for batch in table.engine.read(_request(table, file, projection, predicate)))


def _request(table: TendedTable, file: DataFile, projection: Schema, residual: Bound) -> ReadRequest:
    rows = file if file.content is FileContent.DATA else replace(file, content=FileContent.DATA)
    return ReadRequest(
        metadata=table.metadata,
        tasks=(ScanTask(data_file=rows, residual=residual),),
        row_schema=table.metadata.schema,
        projection=projection,
    )


def _is_compared(field: Field) -> bool:
    """Whether the statistics of the column are about its rows. Those of nested columns are about their elements."""
    return not is_nested(field.type) and not isinstance(field.type, VariantType)
