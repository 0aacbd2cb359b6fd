"""A directory as a catalog: ``<warehouse>/<namespace>/<table>/metadata/v<N>.metadata.json``, as for Hadoop tables.

A folder with a ``metadata`` folder inside is a table, and its newest version file is the table's metadata. Any other
folder is a namespace. The location of a table is its identity, so a table can neither be renamed nor be elsewhere. The
folders are on this machine (`LocalFolders`) or in an object store (`ObjectFolders`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from esker.catalogs.folders import METADATA, Folders, Versions
from esker.catalogs.local_folders import LocalFolders
from esker.catalogs.metadata_files import (
    check_same_table,
    codec_of,
    encoded,
    forgotten,
    with_log,
)
from esker.catalogs.refusals import (
    NoViews,
    checked_name,
    checked_namespace,
    dotted,
    namespace_exists,
    namespace_in_use,
    no_such_namespace,
    no_such_table,
    table_exists,
)
from esker.catalogs.warehouse import METADATA_PATH, Warehouse
from esker.errors import AlreadyExists, Corrupt, EskerError, InvalidInput, OutcomeUnknown, Unsupported
from esker.iceberg.metadata.table_metadata import decode_table_metadata
from esker.model.table_names import Namespace, TableName
from esker.ports.catalog import Accepted, Rejected, Swap, SwapAll, TableState, TableSwap, Unanswered, ViewCatalog
from esker.ports.storage import Storage
from esker.storage.failures import failure_of
from esker.storage.location import Location
from esker.storage.version_folder import VersionFile, version_file
from esker.tree.table_metadata import MetadataLogEntry, TableMetadata

_ATTEMPTS = 5  # a version that is read during cleanup may be gone; the newest one cannot be gone every time


class DirectoryCatalog:
    """Folders and version files below one root. Implements ``ports.catalog.Catalog`` and ``TakesGroups``."""

    takes_groups = True

    def __init__(self, root: str | Path | Folders, *, allowed_roots: Iterable[str | Path] = ()) -> None:
        self._folders: Folders = LocalFolders(root, allowed_roots) if isinstance(root, (str, Path)) else root
        self._storage = self._folders.storage
        self._warehouse = Warehouse(self._folders.root, self._storage, fence=self._folders.fence)
        # A recreated table starts at version 1 again, so a file name does not identify the table (D1).
        self._seen: dict[TableName, tuple[TableState, Hashable]] = {}

    def namespaces(self) -> tuple[Namespace, ...]:
        with _as_esker_errors("list namespaces", self._folders.root):
            return tuple(sorted(self._folders.namespaces()))

    def namespace_properties(self, namespace: Namespace) -> Mapping[str, str]:
        self._existing(namespace)
        return {}

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        if properties:
            raise Unsupported(
                f"cannot create namespace {dotted(namespace)} with properties: a folder has no properties; use a "
                "catalog in a database",
                feature="namespace properties",
            )
        with _as_esker_errors(
            f"create namespace {dotted(namespace)}", self._folders.place(checked_namespace(namespace))
        ):
            for depth in range(1, len(namespace)):
                if self._folders.is_table_like(namespace[:depth]):
                    raise InvalidInput(
                        f"cannot create namespace {dotted(namespace)}: {dotted(namespace[:depth])} is a table"
                    )
            try:
                self._folders.make(namespace)
            except FileExistsError:
                raise namespace_exists(namespace) from None

    def update_namespace_properties(
        self, namespace: Namespace, updates: Mapping[str, str], removals: Sequence[str]
    ) -> None:
        self._existing(namespace)
        if updates or removals:
            raise Unsupported(
                f"cannot set properties of namespace {dotted(namespace)}: a folder has no properties; use a catalog in "
                "a database",
                feature="namespace properties",
            )

    def drop_namespace(self, namespace: Namespace) -> None:
        self._existing(namespace)
        with _as_esker_errors(f"drop namespace {dotted(namespace)}", self._folders.place(namespace)):
            held = [str(name) for name in self.tables(namespace)]
            held += [dotted(below) for below in self._folders.namespaces(namespace)]
            held += [] if held else self._folders.leftovers(namespace)
            if held:
                raise namespace_in_use(namespace, held)
            self._folders.remove(namespace)

    def tables(self, namespace: Namespace) -> tuple[TableName, ...]:
        self._existing(namespace)
        with _as_esker_errors(f"list tables of {dotted(namespace)}", self._folders.place(namespace)):
            return tuple(sorted(TableName(namespace, name) for name in self._folders.tables(namespace)))

    def location_for(self, name: TableName) -> str:
        return self._folders.place(_levels(checked_name(name)))

    def load(self, name: TableName, known: TableState | None = None) -> TableState:
        with _as_esker_errors(f"load table {name}", self._home(name)):
            for _ in range(_ATTEMPTS):
                with suppress(FileNotFoundError), self._versions(name) as folder:
                    found = folder.newest()
                    if found is None:
                        break
                    if known is not None and self._is_same(name, folder, found.name, known):
                        return known
                    return self._read(name, folder, found.name)
        raise no_such_table(name, f"{self.location_for(name)} has no version of a table")

    def check_place(self, name: TableName, metadata: TableMetadata) -> None:
        self._check_place(name, metadata)

    def create(self, name: TableName, metadata: TableMetadata) -> TableState:
        self._existing(checked_name(name).namespace)
        self._check_place(name, metadata)
        codec_of(metadata.properties)
        with _as_esker_errors(f"create table {name}", self._home(name)):
            try:
                self._folders.make_table(_levels(name))
            except FileNotFoundError:
                raise no_such_namespace(name.namespace) from None
            with self._versions(name) as folder:
                first = folder.first()
                if first is None:
                    raise table_exists(name)
                state = TableState(metadata=metadata, metadata_location=self._file(name, first.name))
                try:
                    # Never compressed, so that two writers that create the table use the same file name.
                    folder.create(first.name, encoded(metadata, "none"))
                except AlreadyExists:
                    raise table_exists(name) from None
                self._check_first(name, folder, first)
                folder.leave_hint()
                self._saw(name, folder, state)
        return state

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        check_same_table(base.metadata, new)
        self._check_place(name, new, base.metadata)
        codec_of(new.properties)
        try:
            with _as_esker_errors(f"commit to {name}", self._home(name)), self._versions(name) as folder:
                return self._swap(name, folder, base, with_log(base, new))
        except FileNotFoundError:
            return Rejected(f"table {name} was dropped")
        except OutcomeUnknown as error:
            return Unanswered(error.message, error.facts.get("made"))

    def check_swaps_all(self) -> None:
        raise Unsupported(
            "cannot change several tables in one step: in a directory catalog every table has its own pointer; "
            "use a SQLite or PostgreSQL catalog",
            feature="transactions over several tables",
        )

    def swap_all(self, swaps: Sequence[TableSwap]) -> SwapAll:
        self.check_swaps_all()
        raise AssertionError("it was refused")

    def _check_first(self, name: TableName, folder: Versions, first: VersionFile) -> None:
        """Raise `OutcomeUnknown` if it is not certain that the new first version is the table.

        Another engine may have removed its first version, and later versions exist. Or the folder cannot be listed. The
        file is created, so no other error may be raised.
        """
        try:
            if not folder.versions(first.version + 1):
                return
            folder.tidy(first)
            why = "another writer created it too and has changed it already"
        except (OSError, EskerError) as error:
            why = f"{getattr(error, 'strerror', None) or error}"
        raise OutcomeUnknown(
            f"cannot tell whether table {name} was created: {why}; open the table and check it", table=str(name)
        )

    def register(self, name: TableName, metadata_location: str) -> TableState:
        self._existing(checked_name(name).namespace)
        content = self._storage.read(metadata_location)
        metadata = decode_table_metadata(metadata_location, content)
        entry = MetadataLogEntry(timestamp_ms=metadata.last_updated_ms, metadata_file=metadata_location)
        # The versions of an earlier table here are gone, and the numbers start again.
        own = [self._file(name, _file_name(before.metadata_file)) for before in metadata.metadata_log]
        log = [
            before
            for before, here in zip(metadata.metadata_log, own, strict=True)
            if version_file(_file_name(here)) is None or Location.parse(before.metadata_file) != Location.parse(here)
        ]
        return self.create(name, replace(metadata, metadata_log=(*log, entry)))

    def drop(self, name: TableName) -> None:
        self._current_version(name)
        current = None
        with suppress(Corrupt, Unsupported):  # a table that cannot be read can still be dropped
            current = self.load(name).metadata
        try:
            with _as_esker_errors(f"drop table {name}", self._home(name)):
                self._folders.drop(_levels(name), current)
        except FileNotFoundError:
            raise no_such_table(name) from None

    def rename(self, old: TableName, new: TableName) -> None:
        checked_name(new)
        self._current_version(old)
        raise Unsupported(
            f"cannot rename table {old} to {new}: in a directory catalog the name of a table is its folder, and its "
            "files refer to each other by that folder; create a new table and copy the rows",
            feature="rename",
        )

    def storage(self) -> Storage:
        return self._storage

    def view_catalog(self) -> ViewCatalog:
        return NoViews(self, "a directory catalog has only tables, like Iceberg's own; use a catalog in a database")

    def _current_version(self, name: TableName) -> int:
        """The number of the current version. Raises `NoSuchTable` if there is none."""
        with (
            _as_esker_errors(f"look for table {name}", self._home(name)),
            suppress(FileNotFoundError),
            self._versions(name) as folder,
        ):
            found = folder.newest()
            if found is not None:
                return found.version
        raise no_such_table(name, f"{self.location_for(name)} has no version of a table")

    def _swap(self, name: TableName, folder: Versions, base: TableState, new: TableMetadata) -> Swap:
        current = folder.newest()
        if current is None:
            return Rejected(f"table {name} was dropped")
        if self._file(name, current.name) != base.metadata_location:
            return Rejected(f"table {name} has moved on to version {current.version}")
        if not self._is_same(name, folder, current.name, base):
            return Rejected(f"table {name} was dropped and created again")
        # The name follows the codec of the base. So writers on one base use one name, even if one of them changes the
        # codec.
        codec = codec_of(base.metadata.properties)
        file = f"v{current.version + 1}{'.gz' if codec == 'gzip' else ''}.metadata.json"
        made = VersionFile(current.version + 1, file)
        try:
            folder.create(file, encoded(new, codec))
        except AlreadyExists:
            return Rejected(f"another writer created version {made.version} of {name} first")
        except OutcomeUnknown as error:
            is_newest = False
            with suppress(OSError, EskerError):  # the version may be created: no other error may be raised
                is_newest = folder.newest() == made  # if a later version exists, the name alone proves nothing
            return Unanswered(error.message, error.facts.get("made") if is_newest else None)
        state = TableState(metadata=new, metadata_location=self._file(name, file))
        if doubt := self._doubt(name, folder, base, made, state):
            return Unanswered(doubt)
        folder.leave_hint()
        self._saw(name, folder, state)
        self._tidy(name, folder, made, forgotten(base, new))
        return Accepted(state)

    def _doubt(
        self, name: TableName, folder: Versions, base: TableState, made: VersionFile, state: TableState
    ) -> str | None:
        """Why it is not certain that the new version is part of the table. None if it is certain.

        Esker keeps the names of old versions taken; other engines do not. Below their versions, a free name proves
        nothing. The new version must be the highest one, or the newest version must record it.
        """
        try:
            there = folder.versions(made.version - 1)
            if any(file.version == made.version and file != made for file in there):
                return f"another engine created version {made.version} of {name} too, under another name"
            if all(file.version <= made.version for file in there):
                if _file_name(base.metadata_location) in {file.name for file in there}:
                    return None
                return f"version {made.version - 1} of {name} was removed during the commit"
            if _follows(self._newest(name, folder).metadata, base.metadata, state):
                return None
        except (OSError, EskerError) as error:  # the new version is created: no other error may be raised
            return f"cannot tell whether later versions of {name} follow version {made.version}: {error}"
        folder.tidy(made)  # a reader that starts at an old hint must not use it as the newest version
        return f"later versions of {name} exist, and none of them records that it follows version {made.version}"

    def _newest(self, name: TableName, folder: Versions) -> TableState:
        for _ in range(_ATTEMPTS):
            with suppress(FileNotFoundError):
                found = folder.newest()
                if found is not None:
                    return self._read(name, folder, found.name)
        raise no_such_table(name)

    def _tidy(self, name: TableName, folder: Versions, made: VersionFile, old: list[str]) -> None:
        """Remove old metadata files: only those in this folder, and no version that is newer than the base."""
        for location in old:
            file = _file_name(location)
            version = version_file(file)
            if Location.parse(location) != Location.parse(self._file(name, file)):
                continue
            if version is None:
                folder.remove(file)
            elif version.version < made.version - 1:
                folder.tidy(version)
        if old:
            folder.free_old_names(made.version)

    def _read(self, name: TableName, folder: Versions, file: str) -> TableState:
        location = self._file(name, file)
        mark = folder.mark(file)
        content = folder.read(file)
        newest = None if content else folder.newest()
        if newest is not None and newest.name != file:
            raise FileNotFoundError(file)  # cleaned up meanwhile
        metadata = decode_table_metadata(location, content)
        state = TableState(metadata=metadata, metadata_location=location)
        self._seen[name] = (state, mark)
        return state

    def _saw(self, name: TableName, folder: Versions, state: TableState) -> None:
        with suppress(OSError, EskerError):
            self._seen[name] = (state, folder.mark(state.metadata_location.rpartition("/")[2]))

    def _is_same(self, name: TableName, folder: Versions, file: str, known: TableState) -> bool:
        """Whether ``known`` is the content of that file."""
        if self._file(name, file) != known.metadata_location:
            return False
        state, mark = self._seen.get(name, (None, None))
        if state is known and mark == folder.mark(file):
            return True
        there = self._read(name, folder, file).metadata
        return (there.uuid, there.last_updated_ms) == (known.metadata.uuid, known.metadata.last_updated_ms)

    def _file(self, name: TableName, file: str) -> str:
        return f"{self.location_for(name)}/{METADATA}/{file}"

    def _home(self, name: TableName) -> str:
        return self._folders.place(_levels(checked_name(name)))

    def _versions(self, name: TableName) -> AbstractContextManager[Versions]:
        return self._folders.versions(_levels(checked_name(name)))

    def _existing(self, namespace: Namespace) -> None:
        place = self._folders.place(checked_namespace(namespace))
        with _as_esker_errors(f"look at namespace {dotted(namespace)}", place):
            if not self._folders.is_namespace(namespace):
                raise no_such_namespace(namespace)

    def _check_place(self, name: TableName, metadata: TableMetadata, base: TableMetadata | None = None) -> None:
        home = self.location_for(name)
        if Location.parse(metadata.location) != Location.parse(home):
            raise InvalidInput(
                f"cannot put table {name} at {metadata.location}: in a directory catalog its location is {home}",
                location=metadata.location,
            )
        named = metadata.properties.get(METADATA_PATH)
        if named and Location.parse(named) != Location.parse(f"{home}/{METADATA}"):
            raise InvalidInput(
                f"cannot put the metadata of {name} at {named}: a directory catalog needs it in {home}/{METADATA}",
                property=METADATA_PATH,
            )
        self._warehouse.check_table(metadata, base)


def _levels(name: TableName) -> Namespace:
    return (*name.namespace, name.name)


def _follows(newest: TableMetadata, base: TableMetadata, state: TableState) -> bool:
    """Whether a later version records that it was written after ``state``, the version on ``base``.

    A new snapshot is recognized by its id. Any other change is recognized by its entry in the metadata log.
    """
    ours = state.metadata
    added = ours.snapshots[-1].snapshot_id if ours.snapshots else None
    if added is not None and base.snapshot(added) is None:
        return newest.snapshot(added) is not None
    entry = (_file_name(state.metadata_location), ours.last_updated_ms)
    return entry in ((_file_name(before.metadata_file), before.timestamp_ms) for before in newest.metadata_log)


def _file_name(location: str) -> str:
    return location.rpartition("/")[2]


@contextmanager
def _as_esker_errors(act: str, place: str) -> Iterator[None]:
    """Raise each ``OSError`` of the block as an Esker error. A missing file stays a ``FileNotFoundError``."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise failure_of(error, act, place, whole=True) from error
