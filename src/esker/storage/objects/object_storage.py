"""Objects in S3, Google Cloud Storage and Azure, as a storage of Esker.

Every object carries the id of the attempt that created it. A create whose answer is lost is repeated; where the store
then says that the object exists, the id tells whether it is this attempt's own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, TypeVar, cast
from uuid import uuid4

from esker.errors import AlreadyExists, EskerError, InvalidInput, NoSuchFile, StorageFailed, Unsupported
from esker.ports.storage import HadoopAccess, HadoopFile, StoredFile
from esker.storage.location import Location, how_to_allow
from esker.storage.objects.configuration import FAMILIES, ObjectConfiguration
from esker.storage.objects.files import PART, TAIL, ObjectFile, PartWriter, Tail, TailCache, Upload
from esker.storage.objects.make_store import make_store, waits_of
from esker.storage.objects.signed_s3 import SignedS3
from esker.storage.objects.store_failures import SPOILED, ForeignAnswer, failure_of_store, is_refusal

if TYPE_CHECKING:
    from obstore.store import ObjectStore

ATTEMPT = "eskerattempt"
"""The attribute of an object that names the attempt which created it; Azure allows letters and digits alone."""
_ATTEMPTS = 4
_WAIT = 0.2
_CREATE_SECONDS = 120
_AT_ONCE = 1000
_NOTHING = ".esker-nothing-here"  # no object has this name
_SLICE = 8 << 20
_READS = 4
_PARALLEL = 16
_WHICH_STORE = ("s3.endpoint", "s3.region", "gcs.service.host", "adls.account-name", "adls.account-host")

T = TypeVar("T")
Mark: TypeAlias = tuple[str, int]


class ObjectStorage:
    """Objects by location: ``s3://``, ``gs://``, ``abfss://`` and so on. With ``roots``, only below one of them.

    It can be pickled: the configuration, credentials included, travels, and the clients are made again.
    """

    def __init__(self, configuration: ObjectConfiguration, *, roots: Iterable[str] | None = None) -> None:
        self._configuration = configuration
        self._roots = None if roots is None else tuple(Location.parse(root) for root in roots)
        self._begin()

    def _begin(self) -> None:
        self._stores: dict[tuple[str, str, str, bool], ObjectStore] = {}
        self._hadoop: dict[tuple[str, str, str], tuple[str, HadoopAccess]] = {}
        self._lock = threading.Lock()
        self._tails = TailCache()

    def __getstate__(self) -> dict[str, Any]:
        return {"configuration": self._configuration, "roots": self._roots}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._configuration, self._roots = state["configuration"], state["roots"]
        self._begin()

    @property
    def configuration(self) -> ObjectConfiguration:
        """How the stores are reached."""
        return self._configuration

    @property
    def is_shared(self) -> bool:
        """A copy reaches the same objects."""
        return True

    @property
    def tags_last(self) -> bool:
        """True: an object has the same location for every process."""
        return True

    def tags(self, locations: Sequence[str]) -> list[str | None]:
        """By the store and the location: objects of a table are never overwritten. No request is made."""
        return [self._tag(location) for location in locations]

    def _tag(self, location: str) -> str | None:
        try:
            self.check(location)
        except EskerError:
            return None  # reading it tells why
        settings = self._configuration.settings(FAMILIES[Location.parse(location).scheme])
        store = [settings.get(name, "") for name in _WHICH_STORE]
        return f"object:{store}:{location}"

    @property
    def parallel_reads(self) -> int:
        """Reads that are under way at a time: each waits for the network, not for this machine."""
        return _PARALLEL

    def check(self, location: str) -> None:
        """`InvalidInput` for a location outside the roots, `Unsupported` for one that is no object store's."""
        place = Location.parse(location)
        if place.scheme not in FAMILIES:
            raise Unsupported(
                f"cannot reach {location}: {place.scheme} locations are not in an object store", feature=place.scheme
            )
        if ".." in place.path.split("/"):
            raise InvalidInput(f"cannot use {location}: it climbs by '..'", file=location)
        if self._roots is not None and not any(place.is_within(root) for root in self._roots):
            folder = location.rpartition("/")[0] or location
            raise InvalidInput(
                f"refused to touch {location}: it is outside what this lake may use; {how_to_allow(folder)}",
                file=location,
            )

    def read(self, location: str) -> bytes:
        store, key = self._at(location)
        return self._asked("read", location, lambda: _read_all(store, key))

    def open(self, location: str) -> BinaryIO:
        store, key = self._at(location)
        tail = self._tails.get(location)
        if tail is None:
            tail = self._asked("open", location, lambda: _read_tail(store, key))
            self._tails.put(location, tail)

        def fetch(start: int, end: int) -> bytes:
            return self._asked("read", location, lambda: _read_range(store, key, start, end))

        return cast(BinaryIO, ObjectFile(tail, fetch))

    def size(self, location: str) -> int:
        store, key = self._at(location)
        tail = self._tails.get(location)
        return tail.size if tail else self._asked("measure", location, lambda: int(_of_store(store.head(key))["size"]))

    def exists(self, location: str) -> bool:
        store, key = self._at(location)
        try:
            self._asked("look for", location, lambda: _of_store(store.head(key)))
        except NoSuchFile:
            return False
        return True

    def local_path(self, location: str) -> str | None:
        self.check(location)
        return None

    def local_folder(self, location: str) -> str | None:
        self.check(location)
        return None

    def hadoop_file(self, location: str) -> HadoopFile:
        """The object as Hadoop finds it, with settings from the same configuration."""
        from esker.storage.objects.hadoop_access import hadoop_access  # not sent to workers

        self.check(location)
        place = Location.parse(location)
        vended = self._configuration.vended_for(location)
        name = (location.partition(":")[0], place.authority, vended.prefix if vended else "")
        found = self._hadoop.get(name)
        if found is None:
            found = self._hadoop[name] = hadoop_access(self._configuration, location)
        root, access = found
        return HadoopFile(uri=f"{root}{place.path}", access=access)

    def write_new(self, location: str, data: bytes) -> None:
        self._create(location, bytes(data), str(uuid4()))

    @contextmanager
    def open_new(self, location: str) -> Iterator[BinaryIO]:
        store, key = self._at(location)
        attempt = str(uuid4())
        upload = Upload(
            lambda data: self._create(location, data, attempt),
            lambda: _Parts(self, store, key, location, attempt),
        )
        try:
            yield cast(BinaryIO, upload)
        except BaseException:
            upload.abort()
            raise
        upload.finish()

    def list(self, prefix: str) -> Iterator[StoredFile]:
        store, key = self._at(prefix)
        return (_stored(prefix.rstrip("/"), key, facts) for facts in self._pages(store, key, prefix, None))

    def list_marked(self, prefix: str, after: str) -> Iterator[tuple[StoredFile, Mark]]:
        """Every object below the prefix whose way sorts after a name, with its mark; the rest is skipped."""
        store, key = self._at(prefix)
        for facts in self._pages(store, key, prefix, f"{key}/{after}" if key else after):
            yield _stored(prefix.rstrip("/"), key, facts), _mark(facts)

    def folders(self, prefix: str) -> tuple[Sequence[str], Sequence[StoredFile]]:
        """The names of the folders directly below the prefix, and the objects directly below it."""
        store, key = self._at(prefix)

        def look() -> Any:
            return self._asked("list", prefix, lambda: store.list_with_delimiter(key or None))

        found = look()
        if not (found["common_prefixes"] or found["objects"]):
            self._check_answers(store, key, prefix)
            found = look()
        base = prefix.rstrip("/")
        names = sorted(str(name).rstrip("/").rpartition("/")[2] for name in found["common_prefixes"])
        objects = [_stored(base, key, facts) for facts in found["objects"] if facts["path"] != key]
        return names, objects

    def delete(self, location: str) -> None:
        self.delete_many([location])

    def delete_many(self, locations: Iterable[str]) -> None:
        """Remove objects, as many by one request as the store allows; those that are gone already are no error."""
        groups: dict[int, tuple[ObjectStore, dict[str, str]]] = {}
        for location in locations:
            store, key = self._at(location)
            groups.setdefault(id(store), (store, {}))[1][key] = location
        for store, keys in groups.values():
            waiting = iter(keys.items())
            while some := tuple(islice(waiting, _AT_ONCE)):
                self._delete(store, some)

    def replace(self, location: str, data: bytes) -> None:
        """Write an object whatever is there, for what may be lost: a hint, an old version that is emptied."""
        store, key = self._at(location)
        self._tails.forget(location)
        self._told("write", location, lambda: store.put(key, data, mode="overwrite"))

    def put_empty(self, location: str) -> bool:
        """Create an empty object, if the store finds none there; whether it was created."""
        store, key = self._at(location)
        try:
            self._asked("create", location, lambda: store.put(key, b"", mode="create"))
        except AlreadyExists:
            return False
        return True

    def mark(self, location: str) -> Mark:
        """What tells the content of this object from any other that ever has its name."""
        store, key = self._at(location)
        return _mark(self._asked("look at", location, lambda: _of_store(store.head(key))))

    def _delete(self, store: ObjectStore, some: Sequence[tuple[str, str]]) -> None:
        for _, location in some:
            self._tails.forget(location)
        try:
            self._told("delete", some[0][1], lambda: store.delete([key for key, _ in some]))
        except NoSuchFile:  # Azure and Google stop at an object that is gone
            for key, location in some:
                with suppress(NoSuchFile):
                    self._told("delete", location, lambda key=key: store.delete(key))  # type: ignore[misc]

    def _create(self, location: str, data: bytes, attempt: str) -> None:
        """The object, whole, by a request that fails where one is there; repeated while the outcome is unknown.

        `StorageFailed` has the fact ``unanswered`` where the object may be there all the same.
        """
        store, key = self._at(location, repeats=False)  # every answer counts: one that is not seen may be a success
        unanswered = False
        waits = waits_of(self._configuration, location)
        deadline = time.monotonic() + _CREATE_SECONDS
        for turn in range(len(waits) + 1):
            if turn:
                time.sleep(waits[turn - 1])
            try:
                self._told(
                    "create", location, lambda: store.put(key, data, mode="create", attributes={ATTEMPT: attempt})
                )
                return
            except AlreadyExists:
                found = self._found(self._at(location)[0], key, location)
                if found is not None and found[0] == attempt:
                    return
                if found == ("", 0):
                    # Emptied by `replace`, which records no attempt: the object before may have been this attempt's.
                    raise _not_settled(location, unanswered=True) from None
                if found is not None:
                    raise
                # A conflict with a create that is still under way, or one that was deleted since: try again.
            except StorageFailed as error:
                unanswered = unanswered or not is_refusal(error)
                if not error.retryable or turn == len(waits) or time.monotonic() > deadline:
                    raise error.with_facts(unanswered=True) if unanswered else error from None
        raise _not_settled(location, unanswered=unanswered)

    def _found(self, store: ObjectStore, key: str, location: str) -> tuple[str, int] | None:
        """The attempt that created an object, empty where it is not recorded, and its size; None for no object."""
        try:
            size, attributes = self._asked("look at", location, lambda: _read_head(store, key))
        except NoSuchFile:
            return None
        except StorageFailed as error:  # it exists, and nobody knows whose it is
            raise error.with_facts(unanswered=True) from None
        return next((str(value) for name, value in attributes.items() if str(name).lower() == ATTEMPT), ""), size

    def _pages(self, store: ObjectStore, key: str, prefix: str, after: str | None) -> Iterator[Any]:
        """The facts of every object below a key, page by page."""
        is_empty = True
        for chunk in self._chunks(store, key, prefix, after):
            is_empty = is_empty and not chunk
            yield from (facts for facts in chunk if facts["path"] != key)  # except the mark of a folder
        if is_empty:
            self._check_answers(store, key, prefix)
            for chunk in self._chunks(store, key, prefix, after):
                yield from (facts for facts in chunk if facts["path"] != key)

    def _chunks(self, store: ObjectStore, key: str, prefix: str, after: str | None) -> Iterator[Any]:
        def begin() -> tuple[Any, Any]:
            stream = store.list(key or None, offset=after, chunk_size=_AT_ONCE)
            return stream, next(stream, None)

        stream, chunk = self._asked("list", prefix, begin)
        while chunk is not None:
            yield chunk
            chunk = self._told("list", prefix, lambda: next(stream, None))

    def _check_answers(self, store: ObjectStore, key: str, prefix: str) -> None:
        """`StorageFailed` where something else than an object store answers, such as a proxy with a page of its own.

        The client takes such a page for an empty listing. So an empty listing counts only when the store has answered
        a question that it must deny, and the second listing is empty too.
        """
        missing = f"{key}/{_NOTHING}" if key else _NOTHING
        try:
            self._asked("list", prefix, lambda: _of_store(store.head(missing)))
        except NoSuchFile:
            return
        except StorageFailed as error:
            if error.retryable:
                raise  # a store that refuses to say whether there is an object is a store

    def _at(self, location: str, *, repeats: bool = True) -> tuple[ObjectStore, str]:
        """The client of a location, and the key there. Without ``repeats``, the one that sends a request once."""
        self.check(location)
        place = Location.parse(location)
        vended = self._configuration.vended_for(location)
        name = (place.scheme, place.authority, vended.prefix if vended else "", repeats)
        with self._lock:
            store = self._stores.get(name)
            if store is None:
                store = self._stores[name] = make_store(self._configuration, location, repeats=repeats)
        return store, place.path.lstrip("/")

    def _asked(self, operation: str, location: str, call: Callable[[], T]) -> T:
        """What a call gives that may be made twice. It is repeated where the answer was cut or not the store's: the
        client repeats requests that fail, not answers that do."""
        for turn in range(1, _ATTEMPTS):
            try:
                return self._told(operation, location, call)
            except StorageFailed as error:
                if error.reason not in SPOILED:
                    raise
            time.sleep(_WAIT * 2**turn)
        return self._told(operation, location, call)

    def _told(self, operation: str, location: str, call: Callable[[], T]) -> T:
        """What a call gives; what the client raises becomes an error of Esker, without the secrets in it."""
        try:
            return call()
        except EskerError:
            raise
        except Exception as error:
            if type(error).__name__ == "AlreadyExistsError":
                raise AlreadyExists(f"cannot create {location}: the object exists", file=location) from None
            failure = failure_of_store(error, operation, location)
            masked = self._configuration.masked(failure.message)
            raise type(failure)(masked, **failure.facts) from None  # the text of the cause may contain keys


