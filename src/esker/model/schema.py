"""A table's columns, found by id or by name. Also name mappings, which give ids to files without field ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from esker.errors import InvalidInput
from esker.model.types import Field, ListType, MapType, PrimitiveType, StructType, Type, children, is_nested

# ---------------------------------------------------------------- Name mappings, from the property
# ``schema.name-mapping.default``


@dataclass(frozen=True, kw_only=True)
class MappedField:
    """The names of one field id. A dot is part of a name; nested fields have their own mappings."""

    names: tuple[str, ...]
    field_id: int | None = None
    fields: tuple[MappedField, ...] = ()

    @cached_property
    def by_name(self) -> Mapping[str, MappedField]:
        """The nested mappings, by each of their names."""
        return {name: field for field in self.fields for name in field.names}


def mapping_of(fields: tuple[Field, ...]) -> tuple[MappedField, ...]:
    """The mapping of a schema: every field by its current name."""
    return tuple(MappedField(names=(f.name,), field_id=f.id, fields=mapping_of(children(f.type))) for f in fields)


# ---------------------------------------------------------------- Schemas


MAX_FIELD_ID = 2147483447  # the 200 ids above are reserved for metadata columns


@dataclass(frozen=True, kw_only=True)
class Schema:
    """Columns in order, with the id of this schema and the ids of the identifier columns."""

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
        """Every field at any depth by id, including list elements and map keys and values."""
        return {field.id: field for field, _ in walk(self.fields)}

    @cached_property
    def path_by_id(self) -> Mapping[int, tuple[Field, ...]]:
        """For every field its path: its ancestors, then itself."""
        return {field.id: path for field, path in walk(self.fields)}

    @cached_property
    def name_by_id(self) -> Mapping[int, str]:
        """Dotted names: ``address.street``, ``tags.element``, ``attrs.value``."""
        return {id_: ".".join(part.name for part in path) for id_, path in self.path_by_id.items()}

    @cached_property
    def id_by_name(self) -> Mapping[str, int]:
        """Ids by dotted name. If a dot inside a name makes two names equal, the first is used."""
        found: dict[str, int] = {}
        for id_, name in self.name_by_id.items():
            found.setdefault(name, id_)
        return found

    @cached_property
    def _ids_by_folded_name(self) -> Mapping[str, list[int]]:
        """Ids by lower-case name. An index, because many names are looked up in a wide table."""
        found: dict[str, list[int]] = {}
        for name, id_ in self.id_by_name.items():
            found.setdefault(name.casefold(), []).append(id_)
        return found

    @cached_property
    def highest_id(self) -> int:
        """The largest field id. 0 if there are no columns."""
        return max(self.by_id, default=0)

    def find(self, name: str, *, case_sensitive: bool = False) -> Field:
        """The field of that dotted name. Case is ignored if only one field matches, like in Spark. Raises
        `InvalidInput`."""
        id_ = self.id_by_name.get(name)
        if id_ is None and not case_sensitive:
            fits = self._ids_by_folded_name.get(name.casefold(), [])
            if len(fits) > 1:
                names = ", ".join(sorted(self.name_by_id[i] for i in fits))
                raise InvalidInput(f"cannot find column {name!r}: it is ambiguous, it may mean {names}", column=name)
            id_ = fits[0] if fits else None
        if id_ is None:
            raise InvalidInput(_no_such_column(name, self), column=name)
        return self.by_id[id_]

    def in_repeated(self, field_id: int) -> bool:
        """Whether the field is inside a list or map, where a row has many values of it."""
        return any(isinstance(part.type, ListType | MapType) for part in self.path_by_id[field_id][:-1])

    def primitives(self) -> Iterator[tuple[Field, PrimitiveType]]:
        """Every primitive field with its type."""
        for field in self.by_id.values():
            if not is_nested(field.type):
                yield field, field.type  # type: ignore[misc]  # not nested: a primitive

    def select(self, columns: tuple[str, ...] | list[str], *, case_sensitive: bool = False) -> Schema:
        """The named columns, in the given order. A dotted name keeps only that part of its struct."""
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
    """The field with its struct reduced to the parts that contain ``leaves``. The whole field for None."""
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
