"""Remove orphans: files below a table's location that no version of the table reaches, left by writers that failed.

A file is removed only if all of this holds: no snapshot reaches it, no ingest still has to commit it, and it is older
than the floor by the clock of the store. The pointer of the catalog is read again before anything is removed. Any
error while reading ends the run, and nothing is removed.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal
from uuid import uuid4

from esker.errors import AlreadyExists, InvalidInput, StorageFailed, Unsupported
from esker.maintain.expire_snapshots import AT_ONCE, check_may_delete, check_tended_here, is_journal
from esker.maintain.other_tables import check_no_other_history, check_no_other_table, is_metadata
from esker.maintain.pending_files import pending_files
from esker.maintain.purge import DROPPED
from esker.maintain.reachable_files import OwnPlaces, every_location, reached
from esker.maintain.tended_table import KeySet, TendedTable, in_groups, keys_of, log, name_key, path_key, place_of
from esker.model.display_text import card, first_of, show_bytes, show_ms
from esker.model.table_names import TableName
from esker.ports.catalog import Catalog
from esker.ports.storage import Storage, StoredFile, delete_each
from esker.write.commit import refreshed

DAY_MS = 24 * 3_600_000
FLOOR_MS = DAY_MS  # a younger file may belong to a writer that is still at work
DEFAULT_AGE_MS = 3 * DAY_MS
Mismatch = Literal["error", "ignore"]
OtherTables = Literal["error", "remove"]
CLOCK = ".clock"  # the folder of the objects that tell the time; one of a run that stopped is an orphan

# The catalog of a directory needs the name of every version, also of those that are no longer in the log (note 18).
_VERSION = re.compile(r"v\d{1,18}\.(?:gz\.)?metadata\.json(?:\.gz)?")
_DRAFT = re.compile(r"\.[0-9a-f]{32}\.tmp")  # of Esker's local storage: a file that was never complete


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanRemoval:
    """What a removal of orphans would do (``done`` is False) or did."""

    name: str
    done: bool
    location: str  # that was listed
    older_than_ms: int  # by the store's clock
    listed: int
    reached: int  # of the listed files
    young: int  # not reached, and not old enough
    spared: int  # not reached, and pending, of the catalog, or of unknown age
    files: tuple[str, ...] = field(repr=False)  # the orphans
    total_bytes: int
    quarantine: str | None = None  # where they were moved
    failed: tuple[str, ...] = field(default=(), repr=False)

    def __repr__(self) -> str:
        return f"<OrphanRemoval of {self.name}: {self}>"

    def __str__(self) -> str:
        verb = "moved" if self.quarantine else "deleted"
        verb = verb if self.done else f"would have {verb}"
        size = show_bytes(self.total_bytes)
        return f"{verb} {len(self.files) - len(self.failed)} of {self.listed} listed files ({size})"

    def _repr_html_(self) -> str:
        return card(
            f"Orphans of {self.name}",
            [
                ("result", str(self)),
                ("location", self.location),
                ("older than", show_ms(self.older_than_ms)),
                ("in use", self.reached),
                ("too young", self.young or None),
                ("spared", self.spared or None),
                ("files", first_of(self.files, 20, "\n") or None),
                ("moved to", self.quarantine),
                ("failed", len(self.failed) or None),
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanPolicy:
    """Which files are old enough, where they are searched, and what happens to them."""

    now_ms: int  # by this machine, for a plan
    age_ms: int = DEFAULT_AGE_MS  # by the store's clock
    older_than_ms: int | None = None  # a time, instead of an age
    location: str | None = None  # a folder of the table; None: all of it
    quarantine: str | None = None
    under_24_hours: bool = False  # the caller vouches that no writer is at work
    mismatch: Mismatch = "error"
    other_tables: OtherTables = "error"  # "remove": tables whose metadata is found here are gone for good

    def __post_init__(self) -> None:
        for name, allowed in (("mismatch", ("error", "ignore")), ("other_tables", ("error", "remove"))):
            if getattr(self, name) not in allowed:
                raise InvalidInput(
                    f"cannot remove orphans with {name}={getattr(self, name)!r}: it takes {', '.join(allowed)}"
                )

    def cut_ms(self, now_ms: int) -> int:
        """The time that files must be older than. Raises ``InvalidInput`` if writers may still be at work on them."""
        cut = now_ms - self.age_ms if self.older_than_ms is None else self.older_than_ms
        if cut > now_ms - FLOOR_MS and not self.under_24_hours:
            raise InvalidInput(
                f"cannot remove files younger than 24 hours ({show_ms(cut)}, and the store has {show_ms(now_ms)}): "
                "a writer may be about to commit them; give an older time, or allow it with under_24_hours=True"
            )
        return cut


def remove_orphans(
    table: TendedTable,
    catalog: Catalog,
    name: TableName,
    policy: OrphanPolicy,
    *,
    list_files: Callable[[str], Iterable[StoredFile]],
    dry_run: bool,
) -> OrphanRemoval:
    """Find the orphans, and remove them unless it is a dry run. ``list_files`` lists the folder of the table.

    Raises ``InvalidInput`` if another table overlaps with this one, or another catalog has committed to it,
    ``Unsupported`` for encrypted tables and for services that tend their tables themselves, and what the storage
    raises. In each of these cases nothing is removed.
    """
    check_may_delete(table.metadata, "now")
    check_tended_here(catalog, "remove orphans")
    _check_plain(table)
    root = _root(table, policy)
    check_no_overlap(catalog, name, root)
    spared = pending_files(table.storage, table.metadata)  # before the version that the walk reads
    now = replace(table, state=refreshed(catalog, name, table.state))
    cut_ms = policy.cut_ms(policy.now_ms if dry_run else store_clock_ms(table.storage, table.metadata.location))
    search = _Search(now, root, cut_ms, frozenset(map(path_key, spared)), policy.mismatch)
    orphans = search.orphans(list_files)
    search.check_found(policy.location is None)
    if policy.other_tables == "error":
        doing = f"remove orphans below {root}"
        check_no_other_table(table.storage, now.state, search.unknown, doing)
        check_no_other_history(table.storage, now.state, search.unknown, doing)
    last = refreshed(catalog, name, now.state)
    if last.metadata_location != now.state.metadata_location:  # somebody committed meanwhile
        orphans = _still_orphans(replace(now, state=last), orphans)
    failed = [] if dry_run else _remove(table.storage, root, orphans, policy.quarantine)
    return OrphanRemoval(
        name=table.name,
        done=not dry_run,
        location=root,
        older_than_ms=cut_ms,
        listed=search.listed,
        reached=search.reached,
        young=search.young,
        spared=search.spared,
        files=tuple(file.location for file in orphans),
        total_bytes=sum(file.size for file in orphans),
        quarantine=policy.quarantine,
        failed=tuple(failed),
    )


# ---------------------------------------------------------------- what is refused


def _check_plain(table: TendedTable) -> None:
    if table.metadata.encryption_keys or any(snapshot.key_id for snapshot in table.metadata.snapshots):
        raise Unsupported(
            f"cannot remove orphans of {table.name}: it is encrypted, so its manifests cannot be read",
            feature="table encryption",
        )


def _root(table: TendedTable, policy: OrphanPolicy) -> str:
    """The folder to list. Raises ``InvalidInput`` if it is not the table's, or contains the quarantine."""
    own = OwnPlaces.of(table.metadata)
    root = (policy.location or table.metadata.location).rstrip("/")
    if place_of(root) not in own.places and not own.has(root):
        raise InvalidInput(f"cannot remove orphans below {root}: it is not a folder of {table.name}", location=root)
    if policy.quarantine is not None and own.has(f"{policy.quarantine.rstrip('/')}/x"):
        raise InvalidInput(
            f"cannot move orphans to {policy.quarantine}: it is in the table, where they would be orphans again",
            location=policy.quarantine,
        )
    return root