class _Parts(PartWriter):
    """An object in parts. Its last request is not conditional: that the name is free is looked up before it."""

    def __init__(self, storage: ObjectStorage, store: ObjectStore, key: str, location: str, attempt: str) -> None:
        self._storage = storage
        self._store = store
        self._key = key
        self._location = location
        self._attempt = attempt
        self._writer: Any = storage._told("create", location, lambda: _open_writer(store, key, {ATTEMPT: attempt}))

    def write(self, data: bytes) -> None:
        self._storage._told("create", self._location, lambda: self._writer.write(data))

    def finish(self) -> None:
        if self._storage.exists(self._location):
            self.abort()
            raise AlreadyExists(f"cannot create {self._location}: the object exists", file=self._location)
        try:
            self._storage._told("create", self._location, self._writer.close)
        except (StorageFailed, NoSuchFile) as error:  # the upload may be complete, and its answer lost
            found = self._storage._found(self._store, self._key, self._location)
            if found is None or found[0] != self._attempt:
                if isinstance(error, NoSuchFile):
                    raise StorageFailed(
                        error.message, retryable=True, operation="create", file=self._location, reason="upload lost"
                    ) from None
                raise

    def abort(self) -> None:
        with suppress(Exception):  # what fails here must not hide why the upload was given up
            self._writer.__exit__(ValueError, ValueError(), None)


