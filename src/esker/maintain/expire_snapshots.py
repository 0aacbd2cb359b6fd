"""Expire snapshots: first a commit that no longer lists them, then the removal of the files that only they reached.

Between the two steps, the files to remove are written to a journal beside the table's metadata. If the removal stops
half-way, the next run finishes it. Before any file of a journal is removed, the table is read again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Literal
from uuid import uuid4

from esker.errors import Conflict, Corrupt, InvalidInput, NoSuchFile, NoSuchSnapshot, Unsupported
from esker.maintain.reachable_files import DATA, Losses, LostFile, OwnPlaces, equality_ids, every_manifest, reached
from esker.maintain.tended_table import TendedTable, in_groups, log
from esker.model.display_text import card, show_bytes
from esker.model.table_names import TableName
from esker.ports.catalog import Catalog, SelfTending, TableState
from esker.ports.storage import Storage, delete_each
from esker.tree.table_metadata import TableMetadata
from esker.write.commit import commit, refreshed
from esker.write.context import metadata_folder
from esker.write.properties import switch
from esker.write.refs.branches_and_tags import MetadataChange
from esker.write.refs.retention import retained, without_snapshots

Delete = Literal["now", "later", "never"]
AT_ONCE = 1000  # files that are deleted by one request
JOURNAL = "expired-"  # how the name of a journal begins
_SUFFIX = ".files.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """What an expiry would do (``done`` is False) or did: snapshots, refs, and the files that only they reached."""

    name: str
    done: bool
    snapshot_ids: tuple[int, ...]  # that expire
    refs: tuple[str, ...]  # that are past their age
    snapshots_before: int
    files: Mapping[str, int]  # how many, by kind: data, position-deletes, manifest, manifest-list, …
    total_bytes: int  # of these files, as far as their sizes are recorded
    elsewhere: int = 0  # files that are kept because they are not below the table's own folders
    journal: str | None = None  # where the files to delete later are listed
    finished: int = 0  # files that earlier runs had left
    failed: tuple[str, ...] = field(default=(), repr=False)  # files that could not be deleted
    unreadable: tuple[str, ...] = field(default=(), repr=False)  # of expired snapshots: their files become orphans

    @property
    def snapshots_after(self) -> int:
        """How many snapshots are left."""
        return self.snapshots_before - len(self.snapshot_ids)

    @property
    def files_total(self) -> int:
        """How many files of all kinds."""
        return sum(self.files.values())

    def __repr__(self) -> str:
        return f"<Expiry of {self.name}: {self}>"

    def __str__(self) -> str:
        verb = "expired" if self.done else "would expire"
        what = {True: "deleted", False: "would delete"}[self.done and self.journal is None]
        said = f"{verb} {len(self.snapshot_ids)} of {self.snapshots_before} snapshots"
        return f"{said}, {what} {self.files_total} files ({show_bytes(self.total_bytes)})"

    def _repr_html_(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.files.items())
        return card(
            f"Expiry of {self.name}",
            [
                ("result", str(self)),
                ("snapshots", f"{self.snapshots_before} before, {self.snapshots_after} after"),
                ("refs that expire", ", ".join(self.refs) or None),
                ("files", kinds or None),
                ("kept elsewhere", self.elsewhere or None),
                ("journal", self.journal),
                ("could not be deleted", len(self.failed) or None),
            ],
        )


# ---------------------------------------------------------------- which snapshots


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryPolicy:
    """Which snapshots expire: those that the retention does not keep, and those that are named."""

    now_ms: int
    older_than_ms: int | None = None
    retain_last: int | None = None
    snapshot_ids: tuple[int, ...] = ()
    clean_metadata: bool = False  # also remove schemas and specs that nothing uses any more

    def __post_init__(self) -> None:
        if self.retain_last is not None and self.retain_last < 1:
            raise InvalidInput(f"cannot retain the last {self.retain_last} snapshots: keep at least 1")

    def applied(self, metadata: TableMetadata) -> TableMetadata:
        """The table without the snapshots; the same object if none expires. Raises ``NoSuchSnapshot`` for an unknown
        id, and ``InvalidInput`` for one that a ref points to."""
        known = {snapshot.snapshot_id for snapshot in metadata.snapshots}
        for id_ in self.snapshot_ids:
            if id_ not in known:
                raise NoSuchSnapshot(f"cannot expire snapshot {id_}: the table does not have it", snapshot_id=id_)
        gone = set(self.snapshot_ids)
        refs = metadata.refs
        if not self.snapshot_ids or self.older_than_ms is not None or self.retain_last is not None:
            kept = retained(
                metadata, now_ms=self.now_ms, older_than_ms=self.older_than_ms, retain_last=self.retain_last
            )
            gone |= known - kept.snapshot_ids
            refs = {name: ref for name, ref in metadata.refs.items() if name in kept.refs}
        if not gone and len(refs) == len(metadata.refs):
            return metadata
        return without_snapshots(replace(metadata, refs=refs), gone)


def without_unused(table: TendedTable, metadata: TableMetadata) -> TableMetadata:
    """The table without schemas and partition specs that no retained snapshot uses."""
    manifests, _ = every_manifest(table, metadata.snapshots)
    specs = {manifest.spec_id for manifest in manifests.values()} | {metadata.default_spec_id}
    used = {snapshot.schema_id for snapshot in metadata.snapshots}
    if None in used:  # an early writer did not record the schema of a snapshot: it may need any
        used |= set(metadata.schema_by_id)
    kept = {id_ for id_ in used if id_ is not None} | {metadata.current_schema_id}
    # Partition values and equality deletes have the types of columns that only an older schema may still have.
    needed = {part.source_id for spec in metadata.specs if spec.spec_id in specs for part in spec.fields}
    needed |= equality_ids(table, list(manifests.values()))
    needed -= {id_ for schema in metadata.schemas if schema.schema_id in kept for id_ in schema.by_id}
    for schema in sorted(metadata.schemas, key=lambda one: -one.schema_id):
        if needed & schema.by_id.keys():
            kept.add(schema.schema_id)
            needed -= schema.by_id.keys()
    return replace(
        metadata,
        specs=tuple(spec for spec in metadata.specs if spec.spec_id in specs),
        schemas=tuple(schema for schema in metadata.schemas if schema.schema_id in kept),
    )


# ---------------------------------------------------------------- plan and run


def plan_expiry(table: TendedTable, policy: ExpiryPolicy, *, delete: Delete = "now") -> Expiry:
    """What an expiry would do. Nothing is changed."""
    check_may_delete(table.metadata, delete)
    after = policy.applied(table.metadata)
    later = replace(table, state=replace(table.state, metadata=after))
    losses = Losses(later, table.metadata, [])
    tally = _Tally(OwnPlaces.of(table.metadata))
    if delete != "never":
        for file in losses.files():
            tally.takes(file)
    return tally.result(table, table.metadata, after, done=False, unreadable=losses.unreadable)


def expire(
    table: TendedTable, catalog: Catalog, name: TableName, policy: ExpiryPolicy, *, delete: Delete = "now"
) -> tuple[Expiry, TableState]:
    """Expire the snapshots. Returns what was done, and the table's new version.

    Files are removed only after the commit. If the outcome of the commit is unknown, ``OutcomeUnknown`` is raised and
    nothing is removed.
    """
    check_may_delete(table.metadata, delete)
    if delete != "never":
        check_tended_here(catalog, "delete files of expired snapshots")
    based_on: list[TableMetadata] = [table.metadata]

    def apply(metadata: TableMetadata) -> TableMetadata:
        based_on.append(metadata)
        after = policy.applied(metadata)
        if policy.clean_metadata:
            here = replace(table, state=replace(table.state, metadata=after))
            cleaned = without_unused(here, after)
            after = after if _same_definitions(after, cleaned) else cleaned
        return after

    finished = finish_journals(table, catalog, name) if delete == "now" else _Tally(OwnPlaces.of(table.metadata))
    committed = commit(catalog, name, table.state, MetadataChange(apply))
    before = based_on[-1]
    # The newest version decides what is removed: others may have committed since.
    now = replace(table, state=_newest(catalog, name, committed))
    losses = Losses(now, before, [])
    tally = _Tally(OwnPlaces.of(before), failed=finished.failed)
    journal = None
    if delete != "never":
        journal = write_journal(now.storage, now.metadata, tally.taking(losses.files()))
    if journal is not None and delete == "now":
        failed = _delete_journal(now, journal, lambda files: files)
        tally.failed += failed
        journal = journal if failed else None
    report = tally.result(table, before, committed.metadata, done=True, unreadable=losses.unreadable)
    return replace(report, journal=journal, finished=finished.deleted, failed=tuple(tally.failed)), now.state


def _newest(catalog: Catalog, name: TableName, committed: TableState) -> TableState:
    """The newest version of the table. Raises ``Conflict`` if another table has its name by now: that one says nothing
    about the files of this table, which may have another name (F34)."""
    try:
        return refreshed(catalog, name, committed)
    except Conflict as error:
        raise Conflict(
            f"cannot delete files of expired snapshots of {name}: the snapshots have expired, but another table has "
            "its name now; no file was deleted; if the table was renamed, remove_orphans() finds the files",
            table=str(name),
        ) from error


def _same_definitions(one: TableMetadata, other: TableMetadata) -> bool:
    return len(one.specs) == len(other.specs) and len(one.schemas) == len(other.schemas)


def check_may_delete(metadata: TableMetadata, delete: Delete) -> None:
    """Raise ``InvalidInput`` if the table's files may be used by other tables."""
    if delete not in ("now", "later", "never"):
        raise InvalidInput(f"cannot delete files {delete!r}: write now, later or never")
    if delete != "never" and not switch(metadata.properties, "gc.enabled", default=True):
        raise InvalidInput(
            "cannot delete files of the table: its property gc.enabled is false, so other tables may use its files; "
            "set it to true, or expire snapshots with delete='never'"
        )


