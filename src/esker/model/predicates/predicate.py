"""Bound predicates: conditions on rows, tied to the fields of a schema; and LIKE patterns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from esker.errors import InvalidInput
from esker.model.types import Field

# ---------------------------------------------------------------- LIKE patterns
#
# ``%`` is any text, ``_`` is any one character, an escape makes either a plain character.


ANY_TEXT, ANY_CHARACTER = "%", "_"


def escaped(text: str, escape: str = "\\") -> str:
    """The pattern that matches exactly this text."""
    return re.sub(r"[%_" + re.escape(escape) + "]", lambda found: escape + found[0], text)


def pieces(pattern: str, escape: str = "\\") -> Iterator[tuple[str, bool]]:
    """Each character of the pattern, and whether it is a wildcard."""
    if len(escape) != 1:
        raise InvalidInput(f"cannot use the escape {escape!r} in LIKE: it must be one character")
    characters = iter(pattern)
    for character in characters:
        if character != escape:
            yield character, character in (ANY_TEXT, ANY_CHARACTER)
            continue
        following = next(characters, None)
        if following is None:
            raise InvalidInput(f"cannot use the LIKE pattern {pattern!r}: it ends with its escape character")
        if following not in (ANY_TEXT, ANY_CHARACTER, escape):
            raise InvalidInput(
                f"cannot use the LIKE pattern {pattern!r}: it escapes {following!r}, which needs no escape"
            )
        yield following, False


def literal_prefix(pattern: str, escape: str = "\\") -> tuple[str, str]:
    """The text that every match starts with, and the kind of the rest.

    The kind is ``""`` for nothing (the pattern is the text), ``"%"`` for any text, ``"?"`` for anything else.
    """
    prefix: list[str] = []
    parts = list(pieces(pattern, escape))
    for at, (character, wild) in enumerate(parts):
        if wild:
            rest = parts[at:]
            return "".join(prefix), "%" if all(part == (ANY_TEXT, True) for part in rest) else "?"
        prefix.append(character)
    return "".join(prefix), ""


def as_regex(pattern: str, escape: str = "\\") -> str:
    """The pattern as an RE2 expression for the whole text."""
    out: list[str] = []
    for character, wild in pieces(pattern, escape):
        if not wild:
            out.append(re.escape(character))
        elif character == ANY_CHARACTER:
            out.append(".")
        elif not out or out[-1] != ".*":
            out.append(".*")
    return f"^(?s:{''.join(out)})$"


# ---------------------------------------------------------------- Bound predicates
#
# Binding (``esker.model.predicates.bind``) resolves names to field ids, turns literals into held values of the column's
# type, and moves every NOT down to the terms. In SQL's three-valued logic this is exact: ``NOT (x < 5)`` selects the
# same rows as ``x >= 5``, and neither selects null. So bound predicates have no Not, and all code asks one question: is
# it TRUE? Floats compare as in Spark: NaN equals itself and is larger than any number, and -0.0 equals 0.0. NaN
# literals become ``IsNaN`` terms, so no bound comparison or list has NaN.


class Op(Enum):
    """Comparisons. The value is the SQL sign."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def negated(self) -> Op:
        """The comparison that is TRUE where this one is FALSE."""
        return _NEGATED[self]

    @property
    def flipped(self) -> Op:
        """The comparison that means the same with its sides exchanged."""
        return _FLIPPED.get(self, self)


_NEGATED = {Op.EQ: Op.NE, Op.NE: Op.EQ, Op.LT: Op.GE, Op.GE: Op.LT, Op.GT: Op.LE, Op.LE: Op.GT}
_FLIPPED = {Op.LT: Op.GT, Op.GT: Op.LT, Op.LE: Op.GE, Op.GE: Op.LE}


@dataclass(frozen=True, slots=True)
class Always:
    """TRUE, or FALSE, for every row."""

    value: bool

    def __str__(self) -> str:
        return "true" if self.value else "false"


@dataclass(frozen=True, slots=True)
class Compare:
    """``field op literal``. Does not select null."""

    field: Field
    op: Op
    literal: Any


