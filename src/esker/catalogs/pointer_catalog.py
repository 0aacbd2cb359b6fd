"""Catalogs that hold only a pointer to the current metadata file of each table and view.

`Pointers` is the port: a dict or a database that holds the pointers. `PointerCatalog` is the catalog over it. A commit
writes a new metadata file first and moves the pointer afterwards, so the pointer always names a complete file.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol
from uuid import uuid4

from esker.catalogs.metadata_files import SUFFIXES, MetadataFiles, check_same_table, codec_of, version_of
from esker.catalogs.refusals import Kind, checked_name, checked_namespace, missing, table_exists
from esker.catalogs.warehouse import METADATA_PATH, Warehouse
from esker.errors import EskerError, InvalidInput, OutcomeUnknown
from esker.iceberg.metadata.view_metadata import decode_view_metadata, encode_view_metadata
from esker.model.table_names import Namespace, TableName
from esker.ports.catalog import (
    Accepted,
    AllAccepted,
    AllUnanswered,
    Folder,
    NewTable,
    Rejected,
    Swap,
    SwapAll,
    TableState,
    TableSwap,
    Unanswered,
    ViewAccepted,
    ViewCatalog,
    ViewState,
    ViewSwap,
)
from esker.ports.storage import Storage
from esker.tree.table_metadata import TableMetadata
from esker.tree.view_metadata import ViewMetadata

LONGEST_LOCATION = 1000  # the limit of the SQL tables that engines share


@dataclass(frozen=True, slots=True)
class Move:
    """One pointer, and where it is to move from and to. A pointer without ``old`` must not exist yet."""

    name: TableName
    old: str | None
    new: str


@dataclass(frozen=True, slots=True)
class PendingPlaces:
    """What a change of a pointer does in its transaction: it calls ``check`` with the folders of all tables and views,
    and records the folders that names gain (`checking`)."""

    check: Callable[[Sequence[Folder]], None]
    gains: Mapping[TableName, Sequence[str]]


_pending: ContextVar[PendingPlaces | None] = ContextVar("places", default=None)


@contextmanager
def _checking(pending: PendingPlaces) -> Iterator[None]:
    token = _pending.set(pending)
    try:
        yield
    finally:
        _pending.reset(token)


def pending_places() -> PendingPlaces | None:
    """What a change of a pointer has to check and to record. None if it has nothing to."""
    return _pending.get()


def folder_of(metadata_location: str) -> str:
    """The folder of a table or view, as far as its metadata file shows it."""
    return metadata_location.rpartition("/")[0].removesuffix("/metadata")


class Pointers(Protocol):
    """The names of tables and views, and the metadata location of each. A name is a table or a view, never both.

    Every method is atomic, and its result is visible to all readers at once.
    """

    def namespaces(self) -> tuple[Namespace, ...]:
        """Every namespace and its ancestors, sorted."""
        ...

    def properties(self, namespace: Namespace) -> Mapping[str, str]:
        """The properties of a namespace. Raises `NoSuchNamespace` if it does not exist."""
        ...

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Create a namespace. Raises `AlreadyExists` if it exists."""
        ...

    def update_properties(self, namespace: Namespace, updates: Mapping[str, str], removals: Sequence[str]) -> None:
        """Change properties, all or none. Raises `NoSuchNamespace` if the namespace does not exist."""
        ...

    def drop_namespace(self, namespace: Namespace) -> None:
        """Remove a namespace. Raises `InvalidInput` if it is not empty."""
        ...

    def tables(self, namespace: Namespace, kind: Kind = Kind.TABLE) -> tuple[TableName, ...]:
        """The tables or views of a namespace, sorted. Raises `NoSuchNamespace` if it does not exist."""
        ...

    def get(self, name: TableName, kind: Kind = Kind.TABLE) -> str | None:
        """The location of the metadata. None if there is no such table or view."""
        ...

    def get_at_once(self, name: TableName) -> str | None:
        """The location of a table's metadata. None if there is no such table, or if that cannot be said without a
        wait."""
        ...

    def put_new(self, name: TableName, location: str, kind: Kind = Kind.TABLE) -> None:
        """Add a name. Raises `AlreadyExists`, `NoSuchNamespace`, or `OutcomeUnknown` if no answer came."""
        ...

    def move(self, moves: Sequence[Move], kind: Kind = Kind.TABLE) -> Rejected | Unanswered | None:
        """Point each name at its ``new`` if all names still point at their ``old``, in one step.

        Returns None if all were moved. `Rejected` and an error mean that none was. Raises `AlreadyExists` for a pointer
        without ``old`` that exists.
        """
        ...

    def folders(self) -> tuple[Folder, ...]:
        """The folders of all tables and views, and of dropped tables that can be brought back."""
        ...

    def remove(self, name: TableName, kind: Kind = Kind.TABLE) -> str:
        """Remove a name. Returns where it pointed at. Raises `NoSuchTable` if it does not exist."""
        ...

    def rename(self, old: TableName, new: TableName, kind: Kind = Kind.TABLE) -> None:
        """Rename a table or view. Raises `NoSuchTable`, `NoSuchNamespace` or `AlreadyExists`."""
        ...


