"""Bind a predicate to a schema: names become fields, literals become held values, and NOT moves down to the terms.

A negation is passed down as a flag and applied at the terms, by De Morgan's laws. These are valid in three-valued logic
too. A term that is NULL for every row (``x = NULL``) is never TRUE, negated or not, so it becomes FALSE. This changes
no result, because no NOT is left above it.
"""

from __future__ import annotations

from collections.abc import Iterable

from esker.errors import InvalidInput
from esker.model.predicates import coerce
from esker.model.predicates.column import Column, Expression, as_unbound
from esker.model.predicates.predicate import (
    FALSE,
    TRUE,
    Always,
    Bound,
    Compare,
    IsNaN,
    IsNull,
    Like,
    OneOf,
    Op,
    StartsWith,
    all_of,
    any_of,
    literal_prefix,
)
from esker.model.predicates.predicate_sql import to_sql
from esker.model.predicates.transform_predicate import on_source, result_field
from esker.model.predicates.unbound_predicate import (
    AllOf,
    Among,
    AnyOf,
    Comparison,
    Constant,
    LikeTest,
    Literal,
    Name,
    NaNTest,
    Not,
    NullTest,
    Same,
    Unbound,
)
from esker.model.schema import Schema
from esker.model.types import (
    DecimalType,
    Field,
    IntType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    Type,
    UnknownType,
    is_floating,
)

__all__ = ["MAX_DEPTH", "bind", "operand_type", "resolve", "to_sql"]

MAX_DEPTH = 100  # levels of AND inside OR inside AND; all code that uses predicates is recursive


def bind(predicate: Unbound | Expression | Column, schema: Schema, *, case_sensitive: bool = False) -> Bound:
    """The predicate bound to a schema. Raises ``InvalidInput`` with a column or literal that does not fit."""
    unbound = as_unbound(predicate) if isinstance(predicate, Expression | Column) else predicate
    return _Binder(schema, case_sensitive).bind(unbound, negated=False, depth=0)


class _Binder:
    """One binding: the schema, and the columns that were already found in it."""

    def __init__(self, schema: Schema, case_sensitive: bool) -> None:
        self.schema = schema
        self.case_sensitive = case_sensitive
        self.found: dict[tuple[str, ...], Field] = {}

    def bind(self, node: Unbound, *, negated: bool, depth: int) -> Bound:
        if depth > MAX_DEPTH:
            raise InvalidInput(f"cannot use the predicate: it is nested more than {MAX_DEPTH} levels deep")
        while isinstance(node, Not):
            node, negated = node.part, not negated
        match node:
            case AllOf(parts) | AnyOf(parts):
                bound = [self.bind(part, negated=negated, depth=depth + 1) for part in parts]
                return _every_one(bound) if isinstance(node, AllOf) != negated else _any_one(bound)
            case Constant(value):
                return Always(value is not None and value != negated)
            case _:
                field = self._field(node.column)
                if node.column.transform is None:
                    return _leaf(node, field, negated=negated)
                shown = result_field(node.column.transform, field, node.column.place)
                return on_source(_leaf(node, shown, negated=negated), node.column.transform, field)

    def _field(self, name: Name) -> Field:
        field = self.found.get(name.parts)
        if field is None:
            field = self.found[name.parts] = resolve(self.schema, name, case_sensitive=self.case_sensitive)
        return field


def operand_type(schema: Schema, name: Name) -> Type:
    """The type of an operand: of the column, or of its transform."""
    field = resolve(schema, name)
    return field.type if name.transform is None else result_field(name.transform, field, name.place).type


def resolve(schema: Schema, name: Name, *, case_sensitive: bool = False) -> Field:
    """The column or struct field of a name. Raises `InvalidInput`."""
    path = _walk(schema, name.parts, case_sensitive)
    where = f" at {name.place}" if name.place else ""
    if path is None:
        try:
            path = schema.path_by_id[schema.find(".".join(name.parts), case_sensitive=case_sensitive).id]
        except InvalidInput as error:
            raise InvalidInput(error.message + where, column=str(name), place=name.place) from None
    if any(isinstance(part.type, ListType | MapType) for part in path[:-1]):
        raise InvalidInput(
            f"cannot filter by {name}{where}: it is inside a list or map, where a row has many values; filter after "
            "reading",
            column=str(name),
            place=name.place,
        )
    return path[-1]


