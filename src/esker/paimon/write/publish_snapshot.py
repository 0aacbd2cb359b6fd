"""A commit: new manifests, both manifest lists, and the next snapshot file, which is created once or not at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from esker.errors import AlreadyExists, Conflict, EskerError, NoSuchFile, OutcomeUnknown, StorageFailed
from esker.paimon.manifests.index_manifest import IndexEntry, decode_index_manifest, encode_index_manifest
from esker.paimon.manifests.live_files import live_files
from esker.paimon.manifests.manifest import FileEntry, Kind, encode_manifest, entries_of, read_manifests
from esker.paimon.manifests.manifest_list import ManifestMeta, decode_manifest_list, encode_manifest_list
from esker.paimon.metadata.layout import Layout, latest_snapshot
from esker.paimon.metadata.snapshot import BATCH, PaimonSnapshot, decode_snapshot, encode_snapshot
from esker.paimon.metadata.table_schema import TableSchema
from esker.paimon.rows.binary_row import decode_row
from esker.paimon.write.create_once import check_creates_once
from esker.paimon.write.data_files import partition_statistics
from esker.ports.storage import Storage

APPEND, COMPACT, OVERWRITE = "APPEND", "COMPACT", "OVERWRITE"
ATTEMPTS = 100
_MERGE_COUNT = 30
_MERGE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What one commit does. ``index`` is the whole new list of index files; None leaves it as it is."""

    kind: str
    entries: tuple[FileEntry, ...]
    index: tuple[IndexEntry, ...] | None = None

    @property
    def added(self) -> list[FileEntry]:
        """The new files."""
        return [entry for entry in self.entries if entry.kind is Kind.ADD]


class State:
    """One snapshot of a table, or none, with what a commit on top of it needs to know."""

    def __init__(self, storage: Storage, layout: Layout, snapshot: PaimonSnapshot | None) -> None:
        self._storage, self._layout, self.snapshot = storage, layout, snapshot

    @property
    def id(self) -> int:
        """The snapshot's number; 0 before the first."""
        return self.snapshot.id if self.snapshot else 0

    def manifests(self) -> tuple[ManifestMeta, ...]:
        """The manifests of both lists, in order."""
        if self.snapshot is None:
            return ()
        places = [self._layout.manifest(name) for name in self.snapshot.manifest_lists]
        return decode_manifest_list([(place, self._storage.read(place)) for place in places])

    def files(self) -> list[FileEntry]:
        """The live files."""
        return live_files(entries_in(self._storage, self._layout, self.manifests()))

    def index(self) -> tuple[IndexEntry, ...]:
        """The index files."""
        if self.snapshot is None or self.snapshot.index_manifest is None:
            return ()
        place = self._layout.manifest(self.snapshot.index_manifest)
        return decode_index_manifest(place, self._storage.read(place))


def entries_in(storage: Storage, layout: Layout, manifests: Iterable[ManifestMeta]) -> list[FileEntry]:
    """Every entry of some manifests."""
    places = [layout.manifest(meta.name) for meta in manifests]
    return list(entries_of(read_manifests([(place, storage.read(place)) for place in places]))) if places else []


def current_state(storage: Storage, layout: Layout) -> State:
    """The newest snapshot of the branch."""
    while True:
        number = latest_snapshot(storage, layout)
        if number is None:
            return State(storage, layout, None)
        place = layout.snapshot(number)
        try:
            return State(storage, layout, decode_snapshot(place, storage.read(place)))
        except NoSuchFile:
            continue  # expired between the two reads


def commit(
    storage: Storage, layout: Layout, schema: TableSchema, prepare: Callable[[State], Changes | None]
) -> PaimonSnapshot | None:
    """Publish a snapshot with the changes that ``prepare`` makes for the newest state. It is called again for the
    state that another writer published meanwhile, so it must look whether its changes still hold, and may raise
    ``Conflict``. None as changes ends the commit with nothing done, and None is returned.

    Raises ``Conflict`` if others were faster 100 times, and ``OutcomeUnknown`` if it cannot be found out whether the
    snapshot is ours; then no file is deleted.
    """
    user = str(uuid4())
    for attempt in range(ATTEMPTS):
        state = current_state(storage, layout)
        changes = prepare(state)
        if changes is None:
            return None
        attempted = _Attempt(storage, layout, schema, state, changes, user)
        if attempted.publish():
            return attempted.snapshot
        time.sleep(min(0.002 * 2**attempt, 0.1))
    raise Conflict(f"cannot commit to {layout.root}: other writers were faster {ATTEMPTS} times; try again later")