@dataclass(frozen=True, slots=True)
class OneOf:
    """``field IN (…)`` or ``field NOT IN (…)``. Neither selects null. The values have no null."""

    field: Field
    values: frozenset[Any]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """``field IS NULL`` or ``IS NOT NULL``."""

    field: Field
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNaN:
    """``isnan(field)``, or its negation. Spark's isnan(NULL) is FALSE, so NOT isnan selects null too."""

    field: Field
    negated: bool = False


@dataclass(frozen=True, slots=True)
class StartsWith:
    """``field LIKE 'prefix%'``, or its negation. Neither selects null."""

    field: Field
    prefix: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like:
    """``field LIKE pattern`` for any other pattern, or its negation. Neither selects null."""

    field: Field
    pattern: str
    escape: str = "\\"
    negated: bool = False


@dataclass(frozen=True, slots=True)
class InBucket:
    """Iceberg's ``bucket`` of the field is one of these, or none of them. Neither selects null."""

    field: Field
    buckets: int
    values: frozenset[int]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class And:
    """All parts are TRUE."""

    parts: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part is TRUE."""

    parts: tuple[Bound, ...]


Term: TypeAlias = Compare | OneOf | IsNull | IsNaN | StartsWith | Like | InBucket
Bound: TypeAlias = Always | Term | And | Or

TRUE, FALSE = Always(True), Always(False)


_MANY = 32  # with more parts, a search for repeated ones costs more than it saves


def all_of(parts: Iterable[Bound]) -> Bound:
    """The AND of the parts, simplified: TRUE is removed, one FALSE makes it FALSE, nested ANDs are joined."""
    return _combine(parts, And, neutral=True)


def any_of(parts: Iterable[Bound]) -> Bound:
    """The OR of the parts, simplified."""
    return _combine(parts, Or, neutral=False)


def _combine(parts: Iterable[Bound], kind: type[And] | type[Or], *, neutral: bool) -> Bound:
    kept: list[Bound] = []
    for part in parts:
        if isinstance(part, Always):
            if part.value != neutral:
                return part
        elif isinstance(part, kind):
            kept.extend(part.parts)
        elif len(kept) > _MANY or part not in kept:
            kept.append(part)
    if not kept:
        return Always(neutral)
    return kept[0] if len(kept) == 1 else kind(tuple(kept))


def conjuncts(predicate: Bound) -> tuple[Bound, ...]:
    """The parts that must all be TRUE."""
    if isinstance(predicate, And):
        return predicate.parts
    return () if predicate == TRUE else (predicate,)


def terms(predicate: Bound) -> Iterator[Term]:
    """Every term about a column."""
    match predicate:
        case And(parts) | Or(parts):
            for part in parts:
                yield from terms(part)
        case Always():
            return
        case _:
            yield predicate


def field_ids(predicate: Bound) -> frozenset[int]:
    """The ids of the columns in the predicate."""
    return frozenset(term.field.id for term in terms(predicate))


def complement(predicate: Bound) -> Bound:
    """TRUE for exactly the rows where the predicate is not TRUE: where it is FALSE, and where it is NULL.

    These rows stay after a delete. SQL's NOT is different: it selects no row where the result is NULL.
    """
    match predicate:
        case Always(value):
            return Always(not value)
        case And(parts):
            return any_of(complement(part) for part in parts)
        case Or(parts):
            return all_of(complement(part) for part in parts)
        case IsNull(field, negated):
            return IsNull(field, not negated)
        case IsNaN(field, negated):
            return IsNaN(field, not negated)
        case Compare(field, op, literal):
            return any_of((Compare(field, op.negated, literal), IsNull(field)))
        case OneOf(field, values, negated):
            return any_of((OneOf(field, values, not negated), IsNull(field)))
        case StartsWith(field, prefix, negated):
            return any_of((StartsWith(field, prefix, not negated), IsNull(field)))
        case Like(field, pattern, escape, negated):
            return any_of((Like(field, pattern, escape, not negated), IsNull(field)))
        case InBucket(field, buckets, values, negated):
            return any_of((InBucket(field, buckets, values, not negated), IsNull(field)))
