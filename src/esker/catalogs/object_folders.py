"""The folders of a directory catalog in an object store, where a folder is no more than the start of a name.

- A namespace is there while something is below it: its mark, an empty object, or a table.
- A commit creates the next version with ``If-None-Match: *``. A store that ignores that condition is refused before
  the first commit of a process.
- A dropped table has an empty version after its last one. A writer that still commits to it finds the name taken,
  and a table that is created again under the name continues from that number. No version number is ever used twice.
- There is no version hint: engines that find none list the folder, and a hint could go back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Self
from uuid import uuid4

from esker.catalogs.folders import METADATA, check_levels
from esker.catalogs.metadata_files import codec_of
from esker.catalogs.refusals import can_be_named
from esker.errors import AlreadyExists, EskerError, NoSuchFile, OutcomeUnknown, StorageFailed, Unsupported
from esker.model.table_names import Namespace
from esker.storage.by_location import FencedStorage
from esker.storage.objects.object_storage import Mark, ObjectStorage
from esker.storage.version_folder import NAMES_KEPT, VersionFile, names_of, version_file
from esker.tree.table_metadata import TableMetadata

MARK = ".namespace"
"""The object that keeps an empty namespace."""
_PROBE = ".esker-probe-"
_DROPS = 20  # how often a drop tries again while others commit


class ObjectFolders:
    """Keeps the contract of `Folders`. What the store refuses is a `StorageFailed`."""

    def __init__(self, root: str, storage: ObjectStorage, *, files: FencedStorage | None = None) -> None:
        self._root = root.rstrip("/")
        self._storage = storage
        self._files = files or storage  # of the tables, some of which may be elsewhere
        self._is_proven = False

    @property
    def root(self) -> str:
        return self._root

    @property
    def storage(self) -> FencedStorage:
        return self._files

    @property
    def fence(self) -> FencedStorage:
        return self._files

    def place(self, levels: Namespace) -> str:
        check_levels(levels)
        location = "/".join((self._root, *levels))
        self._storage.check(location)
        return location

    def namespaces(self, above: Namespace = ()) -> Iterator[Namespace]:
        for name in self._below(above):
            inner = (*above, name)
            if not self.is_table_like(inner):
                yield inner
                yield from self.namespaces(inner)

    def is_namespace(self, levels: Namespace) -> bool:
        names, objects = self._storage.folders(self.place(levels))
        return METADATA not in names and bool(names or objects)

    def is_table_like(self, levels: Namespace) -> bool:
        return METADATA in self._storage.folders(self.place(levels))[0]

    def make(self, levels: Namespace) -> None:
        self.prove()
        if self.is_namespace(levels):
            raise FileExistsError(self.place(levels))
        for depth in range(1, len(levels)):
            with suppress(AlreadyExists):
                self._storage.write_new(f"{self.place(levels[:depth])}/{MARK}", b"")
        try:
            self._storage.write_new(f"{self.place(levels)}/{MARK}", b"")
        except AlreadyExists:
            raise FileExistsError(self.place(levels)) from None

    def leftovers(self, levels: Namespace) -> list[str]:
        place = self.place(levels)
        return [
            file.location[len(place) + 1 :]
            for file in self._storage.list(place)
            if not _is_trace(file.location, file.size)
        ]

    def remove(self, levels: Namespace) -> None:
        place = self.place(levels)
        traces = [file.location for file in self._storage.list(place) if _is_trace(file.location, file.size)]
        self._storage.delete_many(traces)

    def tables(self, levels: Namespace) -> Iterable[str]:
        found = []
        for name in self._below(levels):
            with self.versions((*levels, name)) as versions:
                if versions.newest() is not None:
                    found.append(name)
        return found

    def make_table(self, levels: Namespace) -> None:
        self.prove()

    def versions(self, levels: Namespace) -> VersionObjects:
        return VersionObjects(self._storage, f"{self.place(levels)}/{METADATA}", lambda: self._prove_at(levels[:-1]))

    def drop(self, levels: Namespace, current: TableMetadata | None) -> None:
        self.prove()
        suffix = ".gz" if current is not None and codec_of(current.properties) == "gzip" else ""
        with self.versions(levels) as versions:
            for _ in range(_DROPS):
                newest = versions.newest()
                if newest is None:
                    raise FileNotFoundError(self.place(levels))
                with suppress(AlreadyExists):
                    versions.create(f"v{newest.version + 1}{suffix}.metadata.json", b"")
                    return
        raise StorageFailed(
            f"cannot drop {self.place(levels)}: other writers commit to the table all the time; try again later",
            retryable=True,
            operation="drop",
            file=self.place(levels),
        )

    def prove(self) -> None:
        """`Unsupported` where the store ignores conditions, so that two writers could both win. Looked up once."""
        if not self._is_proven:
            check_conditions(self._storage, self._root)
            self._is_proven = True

    def _prove_at(self, levels: Namespace) -> None:
        """The same before a commit, by one request: the mark of the table's namespace is created again."""
        if self._is_proven:
            return
        mark = f"{self.place(levels)}/{MARK}"
        if self._storage.put_empty(mark) and self._storage.put_empty(mark):
            raise _ignores_conditions(self._root)
        self._is_proven = True

    def _below(self, levels: Namespace) -> list[str]:
        names = self._storage.folders(self.place(levels))[0]
        return [name for name in names if name != METADATA and can_be_named(name)]


