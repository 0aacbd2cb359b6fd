"""The files of a REST catalog's tables: where they may be, and the credentials that the server vends for them.

Files on this machine are used only below a place that the user named, in ``warehouse`` or ``allowed_roots``: no server
decides what is read from or written to this machine. Objects in a store are used below the location of a table that
the server named, and below the places that the user named.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from esker.catalogs.rest.loaded import LoadedTable, credentials_in
from esker.catalogs.rest.operations import Operation
from esker.catalogs.rest.remote_signing import ENABLED, RemoteSigner, SigningConfig
from esker.catalogs.rest.service import RestService
from esker.catalogs.rest.settings import RestSettings
from esker.catalogs.warehouse import PATHS, checked_location
from esker.errors import EskerError, InvalidInput
from esker.model.table_names import TableName
from esker.ports.credentials import Refresh, Signer, StorageCredentials
from esker.ports.storage import parallel_reads
from esker.storage.by_location import FencedStorage, StorageByLocation
from esker.storage.choose import PlacedStorage
from esker.storage.local import LocalStorage
from esker.storage.location import Location, how_to_allow
from esker.tree.table_metadata import TableMetadata


class RestFiles(StorageByLocation):
    """A storage whose places grow with the tables that were loaded. It travels to workers as it is by then."""

    def __init__(self, settings: RestSettings, roots: Iterable[str]) -> None:
        named = tuple(roots)
        self._properties = dict(settings.properties)
        self._is_tended = settings.text("rest.signing-name") == "s3tables"
        self._local = LocalStorage(roots=[root for root in named if _is_local(root)])
        self._roots = tuple(root.rstrip("/") for root in named if not _is_local(root))
        self._stores: dict[str, tuple[tuple[StorageCredentials, ...], FencedStorage]] = {}
        self._readers: dict[str, FencedStorage] = {}  # by location of a table: credentials of a plan, to read with
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """What workers get: the stores of the tables that are loaded now. Workers have nothing of the catalog."""
        if self._roots:
            self._own_store()
        with self._lock:
            stores = {place: store for place, (_, store) in self._stores.items()}
            readers = dict(self._readers)
        return PlacedStorage, (self._local, stores, readers)

    @property
    def is_shared(self) -> bool:
        return True

    def admit(self, name: TableName, loaded: LoadedTable, service: RestService) -> None:
        """Let the files of a table be used; `InvalidInput` where they are at a place that nobody allowed."""
        location = checked_location(loaded.state.metadata.location, "the table's location").rstrip("/")
        if _is_local(location):
            self._local.check(f"{location}/")
            return
        with self._lock:
            known = self._stores.get(location)
            if known is not None and not loaded.says_access:
                return
            if known is None or known[0] != loaded.credentials:
                refresh = CredentialRefresh(service.settings, name, location)
                signer = self._signer(name, loaded, service)
                store = _store(self._properties, loaded.credentials, refresh, (location, *self._roots), signer)
                self._stores[location] = loaded.credentials, store

    def _signer(self, name: TableName, loaded: LoadedTable, service: RestService) -> Signer | None:
        """What signs requests for the table's files; None where there are keys, which need nobody to ask."""
        config = dict(loaded.config)
        for one in loaded.credentials:
            config.update(one.config)
        if config.get(ENABLED, "").lower() != "true" or any(map(_has_keys, loaded.credentials)):
            return None
        if "s3.access-key-id" in self._properties:
            return None  # the user's own
        return RemoteSigner(service.settings, name, SigningConfig.of(service, name, config, loaded.signing))

    def admit_reads(self, location: str, credentials: tuple[StorageCredentials, ...], refresh: Refresh) -> None:
        """Read the files of a table with credentials that came with a plan. They are never used to write."""
        place = location.rstrip("/")
        if not _is_local(place):
            store = _store(self._properties, credentials, refresh, (place, *self._roots))
            with self._lock:
                self._readers[place] = store

    def check_table(self, new: TableMetadata, base: TableMetadata | None = None) -> None:
        """`InvalidInput` where the table is to be, or to write, outside. What ``base`` has is not asked about."""
        if base is None or new.location != base.location:
            self.check_place(new.location, "the table's location")
        for name in PATHS:
            named = new.properties.get(name)
            if named and (base is None or named != base.properties.get(name)):
                self.check_place(named, name)

    def check_view(self, location: str) -> None:
        """`InvalidInput` where a view is to be outside."""
        self.check_place(location, "the view's location")

    def check_place(self, location: str, what: str) -> None:
        """`InvalidInput` for a place on this machine that nobody allowed."""
        checked_location(location, what)
        if not _is_local(location):
            return  # a place in a store is the server's to allow
        try:
            self._local.check(location)
        except InvalidInput as error:
            raise InvalidInput(
                f"cannot use {location} as {what}: it is outside the places of this lake; {how_to_allow(location)}",
                location=location,
            ) from error

    def _to_read(self, location: str) -> FencedStorage:
        """The store to read a file from: with the credentials of a plan, where one brought some."""
        if not self._readers or _is_local(location):
            return self._of(location)
        with self._lock:
            readers = dict(self._readers)
        found = _longest(readers, location)
        return self._of(location) if found is None else readers[found]

    def _of(self, location: str) -> FencedStorage:
        if _is_local(location):
            return self._local
        with self._lock:
            stores = dict(self._stores)
        found = _longest(stores, location)
        if found is not None:
            return stores[found][1]
        if any(location == root or location.startswith(f"{root}/") for root in self._roots):
            return self._own_store()
        raise InvalidInput(
            f"cannot use {location}: it is outside the tables that were loaded; {how_to_allow(location)}",
            file=location,
        )

    def _own_store(self) -> FencedStorage:
        """The store of the places that the user named, with the user's own keys."""
        with self._lock:
            if "" not in self._stores:
                self._stores[""] = (), _store(self._properties, (), None, self._roots)
            return self._stores[""][1]

    # ------------------------------------------------------------ the storage

    def delete(self, location: str) -> None:
        if not self._is_tended:  # such a service rejects deletes, and removes what no table uses itself
            super().delete(location)

    @property
    def parallel_reads(self) -> int:
        """How many reads at a time are worth while: what the stores of the tables say, 1 where all files are near."""
        with self._lock:
            stores = [store for _, store in self._stores.values()]
        return max((parallel_reads(store) for store in stores), default=1)

    def delete_many(self, locations: Iterable[str]) -> None:
        """Remove objects by few requests."""
        if not self._is_tended:
            super().delete_many(locations)