def check_no_overlap(catalog: Catalog, name: TableName, root: str) -> None:
    """Raise ``InvalidInput`` if a folder of another table or view is in this folder, or around it (F46)."""
    mine = place_of(root)
    for namespace in catalog.namespaces():
        for other in catalog.tables(namespace):
            if other != name:
                for place in OwnPlaces.of(catalog.load(other).metadata).places:
                    _check_apart(root, mine, place, other)
        views = catalog.view_catalog()
        for view in views.views(namespace):
            _check_apart(root, mine, place_of(views.load_view(view).metadata.location), view)


def _check_apart(root: str, mine: tuple[str, str], other: tuple[str, str], name: TableName) -> None:
    if mine[0] != other[0]:
        return
    one, two = f"{mine[1]}/", f"{other[1]}/"
    if one.startswith(two) or two.startswith(one):
        raise InvalidInput(
            f"cannot remove orphans below {root}: {name} has files at {other[1]}, which overlaps; "
            "give a folder of the table that does not, with location=…",
            location=root,
            other=str(name),
        )


def store_clock_ms(storage: Storage, root: str) -> int:
    """The time of the store: that of an object which is written now, and deleted again (F40)."""
    folder = f"{root.rstrip('/')}/metadata/{CLOCK}"
    probe = f"{folder}/{uuid4().hex}"
    storage.write_new(probe, b"")
    try:
        times = [file.modified_ms for file in storage.list(folder) if file.location == probe]
    finally:
        with suppress(StorageFailed):
            storage.delete(probe)
    if not times or times[0] <= 0:
        raise StorageFailed(
            f"cannot find out the time of the store at {root}: it does not say when objects were written",
            retryable=False,
            file=probe,
        )
    return times[0]