def check_conditions(storage: ObjectStorage, place: str) -> None:
    """Create an object below a place twice: `Unsupported` where the store lets the second create win."""
    probe = f"{place.rstrip('/')}/{_PROBE}{uuid4().hex}"
    storage.write_new(probe, b"first")
    try:
        storage.write_new(probe, b"second")
    except AlreadyExists:
        return
    finally:
        with suppress(EskerError):
            storage.delete(probe)
    raise _ignores_conditions(place)


def _ignores_conditions(place: str) -> Unsupported:
    return Unsupported(
        f"cannot use {place} as a catalog: the store ignores the condition If-None-Match, so two writers could both "
        "win; keep the catalog in a database, and only the tables in this store",
        feature="conditional create",
        location=place,
    )


class VersionObjects:
    """The versions of one table in an object store; keeps the contract of `Versions`. ``prove`` is called before a
    version is created."""

    def __init__(self, storage: ObjectStorage, location: str, prove: Callable[[], None]) -> None:
        self._prove = prove
        self._storage = storage
        self._location = location
        self._marks: dict[str, Mark] = {}  # as of the last listing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def newest(self) -> VersionFile | None:
        """The highest number; none where that version is empty, which says that the table was dropped."""
        return self._newest(self._listed())

    def _newest(self, listed: dict[str, int]) -> VersionFile | None:
        highest = max(listed.values(), default=0)
        there = (VersionFile(highest, name) for name in names_of(highest) if name in listed)
        return next((version for version in there if self._marks[version.name][1] > 0), None)

    def versions(self, least: int = 0) -> list[VersionFile]:
        return [VersionFile(number, name) for name, number in self._listed().items() if number >= least]

    def first(self) -> VersionFile | None:
        listed = self._listed()  # once: what others make meanwhile must not count as made before
        number = max(listed.values(), default=0) + 1
        return VersionFile(number, f"v{number}.metadata.json") if self._newest(listed) is None else None

    def mark(self, name: str) -> Mark:
        if name in self._marks:
            return self._marks[name]
        try:
            return self._storage.mark(f"{self._location}/{name}")
        except NoSuchFile:
            raise FileNotFoundError(name) from None

    def read(self, name: str) -> bytes:
        try:
            return self._storage.read(f"{self._location}/{name}")
        except NoSuchFile:
            raise FileNotFoundError(name) from None

    def create(self, name: str, data: bytes) -> None:
        self._prove()
        try:
            self._storage.write_new(f"{self._location}/{name}", data)
        except StorageFailed as error:
            if not error.facts.get("unanswered"):
                raise
            raise OutcomeUnknown(f"cannot tell whether {self._location}/{name} was made: {error.message}") from None

    def remove(self, name: str) -> None:
        with suppress(EskerError):
            self._storage.delete(f"{self._location}/{name}")

    def tidy(self, version: VersionFile) -> None:
        with suppress(EskerError):
            self._storage.replace(f"{self._location}/{version.name}", b"")

    def free_old_names(self, current: int) -> None:
        for name in names_of(current - NAMES_KEPT):
            if self._marks.get(name, ("", 1))[1] == 0:
                self.remove(name)

    def leave_hint(self) -> None:
        """None: see the head of this module."""

    def _listed(self) -> dict[str, int]:
        """The names of all versions, each with its number. Other names of metadata sort before them."""
        found: dict[str, int] = {}
        marks: dict[str, Mark] = {}
        for file, mark in self._storage.list_marked(self._location, "v"):
            name = file.location[len(self._location) + 1 :]
            version = version_file(name)
            if version is not None:
                found[name], marks[name] = version.version, mark
        self._marks = marks
        return found


def _is_trace(location: str, size: int) -> bool:
    """Whether an object only says that something was here: the mark of a namespace, or an emptied version."""
    folder, _, name = location.rpartition("/")
    return size == 0 and (name == MARK or (folder.endswith(f"/{METADATA}") and version_file(name) is not None))