def check_tended_here(catalog: Catalog, doing: str) -> None:
    """Raise ``Unsupported`` if the catalog's service removes files itself and refuses that clients do."""
    if isinstance(catalog, SelfTending) and catalog.tended_by is not None:
        raise Unsupported(
            f"cannot {doing}: {catalog.tended_by} removes files of its tables itself and lets no client do it",
            feature=f"maintenance of {catalog.tended_by}",
        )


@dataclass(slots=True)
class _Tally:
    """Counts files, and leaves out those that are not the table's own."""

    own: OwnPlaces
    files: Counter[str] = field(default_factory=Counter)
    total_bytes: int = 0
    elsewhere: int = 0
    deleted: int = 0
    failed: list[str] = field(default_factory=list)

    def takes(self, file: LostFile) -> bool:
        """Count a file. False if it must be kept."""
        if not self.own.has(file.location):
            self.elsewhere += 1
            return False
        self.files[file.kind] += 1
        self.total_bytes += file.size or 0
        return True

    def taking(self, files: Iterable[LostFile]) -> Iterator[LostFile]:
        """The files that may be deleted."""
        return (file for file in files if self.takes(file))

    def result(
        self, table: TendedTable, before: TableMetadata, after: TableMetadata, *, done: bool, unreadable: Sequence[str]
    ) -> Expiry:
        """The plan or the report."""
        left = {snapshot.snapshot_id for snapshot in after.snapshots}
        return Expiry(
            name=table.name,
            done=done,
            snapshot_ids=tuple(s.snapshot_id for s in before.snapshots if s.snapshot_id not in left),
            refs=tuple(sorted(before.refs.keys() - after.refs.keys())),
            snapshots_before=len(before.snapshots),
            files=dict(self.files),
            total_bytes=self.total_bytes,
            elsewhere=self.elsewhere,
            unreadable=tuple(unreadable),
        )


