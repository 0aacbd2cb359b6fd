"""A table that was moved: its files still name the place it was written at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO

from esker.errors import InvalidInput
from esker.ports.storage import Storage, StoredFile
from esker.storage.location import Location, climbs


class RelocatedStorage:
    """Maps locations below ``recorded`` to ``actual``; refuses what lies elsewhere, unless allowed by name.

    Recorded locations come from files that anyone may have written, so none of them is followed out of the
    table. ``allowed`` are further places the caller has agreed to read, spelt as they are recorded.
    """

    def __init__(self, inner: Storage, *, recorded: str, actual: str, allowed: tuple[str, ...] = ()) -> None:
        self._inner = inner
        self._recorded = Location.parse(recorded)
        self._actual = actual.rstrip("/") or "/"
        self._base = Location.parse(actual)
        self._allowed = tuple(Location.parse(place) for place in allowed)

    def where(self, location: str) -> str:
        """Where a recorded location lies now."""
        parsed = Location.parse(location)
        way = parsed.below(self._recorded)
        if way is None:
            way = parsed.below(self._base)
        if way is None and parsed.is_relative:
            way = parsed.path
        if way is None:
            if any(_inside(parsed.below(place)) for place in self._allowed):
                return location
            raise InvalidInput(
                f"refused to read {location}: it lies outside the table at {self._actual}; "
                "to allow it, name its folder in open_table(…, roots=[…])",
                file=location,
            )
        if not _inside(way):
            raise InvalidInput(f"refused to read {location}: it climbs out of the table", file=location)
        return f"{self._actual.rstrip('/')}/{way}" if way else self._actual

    def admit(self, place: str, *, for_good: bool = False) -> None:
        """Nothing more than what was allowed on opening."""

    def read(self, location: str) -> bytes:
        return self._inner.read(self.where(location))

    def open(self, location: str) -> BinaryIO:
        return self._inner.open(self.where(location))

    def size(self, location: str) -> int:
        return self._inner.size(self.where(location))

    def exists(self, location: str) -> bool:
        return self._inner.exists(self.where(location))

    def local_path(self, location: str) -> str | None:
        return self._inner.local_path(self.where(location))

    def write_new(self, location: str, data: bytes) -> None:
        raise InvalidInput(f"cannot write {location}: a table opened by its path is read-only", file=location)

    def open_new(self, location: str) -> AbstractContextManager[BinaryIO]:
        raise InvalidInput(f"cannot write {location}: a table opened by its path is read-only", file=location)

    def list(self, prefix: str) -> Iterator[StoredFile]:
        return self._inner.list(self.where(prefix))

    def delete(self, location: str) -> None:
        raise InvalidInput(f"cannot delete {location}: a table opened by its path is read-only", file=location)


def _inside(way: str | None) -> bool:
    """Whether a way down ends below where it starts."""
    return way is not None and not climbs(way or ".")
