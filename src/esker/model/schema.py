"""A table's columns at one time: found by id or by name; and name mappings, which give ids to files without them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from esker.errors import InvalidInput
from esker.model.types import Field, ListType, MapType, PrimitiveType, StructType, Type, children, is_nested

# ---------------------------------------------------------------- name mapping
#
# Column ids for files that carry none: by name, as the table's ``schema.name-mapping.default`` says.


@dataclass(frozen=True, kw_only=True)
class MappedField:
    """Names that stand for one field id. A dot in a name is part of it; nested fields have mappings of their own."""

    names: tuple[str, ...]
    field_id: int | None = None
    fields: tuple[MappedField, ...] = ()

    @cached_property
    def by_name(self) -> Mapping[str, MappedField]:
        """The nested mappings, by each of their names."""
        return {name: field for field in self.fields for name in field.names}


def mapping_of(fields: tuple[Field, ...]) -> tuple[MappedField, ...]:
    """The mapping a schema implies: every field under its present name."""
    return tuple(MappedField(names=(f.name,), field_id=f.id, fields=mapping_of(children(f.type))) for f in fields)


# ---------------------------------------------------------------- schema
#
# A table's columns at one time, and how to find one by id or by name.


MAX_FIELD_ID = 2147483447  # the 200 above are reserved for metadata columns


@dataclass(frozen=True, kw_only=True)
class Schema:
    """Columns in order, with the id of this version and the ids that identify a row."""

    fields: tuple[Field, ...]
    schema_id: int = 0
    identifier_field_ids: frozenset[int] = frozenset()

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __str__(self) -> str:
        return "\n".join(map(str, self.fields))

    @property
    def struct(self) -> StructType:
        """The columns as one struct type."""
        return StructType(self.fields)

    @cached_property
    def by_id(self) -> Mapping[int, Field]:
        """Every field at any depth, list elements and map keys and values included."""
        return {field.id: field for field, _ in walk(self.fields)}

    @cached_property
    def path_by_id(self) -> Mapping[int, tuple[Field, ...]]:
        """For every field the way down to it: its ancestors, then itself."""
        return {field.id: path for field, path in walk(self.fields)}

    @cached_property
    def name_by_id(self) -> Mapping[int, str]:
        """Dotted names: ``address.street``, ``tags.element``, ``attrs.value``."""
        return {id_: ".".join(part.name for part in path) for id_, path in self.path_by_id.items()}

    @cached_property
    def id_by_name(self) -> Mapping[str, int]:
        """Dotted name to id. The first wins where a dot inside a name makes two alike."""
        found: dict[str, int] = {}
        for id_, name in self.name_by_id.items():
            found.setdefault(name, id_)
        return found

    @cached_property
    def _ids_by_folded_name(self) -> Mapping[str, list[int]]:
        """Names without case to the ids of all that fit: many are looked up in a wide table."""
        found: dict[str, list[int]] = {}
        for name, id_ in self.id_by_name.items():
            found.setdefault(name.casefold(), []).append(id_)
        return found

    @cached_property
    def highest_id(self) -> int:
        """The largest field id in use; 0 for no columns."""
        return max(self.by_id, default=0)

    def find(self, name: str, *, case_sensitive: bool = False) -> Field:
        """The field of that dotted name; without case when only one fits, as Spark resolves names."""
        id_ = self.id_by_name.get(name)
        if id_ is None and not case_sensitive:
            fits = self._ids_by_folded_name.get(name.casefold(), [])
            if len(fits) > 1:
                names = ", ".join(sorted(self.name_by_id[i] for i in fits))
                raise InvalidInput(f"column {name!r} is ambiguous: it may mean {names}", column=name)
            id_ = fits[0] if fits else None
        if id_ is None:
            raise InvalidInput(_no_such_column(name, self), column=name)
        return self.by_id[id_]

    def in_repeated(self, field_id: int) -> bool:
        """Whether the field lies under a list or map, where one row has many values of it."""
        return any(isinstance(part.type, ListType | MapType) for part in self.path_by_id[field_id][:-1])

    def primitives(self) -> Iterator[tuple[Field, PrimitiveType]]:
        """Every leaf field with its type."""
        for field in self.by_id.values():
            if not is_nested(field.type):
                yield field, field.type  # type: ignore[misc]  # not nested: a primitive

    def select(self, columns: tuple[str, ...] | list[str], *, case_sensitive: bool = False) -> Schema:
        """The named columns, in the order asked; a dotted name keeps only that branch of its struct."""
        wanted: dict[int, set[int] | None] = {}
        for name in columns:
            path = self.path_by_id[self.find(name, case_sensitive=case_sensitive).id]
            top = path[0].id
            if len(path) == 1:
                wanted[top] = None
            elif wanted.get(top, set()) is not None:
                wanted.setdefault(top, set()).add(path[-1].id)  # type: ignore[union-attr]  # not None here
        kept = tuple(_keep_only(self.by_id[top], leaves) for top, leaves in wanted.items())
        return Schema(fields=kept, schema_id=self.schema_id)


def walk(fields: tuple[Field, ...], above: tuple[Field, ...] = ()) -> Iterator[tuple[Field, tuple[Field, ...]]]:
    """Every field at any depth with its path, parents before children."""
    waiting = [iter(fields)]  # a stack, not recursion: what a deep level yields need not climb through those above
    trail = [above]
    while waiting:
        field = next(waiting[-1], None)
        if field is None:
            waiting.pop()
            trail.pop()
            continue
        path = (*trail[-1], field)
        yield field, path
        inner = children(field.type)
        if inner:
            waiting.append(iter(inner))
            trail.append(path)


def _keep_only(field: Field, leaves: set[int] | None) -> Field:
    """The field with its struct cut down to the branches that hold ``leaves``; whole for None."""
    if leaves is None or field.id in leaves:
        return field
    return _replace_type(field, _cut(field.type, leaves))


def _cut(type_: Type, leaves: set[int]) -> Type:
    match type_:
        case StructType(fields):
            kept = tuple(_keep_only(f, leaves) for f in fields if _holds(f, leaves))
            return StructType(kept)
        case ListType(element_id=id_, element=element, element_required=required):
            inner = element if id_ in leaves else _cut(element, leaves)
            return ListType(element_id=id_, element=inner, element_required=required)
        case MapType():  # a map keeps its keys whole, or its values would have no name
            value = type_.value if {type_.value_id, type_.key_id} & leaves else _cut(type_.value, leaves)
            return MapType(
                key_id=type_.key_id,
                key=type_.key,
                value_id=type_.value_id,
                value=value,
                value_required=type_.value_required,
            )
        case _:
            return type_


def _holds(field: Field, leaves: set[int]) -> bool:
    return any(inner.id in leaves for inner, _ in walk((field,)))


def _replace_type(field: Field, type_: Type) -> Field:
    return Field(
        id=field.id,
        name=field.name,
        type=type_,
        required=field.required,
        doc=field.doc,
        initial_default=field.initial_default,
        write_default=field.write_default,
    )


def _no_such_column(name: str, schema: Schema) -> str:
    import difflib

    names = [n for n in schema.id_by_name if not n.endswith((".element", ".key"))]
    near = difflib.get_close_matches(name, names, n=3)
    if near:
        return f"no column {name!r}: did you mean {' or '.join(map(repr, near))}?"
    shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    return f"no column {name!r}: the table has {shown or 'no columns'}"
