"""What a directory catalog needs of the place where its folders are: a file system, or an object store."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from esker.catalogs.warehouse import Fence
from esker.errors import InvalidInput
from esker.model.table_names import Namespace
from esker.ports.storage import Storage
from esker.storage.version_folder import VersionFile
from esker.tree.table_metadata import TableMetadata

METADATA = "metadata"


class Versions(Protocol):
    """The version files of one table. A missing folder or file is a ``FileNotFoundError``."""

    def newest(self) -> VersionFile | None:
        """The current version; None where there is no table."""
        ...

    def versions(self, least: int = 0) -> list[VersionFile]:
        """The versions from a number on, in no order, those tidied away too."""
        ...

    def first(self) -> VersionFile | None:
        """The version that a new table starts with; None where there is a table."""
        ...

    def mark(self, name: str) -> Hashable:
        """What tells this file from any other that ever has its name."""
        ...

    def read(self, name: str) -> bytes:
        """The whole file."""
        ...

    def create(self, name: str, data: bytes) -> None:
        """The file, whole and durable; `AlreadyExists` when the name is taken, `OutcomeUnknown` when it may be made."""
        ...

    def remove(self, name: str) -> None:
        """The file goes, if it is there and may."""
        ...

    def tidy(self, version: VersionFile) -> None:
        """The content of an old version goes, its name stays taken. Never raises."""
        ...

    def free_old_names(self, current: int) -> None:
        """Remove the name of a version tidied so long ago that it need not stay taken. Never raises."""
        ...

    def leave_hint(self) -> None:
        """Write the newest version's number for readers of other engines, where they need it. Never raises."""
        ...


class Folders(Protocol):
    """Namespaces and tables as folders below a root."""

    @property
    def root(self) -> str:
        """Where the root is."""
        ...

    @property
    def storage(self) -> Storage:
        """The storage of the tables' files."""
        ...

    @property
    def fence(self) -> Fence:
        """What keeps the storage inside."""
        ...

    def place(self, levels: Namespace) -> str:
        """The location of a folder below the root; `InvalidInput` where it leads outside or cannot be one."""
        ...

    def namespaces(self, above: Namespace = ()) -> Iterator[Namespace]:
        """Every namespace below another."""
        ...

    def is_namespace(self, levels: Namespace) -> bool:
        """Whether the folder is there and makes no table."""
        ...

    def is_table_like(self, levels: Namespace) -> bool:
        """Whether the folder has, or had, the folder that makes a table."""
        ...

    def make(self, levels: Namespace) -> None:
        """A namespace, and those above it; ``FileExistsError`` where it is there."""
        ...

    def leftovers(self, levels: Namespace) -> list[str]:
        """What keeps a folder without tables from being removed."""
        ...

    def remove(self, levels: Namespace) -> None:
        """A namespace without tables and files goes."""
        ...

    def tables(self, levels: Namespace) -> Iterable[str]:
        """The names of the tables directly below a namespace."""
        ...

    def make_table(self, levels: Namespace) -> None:
        """What has to be there before the first version; ``FileNotFoundError`` where the namespace is gone."""
        ...

    def versions(self, levels: Namespace) -> AbstractContextManager[Versions]:
        """The versions of a table; ``FileNotFoundError`` where there is no such folder."""
        ...

    def drop(self, levels: Namespace, current: TableMetadata | None) -> None:
        """The table is none from now on; ``FileNotFoundError`` where there is none. ``current``: what it says, if it
        can be read. `OutcomeUnknown` where it may be dropped."""
        ...


def check_levels(levels: Namespace) -> None:
    """Raise `InvalidInput` for the name of the folder that marks a table."""
    if METADATA in levels:
        raise InvalidInput(
            "cannot use the name 'metadata': in a directory catalog this folder marks a table", name=METADATA
        )