# ---------------------------------------------------------------- the journal


def write_journal(storage: Storage, metadata: TableMetadata, files: Iterator[LostFile]) -> str | None:
    """Write the locations, one line each, and return where. None if there is no file."""
    first = next(files, None)
    if first is None:
        return None
    location = f"{metadata_folder(metadata)}/{JOURNAL}{uuid4()}{_SUFFIX}"
    with storage.open_new(location) as journal:
        journal.write(json.dumps({"table-uuid": metadata.uuid}).encode() + b"\n")
        for file in chain((first,), files):
            journal.write(json.dumps([file.kind, file.location]).encode() + b"\n")
    return location


def read_journal(storage: Storage, location: str, uuid: str | None) -> Iterator[LostFile]:
    """The files of a journal. Raises ``Corrupt`` if it is not one, or is of another table."""
    with storage.open(location) as journal:
        try:
            head = json.loads(journal.readline())
            if head.get("table-uuid") != uuid:
                raise Corrupt(location, f"it is of table {head.get('table-uuid')}, not of {uuid}")
            for line in journal:
                kind, place = json.loads(line)
                yield LostFile(str(kind), str(place))
        except (ValueError, AttributeError, TypeError) as error:
            raise Corrupt(location, f"it is not a journal of expired files: {error}") from error


