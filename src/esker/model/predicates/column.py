"""Predicates from Python: ``(col("a") > 5) & col("b").isin([1, 2]) & ~col("c").is_null()``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from esker.errors import InvalidInput
from esker.model.predicates.literal import literal_of
from esker.model.predicates.predicate import Op, escaped
from esker.model.predicates.unbound_predicate import (
    AllOf,
    Among,
    AnyOf,
    Comparison,
    LikeTest,
    Literal,
    Name,
    NaNTest,
    Not,
    NullTest,
    Same,
    Unbound,
)
from esker.model.types import BOOLEAN


def col(name: str) -> Column:
    """A column by its name, for conditions. Dots lead into structs; backticks keep a dot in a name
    (``col("`a.b`.c")``).

    Raises ``InvalidInput`` if the text is not a valid name.

        orders.scan((col("amount") > 100) & col("region").isin(["eu", "us"]))
    """
    return Column(Name(_parts(name)))


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A condition on rows. Combine conditions with ``&``, ``|`` and ``~``.

    (col("amount") > 100) & ~col("region").is_null()
    """

    unbound: Unbound

    def __and__(self, other: Expression | Column) -> Expression:
        return Expression(AllOf((*_flat(self.unbound, AllOf), *_flat(as_unbound(other), AllOf))))

    def __or__(self, other: Expression | Column) -> Expression:
        return Expression(AnyOf((*_flat(self.unbound, AnyOf), *_flat(as_unbound(other), AnyOf))))

    def __invert__(self) -> Expression:
        return Expression(self.unbound.part if isinstance(self.unbound, Not) else Not(self.unbound))

    def __bool__(self) -> bool:
        raise InvalidInput(
            "cannot use a condition as true or false: combine conditions with & | ~ instead of and, or, not"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A named column. Comparing it with a value makes a condition. A boolean column is a condition by itself."""

    name: Name

    def __eq__(self, value: object) -> Expression:  # type: ignore[override]  # a condition, as in other column APIs
        return self._compare(Op.EQ, value)

    def __ne__(self, value: object) -> Expression:  # type: ignore[override]  # also a condition
        return self._compare(Op.NE, value)

    def __lt__(self, value: Any) -> Expression:
        return self._compare(Op.LT, value)

    def __le__(self, value: Any) -> Expression:
        return self._compare(Op.LE, value)

    def __gt__(self, value: Any) -> Expression:
        return self._compare(Op.GT, value)

    def __ge__(self, value: Any) -> Expression:
        return self._compare(Op.GE, value)

    __hash__ = None  # type: ignore[assignment]  # equality makes conditions, so a column cannot be a key

    def __and__(self, other: Expression | Column) -> Expression:
        return Expression(as_unbound(self)) & other

    def __or__(self, other: Expression | Column) -> Expression:
        return Expression(as_unbound(self)) | other

    def __invert__(self) -> Expression:
        return ~Expression(as_unbound(self))

    def __bool__(self) -> bool:
        raise InvalidInput(
            "cannot use a column as true or false: combine conditions with & | ~ instead of and, or, not"
        )

    def eq_null_safe(self, value: Any) -> Expression:
        """``<=>``: null equals only null.

        col("region").eq_null_safe(None)
        """
        return Expression(Same(self.name, literal_of(value)))

    def isin(self, values: Iterable[Any]) -> Expression:
        """True if the column equals one of the values.

        col("region").isin(["eu", "us"])
        """
        if isinstance(values, str | bytes):
            raise InvalidInput("cannot use one value in isin: give a list, isin([value])")
        return Expression(Among(self.name, tuple(map(literal_of, values))))

    def between(self, low: Any, high: Any) -> Expression:
        """True from ``low`` to ``high``, both included.

        col("amount").between(10, 20)
        """
        return (self >= low) & (self <= high)

    def is_null(self) -> Expression:
        """True if the column is null."""
        return Expression(NullTest(self.name))

    def is_not_null(self) -> Expression:
        """True if the column is not null."""
        return Expression(Not(NullTest(self.name)))

    def is_nan(self) -> Expression:
        """True if the column is NaN. False if it is null."""
        return Expression(NaNTest(self.name))

    def startswith(self, prefix: str) -> Expression:
        """True if the text starts with ``prefix``.

        col("name").startswith("A")
        """
        return Expression(LikeTest(self.name, escaped(prefix) + "%"))

    def like(self, pattern: str, escape: str = "\\") -> Expression:
        """SQL's LIKE: ``%`` is any text, ``_`` is any one character.

        col("name").like("A%z")
        """
        return Expression(LikeTest(self.name, pattern, escape))

    def _compare(self, op: Op, value: Any) -> Expression:
        if isinstance(value, Column | Expression):
            raise InvalidInput(f"cannot compare column {self.name} with another column or a condition: give a value")
        return Expression(Comparison(self.name, op, literal_of(value)))


def as_unbound(condition: Expression | Column) -> Unbound:
    """The predicate of an expression. A column alone is a boolean column that must be true."""
    if isinstance(condition, Column):
        return Comparison(condition.name, Op.EQ, Literal(True, BOOLEAN))
    if isinstance(condition, Expression):
        return condition.unbound
    raise InvalidInput(f"cannot use {condition!r} as a condition: build one with col(...)")


def _flat(part: Unbound, kind: type[AllOf] | type[AnyOf]) -> tuple[Unbound, ...]:
    """A chain of one connective becomes one node, however long it is."""
    return part.parts if isinstance(part, kind) else (part,)


def _parts(name: str) -> tuple[str, ...]:
    parts: list[str] = []
    at = 0
    while True:
        if name.startswith("`", at):
            part, at = _quoted(name, at)
        else:
            end = name.find(".", at)
            end = len(name) if end < 0 else end
            part, at = name[at:end], end
        parts.append(part)
        if at == len(name) and all(parts):
            return tuple(parts)
        if not all(parts) or name[at : at + 1] != ".":
            raise InvalidInput(f"{name!r} is not the name of a column")
        at += 1


def _quoted(name: str, at: int) -> tuple[str, int]:
    """The part in backticks that starts at ``at``, and where it ends. Two backticks inside mean one."""
    end = at + 1
    while (end := name.find("`", end)) >= 0 and name.startswith("``", end):
        end += 2
    if end < 0:
        raise InvalidInput(f"{name!r} is not the name of a column: a backtick is not closed")
    return name[at + 1 : end].replace("``", "`"), end + 1
