"""No two tables share a folder: each cleans up its own, and credentials are given for whole folders.

Views and dropped tables that can be brought back have folders, too. The catalog shows the folder above the metadata of
each. Other folders of a table are recorded in the catalog: paths for data, a location beside a path for metadata, and
those that it had before and may still have files in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from esker.catalogs.warehouse import METADATA_PATH, PATHS
from esker.errors import InvalidInput
from esker.model.table_names import Namespace, TableName
from esker.ports.catalog import Catalog, Folder, KnowsPlaces
from esker.storage.failures import naming_failures
from esker.storage.location import Location
from esker.tree.table_metadata import TableMetadata
from esker.write.context import metadata_folder

Sees = Callable[[Namespace], bool]


def _nobody(namespace: Namespace) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Claim:
    """A place that a table or view is about to get. It is free now, and has to be free when the table gets it."""

    name: TableName
    location: str
    what: str
    is_new: bool = True  # False: the table has it already, or had it before
    is_shown: bool = False  # the metadata file of the table will be in it, so it need not be recorded
    may_be_dropped: Sees = _nobody  # folders of dropped tables in these namespaces count as free


class Places:
    """Where the tables and views of a catalog are.

    A catalog that keeps each table in the folder of its name needs no check.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog if isinstance(catalog, KnowsPlaces) else None
        self._storage = catalog.storage()
        self._lock = threading.Lock()

    @contextmanager
    def held(self, claims: Sequence[Claim]) -> Iterator[None]:
        """While the block runs, a change is made only if the places are still free. Else it raises ``InvalidInput``.

        The database looks in the transaction of the change, so this holds beside other servers. Requests of this
        process wait for each other, which saves the database conflicts.
        """
        if self._catalog is None or not claims:
            yield
            return

        def check(folders: Sequence[Folder]) -> None:
            for claim in claims:
                if claim.is_new:
                    _check(claim, folders)

        gains: dict[TableName, list[str]] = {}
        for claim in claims:
            if not claim.is_shown:
                gains.setdefault(claim.name, []).append(claim.location)
        with self._lock, self._catalog.checking(check, gains):
            yield

    def check_table(
        self, name: TableName, new: TableMetadata, base: TableMetadata | None = None, *, may_be_dropped: Sees = _nobody
    ) -> list[Claim]:
        """The places of a table, if they change: those that it gets, and those that it has or had.

        Raises ``InvalidInput`` if a table would be, or write, in the folder of another.
        """
        claims = self.claims_of(name, new, base, may_be_dropped=may_be_dropped)
        self._check_all(claims)
        return claims

    def claims_of(
        self, name: TableName, new: TableMetadata, base: TableMetadata | None = None, *, may_be_dropped: Sees = _nobody
    ) -> list[Claim]:
        """The same, checked only when the table gets its places."""
        named = _places_named(new)
        had = {} if base is None else _places_named(base)
        if set(named.values()) == set(had.values()):
            return []
        shown = new.properties.get(METADATA_PATH) or new.location
        claims = [
            Claim(name, location, what, location not in had.values(), location == shown, may_be_dropped)
            for what, location in named.items()
        ]
        return claims + [Claim(name, location, what, is_new=False) for what, location in had.items()]

    def check_view(self, name: TableName, location: str, properties: Mapping[str, str]) -> list[Claim]:
        """The places of a view. Raises ``InvalidInput`` if it would be in the folder of a table or of another view."""
        path = properties.get(METADATA_PATH)
        claims = [Claim(name, location, "the view's location", is_shown=not path)]
        if path:
            claims.append(Claim(name, path, METADATA_PATH, is_shown=True))
        self._check_all(claims)
        return claims

    def check(self, name: TableName, location: str, what: str) -> None:
        """Raise ``InvalidInput`` if a location is in the folder of another table, or has that folder in it."""
        self._check_all([Claim(name, location, what)])

    def _check_all(self, claims: Sequence[Claim]) -> None:
        new = [claim for claim in claims if claim.is_new]
        if self._catalog is not None and new:
            folders = self._catalog.folders()
            for claim in new:
                _check(claim, folders)

    def is_in_use(self, location: str) -> bool:
        """Whether a location is in the folder of a table or view, or has that folder in it. Folders of dropped tables
        that can be brought back count, too."""
        place = Location.parse(location)
        folders = () if self._catalog is None else self._catalog.folders()
        return any(folder.location and _share(place, Location.parse(folder.location)) for folder in folders)

    def free(self, name: TableName, location: str) -> str:
        """The location, or one beside the folder of the table that it would be in."""
        other = None if self._catalog is None else _at(Claim(name, location, ""), self._catalog.folders())
        if other is None:
            return location
        folder = other.location.rstrip("/")
        rest = location[len(folder) :] if location.startswith(f"{folder}/") else ""
        return f"{folder}-{uuid4().hex[:12]}{rest}"

    def prepare(self, metadata: TableMetadata) -> None:
        """Make the folder for the metadata of a staged table, if it is on this machine. The client writes there before
        it commits, and DuckDB creates no folder there. Raises ``StorageFailed`` if it cannot be made."""
        folder = None if self._catalog is None else self._storage.local_folder(metadata_folder(metadata))
        if folder is not None:
            with naming_failures("create", folder):
                Path(folder).mkdir(parents=True, exist_ok=True)


def _places_named(metadata: TableMetadata) -> dict[str, str]:
    """The places in the metadata of a table, by what they are for."""
    named = {"the table's location": metadata.location, **{path: metadata.properties.get(path) for path in PATHS}}
    return {what: location.rstrip("/") for what, location in named.items() if location}


def _check(claim: Claim, folders: Sequence[Folder]) -> None:
    if (other := _at(claim, folders)) is not None:
        raise InvalidInput(
            f"cannot use {claim.location} as {claim.what} of {claim.name}: another table or view is there; choose a "
            "folder of its own",
            location=claim.location,
            table=str(claim.name),
        ).with_facts(other=str(other.name))


def _at(claim: Claim, folders: Sequence[Folder]) -> Folder | None:
    """The folder of another table or view that a place is in, or that is in it."""
    place = Location.parse(claim.location)
    for folder in folders:
        is_other = folder.name != claim.name and not (folder.is_dropped and claim.may_be_dropped(folder.name.namespace))
        if is_other and folder.location and _share(place, Location.parse(folder.location)):
            return folder
    return None


def check_apart(claims: Sequence[Claim]) -> None:
    """Raise ``InvalidInput`` if two tables would get one folder together."""
    places = [(claim, Location.parse(claim.location)) for claim in claims if claim.is_new]
    for at, (claim, place) in enumerate(places):
        if any(claim.name != other.name and _share(place, there) for other, there in places[at + 1 :]):
            raise InvalidInput(
                f"cannot use {claim.location} as {claim.what} of {claim.name}: another table of this commit gets it"
            )


def _share(one: Location, other: Location) -> bool:
    return one.is_within(other) or other.is_within(one)
