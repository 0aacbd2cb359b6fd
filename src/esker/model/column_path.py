"""Where a column lies: a dotted name followed down structs, list elements and map values."""

from __future__ import annotations

from itertools import pairwise

from esker.errors import InvalidInput
from esker.model.column import col
from esker.model.schema import Schema
from esker.model.types import Field, ListType, MapType, children

Path = tuple[Field, ...]


def parts_of(name: str) -> tuple[str, ...]:
    """``a.b`` in two parts, ```a.b``` in one."""
    if not isinstance(name, str):
        raise InvalidInput(f"{name!r} is not the name of a column: give text")
    return col(name).name.parts


def locate(schema: Schema, parts: tuple[str, ...]) -> Path:
    """The column and what it lies in, outermost first: ``points.element.x``, ``attrs.value.y``.

    Case is only looked at where it tells two apart, as Spark resolves names.
    """
    path: Path = ()
    level = schema.fields
    for part in parts:
        field = named(level, part)
        if field is None:  # perhaps a dot is part of a name; else this says what there is
            return schema.path_by_id[schema.find(".".join(parts)).id]
        path = (*path, field)
        level = children(field.type)
    return path


def named(fields: tuple[Field, ...], name: str) -> Field | None:
    """The one field of that name; None where there is none, or case leaves it open which."""
    exact = [field for field in fields if field.name == name]
    fits = exact or [field for field in fields if field.name.casefold() == name.casefold()]
    return fits[0] if len(fits) == 1 else None


def dotted(path: Path) -> str:
    """The path as a person reads it."""
    return ".".join(field.name for field in path)


def is_member(path: Path) -> bool:
    """Whether it is a column or a member of a struct, with a name of its own, rather than an element, key or value."""
    return len(path) == 1 or not isinstance(path[-2].type, ListType | MapType)


def in_map_key(path: Path) -> bool:
    """Whether it is the key of a map or a part of one."""
    return any(isinstance(outer.type, MapType) and inner.id == outer.type.key_id for outer, inner in pairwise(path))


def in_repeated(path: Path) -> bool:
    """Whether it lies under a list or map, where one row has many values of it."""
    return any(isinstance(field.type, ListType | MapType) for field in path[:-1])
