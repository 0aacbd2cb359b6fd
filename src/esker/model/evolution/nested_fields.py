"""Fields inside nested types: find them by a dotted name, replace them, and give them new ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from esker.errors import InvalidInput
from esker.model.predicates.column import col
from esker.model.schema import MAX_FIELD_ID, Schema, walk
from esker.model.types import Field, ListType, MapType, StructType, Type, children, is_nested

# ---------------------------------------------------------------- Find a column by its dotted name, through structs,
# list elements and map values


Path = tuple[Field, ...]


def parts_of(name: str) -> tuple[str, ...]:
    """``a.b`` has two parts, ```a.b``` in backticks has one."""
    if not isinstance(name, str):
        raise InvalidInput(f"cannot use {name!r} as the name of a column: give text")
    return col(name).name.parts


def locate(schema: Schema, parts: tuple[str, ...]) -> Path:
    """The column and its ancestors, outermost first: ``points.element.x``, ``attrs.value.y``.

    Case matters only if it distinguishes two columns, like in Spark. Raises `InvalidInput` if there is no such column.
    """
    path: Path = ()
    level = schema.fields
    for part in parts:
        field = named(level, part)
        if field is None:  # perhaps a dot is part of a name; else this raises with the names that exist
            return schema.path_by_id[schema.find(".".join(parts)).id]
        path = (*path, field)
        level = children(field.type)
    return path


def named(fields: tuple[Field, ...], name: str) -> Field | None:
    """The field of that name. None if there is none, or if it is ambiguous without case."""
    exact = [field for field in fields if field.name == name]
    fits = exact or [field for field in fields if field.name.casefold() == name.casefold()]
    return fits[0] if len(fits) == 1 else None


def dotted(path: Path) -> str:
    """The path as text."""
    return ".".join(field.name for field in path)


def is_member(path: Path) -> bool:
    """Whether it is a column or a field of a struct, not an element, key or value."""
    return len(path) == 1 or not isinstance(path[-2].type, ListType | MapType)


def in_map_key(path: Path) -> bool:
    """Whether it is a map key or a part of one."""
    return any(isinstance(outer.type, MapType) and inner.id == outer.type.key_id for outer, inner in pairwise(path))


def in_repeated(path: Path) -> bool:
    """Whether it is inside a list or map, where a row has many values of it."""
    return any(isinstance(field.type, ListType | MapType) for field in path[:-1])


# ---------------------------------------------------------------- Change nested types


NextId = Callable[[], int]


class Ids:
    """New field ids, each used once. ``last`` is the highest id so far."""

    def __init__(self, last: int) -> None:
        self.last = last

    def __call__(self) -> int:
        if self.last >= MAX_FIELD_ID:
            raise InvalidInput(f"cannot number another column: ids above {MAX_FIELD_ID} are reserved")
        self.last += 1
        return self.last


def with_children(type_: Type, parts: tuple[Field, ...]) -> Type:
    """The nested type with these parts instead of its own. A primitive is returned unchanged."""
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
    """The same fields with new ids, numbered like Iceberg does: all fields of a struct, then the fields inside each."""
    ids = [next_id() for _ in fields]
    return tuple(
        replace(field, id=id_, type=fresh_type(field.type, next_id)) for id_, field in zip(ids, fields, strict=True)
    )


def fresh_type(type_: Type, next_id: NextId) -> Type:
    """The type with new ids for its parts."""
    return with_children(type_, with_fresh_ids(children(type_), next_id)) if is_nested(type_) else type_


def fresh_schema(schema: Schema) -> Schema:
    """The schema numbered from 1 for a new table. The ids of another table have no meaning in it."""
    fields = with_fresh_ids(schema.fields, Ids(0))
    renumbered = {old.id: new.id for (old, _), (new, _) in zip(walk(schema.fields), walk(fields), strict=True)}
    return Schema(fields=fields, identifier_field_ids=frozenset(renumbered[i] for i in schema.identifier_field_ids))


def replace_field(fields: tuple[Field, ...], field_id: int, change: Callable[[Field], Field]) -> tuple[Field, ...]:
    """The fields with one of them, at any depth, changed."""
    for at, field in enumerate(fields):
        if field.id == field_id:  # most are found at the first level, so the others need no search
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
    """The fields with the fields of one struct changed. ``None`` means the columns of the table."""
    if owner_id is None:
        return change(fields)
    return replace_field(fields, owner_id, lambda owner: _with_members(owner, change))


def _with_members(owner: Field, change: Callable[[tuple[Field, ...]], tuple[Field, ...]]) -> Field:
    return replace(owner, type=StructType(change(children(owner.type))))