class _Attempt:
    """One try to publish the snapshot after a state."""

    def __init__(
        self, storage: Storage, layout: Layout, schema: TableSchema, state: State, changes: Changes, user: str
    ) -> None:
        self._storage, self._layout, self._schema = storage, layout, schema
        self._made: list[str] = []
        self.snapshot = self._new_snapshot(state, changes, user)

    def publish(self) -> bool:
        """Whether this is the next snapshot. If another took its number, what was written for it is deleted."""
        place = self._layout.snapshot(self.snapshot.id)
        try:
            self._storage.write_new(place, encode_snapshot(self.snapshot))
        except AlreadyExists:
            if self._is_ours(place):
                return True  # a repeated request found the file of the first
            for made in self._made:
                self._storage.delete(made)
            return False
        except (StorageFailed, OutcomeUnknown, OSError) as error:
            if not self._is_ours(place):
                raise OutcomeUnknown(
                    f"the commit of snapshot {self.snapshot.id} to {self._layout.root} may or may not have happened; "
                    f"its files were kept: {error}"
                ) from error
        self._hint("LATEST", self.snapshot.id)
        if self.snapshot.id == 1:
            self._hint("EARLIEST", 1)
        return True

    def _is_ours(self, place: str) -> bool:
        try:
            found = decode_snapshot(place, self._storage.read(place))
        except NoSuchFile:
            return False
        except EskerError as error:
            raise OutcomeUnknown(
                f"the commit of snapshot {self.snapshot.id} to {self._layout.root} may or may not have happened; "
                f"its files were kept: {error}"
            ) from error
        return found.uuid == self.snapshot.uuid

    def _hint(self, name: str, number: int) -> None:
        write_hint(self._storage, self._layout, name, number)

    def _new_snapshot(self, state: State, changes: Changes, user: str) -> PaimonSnapshot:
        before, id_ = state.snapshot, str(uuid4())
        base = self._merged(list(state.manifests()))
        delta = [self._manifest(changes.entries)] if changes.entries else []
        names = (f"manifest-list-{id_}-0", f"manifest-list-{id_}-1")
        lists = [encode_manifest_list(metas) for metas in (base, delta)]
        sizes = [self._write(name, data) for name, data in zip(names, lists, strict=True)]
        check_creates_once(self._storage, self._layout.root, self._layout.manifest(names[0]), lists[0])
        index = before.index_manifest if before else None
        if changes.index is not None:
            index = f"index-manifest-{uuid4()}-0" if changes.index else None
            if index:
                self._write(index, encode_index_manifest(changes.index))
        rows = sum(entry.file.rows * (1 if entry.kind is Kind.ADD else -1) for entry in changes.entries)
        made = PaimonSnapshot(
            id=state.id + 1,
            uuid=str(uuid4()),
            schema_id=self._schema.id,
            base_manifest_list=names[0],
            base_manifest_list_size=sizes[0],
            delta_manifest_list=names[1],
            delta_manifest_list_size=sizes[1],
            index_manifest=index,
            commit_user=user,
            commit_identifier=BATCH,
            commit_kind=changes.kind,
            time_millis=max(int(time.time() * 1000), before.time_millis if before else 0),
            total_record_count=(before.total_record_count or 0 if before else 0) + rows,
            delta_record_count=rows,
        )
        if before is None:
            return made
        return replace(made, watermark=before.watermark, statistics=before.statistics, next_row_id=before.next_row_id)

    def _merged(self, metas: list[ManifestMeta]) -> list[ManifestMeta]:
        """Manifests, the small ones among them written together once they are many."""
        most = int(self._schema.option("manifest.merge-min-count", str(_MERGE_COUNT)))
        small = [meta for meta in metas if meta.size < _MERGE_BYTES]
        if len(small) < most:
            return metas
        entries = remaining(entries_in(self._storage, self._layout, small))
        rest = [meta for meta in metas if meta.size >= _MERGE_BYTES]
        return [*rest, self._manifest(entries)] if entries else rest

    def _manifest(self, entries: Sequence[FileEntry]) -> ManifestMeta:
        name = f"manifest-{uuid4()}-0"
        size = self._write(name, encode_manifest(entries))
        types = [field.type for field in self._schema.partition_fields]
        partitions = [decode_row(row, types) for row in dict.fromkeys(entry.partition for entry in entries)]
        buckets = [entry.bucket for entry in entries]
        levels = [entry.file.level for entry in entries]
        return ManifestMeta(
            name=name,
            size=size,
            added_files=sum(entry.kind is Kind.ADD for entry in entries),
            deleted_files=sum(entry.kind is Kind.DELETE for entry in entries),
            partition_stats=partition_statistics(self._schema, partitions),
            schema_id=self._schema.id,
            min_bucket=min(buckets),
            max_bucket=max(buckets),
            min_level=min(levels),
            max_level=max(levels),
        )

    def _write(self, name: str, data: bytes) -> int:
        place = self._layout.manifest(name)
        self._storage.write_new(place, data)
        self._made.append(place)
        return len(data)


def remaining(entries: Sequence[FileEntry]) -> list[FileEntry]:
    """Entries without the pairs of an ADD and its DELETE. A DELETE whose ADD is not here stays: it is of a file in
    another manifest."""
    added = {entry.identity for entry in entries if entry.kind is Kind.ADD}
    deleted = {entry.identity for entry in entries if entry.kind is Kind.DELETE}
    both = added & deleted
    return [entry for entry in entries if entry.identity not in both]


def write_hint(storage: Storage, layout: Layout, name: str, number: int) -> None:
    """Record a number in a hint. A hint may be absent or old, so no failure of it is an error."""
    place = layout.hint(name)
    try:
        storage.delete(place)
        storage.write_new(place, str(number).encode())
    except (EskerError, OSError):
        return


def as_deletes(entries: Iterable[FileEntry]) -> tuple[FileEntry, ...]:
    """The DELETE entries of files. They repeat the ADD word for word."""
    return tuple(replace(entry, kind=Kind.DELETE) for entry in entries)