def _walk(schema: Schema, parts: tuple[str, ...], case_sensitive: bool) -> tuple[Field, ...] | None:
    """The path down the structs, part by part. None if a part is missing or ambiguous."""
    path: tuple[Field, ...] = ()
    level = schema.fields
    for part in parts:
        fits = [field for field in level if field.name == part]
        if not fits and not case_sensitive:
            fits = [field for field in level if field.name.casefold() == part.casefold()]
        if len(fits) != 1:
            return None
        path = (*path, fits[0])
        level = fits[0].type.fields if isinstance(fits[0].type, StructType) else ()
    return path


# ---------------------------------------------------------------- Terms


def _leaf(node: Comparison | Same | Among | NullTest | NaNTest | LikeTest, field: Field, *, negated: bool) -> Bound:
    match node:
        case Comparison(_, op, literal):
            return _comparison(field, op.negated if negated else op, literal)
        case Same(_, literal):
            return _same(field, literal, negated=negated)
        case Among(_, literals):
            return _among(field, literals, negated=negated)
        case NullTest():
            return _null_test(field, negated=negated)
        case NaNTest():
            return _nan_test(field, negated=negated)
        case LikeTest(_, pattern, escape):
            return _like(field, pattern, escape, negated=negated)


def _comparison(field: Field, op: Op, literal: Literal) -> Bound:
    return FALSE if literal.type is None else coerce.compare(field, op, literal)


def _same(field: Field, literal: Literal, *, negated: bool) -> Bound:
    if literal.type is None:
        return _null_test(field, negated=negated)
    if not negated:
        return coerce.compare(field, Op.EQ, literal)
    return any_of((IsNull(field), coerce.compare(field, Op.NE, literal)))


def _among(field: Field, literals: tuple[Literal, ...], *, negated: bool) -> Bound:
    if not literals:  # nothing is in an empty list, not even null
        return Always(negated)
    given = [literal for literal in literals if literal.type is not None]
    if negated:
        excluded = _every_one([coerce.compare(field, Op.NE, literal) for literal in given])
        return excluded if len(given) == len(literals) else FALSE
    return _any_one([coerce.compare(field, Op.EQ, literal) for literal in given])


def _null_test(field: Field, *, negated: bool) -> Bound:
    if isinstance(field.type, UnknownType):
        return FALSE if negated else TRUE
    return IsNull(field, negated)


def _nan_test(field: Field, *, negated: bool) -> Bound:
    if is_floating(field.type):
        return IsNaN(field, negated)
    if isinstance(field.type, IntType | LongType | DecimalType):
        return Always(negated)
    raise InvalidInput(f"cannot use isnan on column {field.name!r}: a {field.type} is not a number", column=field.name)


def _like(field: Field, pattern: str, escape: str, *, negated: bool) -> Bound:
    if not isinstance(field.type, StringType):
        raise InvalidInput(
            f"cannot use LIKE on column {field.name!r}: a {field.type} is not a string", column=field.name
        )
    prefix, rest = literal_prefix(pattern, escape)
    if rest == "":
        return Compare(field, Op.NE if negated else Op.EQ, prefix)
    if rest == "%" and not prefix:
        return FALSE if negated else coerce.not_null(field)
    if rest == "%":
        return StartsWith(field, prefix, negated)
    return Like(field, pattern, escape, negated)


# ---------------------------------------------------------------- Equalities joined to IN


def _any_one(parts: list[Bound]) -> Bound:
    """The OR of the parts, with the equalities on one column joined to one IN."""
    return any_of(_gathered(parts, Op.EQ, negated=False))


def _every_one(parts: list[Bound]) -> Bound:
    """The AND of the parts, with the inequalities on one column joined to one NOT IN."""
    return all_of(_gathered(parts, Op.NE, negated=True))


def _gathered(parts: list[Bound], op: Op, *, negated: bool) -> Iterable[Bound]:
    values: dict[int, set[object]] = {}
    fields: dict[int, Field] = {}
    rest: list[Bound] = []
    for part in parts:
        match part:
            case Compare(field, part_op, literal) if part_op is op:
                values.setdefault(field.id, set()).add(literal)
                fields[field.id] = field
            case OneOf(field, literals, part_negated) if part_negated == negated:
                values.setdefault(field.id, set()).update(literals)
                fields[field.id] = field
            case _:
                rest.append(part)
    return [*rest, *(one_of(fields[id_], found, negated=negated) for id_, found in values.items())]


def one_of(field: Field, values: Iterable[object], *, negated: bool = False) -> Bound:
    """IN over held values without null and NaN, in its simplest form."""
    found = frozenset(values)
    if not found:
        return coerce.not_null(field) if negated else FALSE
    if len(found) == 1:
        return Compare(field, Op.NE if negated else Op.EQ, next(iter(found)))
    return OneOf(field, found, negated)
