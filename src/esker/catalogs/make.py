"""Making a catalog where there is none: ``esker init``. Everything else makes what it needs when it first writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from esker.catalogs.open import open_catalog, scheme_of, sqlite_file, warehouse_record
from esker.catalogs.sqlite import SqliteDatabase
from esker.catalogs.warehouse import Warehouse
from esker.errors import AlreadyExists, InvalidInput
from esker.storage.failures import naming_failures
from esker.storage.local import LocalStorage
from esker.storage.location import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeCatalog:
    """A catalog that was made: what it is, and where it and its tables lie."""

    kind: str  # "sqlite" or "directory"
    place: str
    warehouse: str


def make_catalog(uri: str, *, warehouse: str | None = None) -> MadeCatalog:
    """Make the catalog that ``uri`` names and the folder for its tables; ``AlreadyExists`` where there is one."""
    open_catalog(uri, warehouse=warehouse)  # what could not be opened is not made
    match scheme_of(uri):
        case "sqlite":
            return _make_sqlite(uri, warehouse)
        case "file":
            return _make_directory(uri)
        case _:
            raise InvalidInput("cannot make a lake in memory: it would end with this command; name a file or a folder")


def _make_sqlite(uri: str, warehouse: str | None) -> MadeCatalog:
    file, _ = sqlite_file(uri)
    database = SqliteDatabase(file)
    if database.read("look for a catalog", lambda session: True, nothing=False):
        raise AlreadyExists(f"cannot make a catalog at {file}: there is one; it was left as it is", path=str(file))
    place = file.parent / "warehouse" if warehouse is None else Path(Location.parse(warehouse).path).resolve()
    _make_folder(place)
    database.write("make a catalog", lambda session: None)
    if warehouse is not None:
        Warehouse(str(place), LocalStorage(), record=warehouse_record(file)).remember()
    return MadeCatalog(kind="sqlite", place=str(file), warehouse=str(place))


def _make_directory(uri: str) -> MadeCatalog:
    root = Path(Location.parse(uri).path).resolve()
    if root.is_dir() and any(root.iterdir()):
        raise AlreadyExists(
            f"cannot make a catalog at {root}: the folder is there and is not empty, so it is one as it is; "
            "it was left as it is",
            path=str(root),
        )
    _make_folder(root)
    return MadeCatalog(kind="directory", place=str(root), warehouse=str(root))


def _make_folder(place: Path) -> None:
    with naming_failures("make", place):
        place.mkdir(parents=True, exist_ok=True)
