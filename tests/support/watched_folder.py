"""A directory catalog whose every step in a version folder goes through a door, so that a test can stop between two."""

from __future__ import annotations

from pathlib import Path

from doors import Door

from esker.catalogs.directory import DirectoryCatalog
from esker.model.table_names import TableName
from esker.storage.version_folder import VersionFile, VersionFolder, version_file


class WatchedFolder(VersionFolder):
    """Listings are reads (``get``); a version made, tidied or hinted at is a change (``move``)."""

    def __init__(self, path: Path, door: Door, *, deletes: bool) -> None:
        super().__init__(path)
        self._door = door
        self._deletes = deletes

    def _listed(self) -> dict[str, int]:
        return self._door.go("get", "versions", super()._listed)

    def tidy(self, version: VersionFile) -> None:
        def remove() -> None:
            self.remove(version.name)  # as engines do that keep no names

        self._door.go(
            "move", f"tidy {version.name}", remove if self._deletes else lambda: VersionFolder.tidy(self, version)
        )

    def leave_hint(self) -> None:
        self._door.go("move", "hint", super().leave_hint)

    def _link(self, draft: str, name: str) -> None:
        self._door.go("move", name, lambda: VersionFolder._link(self, draft, name))


class WatchedDirectory(DirectoryCatalog):
    """The catalog; with ``deletes`` it tidies as other engines do, and leaves free names behind."""

    def __init__(self, root: Path, door: Door, *, deletes: bool = False) -> None:
        super().__init__(root)
        self._door = door
        self._deletes = deletes

    def _versions(self, name: TableName) -> VersionFolder:
        return WatchedFolder(Path(self._home(name)) / "metadata", self._door, deletes=self._deletes)


def no_sync(_: int) -> None:
    """Stands in for ``os.fsync`` where a test makes thousands of commits and cuts no power."""


def hint_of(folder: Path) -> int:
    """The number in ``version-hint.text``; 0 where there is none."""
    try:
        return int((folder / "version-hint.text").read_text())
    except FileNotFoundError:
        return 0


def highest(folder: Path) -> int:
    """The highest version in the folder."""
    names = (file.name for file in folder.iterdir())
    return max((file.version for file in map(version_file, names) if file is not None), default=0)


def walked_from_hint(folder: Path) -> Path:
    """The version that a reader takes who begins at the hint and goes up while there is a next one (Iceberg's own)."""
    version = hint_of(folder)
    while (folder / f"v{version + 1}.metadata.json").exists():
        version += 1
    return folder / f"v{version}.metadata.json"
