"""Which storage a location is in: the one place that knows the schemes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from esker.errors import InvalidInput, Unsupported
from esker.ports.storage import (
    FolderStorage,
    Storage,
    StoredFile,
    file_tags,
    parallel_reads,
    tags_last,
)
from esker.storage.by_location import FencedStorage, StorageByLocation
from esker.storage.local import LocalStorage
from esker.storage.location import Location, how_to_allow
from esker.storage.objects.configuration import FAMILIES, ObjectConfiguration
from esker.storage.objects.object_storage import ObjectStorage

_SCHEMES = "file, s3, s3a, gs, abfss, az, wasbs"


def storage_for(
    places: Iterable[str], *, configuration: ObjectConfiguration | None = None
) -> LocalStorage | ObjectStorage | RoutedStorage:
    """The storage for files below these places, and for no others. `Unsupported` for a scheme that nobody knows."""
    found = [(place, Location.parse(place).scheme) for place in places]
    for place, scheme in found:
        if scheme != "file" and scheme not in FAMILIES:
            raise Unsupported(
                f"cannot use {place}: there is no storage for {scheme} locations, only for {_SCHEMES}",
                feature=scheme,
            )
    local = [place for place, scheme in found if scheme == "file"]
    remote = [place for place, scheme in found if scheme != "file"]
    if not remote:
        return LocalStorage(roots=local)
    objects = ObjectStorage(configuration or ObjectConfiguration.of(), roots=remote)
    return RoutedStorage(LocalStorage(roots=local), objects) if local else objects


def configuration_of(storage: Storage) -> ObjectConfiguration | None:
    """How a storage reaches its object store; None if it has only files of this machine."""
    if isinstance(storage, RoutedStorage):
        return configuration_of(storage.remote)
    return storage.configuration if isinstance(storage, ObjectStorage) else None


def is_remote(location: str) -> bool:
    """Whether a location is in an object store."""
    return Location.parse(location).scheme in FAMILIES


def absolute(place: str) -> str:
    """A plain path made absolute; a URI as it was written, since tables record it."""
    is_path = Location.parse(place).scheme == "file" and not place.startswith("file:")
    return str(Path(place).resolve()) if is_path else place.rstrip("/")


class RoutedStorage(StorageByLocation):
    """Files on this machine and objects in a store, each by the scheme of its location."""

    def __init__(self, local: FencedStorage, remote: FencedStorage) -> None:
        self._local = local
        self._remote = remote

    @property
    def remote(self) -> FencedStorage:
        """The objects in a store."""
        return self._remote

    def _of(self, location: str) -> FencedStorage:
        return self._remote if is_remote(location) else self._local

    @property
    def is_shared(self) -> bool:
        return self._local.is_shared and self._remote.is_shared

    @property
    def tags_last(self) -> bool:
        return tags_last(self._local) and tags_last(self._remote)

    def tags(self, locations: Sequence[str]) -> list[str | None]:
        remote = [location for location in locations if is_remote(location)]
        local = [location for location in locations if not is_remote(location)]
        found = dict(zip(remote, file_tags(self._remote, remote), strict=True))
        found.update(zip(local, file_tags(self._local, local), strict=True))
        return [found[location] for location in locations]

    @property
    def parallel_reads(self) -> int:
        """As many as the store likes: files on this machine do not mind."""
        return parallel_reads(self._remote)

    def folders(self, prefix: str) -> tuple[Sequence[str], Sequence[StoredFile]]:
        """The folders and files directly below a location."""
        storage = self._of(prefix)
        assert isinstance(storage, FolderStorage)  # files on this machine and object stores are
        return storage.folders(prefix)


class PlacedStorage(RoutedStorage):
    """Files on this machine, and objects below certain places, each place with a store and credentials of its own.

    The longest place that a location is below decides; the place "" is for all others. ``readers`` are used for reading
    instead, where one covers the location. This is what workers get of a catalog that vends credentials: it needs no
    catalog.
    """

    def __init__(
        self, local: FencedStorage, stores: Mapping[str, FencedStorage], readers: Mapping[str, FencedStorage]
    ) -> None:
        self._local = local
        self._stores = dict(stores)
        self._readers = dict(readers)

    def _of(self, location: str) -> FencedStorage:
        if not is_remote(location):
            return self._local
        found = _longest(self._stores, location)
        if found is None:
            raise InvalidInput(
                f"cannot use {location}: it is outside the tables that were loaded; {how_to_allow(location)}",
                file=location,
            )
        return found

    def _to_read(self, location: str) -> FencedStorage:
        return _longest(self._readers, location) or self._of(location)

    @property
    def is_shared(self) -> bool:
        return all(store.is_shared for store in (self._local, *self._stores.values()))

    @property
    def parallel_reads(self) -> int:
        """As many as the store that allows most."""
        return max(map(parallel_reads, self._stores.values()), default=1)


def _longest(stores: Mapping[str, FencedStorage], location: str) -> FencedStorage | None:
    """The store with the longest place that a location is below; None if there is none."""
    fitting = [place for place in stores if not place or f"{location}/".startswith(f"{place}/")]
    return stores[max(fitting, key=len)] if fitting else None
