"""Create and change partition specs. Field ids grow from 1000 and are never reused for another field (F1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from esker.errors import InvalidInput
from esker.model.evolution.nested_fields import locate
from esker.model.parsing.partition_and_sort_terms import Term, parse_partition_term, source_of
from esker.model.partition_and_sort import FIRST_PARTITION_FIELD_ID, PartitionField, PartitionSpec
from esker.model.schema import Schema
from esker.model.transform import (
    VOID,
    BucketTransform,
    IdentityTransform,
    TimeTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
)

Fields = tuple[PartitionField, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """The fields of a new spec, and the highest field id that any spec of the table has used."""

    fields: Fields
    last_id: int


def new_spec(schema: Schema, terms: Iterable[str]) -> PartitionSpec:
    """The partition spec of a new table."""
    made = Partitioning(fields=(), last_id=FIRST_PARTITION_FIELD_ID - 1)
    for text in terms:
        term = parse_partition_term(text)
        source = source_of(term, schema)
        name = term.label or _short_name(schema.name_by_id[source.id], term.transform)
        made = _appended(made, schema, term, name)
    return PartitionSpec(fields=made.fields)


def add_partition(
    now: Partitioning,
    schema: Schema,
    text: str,
    name: str | None,
    *,
    started_with: Fields,
    history: Iterable[PartitionSpec],
    format_version: int,
) -> Partitioning:
    """Add one field. If an earlier spec had the same field, its id and name are used again (F1)."""
    term = parse_partition_term(text)
    label = name or term.label
    source = source_of(term, schema)
    # v1 identifies fields only by position. So only a field that this change dropped can be restored.
    earlier = [started_with] if format_version == 1 else [spec.fields for spec in history]
    for field in (field for fields in earlier for field in fields):
        if (field.source_id, field.transform) == (source.id, term.transform) and label in (None, field.name):
            return _taken_again(now, schema, term, field)
    chosen = label or _long_name(schema.name_by_id[source.id], term.transform)
    return _appended(now, schema, term, chosen)


def drop_partition(now: Partitioning, schema: Schema, what: str, format_version: int) -> Partitioning:
    """Drop one field, by its name or its term. In v1 it keeps its position, as void (F2)."""
    field = _find(now.fields, schema, what)
    if format_version > 1:
        return replace(now, fields=tuple(other for other in now.fields if other is not field))
    if isinstance(field.transform, VoidTransform):
        raise InvalidInput(f"cannot drop partition field {what!r}: it is dropped already", partition=what)
    voided = replace(field, transform=VOID)
    return replace(now, fields=tuple(voided if other is field else other for other in now.fields))


def check_column_name(fields: Fields, schema: Schema, field_id: int) -> None:
    """Raise `InvalidInput` if a column gets the name of a partition field that is not the identity of that column.

    In v1, a dropped field of a dropped column keeps its position. It has no values, so its name is allowed.
    """
    if not fields:  # this loop needs the names of all columns: skip it for each column that is added to a wide table
        return
    name = schema.name_by_id[field_id]
    for field in fields:
        if _is_void(field) and field.source_id not in schema.by_id:
            continue
        if field.name.casefold() == name.casefold() and not _is_identity_of(field, field_id):
            raise InvalidInput(
                f"cannot name a column {name!r}: a partition field made of "
                f"{schema.name_by_id.get(field.source_id, 'a dropped column')!r} has that name",
                column=name,
            )


def same_layout(one: Fields, other: Fields) -> bool:
    """Whether two specs are equal: the same sources, transforms and names in order (D5)."""
    return [_layout(field) for field in one] == [_layout(field) for field in other]


def _layout(field: PartitionField) -> tuple[object, ...]:
    return field.source_id, field.other_sources, field.transform, field.name


def _appended(now: Partitioning, schema: Schema, term: Term, name: str) -> Partitioning:
    source_id = source_of(term, schema).id
    field = PartitionField(source_id=source_id, field_id=now.last_id + 1, name=name, transform=term.transform)
    fields = _free_for(now.fields, schema, term, field)
    return Partitioning(fields=(*fields, field), last_id=field.field_id)


def _taken_again(now: Partitioning, schema: Schema, term: Term, field: PartitionField) -> Partitioning:
    voided = [at for at, other in enumerate(now.fields) if other.field_id == field.field_id and _is_void(other)]
    if voided:
        rest = tuple(other for at, other in enumerate(now.fields) if at != voided[0])
        _free_for(rest, schema, term, field)
        return replace(now, fields=(*now.fields[: voided[0]], field, *now.fields[voided[0] + 1 :]))
    return replace(now, fields=(*_free_for(now.fields, schema, term, field), field))


def _free_for(fields: Fields, schema: Schema, term: Term, new: PartitionField) -> Fields:
    """The fields that a new field can join. A void field with its name is renamed. Raises ``InvalidInput`` on a
    clash."""
    for field in fields:
        if field.source_id == new.source_id and _same_purpose(field.transform, new.transform):
            raise InvalidInput(
                f"cannot partition by {term.text!r}: the table is partitioned by {field.transform} of that column "
                f"already, as {field.name!r}",
                partition=term.text,
            )
    column = _column_named(schema, new.name)
    if column is not None and not _is_identity_of(new, column):
        raise InvalidInput(
            f"cannot partition by {term.text!r} as {new.name!r}: a column has that name; give another",
            partition=term.text,
        )
    return tuple(_aside(field, new, term) for field in fields)


def _aside(field: PartitionField, new: PartitionField, term: Term) -> PartitionField:
    if field.name.casefold() != new.name.casefold():
        return field
    if _is_void(field):
        return replace(field, name=f"{field.name}_{field.field_id}")
    raise InvalidInput(
        f"cannot partition by {term.text!r} as {new.name!r}: another partition field has that name; give another",
        partition=term.text,
    )


def _same_purpose(one: Transform, other: Transform) -> bool:
    """Whether both have the same transform, or both are time transforms: the finer one includes the coarser one."""
    if isinstance(one, VoidTransform) or isinstance(other, VoidTransform):
        return False
    return one == other or (isinstance(one, TimeTransform) and isinstance(other, TimeTransform))


def _find(fields: Fields, schema: Schema, what: str) -> PartitionField:
    by_name = [f for f in fields if f.name == what] or [f for f in fields if f.name.casefold() == what.casefold()]
    if len(by_name) == 1:
        return by_name[0]
    shown = ", ".join(field.name for field in fields if not _is_void(field)) or "none"
    try:
        term = parse_partition_term(what)
        source_id = locate(schema, term.column.parts)[-1].id
    except InvalidInput:
        raise InvalidInput(f"no partition field {what!r}: the table has {shown}", partition=what) from None
    for field in fields:
        if (field.source_id, field.transform) == (source_id, term.transform):
            return field
    raise InvalidInput(f"no partition field {what!r}: the table has {shown}", partition=what)


def _column_named(schema: Schema, name: str) -> int | None:
    fits = [id_ for known, id_ in schema.id_by_name.items() if known.casefold() == name.casefold()]
    return fits[0] if fits else None


def _is_identity_of(field: PartitionField, column_id: int) -> bool:
    return field.source_id == column_id and isinstance(field.transform, IdentityTransform | VoidTransform)


def _is_void(field: PartitionField) -> bool:
    return isinstance(field.transform, VoidTransform)


def _short_name(column: str, transform: Transform) -> str:
    """Iceberg's name for a partition field of a new table."""
    match transform:
        case IdentityTransform():
            return column
        case BucketTransform():
            return f"{column}_bucket"
        case TruncateTransform():
            return f"{column}_trunc"
        case VoidTransform():
            return f"{column}_null"
        case _:
            return f"{column}_{transform}"


def _long_name(column: str, transform: Transform) -> str:
    """Iceberg's name for a field that is added later: with its size, so that two sizes have different names."""
    match transform:
        case BucketTransform(size) | TruncateTransform(size):
            return f"{_short_name(column, transform)}_{size}"
        case _:
            return _short_name(column, transform)