@dataclass(frozen=True, slots=True)
class CredentialRefresh:
    """Asks the server for new credentials for a table's files. It can be sent to another process."""

    settings: RestSettings
    name: TableName
    location: str
    plan_id: str | None = None  # of the plan that the credentials came with

    def __call__(self) -> Sequence[StorageCredentials]:
        service = RestService(self.settings)
        doing = f"get new credentials for {self.name}"
        source = f"the answer of {service.address} for {self.name}"
        operation = Operation.LOAD_CREDENTIALS if service.offers(Operation.LOAD_CREDENTIALS) else Operation.LOAD_TABLE
        plan = {"planId": self.plan_id} if self.plan_id and operation is Operation.LOAD_CREDENTIALS else None
        answer = service.ask(operation, self.name, doing, query=plan)
        if not answer.is_success:
            raise EskerError(f"cannot {doing}: the table is gone", table=str(self.name))
        document = service.document(answer, doing)
        listed = document.get("storage-credentials")
        config = {str(name): str(value) for name, value in (document.get("config") or {}).items()}
        raw = None if listed is None else msgspec.Raw(msgspec.json.encode(listed))
        return credentials_in(source, raw, config, self.location)


def _longest(places: Iterable[str], location: str) -> str | None:
    """Of places, the longest that a location is below."""
    fitting = [place for place in places if place and f"{location}/".startswith(f"{place}/")]
    return max(fitting, key=len, default=None)


def _has_keys(credentials: StorageCredentials) -> bool:
    return any("access-key-id" in name or "token" in name or "account-key" in name for name in credentials.config)


def _is_local(location: str) -> bool:
    return Location.parse(location).scheme == "file"


def _store(
    properties: Mapping[str, str],
    credentials: tuple[StorageCredentials, ...],
    refresh: Refresh | None,
    roots: Sequence[str],
    signer: Signer | None = None,
) -> FencedStorage:
    from esker.storage.objects.configuration import ObjectConfiguration
    from esker.storage.objects.object_storage import ObjectStorage

    configuration = ObjectConfiguration.of(properties).with_vended(credentials, refresh if credentials else None)
    return ObjectStorage(configuration.with_signer(signer), roots=roots)
