"""Nested types taken apart and put together again: fresh ids, and one field of many changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from esker.errors import InvalidInput
from esker.model.schema import MAX_FIELD_ID, Schema, walk
from esker.model.types import Field, ListType, MapType, StructType, Type, children, is_nested

NextId = Callable[[], int]


class Ids:
    """Field ids from one on, never the same twice; ``last`` is the highest given out."""

    def __init__(self, last: int) -> None:
        self.last = last

    def __call__(self) -> int:
        if self.last >= MAX_FIELD_ID:
            raise InvalidInput(f"cannot number another column: ids above {MAX_FIELD_ID} are reserved")
        self.last += 1
        return self.last


def with_children(type_: Type, parts: tuple[Field, ...]) -> Type:
    """The nested type again, of these parts in place of its own; a primitive as it is."""
    match type_:
        case StructType():
            return StructType(parts)
        case ListType():
            return ListType(element_id=parts[0].id, element=parts[0].type, element_required=parts[0].required)
        case MapType():
            key, value = parts
            return MapType(
                key_id=key.id, key=key.type, value_id=value.id, value=value.type, value_required=value.required
            )
        case _:
            return type_


def with_fresh_ids(fields: tuple[Field, ...], next_id: NextId) -> tuple[Field, ...]:
    """The same fields under new ids, as Iceberg gives them: all members of a struct, then what is inside each."""
    ids = [next_id() for _ in fields]
    return tuple(
        replace(field, id=id_, type=fresh_type(field.type, next_id)) for id_, field in zip(ids, fields, strict=True)
    )


def fresh_type(type_: Type, next_id: NextId) -> Type:
    """A type whose parts have new ids."""
    return with_children(type_, with_fresh_ids(children(type_), next_id)) if is_nested(type_) else type_


def fresh_schema(schema: Schema) -> Schema:
    """A schema numbered from 1, as a new table's is: ids of another table mean nothing here."""
    fields = with_fresh_ids(schema.fields, Ids(0))
    renumbered = {old.id: new.id for (old, _), (new, _) in zip(walk(schema.fields), walk(fields), strict=True)}
    return Schema(fields=fields, identifier_field_ids=frozenset(renumbered[i] for i in schema.identifier_field_ids))


def replace_field(fields: tuple[Field, ...], field_id: int, change: Callable[[Field], Field]) -> tuple[Field, ...]:
    """The fields with one of them, at any depth, changed."""
    for at, field in enumerate(fields):
        if field.id == field_id:  # most are found at the first level, and the others need not be looked into
            return (*fields[:at], change(field), *fields[at + 1 :])
    return tuple(
        replace(field, type=with_children(field.type, replace_field(children(field.type), field_id, change)))
        if is_nested(field.type)
        else field
        for field in fields
    )


def replace_members(
    fields: tuple[Field, ...], owner_id: int | None, change: Callable[[tuple[Field, ...]], tuple[Field, ...]]
) -> tuple[Field, ...]:
    """The fields with the members of one struct changed; ``None`` stands for the table's own columns."""
    if owner_id is None:
        return change(fields)
    return replace_field(fields, owner_id, lambda owner: _with_members(owner, change))


def _with_members(owner: Field, change: Callable[[tuple[Field, ...]], tuple[Field, ...]]) -> Field:
    return replace(owner, type=StructType(change(children(owner.type))))