# ---------------------------------------------------------------- the search


@dataclass(slots=True)
class _Search:
    """One listing, compared with what the table reaches."""

    table: TendedTable
    root: str
    cut_ms: int
    pending: frozenset[int]  # keys
    mismatch: Mismatch
    listed: int = 0
    reached: int = 0
    young: int = 0
    spared: int = 0
    unknown: list[StoredFile] = field(default_factory=list)  # metadata files that the table does not reach
    _here: KeySet = field(default_factory=KeySet)
    _elsewhere: KeySet = field(default_factory=KeySet)  # files that the table records in another store
    _names: KeySet = field(default_factory=KeySet)  # of files that the table records outside of its own folders
    _first_named: StoredFile | None = None

    def orphans(self, list_files: Callable[[str], Iterable[StoredFile]]) -> list[StoredFile]:
        """The files that may be removed, by location."""
        store = place_of(self.root)[0]
        own = OwnPlaces.of(self.table.metadata)
        for locations in every_location(self.table):
            self._names.add(keys_of(own.without(locations), name_key))
            stores = [place_of(location)[0] == store for location in locations]
            self._here.add(keys_of(x for x, same in zip(locations, stores, strict=True) if same))
            self._elsewhere.add(keys_of(x for x, same in zip(locations, stores, strict=True) if not same))
        found: list[StoredFile] = []
        for group in in_groups(list_files(self.root), 10_000):
            self.listed += len(group)
            found += self._orphans_of(group)
            log.info("listed %d files, %d orphans…", self.listed, len(found))
        return sorted(found, key=lambda file: file.location)

    def _orphans_of(self, group: Sequence[StoredFile]) -> Iterator[StoredFile]:
        keys = keys_of(file.location for file in group)
        here, elsewhere = self._here.has(keys), self._elsewhere.has(keys)
        named = self._names.has(keys_of((file.location for file in group), name_key))
        for at, file in enumerate(group):
            if here[at]:
                self.reached += 1
                continue
            if is_metadata(file.location) and not self._is_own_version(file.location):
                self.unknown.append(file)
            if elsewhere[at]:
                self._mismatched(file, f"a file with the path of {file.location} in another store")
                self.spared += 1
            elif int(keys[at]) in self.pending or file.modified_ms <= 0 or _is_kept(file.location, self.root):
                self.spared += 1
            elif file.modified_ms >= self.cut_ms:
                self.young += 1
            elif named[at]:  # a link or a mount may lead from there to here
                self._first_named = self._first_named or file
                self.spared += 1
            else:
                yield file

    def _is_own_version(self, location: str) -> bool:
        """Whether it is a version file of this table in the catalog of a directory, or of one that was dropped."""
        folder, _, name = location.rpartition("/")
        is_here = place_of(folder) == place_of(self.table.state.metadata_location.rpartition("/")[0])
        is_version = _VERSION.fullmatch(self.table.state.metadata_location.rpartition("/")[2]) is not None
        return DROPPED in folder or (is_here and is_version and _VERSION.fullmatch(name) is not None)

    def _mismatched(self, file: StoredFile, what: str) -> None:
        if self.mismatch == "error":
            raise InvalidInput(
                f"cannot remove orphans of {self.table.name}: it records {what}, so the two may be one file; if both "
                "are of this table, keep such files with mismatch='ignore'",
                file=file.location,
            )

    def check_found(self, is_all: bool) -> None:
        """Raise ``InvalidInput`` if the table seems to record its files by other locations than the listed ones: then
        its files look like orphans. ``is_all``: all folders of the table were listed."""
        if is_all and self.listed and not self.reached and len(self._here) + len(self._elsewhere):
            raise InvalidInput(
                f"cannot remove orphans below {self.root}: the table records none of the files there, so it records "
                "them by other locations",
                location=self.root,
            )
        if self._first_named is not None:
            what = f"a file with the name of {self._first_named.location} outside of its folders"
            self._mismatched(self._first_named, what)


