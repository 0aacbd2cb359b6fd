"""Find the catalog that a URI names, and open it or create it (``esker init``).

| URI | catalog |
  | --- | --- |
  | ``sqlite:///lake/catalog.db``, ``sqlite:lake/catalog.db`` | a SQLite file below the working directory |
  | ``sqlite:////data/catalog.db``, ``sqlite:/data/catalog.db`` | a SQLite file by absolute path |
  | ``postgresql://user@host/database`` | a PostgreSQL database |
  | ``file:///data/warehouse``, ``/data/warehouse``, ``warehouse`` | a directory |
  | ``s3://bucket/warehouse``, ``gs://…``, ``abfss://…`` | a directory in an object store |
  | ``https://catalog.example``, ``http://127.0.0.1:8181`` | a REST catalog |
  | ``memory:`` | this process |

SQLAlchemy, and so PyIceberg, also writes three slashes before a relative path. A database may contain several catalogs:
``?catalog_name=prod`` selects one, by default ``default``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from esker.catalogs.directory import DirectoryCatalog
from esker.catalogs.memory import MemoryPointers, memory_catalog
from esker.catalogs.object_folders import ObjectFolders, check_conditions
from esker.catalogs.pointer_catalog import PointerCatalog
from esker.catalogs.postgres import PostgresDatabase
from esker.catalogs.postgres_address import PostgresAddress, parse_address, whole_uri, without_secrets
from esker.catalogs.sql_pointers import SqlPointers
from esker.catalogs.sql_request_log import RecordingDatabase
from esker.catalogs.sqlite import SqliteDatabase
from esker.catalogs.warehouse import Warehouse, recorded_warehouses
from esker.errors import AlreadyExists, InvalidInput, NoSuchFile
from esker.ports.catalog import Catalog
from esker.storage.choose import absolute, is_remote, storage_for
from esker.storage.failures import naming_failures
from esker.storage.local import LocalStorage
from esker.storage.location import Location
from esker.storage.objects.configuration import HiddenProperties, ObjectConfiguration, check_names
from esker.storage.objects.object_storage import ObjectStorage

DEFAULT_NAME = "default"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


def open_catalog(
    uri: str,
    *,
    warehouse: str | None = None,
    allowed_roots: Iterable[str] = (),
    must_exist: bool = False,
    properties: Mapping[str, str] | None = None,
) -> Catalog:
    """Open the catalog at ``uri``. Opening creates nothing.

    ``warehouse`` is the location of new tables, by default beside the database. ``allowed_roots`` are further places
    whose files tables may use. Without ``warehouse``, the warehouses that the catalog was used with before are allowed
    too. With ``must_exist``, `NoSuchFile` is raised if the database or directory does not exist. `InvalidInput` is
    raised for a malformed URI, and `Unsupported` for a kind of catalog that this version does not have.
    ``properties`` are the settings of object stores, in PyIceberg's names. Others are read from the environment.
    """
    check_names(properties or {})
    stores = ObjectConfiguration.of(properties)
    if must_exist:
        _check_exists(uri)
    match scheme_of(uri):
        case "sqlite":
            return _sqlite(uri, warehouse, allowed_roots, stores)
        case "file":
            return _directory(uri, warehouse, allowed_roots)
        case "postgresql":
            return _postgres(uri, warehouse, allowed_roots, stores)
        case "memory":
            return _memory(uri, warehouse, allowed_roots, stores)
        case "http" | "https":
            return _rest(uri, warehouse, allowed_roots, properties)
        case _ if is_remote(uri):
            return _object_directory(uri, warehouse, allowed_roots, stores)
        case _:
            raise InvalidInput(
                f"cannot open {without_secrets(uri)}: it is no catalog; use sqlite:///file, "
                "postgresql://host/database, file:///directory, a directory's path, s3://bucket/path, "
                "gs://bucket/path, abfss://container@account/path, https://server or memory:"
            )


def _check_exists(uri: str) -> None:
    match scheme_of(uri):
        case "sqlite":
            place, kind = sqlite_file(uri)[0], "file"
        case "file":
            place, kind = Path(Location.parse(uri).path), "directory"
        case "postgresql":
            _check_tables(parse_address(uri))
            return
        case _:
            return
    with naming_failures("open", place):
        exists = place.exists()
    if not exists:
        raise NoSuchFile(
            f"cannot open the catalog {uri}: there is no {kind} {place}; check the name, or create a lake there with: "
            f"esker init --catalog {shlex.quote(uri)}",
            file=str(place),
        )


def _check_tables(address: PostgresAddress) -> None:
    database = PostgresDatabase(address)
    if not database.read("look for a catalog", lambda session: True, nothing=False):
        raise NoSuchFile(
            f"cannot open the catalog {address.shown}: the database has no catalog; check the name, or create one "
            "with: esker init",
            file=address.shown,
        )


def catalog_address(
    uri: str,
    *,
    warehouse: str | None,
    allowed_roots: Iterable[str],
    properties: Mapping[str, str] | None = None,
) -> dict[str, Any] | None:
    """The arguments that open the same catalog from any working directory. None if it exists only in this process."""
    match scheme_of(uri):
        case "memory":
            return None
        case "sqlite":
            file, name = sqlite_file(uri)
            whole = f"sqlite:///{file}?{urlencode({'catalog_name': name})}"
        case "postgresql":
            whole = whole_uri(parse_address(uri), with_warehouse=warehouse is None)
        case "file":
            whole = str(Path(Location.parse(uri).path).resolve())
        case _:
            whole = uri
    names_it = scheme_of(uri) in ("http", "https")  # a warehouse of a REST catalog is what the server calls it
    place = warehouse if warehouse is None or names_it else absolute(warehouse)
    address: dict[str, Any] = {
        "uri": whole,
        "warehouse": place,
        "allowed_roots": [absolute(root) for root in allowed_roots],
    }
    return {**address, "properties": HiddenProperties(properties)} if properties else address


def scheme_of(uri: str) -> str:
    """The kind of catalog that a URI names. A plain path is a directory. All spellings of PostgreSQL are one kind."""
    found = _SCHEME.match(uri)
    scheme = found[1].lower() if found else "file"
    return "postgresql" if scheme.partition("+")[0] in ("postgresql", "postgres") else scheme


def sqlite_file(uri: str) -> tuple[Path, str]:
    """The database file that a ``sqlite:`` URI names, and the name of the catalog in it."""
    text, _, query = uri.partition(":")[2].partition("?")
    path = text.removeprefix("///")
    if path.startswith("//") or not path or path == ":memory:":
        raise InvalidInput(f"cannot open {uri}: name the file, as in sqlite:///lake/catalog.db (memory: needs none)")
    options = dict(parse_qsl(query, keep_blank_values=True))
    name = options.pop("catalog_name", DEFAULT_NAME)
    if options or not name or len(name) > 255:
        raise InvalidInput(f"cannot open {uri}: the only option is catalog_name, of 1 to 255 characters")
    return Path(path).resolve(), name


def _sqlite(uri: str, warehouse: str | None, roots: Iterable[str], stores: ObjectConfiguration) -> Catalog:
    file, name = sqlite_file(uri)
    place = str(file.parent / "warehouse") if warehouse is None else warehouse
    record = warehouse_record(file)
    known = recorded_warehouses(record) if warehouse is None else ()
    pointers = SqlPointers(RecordingDatabase(SqliteDatabase(file)), name)
    found = _warehouse_at(place, (*roots, *known), stores, None if warehouse is None else record)
    return PointerCatalog(pointers, found, name=name)


def _postgres(uri: str, warehouse: str | None, roots: Iterable[str], stores: ObjectConfiguration) -> Catalog:
    address = parse_address(uri)
    place = address.warehouse if warehouse is None else warehouse
    if not place:
        raise InvalidInput(
            f"cannot open {address.shown} without a warehouse: name the place of its tables, with warehouse=… "
            "(--warehouse on the command line) or as the option ?warehouse=… of the URI"
        )
    pointers = SqlPointers(RecordingDatabase(PostgresDatabase(address)), address.catalog_name)
    return PointerCatalog(pointers, _warehouse_at(place, roots, stores), name=address.catalog_name)


def warehouse_record(file: Path) -> Path:
    """The file that records which warehouses a SQLite catalog was used with, besides the one beside the database."""
    return file.with_name(f"{file.name}.warehouses")


def _directory(uri: str, warehouse: str | None, roots: Iterable[str]) -> Catalog:
    location = Location.parse(uri)
    if location.authority not in ("", "localhost") or not location.path:
        raise InvalidInput(f"cannot open {uri}: name a directory, as in file:///data/warehouse")
    root = Path(location.path).resolve()
    if root.exists() and not root.is_dir():
        raise InvalidInput(f"cannot open {uri}: it is a file; to open a SQLite catalog, use sqlite:///{location.path}")
    if warehouse is not None and Path(Location.parse(warehouse).path).resolve() != root:
        raise InvalidInput(
            f"cannot open {uri} with the warehouse {warehouse}: a directory catalog is its own warehouse; omit it"
        )
    return DirectoryCatalog(root, allowed_roots=roots)


def _object_directory(uri: str, warehouse: str | None, roots: Iterable[str], stores: ObjectConfiguration) -> Catalog:
    location = Location.parse(uri)
    if not location.authority or ".." in location.path.split("/"):
        raise InvalidInput(f"cannot open {uri}: name a bucket and a folder, as in s3://bucket/warehouse")
    if warehouse is not None and Location.parse(warehouse) != location:
        raise InvalidInput(
            f"cannot open {uri} with the warehouse {warehouse}: a directory catalog is its own warehouse"
        )
    root = uri.rstrip("/")
    files = storage_for((root, *map(absolute, roots)), configuration=stores)
    objects = files if isinstance(files, ObjectStorage) else ObjectStorage(stores, roots=[root])
    return DirectoryCatalog(ObjectFolders(root, objects, files=files))


def _memory(uri: str, warehouse: str | None, roots: Iterable[str], stores: ObjectConfiguration) -> Catalog:
    if uri.partition(":")[2].strip("/"):
        raise InvalidInput(f"cannot open {uri}: nothing may follow memory:, not even a name; use memory: alone")
    if warehouse is None:
        return memory_catalog(map(absolute, roots))
    return PointerCatalog(MemoryPointers(), _warehouse_at(warehouse, roots, stores))


def _rest(uri: str, warehouse: str | None, roots: Iterable[str], properties: Mapping[str, str] | None) -> Catalog:
    from esker.catalogs.rest.open_rest_catalog import open_rest_catalog

    return open_rest_catalog(uri, warehouse=warehouse, allowed_roots=map(absolute, roots), properties=properties)


def _warehouse_at(
    place: str, roots: Iterable[str], stores: ObjectConfiguration, record: Path | None = None
) -> Warehouse:
    storage = storage_for(map(absolute, (place, *roots)), configuration=stores)
    return Warehouse(absolute(place), storage, fence=storage, record=record)


# ---------------------------------------------------------------- Creating a catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeCatalog:
    """A new catalog: its kind, and the locations of the catalog and its tables."""

    kind: str  # "sqlite", "postgresql" or "directory"
    place: str
    warehouse: str


def make_catalog(uri: str, *, warehouse: str | None = None, properties: Mapping[str, str] | None = None) -> MadeCatalog:
    """Create the catalog that ``uri`` names and the folder for its tables. Raises ``AlreadyExists`` if it exists.

    In an object store nothing is created: the store is only tested. Raises `Unsupported` if it cannot hold a catalog.
    """
    opened = open_catalog(uri, warehouse=warehouse, properties=properties)  # raises for a URI that could not be opened
    match scheme_of(uri):
        case "sqlite":
            return _make_sqlite(uri, warehouse)
        case "postgresql":
            return _make_postgres(uri, warehouse)
        case "file":
            return _make_directory(uri)
        case "http" | "https":
            raise InvalidInput(f"cannot make a catalog at {uri}: a REST catalog is made by its server")
        case _ if is_remote(uri):
            return _try_store(uri, opened, ObjectConfiguration.of(properties))
        case _:
            raise InvalidInput(
                "cannot create a lake in memory: it would end with this command; name a file or a folder"
            )


def _make_sqlite(uri: str, warehouse: str | None) -> MadeCatalog:
    file, _ = sqlite_file(uri)
    database = SqliteDatabase(file)
    if database.read("look for a catalog", lambda session: True, nothing=False):
        raise AlreadyExists(f"cannot create a catalog at {file}: it exists; it was not changed", path=str(file))
    if warehouse is not None and is_remote(warehouse):
        place = warehouse.rstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
    else:
        local = file.parent / "warehouse" if warehouse is None else Path(Location.parse(warehouse).path).resolve()
        _make_folder(local)
        place = str(local)
    database.write("make a catalog", lambda session: None)
    if warehouse is not None:
        Warehouse(place, LocalStorage(), record=warehouse_record(file)).remember()
    return MadeCatalog(kind="sqlite", place=str(file), warehouse=place)


def _make_postgres(uri: str, warehouse: str | None) -> MadeCatalog:
    address = parse_address(uri)
    database = PostgresDatabase(address)
    if database.read("look for a catalog", lambda session: True, nothing=False):
        raise AlreadyExists(
            f"cannot create a catalog in {address.shown}: it exists; it was not changed", catalog=address.shown
        )
    database.write("make a catalog", lambda session: None)
    return MadeCatalog(kind="postgresql", place=address.shown, warehouse=str(warehouse or address.warehouse))


def _make_directory(uri: str) -> MadeCatalog:
    root = Path(Location.parse(uri).path).resolve()
    if root.is_dir() and any(root.iterdir()):
        raise AlreadyExists(
            f"cannot create a catalog at {root}: the folder exists and is not empty, so it can be used as it is; "
            "it was not changed",
            path=str(root),
        )
    _make_folder(root)
    return MadeCatalog(kind="directory", place=str(root), warehouse=str(root))


def _try_store(uri: str, opened: Catalog, configuration: ObjectConfiguration) -> MadeCatalog:
    root = uri.rstrip("/")
    if opened.namespaces():
        raise AlreadyExists(f"cannot create a catalog at {root}: it exists; it was not changed", path=root)
    check_conditions(ObjectStorage(configuration, roots=[root]), root)
    return MadeCatalog(kind="directory", place=root, warehouse=root)


def _make_folder(place: Path) -> None:
    with naming_failures("make", place):
        place.mkdir(parents=True, exist_ok=True)
