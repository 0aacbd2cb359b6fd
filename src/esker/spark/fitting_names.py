"""Names as Spark resolves them: as they are written, else without case. One index serves a thousand columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class FittingNames(Generic[T]):
    """Things by their names, of which several may be alike."""

    def __init__(self, named: Iterable[tuple[str, T]]) -> None:
        self._exact: dict[str, list[T]] = {}
        self._folded: dict[str, list[T]] = {}
        for name, one in named:
            self._exact.setdefault(name, []).append(one)
            self._folded.setdefault(name.lower(), []).append(one)

    def fits(self, name: str) -> list[T]:
        """All that have exactly this name; where there is none, all whose names differ from it in case only."""
        return self._exact.get(name) or self._folded.get(name.lower(), [])