def fitting(location: str) -> str:
    """The location. Raises `InvalidInput` if it is too long for the SQL tables."""
    if len(location) > LONGEST_LOCATION:
        raise InvalidInput(
            f"cannot point at {location[:60]}…: it has over {LONGEST_LOCATION} characters", location=location
        )
    return location


# ---------------------------------------------------------------- View metadata files


@dataclass(frozen=True, slots=True)
class ViewFiles:
    """Reads and writes complete files of view metadata. Each is written once, under a unique name."""

    warehouse: Warehouse

    def read(self, location: str) -> ViewState:
        """The view that a file describes. Raises `InvalidInput` if the file is outside the warehouse and the allowed
        roots."""
        content = self.warehouse.storage.read(location)
        return ViewState(metadata=decode_view_metadata(location, content), metadata_location=location)

    def write(self, metadata: ViewMetadata, base: ViewState | None = None) -> ViewState:
        """Write the file that follows ``base``, or the first one. It becomes the view only when the pointer moves to
        it."""
        version = 0 if base is None else version_of(base.metadata_location) + 1
        codec = codec_of(metadata.properties)
        location = f"{self._folder(metadata)}/{version:05d}-{uuid4()}{SUFFIXES[codec]}"
        content = encode_view_metadata(metadata)
        self.warehouse.storage.write_new(location, gzip.compress(content, mtime=0) if codec == "gzip" else content)
        return ViewState(metadata=metadata, metadata_location=location)

    def discard(self, state: ViewState) -> None:
        """Delete a file that certainly no pointer ever named."""
        with suppress(EskerError):
            self.warehouse.storage.delete(state.metadata_location)

    def _folder(self, metadata: ViewMetadata) -> str:
        named = metadata.properties.get(METADATA_PATH)
        if named:
            return self.warehouse.check(named, METADATA_PATH)
        return self.warehouse.check(metadata.location, "the view's location") + "/metadata"


# ---------------------------------------------------------------- Views


class PointerViews:
    """Views over `Pointers`, with the same set of names as the tables. Implements ``ports.catalog.ViewCatalog``."""

    def __init__(self, pointers: Pointers, warehouse: Warehouse, name: str | None) -> None:
        self._pointers = pointers
        self._warehouse = warehouse
        self._files = ViewFiles(warehouse)
        self._name = name

    def catalog_name(self) -> str | None:
        return self._name

    def views(self, namespace: Namespace) -> tuple[TableName, ...]:
        return self._pointers.tables(checked_namespace(namespace), Kind.VIEW)

    def load_view(self, name: TableName) -> ViewState:
        location = self._pointers.get(checked_name(name), Kind.VIEW)
        if location is None:
            is_table = self._pointers.get(name) is not None
            raise missing(name, Kind.VIEW, Kind.TABLE if is_table else None)
        return self._files.read(location)

    def create_view(self, name: TableName, metadata: ViewMetadata) -> ViewState:
        self._check_free(name)
        self._warehouse.check(metadata.location, "the view's location")
        self._warehouse.remember()
        state = self._files.write(metadata)
        try:
            self._pointers.put_new(name, fitting(state.metadata_location), Kind.VIEW)
        except OutcomeUnknown:
            raise
        except EskerError:
            self._files.discard(state)
            raise
        return state

    def register_view(self, name: TableName, metadata_location: str) -> ViewState:
        self._check_free(name)
        state = self._files.read(fitting(metadata_location))
        self._warehouse.check(state.metadata.location, "the view's location")
        self._warehouse.remember()
        self._pointers.put_new(name, metadata_location, Kind.VIEW)
        return state

    def swap_view(self, name: TableName, base: ViewState, new: ViewMetadata) -> ViewSwap:
        if new.uuid.lower() != base.metadata.uuid.lower():
            raise InvalidInput(f"cannot change view {name}: its uuid is {base.metadata.uuid}, the new one's {new.uuid}")
        if self._pointers.get(checked_name(name), Kind.VIEW) != base.metadata_location:
            return Rejected(f"view {name} was changed, dropped or renamed")
        state = self._files.write(new, base)
        try:
            move = Move(name, base.metadata_location, fitting(state.metadata_location))
            outcome = self._pointers.move([move], Kind.VIEW)
        except EskerError:
            self._files.discard(state)
            raise
        match outcome:
            case None:
                return ViewAccepted(state)
            case Rejected():
                self._files.discard(state)
                return outcome
            case Unanswered(why):
                return Unanswered(why, state.metadata_location)

    def drop_view(self, name: TableName) -> None:
        self._pointers.remove(checked_name(name), Kind.VIEW)

    def rename_view(self, old: TableName, new: TableName) -> None:
        self._pointers.rename(checked_name(old), checked_name(new), Kind.VIEW)

    def _check_free(self, name: TableName) -> None:
        """Raise early, before anything is written, if the name cannot be created."""
        self._pointers.properties(checked_name(name).namespace)
        for there in Kind:
            if self._pointers.get(name, there) is not None:
                raise table_exists(name, there, new=Kind.VIEW)


