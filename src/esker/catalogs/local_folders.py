"""The folders of a directory catalog on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from esker.catalogs.folders import METADATA, check_levels
from esker.catalogs.refusals import can_be_named
from esker.errors import OutcomeUnknown
from esker.maintain.purge import DROPPED, dropped_folder
from esker.model.table_names import Namespace
from esker.storage.failures import is_failure
from esker.storage.local import LocalStorage, sync_folder
from esker.storage.version_folder import VersionFolder
from esker.tree.table_metadata import TableMetadata


class LocalFolders:
    """Keeps the contract of `Folders`. What the system refuses is an ``OSError``."""

    def __init__(self, root: str | Path, allowed_roots: Iterable[str | Path] = ()) -> None:
        self._root = Path(root).resolve()
        self._storage = LocalStorage(roots=[self._root, *allowed_roots])

    @property
    def root(self) -> str:
        return str(self._root)

    @property
    def storage(self) -> LocalStorage:
        return self._storage

    @property
    def fence(self) -> LocalStorage:
        return self._storage

    def place(self, levels: Namespace) -> str:
        """A folder below the root. Raises `InvalidInput` if a symbolic link leads out of the root."""
        return str(self._folder(levels))

    def namespaces(self, above: Namespace = ()) -> Iterator[Namespace]:
        for name in _folders(self._folder(above)):
            if not self.is_table_like((*above, name)):
                yield (*above, name)
                yield from self.namespaces((*above, name))

    def is_namespace(self, levels: Namespace) -> bool:
        return self._folder(levels).is_dir() and not self.is_table_like(levels)

    def is_table_like(self, levels: Namespace) -> bool:
        folder = self._folder(levels)
        if (folder / METADATA).is_dir():
            return True
        with suppress(FileNotFoundError, NotADirectoryError):
            return any(entry.name.startswith(DROPPED) for entry in folder.iterdir())
        return False

    def make(self, levels: Namespace) -> None:
        folder = self._folder(levels)
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
        sync_folder(folder.parent)

    def leftovers(self, levels: Namespace) -> list[str]:
        folder = self._folder(levels)
        return [str(file.relative_to(folder)) for file in folder.rglob("*") if not file.is_dir()]

    def remove(self, levels: Namespace) -> None:
        folder = self._folder(levels)
        for left in sorted((place for place in folder.rglob("*")), reverse=True):  # empty folders of dropped tables
            left.rmdir()
        folder.rmdir()  # fails if another writer created a table in it meanwhile

    def tables(self, levels: Namespace) -> Iterable[str]:
        folder = self._folder(levels)
        names = (name for name in _folders(folder) if self.is_table_like((*levels, name)))
        return [name for name in names if _has_versions(folder / name)]

    def make_table(self, levels: Namespace) -> None:
        table = self._folder(levels)
        for folder in (table, table / METADATA):
            folder.mkdir(exist_ok=True)  # no parents: a namespace that was dropped meanwhile is not created again
            sync_folder(folder.parent)

    def versions(self, levels: Namespace) -> VersionFolder:
        return VersionFolder(self._folder(levels) / METADATA)

    def drop(self, levels: Namespace, current: TableMetadata | None) -> None:
        folder = self._folder(levels)
        uuid = None if current is None else current.uuid
        (folder / METADATA).rename(folder / f"{dropped_folder(uuid)}{uuid4().hex[:8]}")
        try:
            sync_folder(folder)
        except OSError as error:
            name = ".".join(levels)
            raise OutcomeUnknown(
                f"cannot make sure that table {name} stays dropped after a power failure: {folder}: "
                f"{error.strerror or error}; check whether the table exists, and drop it again if it does",
                table=name,
            ) from error

    def _folder(self, levels: Namespace) -> Path:
        check_levels(levels)
        folder = self._root.joinpath(*levels)
        self._storage.check(str(folder))
        return folder


def _folders(folder: Path) -> list[str]:
    """The folders whose names are valid names of this catalog. Links are not followed."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    return [name for name in names if name != METADATA and can_be_named(name)]


def _has_versions(folder: Path) -> bool:
    try:
        with VersionFolder(folder / METADATA) as versions:
            return versions.newest() is not None
    except OSError as error:
        if is_failure(error):  # a table that cannot be read must not look missing
            raise
        return False
