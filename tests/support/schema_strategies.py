"""Random schemas, and how they change: what a table's columns may be over its life."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from hypothesis import strategies as st
from predicate_strategies import TYPES, values
from row_oracle import promoted

from esker.model.partition_and_sort import PartitionSpec
from esker.model.schema import Schema
from esker.model.types import (
    DATE,
    DOUBLE,
    FLOAT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntType,
    ListType,
    StructType,
    Type,
)

KEY = Field(id=1, name="k", type=LONG, required=True)
NAMES = ("a", "b", "c", "d e", "é", "select", "p.q", "B", "x'y`z")
MEMBERS = ("m", "n", "o", "a")
_COLUMNS = st.sampled_from([1, 1, 1, 2, 2, 3, 4])
# Those that bite most, most often: NaN and the zeros, times before 1970, text.
_TYPES = st.sampled_from([*TYPES, FLOAT, DOUBLE, DOUBLE, TIMESTAMP, TIMESTAMPTZ, DATE, DATE, STRING, STRING])


@dataclass
class Ids:
    """Field ids in the order they are given out; none is ever used again (D5)."""

    last: int = 1
    by_id: dict[int, Field] = field(default_factory=dict)

    def next(self) -> int:
        self.last += 1
        return self.last


def values_in(type_: Type, version: int) -> st.SearchStrategy[Any]:
    """Values of a type; of dates, which v3 may widen to timestamps, only those that can follow."""
    return _NEAR_DATES if isinstance(type_, DateType) and version >= 3 else _VALUES(type_)


_NEAR_DATES = st.integers(-800, 800)
_VALUES = cache(values)  # a strategy that is made once draws much faster


def leaves_of(fields: tuple[Field, ...], above: tuple[Field, ...] = ()) -> Iterator[tuple[Field, ...]]:
    """The way to every primitive that a row has one value of."""
    for f in fields:
        if isinstance(f.type, StructType):
            yield from leaves_of(f.type.fields, (*above, f))
        elif not isinstance(f.type, ListType):
            yield (*above, f)


@st.composite
def new_field(
    draw: st.DrawFn, ids: Ids, taken: set[str], names: tuple[str, ...], *, first: bool, version: int
) -> Field:
    """A column or member: of the first schema, or added later and then perhaps with a default (v3)."""
    name = draw(st.sampled_from([name for name in names if name not in taken]))
    id_ = ids.next()
    kind = draw(st.sampled_from(["plain"] * 6 + ["struct", "list"])) if names is NAMES else "plain"
    if kind == "struct":
        members: list[Field] = []
        for _ in range(draw(st.integers(1, 2))):
            members.append(draw(new_field(ids, {m.name for m in members}, MEMBERS, first=first, version=version)))
        return Field(id=id_, name=name, type=StructType(tuple(members)), required=first and draw(st.booleans()))
    type_ = draw(_TYPES)
    if kind == "list":
        return Field(id=id_, name=name, type=ListType(element_id=ids.next(), element=type_))
    if first:
        return Field(id=id_, name=name, type=type_, required=draw(st.sampled_from([False, False, True])))
    default = draw(st.one_of(st.none(), values_in(type_, version))) if version >= 3 else None
    needed = default is not None and draw(st.booleans())
    return Field(id=id_, name=name, type=type_, initial_default=default, write_default=default, required=needed)


@st.composite
def first_schema(draw: st.DrawFn, ids: Ids, version: int) -> Schema:
    """The columns a table starts with, its key among them."""
    fields = [KEY]
    for _ in range(draw(_COLUMNS)):  # few, so that filters, partitions and statistics meet in one
        fields.append(draw(new_field(ids, {f.name for f in fields}, NAMES, first=True, version=version)))
    return Schema(fields=tuple(fields))


def changed(fields: tuple[Field, ...], id_: int, change: Callable[[Field], Field | None]) -> tuple[Field, ...]:
    """The fields with one of them, at any depth of structs, changed or gone."""
    found: list[Field] = []
    for f in fields:
        if f.id == id_:
            if (new := change(f)) is not None:
                found.append(new)
        elif isinstance(f.type, StructType):
            found.append(replace(f, type=StructType(changed(f.type.fields, id_, change))))
        else:
            found.append(f)
    return tuple(found)


@st.composite
def evolved(draw: st.DrawFn, schema: Schema, ids: Ids, version: int, specs: list[PartitionSpec]) -> Schema:
    """The schema after a few changes that the spec allows."""
    for _ in range(draw(st.integers(0, 3))):
        step = draw(st.sampled_from([_add, _add_member, _drop, _rename, _promote, _relax, _reverse]))
        schema = step(draw, schema, ids, version, specs)
    return schema


def _add(draw: st.DrawFn, schema: Schema, ids: Ids, version: int, _: Any) -> Schema:
    taken = {f.name for f in schema}
    if len(taken) > len(NAMES):
        return schema
    added = draw(new_field(ids, taken, NAMES, first=False, version=version))
    place = draw(st.integers(0, len(schema.fields)))
    return Schema(fields=(*schema.fields[:place], added, *schema.fields[place:]))


def _add_member(draw: st.DrawFn, schema: Schema, ids: Ids, version: int, _: Any) -> Schema:
    structs = [f for f in schema if isinstance(f.type, StructType) and len(f.type.fields) < len(MEMBERS)]
    if not structs:
        return schema
    chosen = draw(st.sampled_from(structs))
    assert isinstance(chosen.type, StructType)
    taken = {f.name for f in chosen.type}
    added = draw(new_field(ids, taken, MEMBERS, first=False, version=version))
    bigger = StructType((*chosen.type.fields, added))
    return Schema(fields=changed(schema.fields, chosen.id, lambda f: replace(f, type=bigger)))


def _drop(draw: st.DrawFn, schema: Schema, *_: Any) -> Schema:
    """A column, or a member that is not its struct's last."""
    able = [f.id for f in schema if f.id != KEY.id]
    able += [m.id for f in schema if isinstance(f.type, StructType) and len(f.type.fields) > 1 for m in f.type]
    if not able:
        return schema
    return Schema(fields=changed(schema.fields, draw(st.sampled_from(able)), lambda _: None))


