"""Whose a name is: the lake's, or Spark's own."""

from __future__ import annotations

from typing import Protocol

from esker.spark.sql.words import Named


class Elsewhere(Exception):
    """The statement is none of the lake's: Spark takes it as it is written."""


class Territory(Protocol):
    """Asked while a statement is read, as soon as its subject is known."""

    def table(self, name: Named) -> Named:
        """The name, where it is a lake's table or should be one; ``Elsewhere`` where it is Spark's."""
        ...

    def namespace(self, name: Named) -> Named:
        """The name, where it is a lake's namespace or should be one; ``Elsewhere`` where it is Spark's."""
        ...

    def new(self, name: Named) -> Named:
        """The name of something to be made, unless it is to be made in Spark's own catalog."""
        ...

    def holds(self, parts: tuple[str, ...]) -> bool:
        """Whether the lake has a table, or a metadata table, of that name."""
        ...

    def is_called(self, parts: tuple[str, ...]) -> bool:
        """Whether the lake's own name is before the rest, and no namespace of the lake is meant by it."""
        ...