# ---------------------------------------------------------------- Tables


class PointerCatalog:
    """A catalog over `Pointers`. Implements ``ports.catalog.Catalog``, ``SyncsNames``, ``WritesAhead`` and
    ``TakesGroups``."""

    syncs_names = True
    takes_groups = True

    def __init__(self, pointers: Pointers, warehouse: Warehouse, *, name: str | None = None) -> None:
        self._name = name
        self._pointers = pointers
        self._warehouse = warehouse
        self._files = MetadataFiles(warehouse)

    def namespaces(self) -> tuple[Namespace, ...]:
        return self._pointers.namespaces()

    def namespace_properties(self, namespace: Namespace) -> Mapping[str, str]:
        return self._pointers.properties(checked_namespace(namespace))

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        self._pointers.create_namespace(checked_namespace(namespace), properties)

    def update_namespace_properties(
        self, namespace: Namespace, updates: Mapping[str, str], removals: Sequence[str]
    ) -> None:
        self._pointers.update_properties(checked_namespace(namespace), updates, removals)

    def drop_namespace(self, namespace: Namespace) -> None:
        self._pointers.drop_namespace(checked_namespace(namespace))

    def tables(self, namespace: Namespace) -> tuple[TableName, ...]:
        return self._pointers.tables(checked_namespace(namespace))

    def location_for(self, name: TableName) -> str:
        base = self._pointers.properties(checked_name(name).namespace).get("location")
        return self._warehouse.home_of(name, base)

    def load(self, name: TableName, known: TableState | None = None) -> TableState:
        location = self._pointers.get(checked_name(name))
        if location is None:
            is_view = self._pointers.get(name, Kind.VIEW) is not None
            raise missing(name, Kind.TABLE, Kind.VIEW if is_view else None)
        # No two files have the same name. If the pointer has not moved, the metadata has not changed.
        if known is not None and known.metadata_location == location:
            return known
        return self._files.read(location)

    def pointer_at_once(self, name: TableName) -> str | None:
        return self._pointers.get_at_once(checked_name(name))

    def check_place(self, name: TableName, metadata: TableMetadata) -> None:
        checked_name(name)
        self._warehouse.check_table(metadata)

    def create(self, name: TableName, metadata: TableMetadata) -> TableState:
        self._check_free(name)
        self._warehouse.check_table(metadata)
        self._warehouse.remember()
        state = self._files.write_first(metadata)
        try:
            self._pointers.put_new(name, fitting(state.metadata_location))
        except OutcomeUnknown:
            raise
        except EskerError:
            self._files.discard(state)
            raise
        return state

    def writing_ahead(self, base: TableState) -> AbstractContextManager[None]:
        return self._files.writing_ahead(base)

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        match self.swap_all([TableSwap(name, base, new)]):
            case AllAccepted((state,)):
                return Accepted(state)
            case AllUnanswered(why, locations):
                return Unanswered(why, locations[name])
            case Rejected() as rejected:
                return rejected
            case other:
                raise AssertionError(f"one swap has one answer: {other}")

    def check_swaps_all(self) -> None:
        return None  # names of one set of pointers always move together

    def swap_all(self, swaps: Sequence[TableSwap]) -> SwapAll:
        return self.change_all(swaps, ())

    def change_all(self, swaps: Sequence[TableSwap], new: Sequence[NewTable]) -> SwapAll:
        for table in new:
            self._check_free(table.name)
            self._warehouse.check_table(table.metadata)
        for swap in swaps:
            check_same_table(swap.base.metadata, swap.new)
            self._warehouse.check_table(swap.new, swap.base.metadata)
            current = self._pointers.get(checked_name(swap.name))
            if current != swap.base.metadata_location:
                return Rejected(_moved(swap.name, current))
        if new:
            self._warehouse.remember()
        with self._written(swaps, new) as states:
            olds = [(swap.name, swap.base.metadata_location) for swap in swaps]
            moves = [
                Move(name, old, fitting(state.metadata_location))
                for (name, old), state in zip([*olds, *((one.name, None) for one in new)], states, strict=True)
            ]
            outcome = self._pointers.move(moves)
        match outcome:
            case None:
                for swap, state in zip(swaps, states[: len(swaps)], strict=True):
                    self._files.tidy(swap.base, state)
                return AllAccepted(tuple(states))
            case Rejected():
                for state in states:
                    self._files.discard(state)
                return outcome
            case Unanswered(why):
                return AllUnanswered(why, {move.name: move.new for move in moves})

    @contextmanager
    def _written(self, swaps: Sequence[TableSwap], new: Sequence[NewTable]) -> Iterator[list[TableState]]:
        """The files of new versions, taken back where an error says that nothing points at them."""
        states: list[TableState] = []
        try:
            for swap in swaps:
                states.append(self._files.write_next(swap.base, swap.new))  # noqa: PERF401  # those before an error count
            for table in new:
                states.append(self._files.write_first(table.metadata))  # noqa: PERF401
            yield states
        except EskerError:
            for state in states:
                self._files.discard(state)
            raise

    def register(self, name: TableName, metadata_location: str) -> TableState:
        self._check_free(name)
        state = self._files.read(fitting(metadata_location))
        self._warehouse.check_table(state.metadata)  # the next commit must have a place to write to
        self._warehouse.remember()
        self._pointers.put_new(name, metadata_location)
        return state

    def register_over(self, name: TableName, base: TableState, metadata_location: str) -> Swap:
        state = self._files.read(fitting(metadata_location))
        self._warehouse.check_table(state.metadata)
        self._warehouse.remember()
        match self._pointers.move([Move(checked_name(name), base.metadata_location, metadata_location)]):
            case None:
                return Accepted(state)
            case Rejected() as rejected:
                return rejected
            case Unanswered(why):
                return Unanswered(why, metadata_location)

    def folders(self) -> tuple[Folder, ...]:
        return self._pointers.folders()

    def checking(
        self, check: Callable[[Sequence[Folder]], None], gains: Mapping[TableName, Sequence[str]]
    ) -> AbstractContextManager[None]:
        return _checking(PendingPlaces(check, gains))

    def drop(self, name: TableName) -> None:
        self._pointers.remove(checked_name(name))

    def unregister(self, name: TableName) -> TableState:
        state = self.load(name)  # one that cannot be read stays where it is
        location = self._pointers.remove(checked_name(name))
        if location == state.metadata_location:  # nothing can fail once the table is gone
            return state
        try:
            return self._files.read(location)
        except EskerError as error:
            raise OutcomeUnknown(
                f"table {name} was removed from the catalog, and its last metadata file {location} cannot be read: "
                f"{error.message}",
                metadata_location=location,
            ) from error

    def rename(self, old: TableName, new: TableName) -> None:
        self._pointers.rename(checked_name(old), checked_name(new))

    @property
    def pointers(self) -> Pointers:
        """Where the catalog keeps its names."""
        return self._pointers

    def storage(self) -> Storage:
        return self._warehouse.storage

    def view_catalog(self) -> ViewCatalog:
        return PointerViews(self._pointers, self._warehouse, self._name)

    def _check_free(self, name: TableName) -> None:
        """Raise early, before anything is written, if the name cannot be created."""
        self._pointers.properties(checked_name(name).namespace)
        if self._pointers.get(name) is not None:
            raise table_exists(name)


def _moved(name: TableName, current: str | None) -> str:
    if current is None:
        return f"table {name} was dropped or renamed"
    return f"table {name} has moved on to {current}"