def _is_kept(location: str, root: str) -> bool:
    """Whether a file is the catalog's or hidden: version files, the hint, journals, and names that begin with a dot or
    an underscore, as Iceberg's own removal leaves them."""
    folder, _, name = location.removeprefix(f"{root}/").rpartition("/")
    if name == "version-hint.text" or _VERSION.fullmatch(name) or is_journal(location):
        return True
    if any(part.startswith(DROPPED) for part in folder.split("/")):
        return True
    hidden = [part for part in folder.split("/") if part.startswith((".", "_")) and "=" not in part and part != CLOCK]
    return bool(hidden) or (name.startswith((".", "_")) and not _DRAFT.fullmatch(name))


def _still_orphans(table: TendedTable, orphans: list[StoredFile]) -> list[StoredFile]:
    """The orphans that the newest version does not reach either."""
    there = reached(table).has([file.location for file in orphans])
    return [file for file, is_there in zip(orphans, there, strict=True) if not is_there]


# ---------------------------------------------------------------- removal


def _remove(storage: Storage, root: str, orphans: Sequence[StoredFile], quarantine: str | None) -> list[str]:
    """Delete the files in groups, or move them. Returns those that could not be removed."""
    failed: list[str] = []
    done = 0
    for group in in_groups(orphans, AT_ONCE):
        if quarantine is not None:
            for file in group:
                _copy(storage, file, f"{quarantine.rstrip('/')}/{file.location.removeprefix(root).lstrip('/')}")
        for place, error in delete_each(storage, [file.location for file in group]):
            failed.append(place)
            log.warning("cannot delete %s: %s", place, error)
        done += len(group)
        log.info("removed %d of %d orphans…", done, len(orphans))
    return failed


def _copy(storage: Storage, file: StoredFile, target: str) -> None:
    """Copy a file. If an earlier run that was stopped has copied it, nothing is done."""
    try:
        with storage.open(file.location) as source, storage.open_new(target) as copy:
            shutil.copyfileobj(source, copy, 8 << 20)
    except AlreadyExists:
        if storage.size(target) != file.size:
            raise