def _open_writer(store: ObjectStore, key: str, attributes: dict[str, str]) -> Any:
    if isinstance(store, SignedS3):
        return store.open_writer(key, part=PART, attributes=attributes)
    import obstore

    return obstore.open_writer(store, key, buffer_size=PART, max_concurrency=4, attributes=attributes)


def _not_settled(location: str, *, unanswered: bool) -> EskerError:
    """The error of a create at whose name other writers are, and what a lost answer makes of it."""
    if not unanswered:
        return AlreadyExists(f"cannot create {location}: other writers are creating the object", file=location)
    return StorageFailed(
        f"cannot tell whether {location} was created: other writers have changed the object since",
        retryable=True,
        operation="create",
        file=location,
        reason="changed since",
        unanswered=True,
    )


def _of_store(facts: Any) -> Any:
    """The facts of an object. `ForeignAnswer` without the tag that every object store sends."""
    if not facts["e_tag"]:
        raise ForeignAnswer
    return facts


def _read_all(store: ObjectStore, key: str) -> bytes:
    found = store.get(key)
    _of_store(found.meta)
    return bytes(found.bytes())


def _read_head(store: ObjectStore, key: str) -> tuple[int, Any]:
    found = store.get(key, options={"head": True})
    return int(_of_store(found.meta)["size"]), found.attributes


