"""Changes of a schema, each a function from the old schema to the new one.

Data files identify columns by field id, so no change rewrites rows. Ids are kept or new, and never those of another
column (D5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from esker.errors import InvalidInput
from esker.model.evolution.nested_fields import (
    Ids,
    Path,
    dotted,
    fresh_type,
    in_map_key,
    is_member,
    locate,
    named,
    parts_of,
    replace_field,
    replace_members,
    with_fresh_ids,
)
from esker.model.evolution.schema_rules import (
    RULE,
    RULE_V3,
    can_promote,
    check_depth,
    check_identifiers,
    check_name,
    check_siblings,
    check_version,
    promoted_value,
)
from esker.model.parsing.cast import held_default
from esker.model.schema import Schema, walk
from esker.model.types import Field, ListType, MapType, StructType, Type, children

Members = tuple[Field, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a column goes among its siblings. By default last."""

    first: bool = False
    after: str | None = None
    before: str | None = None

    def check(self, *, needed: bool = False) -> None:
        """Raise `InvalidInput` if more than one place is given, or none where a move needs one."""
        said = sum((self.first, self.after is not None, self.before is not None))
        if said > 1 or (needed and not said):
            raise InvalidInput("cannot place the column: give exactly one of first=True, after=… and before=…")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewColumn:
    """A column to add. The parts of its type get ids when it is added."""

    name: str
    type: Type
    required: bool = False
    doc: str | None = None
    default: Any = None
    place: Place = Place()


def add_column(schema: Schema, column: NewColumn, ids: Ids, format_version: int) -> tuple[Schema, Field]:
    """The schema with one more column, and the column. If the name has dots, the column is added to a struct."""
    column.place.check()
    *above, name = parts_of(column.name)
    owners = _owners(schema, tuple(above), column.name)
    siblings = children(owners[-1].type) if owners else schema.fields
    check_name(name, column.name)
    _check_free(siblings, name, column.name)
    field = _new_field(column, name, ids, format_version)
    _check_depth(owners, field)
    fields = replace_members(
        schema.fields, owners[-1].id if owners else None, lambda members: _put(members, field, column.place)
    )
    return _with(schema, fields), field


def _new_field(column: NewColumn, name: str, ids: Ids, format_version: int) -> Field:
    field = Field(id=0, name=name, type=column.type, required=column.required, doc=column.doc)
    held = held_default(field, column.default)
    if column.required and held is None:
        raise InvalidInput(
            f"cannot add required column {column.name!r}: existing rows have no value for it; "
            "give it a default (format version 3), or add it as optional",
            column=column.name,
        )
    (field,) = with_fresh_ids((replace(field, initial_default=held, write_default=held),), ids)
    _check_inside(field, column.name, format_version)
    return field


def _check_inside(field: Field, shown: str, format_version: int) -> None:
    for inner, path in walk((field,)):
        name = ".".join((shown, *(part.name for part in path[1:])))
        check_version(inner, name, format_version)
        if len(path) > 1:
            check_name(inner.name, name)
        if isinstance(inner.type, StructType):
            check_siblings(inner.type.fields, name)


def _check_depth(above: Path, field: Field) -> None:
    for _, path in walk((field,), above):
        check_depth(path)


def _owners(schema: Schema, above: tuple[str, ...], shown: str) -> Path:
    """The path to the struct that gets the column. For a list or map of structs, the struct inside."""
    if not above:
        return ()
    path = locate(schema, above)
    match path[-1].type:
        case ListType() as found:
            path = (*path, found.element_field)
        case MapType() as found:
            path = (*path, found.value_field)
    if not isinstance(path[-1].type, StructType):
        raise InvalidInput(
            f"cannot add column {shown!r}: {dotted(path)!r} is a {path[-1].type}, not a struct", column=shown
        )
    if in_map_key(path):
        raise InvalidInput(f"cannot add column {shown!r}: the keys of a map do not change", column=shown)
    return path


def drop_column(schema: Schema, name: str, uses: Mapping[int, str]) -> tuple[Schema, Path]:
    """The schema without a column, and the path to it. ``uses`` has the uses of a field that forbid it, by field id."""
    path = _path_to_change(schema, name, "drop")
    gone = {field.id: dotted((*path[:-1], *inner)) for field, inner in walk((path[-1],))}
    for field_id, shown in gone.items():
        if field_id in schema.identifier_field_ids:
            raise InvalidInput(f"cannot drop column {name!r}: rows are identified by {shown!r}", column=name)
        if field_id in uses:
            raise InvalidInput(f"cannot drop column {name!r}: {uses[field_id]} is made of {shown!r}", column=name)
    if len(path) > 1 and len(children(path[-2].type)) == 1:
        raise InvalidInput(
            f"cannot drop column {name!r}: a struct without members cannot be written; drop the struct", column=name
        )
    keep = lambda members: tuple(field for field in members if field.id != path[-1].id)  # noqa: E731
    return _with(schema, replace_members(schema.fields, _owner_id(path), keep)), path


def rename_column(schema: Schema, old: str, new: str) -> tuple[Schema, Path]:
    """The schema with a renamed column, and the path to it with its old name."""
    path = _path_to_change(schema, old, "rename")
    *above, name = parts_of(new)
    if above and tuple(above) != tuple(field.name for field in path[:-1]):
        raise InvalidInput(
            f"cannot rename column {old!r} to {new!r}: a column cannot move out of its struct; give a name without "
            "dots",
            column=old,
        )
    check_name(name, name if len(path) == 1 else dotted((*path[:-1], replace(path[-1], name=name))))
    siblings = tuple(field for field in _siblings(schema, path) if field.id != path[-1].id)
    _check_free(siblings, name, new)
    return _changed(schema, path[-1].id, name=name), path