def _rename(draw: st.DrawFn, schema: Schema, *_: Any) -> Schema:
    able = [f for f in schema if f.id != KEY.id]
    free = [name for name in NAMES if name not in {f.name for f in schema}]
    if not able or not free:
        return schema
    chosen, name = draw(st.sampled_from(able)), draw(st.sampled_from(free))
    return Schema(fields=changed(schema.fields, chosen.id, lambda f: replace(f, name=name)))


def _promote(draw: st.DrawFn, schema: Schema, ids: Ids, version: int, specs: list[PartitionSpec]) -> Schema:
    partitioned = {part.source_id for spec in specs for part in spec.fields}
    able = [
        (path[-1], wider)
        for path in leaves_of(schema.fields)
        for wider in _wider(path[-1].type, version)
        if path[-1].type != DATE or path[-1].id not in partitioned  # E7
    ]
    if not able:
        return schema
    chosen, wider = draw(st.sampled_from(able))
    return Schema(fields=changed(schema.fields, chosen.id, lambda f: _widened(f, wider)))


def _wider(type_: Type, version: int) -> list[Type]:
    match type_:
        case IntType():
            return [LONG]
        case FloatType():
            return [DOUBLE]
        case DecimalType(precision, scale) if precision < 38:
            return [DecimalType(precision + 1, scale), DecimalType(38, scale)]
        case DateType() if version >= 3:
            return [TIMESTAMP, TIMESTAMP_NS]
        case _:
            return []


def _widened(f: Field, type_: Type) -> Field:
    default = promoted(f.type, type_, f.initial_default)
    return replace(f, type=type_, initial_default=default, write_default=promoted(f.type, type_, f.write_default))


def _relax(draw: st.DrawFn, schema: Schema, *_: Any) -> Schema:
    able = [f.id for f in schema.by_id.values() if f.required and f.id != KEY.id]
    if not able:
        return schema
    return Schema(fields=changed(schema.fields, draw(st.sampled_from(able)), lambda f: replace(f, required=False)))


def _reverse(draw: st.DrawFn, schema: Schema, *_: Any) -> Schema:
    return Schema(fields=schema.fields[::-1])
