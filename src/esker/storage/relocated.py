"""A table that was moved: its files still record the old location."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import BinaryIO

from esker.errors import InvalidInput
from esker.ports.storage import (
    HadoopFile,
    Storage,
    StoredFile,
    file_tags,
    hadoop_file,
    parallel_reads,
    tags_last,
)
from esker.storage.location import Location, climbs, folder_and_name, how_to_allow


class RelocatedStorage:
    """Maps locations below ``recorded`` to ``actual``. Refuses other locations unless they are allowed.

    Recorded locations come from files that anyone may have written, so none of them is followed out of the table.
    ``allowed`` lists further places that the caller agreed to read. A file that is recorded outside the table is
    searched for in this order: at its recorded location, at the same place relative to the table, and below the allowed
    place by the rest of its path.
    """

    def __init__(self, inner: Storage, *, recorded: str, actual: str, allowed: tuple[str, ...] = ()) -> None:
        self._inner = inner
        self._recorded = Location.parse(recorded)
        self._actual = actual.rstrip("/") or "/"
        self._base = Location.parse(actual)
        self._allowed = tuple((place.rstrip("/"), Location.parse(place)) for place in allowed)
        self._names = {posixpath.basename(place.path) for place in (self._recorded, self._base)} - {""}

    @property
    def is_shared(self) -> bool:
        """False: a moved table is changed only by the process that opened it."""
        return False

    @property
    def parallel_reads(self) -> int:
        """As many as where the table is."""
        return parallel_reads(self._inner)

    @property
    def tags_last(self) -> bool:
        """As where the table is."""
        return tags_last(self._inner)

    def tags(self, locations: Sequence[str]) -> list[str | None]:
        """Those of the places where the files are now. Nothing about files outside the table."""
        folders: dict[str, str | None] = {}
        inside = [self._place(location, folders) for location in locations]
        found = iter(file_tags(self._inner, [place for place in inside if place is not None]))
        return [None if place is None else next(found) for place in inside]

    def _place(self, location: str, folders: dict[str, str | None]) -> str | None:
        folder, name = folder_and_name(location)
        if name and folder not in folders:
            way = Location.parse(folder).below(self._recorded)
            folders[folder] = self._in_table(way) if way is not None and _inside(way) else None
        place = folders[folder] if name else None
        return None if place is None else f"{place}/{name}"

    def where(self, location: str) -> str:
        """Where a recorded location is now. Raises `InvalidInput` if it is outside the table and not allowed."""
        parsed = Location.parse(location)
        way = parsed.below(self._recorded)
        if way is None:
            way = parsed.below(self._base)
        if way is None and parsed.is_relative:
            way = self._way_of_relative(parsed.path)
        if way is None:
            return self._elsewhere(location, parsed)
        if not _inside(way):
            raise InvalidInput(f"cannot read {location}: it leads out of the table by '..'", file=location)
        return self._in_table(way)

    def _in_table(self, way: str) -> str:
        return f"{self._actual.rstrip('/')}/{way}" if way else self._actual

    def _way_of_relative(self, path: str) -> str:
        """The path below the table of a relative path. It may start at the table, or at the working directory of its
        writer."""
        ways = [path, *_after(path, self._names), *_from_last(path, ("metadata", "data"))]
        known = (way for way in ways if ".." not in way.split("/") and self._inner.exists(self._in_table(way)))
        return next(known, path)

    def _elsewhere(self, location: str, parsed: Location) -> str:
        found = [] if ".." in parsed.path.split("/") else list(self._candidates(location, parsed))
        for place, _ in found:
            if self._inner.exists(place):
                return place
        named = next((place for place, is_named in found if is_named), None)
        if named is not None:
            return named  # the caller allowed this exact place: if the file is not there, it is missing
        among = (
            ", and it was not found below " + ", ".join(place for place, _ in self._allowed) if self._allowed else ""
        )
        folder = location.rpartition("/")[0] or location
        raise InvalidInput(
            f"cannot read {location}: it is outside the table at {self._actual}{among}; {how_to_allow(folder)}",
            file=location,
        )

    def _candidates(self, location: str, parsed: Location) -> Iterator[tuple[str, bool]]:
        """Where an allowed file may be, and whether the caller allowed exactly the recorded place."""
        for text, place in self._allowed:
            if parsed.is_within(place):
                yield location, True
            elif _inside(way := parsed.below(place)):
                yield f"{text}/{way}", True
        if self._recorded.path.startswith("/") and parsed.path.startswith("/"):
            beside = posixpath.normpath(
                posixpath.join(self._base.path, posixpath.relpath(parsed.path, self._recorded.path))
            )
            if any(Location.parse(beside).is_within(place) for _, place in self._allowed):
                yield beside, False
        for text, place in self._allowed:
            for way in _after(parsed.path, {posixpath.basename(place.path)} - {""}):
                yield f"{text}/{way}", False

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

    def hadoop_file(self, location: str) -> HadoopFile:
        return hadoop_file(self._inner, self.where(location))

    def local_folder(self, location: str) -> str | None:
        return None

    def write_new(self, location: str, data: bytes) -> None:
        raise InvalidInput(f"cannot write {location}: a table opened by its path is read-only", file=location)

    def open_new(self, location: str) -> AbstractContextManager[BinaryIO]:
        raise InvalidInput(f"cannot write {location}: a table opened by its path is read-only", file=location)

    def list(self, prefix: str) -> Iterator[StoredFile]:
        return self._inner.list(self.where(prefix))

    def delete(self, location: str) -> None:
        raise InvalidInput(f"cannot delete {location}: a table opened by its path is read-only", file=location)

    def delete_many(self, locations: Iterable[str]) -> None:
        for location in locations:
            self.delete(location)


def _after(path: str, names: Collection[str]) -> Iterator[str]:
    """The rest of the path after a folder with one of these names, the longest rest first."""
    parts = path.split("/")
    return ("/".join(parts[at + 1 :]) for at, part in enumerate(parts[:-1]) if part in names)


def _from_last(path: str, names: Collection[str]) -> Iterator[str]:
    """The path from the last folder of each of these names on."""
    parts = path.split("/")
    for name in names:
        if name in parts[:-1]:
            yield "/".join(parts[len(parts) - 2 - parts[-2::-1].index(name) :])


def _inside(way: str | None) -> bool:
    """Whether a relative path stays below its start."""
    return way is not None and not climbs(way or ".")
