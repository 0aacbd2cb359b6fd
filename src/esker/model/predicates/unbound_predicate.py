"""Unbound predicates, as a user writes them: columns by name, literals as written, NOT anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from esker.model.predicates.predicate import Op
from esker.model.transform import Transform
from esker.model.types import Type


@dataclass(frozen=True, slots=True)
class Name:
    """A column by the parts of its path. ``place`` is its place in the text, if there is a text.

    With a transform, it means the transform's value: ``system.days(ts)``.
    """

    parts: tuple[str, ...]
    place: str | None = None
    transform: Transform | None = None

    def __str__(self) -> str:
        name = ".".join(self.parts)
        return name if self.transform is None else f"{self.transform} of {name}"


@dataclass(frozen=True, slots=True)
class Literal:
    """A value with its own type, in the held form. Timestamps and times are always in nanoseconds. Null has no type."""

    value: Any
    type: Type | None
    place: str | None = None


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE or NULL for every row."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """``column op literal``."""

    column: Name
    op: Op
    literal: Literal


@dataclass(frozen=True, slots=True)
class Same:
    """``column <=> literal``: null equals only null."""

    column: Name
    literal: Literal


@dataclass(frozen=True, slots=True)
class Among:
    """``column IN (…)``."""

    column: Name
    literals: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class NullTest:
    """``column IS NULL``."""

    column: Name


@dataclass(frozen=True, slots=True)
class NaNTest:
    """``isnan(column)``."""

    column: Name


@dataclass(frozen=True, slots=True)
class LikeTest:
    """``column LIKE pattern``."""

    column: Name
    pattern: str
    escape: str = "\\"


@dataclass(frozen=True, slots=True)
class Not:
    """SQL's NOT: NOT NULL is NULL."""

    part: Unbound


@dataclass(frozen=True, slots=True)
class AllOf:
    """AND."""

    parts: tuple[Unbound, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """OR."""

    parts: tuple[Unbound, ...]


Leaf: TypeAlias = Comparison | Same | Among | NullTest | NaNTest | LikeTest
Unbound: TypeAlias = Constant | Leaf | Not | AllOf | AnyOf