def widen_column(schema: Schema, name: str, new: Type, ids: Ids, format_version: int) -> tuple[Schema, Field, Field]:
    """The schema with a wider type of a column, and the column before and after."""
    path = locate(schema, parts_of(name))
    old = path[-1]
    if in_map_key(path):
        raise InvalidInput(f"cannot widen column {name!r}: the keys of a map do not change", column=name)
    if old.type == new:
        return schema, old, old
    if not can_promote(old.type, new, format_version):
        later = format_version < 3 and can_promote(old.type, new, 3)
        rule = RULE_V3 if format_version >= 3 else RULE
        why = "this needs format version 3" if later else f"the allowed changes are {rule}"
        raise InvalidInput(f"cannot widen column {name!r} from {old.type} to {new}: {why}", column=name)
    wider = replace(
        old,
        type=fresh_type(new, ids),
        initial_default=promoted_value(old, new, old.initial_default),
        write_default=promoted_value(old, new, old.write_default),
    )
    _check_inside(wider, name, format_version)
    _check_depth(path[:-1], wider)
    return _with(schema, replace_field(schema.fields, old.id, lambda _: wider)), old, wider


def move_column(schema: Schema, name: str, place: Place) -> Schema:
    """The schema with a column at another place among its siblings."""
    place.check(needed=True)
    path = _path_to_change(schema, name, "move")
    field = path[-1]

    def moved(members: Members) -> Members:
        rest = tuple(member for member in members if member.id != field.id)
        return _put(rest, field, place, dotted(path[:-1]))

    return _with(schema, replace_members(schema.fields, _owner_id(path), moved))


def make_optional(schema: Schema, name: str) -> Schema:
    """The schema with an optional column."""
    path = locate(schema, parts_of(name))
    if in_map_key(path):
        raise InvalidInput(f"cannot make {name!r} optional: the keys of a map are never null", column=name)
    for field_id in schema.identifier_field_ids:
        if path[-1] in schema.path_by_id[field_id]:
            shown = schema.name_by_id[field_id]
            raise InvalidInput(f"cannot make column {name!r} optional: rows are identified by {shown!r}", column=name)
    return _changed(schema, path[-1].id, required=False)


def make_required(schema: Schema, name: str) -> tuple[Schema, Field]:
    """The schema with a required column, and the column as it was. The caller checks that no row is null."""
    path = _path_to_change(schema, name, "make required")
    if schema.in_repeated(path[-1].id):
        raise InvalidInput(f"cannot make column {name!r} required: it is inside a list or map", column=name)
    return _changed(schema, path[-1].id, required=True), path[-1]


def set_default(schema: Schema, name: str, value: Any, format_version: int) -> Schema:
    """The schema with another default for new rows. The value in old rows never changes (E4)."""
    path = _path_to_change(schema, name, "give a default to")
    field = path[-1]
    held = held_default(field, value)
    if held is None and field.required and field.initial_default is not None:
        raise InvalidInput(f"cannot remove the default of column {name!r}: it was added as required", column=name)
    check_version(replace(field, write_default=held), name, format_version)
    return _changed(schema, field.id, write_default=held)


def set_doc(schema: Schema, name: str, doc: str | None) -> Schema:
    """The schema with another comment on a column."""
    return _changed(schema, _path_to_change(schema, name, "comment on")[-1].id, doc=doc)


def set_identifier_fields(schema: Schema, names: Iterable[str]) -> Schema:
    """The schema with these identifier columns, or with none (E8)."""
    ids = frozenset(locate(schema, parts_of(name))[-1].id for name in names)
    changed = Schema(fields=schema.fields, schema_id=schema.schema_id, identifier_field_ids=ids)
    check_identifiers(changed)
    return changed


def _path_to_change(schema: Schema, name: str, verb: str) -> Path:
    """The path to a column that may change: not an element, key or value, and not inside a map key."""
    path = locate(schema, parts_of(name))
    if in_map_key(path):
        raise InvalidInput(f"cannot {verb} column {name!r}: the keys of a map do not change", column=name)
    if not is_member(path):
        raise InvalidInput(f"cannot {verb} {name!r}: it is a part of {dotted(path[:-1])!r}, not a column", column=name)
    return path


def _put(members: Members, field: Field, place: Place, above: str = "") -> Members:
    if place.first:
        return (field, *members)
    mark = place.after if place.after is not None else place.before
    if mark is None:
        return (*members, field)
    sibling = named(members, parts_of(mark)[-1])
    if sibling is None:
        inside = f" in {above!r}" if above else ""
        raise InvalidInput(f"cannot put column {field.name!r} beside {mark!r}: there is no such column{inside}")
    at = members.index(sibling) + (place.after is not None)
    return (*members[:at], field, *members[at:])


def _check_free(siblings: Members, name: str, shown: str) -> None:
    folded = name.casefold()
    for field in siblings:
        if field.name.casefold() == folded:
            like = (
                "" if field.name == name else f" as {field.name!r}, and names that differ only in case are not allowed"
            )
            raise InvalidInput(f"cannot name a column {shown!r}: it exists already{like}", column=shown)


def _siblings(schema: Schema, path: Path) -> Members:
    return schema.fields if len(path) == 1 else children(path[-2].type)


def _owner_id(path: Path) -> int | None:
    return path[-2].id if len(path) > 1 else None


def _changed(schema: Schema, field_id: int, **changes: Any) -> Schema:
    return _with(schema, replace_field(schema.fields, field_id, lambda field: replace(field, **changes)))


def _with(schema: Schema, fields: Members) -> Schema:
    return Schema(fields=fields, schema_id=schema.schema_id, identifier_field_ids=schema.identifier_field_ids)