def _read_tail(store: ObjectStore, key: str) -> Tail:
    """The end of an object, by one request where the store can."""
    try:
        found = store.get(key, options={"range": {"suffix": TAIL}})
        return Tail(int(_of_store(found.meta)["size"]), bytes(found.bytes()))
    except (FileNotFoundError, ForeignAnswer):
        raise
    except Exception as error:
        text = str(error)
        if type(error).__name__ not in ("NotSupportedError", "GenericError") or not (
            "NotPartial" in text or "416" in text or type(error).__name__ == "NotSupportedError"
        ):
            raise
    size = int(_of_store(store.head(key))["size"])  # empty, or a store that counts from the beginning alone
    start = max(size - TAIL, 0)
    return Tail(size, bytes(store.get_range(key, start=start, end=size)) if size else b"")


def _read_range(store: ObjectStore, key: str, start: int, end: int) -> bytes:
    """Bytes of an object; a long range by several requests at a time."""
    if end - start <= _SLICE:
        return bytes(store.get_range(key, start=start, end=end))
    with ThreadPoolExecutor(_READS, thread_name_prefix="esker-ranges") as pool:
        parts = pool.map(
            lambda at: bytes(store.get_range(key, start=at, end=min(at + _SLICE, end))), range(start, end, _SLICE)
        )
        return b"".join(parts)


def _mark(facts: Any) -> Mark:
    return str(facts["e_tag"]), int(facts["size"])


def _stored(base: str, key: str, facts: Any) -> StoredFile:
    way = str(facts["path"])[len(key) + 1 :] if key else str(facts["path"])
    return StoredFile(
        location=f"{base}/{way}",
        size=int(facts["size"]),
        modified_ms=int(facts["last_modified"].timestamp() * 1000),
    )