def is_journal(location: str) -> bool:
    """Whether a file of a metadata folder is a journal."""
    name = location.rpartition("/")[2]
    return name.startswith(JOURNAL) and name.endswith(_SUFFIX)


def finish_journals(table: TendedTable, catalog: Catalog, name: TableName) -> _Tally:
    """Delete the files of journals that earlier runs left, except files that the table reaches now.

    Journals of another table, such as a dropped one that had this folder, are left alone.
    """
    tally = _Tally(OwnPlaces.of(table.metadata))
    folder = metadata_folder(table.metadata)
    journals = [file.location for file in table.storage.list(folder) if is_journal(file.location)]
    waiting = [location for location in journals if not _is_foreign(table, location)]
    if not waiting:
        return tally
    now = replace(table, state=refreshed(catalog, name, table.state))
    there = reached(now)

    def unreached(files: list[LostFile]) -> list[LostFile]:
        is_kept = there.has([file.location for file in files])
        found = [file for file, kept in zip(files, is_kept, strict=True) if not kept and tally.takes(file)]
        tally.deleted += len(found)
        return found

    for location in waiting:
        tally.failed += _delete_journal(now, location, unreached)
    return tally


def _is_foreign(table: TendedTable, location: str) -> bool:
    """Whether a journal is of another table. A file that is no journal is none of another table."""
    try:
        with table.storage.open(location) as journal:
            head = json.loads(journal.readline())
    except NoSuchFile:
        return True  # another run has finished it meanwhile
    except ValueError:
        return False
    uuid = head.get("table-uuid") if isinstance(head, dict) else None
    if uuid is None or uuid == table.metadata.uuid:
        return False
    log.warning("left %s alone: it lists files of another table (%s)", location, uuid)
    return True


def _delete_journal(table: TendedTable, location: str, chosen: Callable[[list[LostFile]], list[LostFile]]) -> list[str]:
    """Delete the chosen files of a journal, in groups, and then the journal. Returns the files that could not be
    deleted; then the journal stays."""
    failed: list[str] = []
    done = 0
    try:
        for group in in_groups(read_journal(table.storage, location, table.metadata.uuid), AT_ONCE):
            places = [file.location for file in chosen(group)]
            for place, error in delete_each(table.storage, places):
                failed.append(place)
                log.warning("cannot delete %s: %s", place, error)
            done += len(places)
            log.info("deleted %d files…", done)
    except NoSuchFile:
        return failed  # another run has finished the journal meanwhile
    if not failed:
        table.storage.delete(location)
    return failed


def deleted_counts(expiry: Expiry) -> tuple[int, ...]:
    """The numbers that Iceberg's procedure returns: data, position deletes, equality deletes, manifests, lists,
    statistics."""
    kinds = (DATA, "position-deletes", "equality-deletes", "manifest", "manifest-list", "statistics")
    return tuple(expiry.files.get(kind, 0) for kind in kinds)
