"""Which files a table reaches, by a full walk over all its snapshots, and which it reached before and no longer does.

A file is reached if it is live in a manifest of a retained snapshot. The walk never trusts what an earlier walk found.
Memory: 8 bytes for each file, and the rows of the manifest lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from esker.errors import Corrupt, EskerError, NoSuchFile
from esker.maintain.tended_table import KeySet, TendedTable, in_groups, keys_of, log, name_key, place_of
from esker.ports.table_format import EntryColumns
from esker.tree.data_file import FileContent
from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    import numpy.typing as npt

DATA, POSITION_DELETES, EQUALITY_DELETES = "data", "position-deletes", "equality-deletes"
MANIFEST, MANIFEST_LIST, STATISTICS, METADATA = "manifest", "manifest-list", "statistics", "metadata"
_CONTENT = {
    FileContent.DATA: DATA,
    FileContent.POSITION_DELETES: POSITION_DELETES,
    FileContent.EQUALITY_DELETES: EQUALITY_DELETES,
}
_PATHS = EntryColumns(rest=False)
_AT_ONCE = 256  # manifests


@dataclass(frozen=True, slots=True)
class LostFile:
    """A file that no retained snapshot reaches any more."""

    kind: str
    location: str
    size: int | None = None  # None: not recorded


# ---------------------------------------------------------------- the table's own places


@dataclass(frozen=True, slots=True)
class OwnPlaces:
    """The folders whose files the table may delete. Files elsewhere may belong to others: ``add_files`` adds such, and
    hostile metadata may name any."""

    places: tuple[tuple[str, str], ...]
    folders: tuple[str, ...] = ()  # the same as they are recorded

    @classmethod
    def of(cls, metadata: TableMetadata) -> OwnPlaces:
        """The table's location, and the folders that its properties name."""
        names = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
        named = (metadata.properties.get(name) for name in names)
        folders = tuple(place.rstrip("/") for place in (metadata.location, *named) if place)
        return cls(tuple(map(place_of, folders)), folders)

    def has(self, location: str) -> bool:
        """Whether a file is below one of them."""
        store, path = place_of(location)
        return ".." not in path.split("/") and any(
            store == own and path.startswith(f"{folder}/") for own, folder in self.places
        )

    def without(self, locations: Iterable[str]) -> list[str]:
        """The locations that are below none of them."""
        usual = tuple(f"{folder}/" for folder in self.folders)  # as most files are recorded
        return [location for location in locations if not location.startswith(usual) and not self.has(location)]


@dataclass(slots=True)
class KeptFiles:
    """Files that must stay, by the paths that the table records.

    A file that is recorded outside of the table's own folders is also kept by its name alone. Its path may lead into
    these folders through a link or a mount, and then the same file has another path there.
    """

    own: OwnPlaces
    _paths: KeySet = field(default_factory=KeySet)
    _names: KeySet = field(default_factory=KeySet)

    def add(self, locations: Sequence[str]) -> None:
        """Keep these files."""
        self._paths.add(keys_of(locations))
        self._names.add(keys_of(self.own.without(locations), name_key))

    def has(self, locations: Sequence[str]) -> npt.NDArray[np.bool_]:
        """For each location, whether the file there must stay."""
        found = self._paths.has(keys_of(locations))
        return found if self._names.is_empty else found | self._names.has(keys_of(locations, name_key))


# ---------------------------------------------------------------- what is reached


def every_manifest(table: TendedTable, snapshots: Iterable[Snapshot]) -> tuple[dict[str, ManifestFile], KeptFiles]:
    """The manifests of the snapshots, each once, and these manifests and their lists as files to keep.

    Raises what the storage and the reader raise: if a list cannot be read, nothing is known.
    """
    found: dict[str, ManifestFile] = {}
    kept = KeptFiles(OwnPlaces.of(table.metadata))
    for number, snapshot in enumerate(snapshots):
        manifests = table.format.manifests(table.metadata, snapshot)
        new = {manifest.path: manifest for manifest in manifests if manifest.path not in found}
        found |= new
        kept.add([*new, *_list_of(snapshot)])
        if number % 200 == 199:
            log.info("read the manifest lists of %d snapshots…", number + 1)
    return found, kept


def _list_of(snapshot: Snapshot) -> list[str]:
    return [snapshot.manifest_list] if snapshot.manifest_list else []


def keep_live(table: TendedTable, manifests: Sequence[ManifestFile], kept: KeptFiles) -> None:
    """Keep all live files of the manifests."""
    files = 0
    for batch in table.format.entries(table.metadata, manifests, _PATHS):
        live = batch.take(batch.is_live)
        kept.add(live.path.to_pylist())
        files += len(live)
        if files % 100_000 < len(live):
            log.info("read %d files of retained manifests…", files)


def equality_ids(table: TendedTable, manifests: Sequence[ManifestFile]) -> set[int]:
    """The columns that equality deletes of the manifests compare."""
    deletes = [manifest for manifest in manifests if manifest.content is ManifestContent.DELETES]
    found: set[int] = set()
    for batch in table.format.entries(table.metadata, deletes, EntryColumns()):
        if "equality_ids" in batch.rest:
            found.update(batch.rest["equality_ids"].flatten().to_pylist())
    return found


def every_location(table: TendedTable) -> Iterator[list[str]]:
    """Everything that the table reaches, in parts: metadata files, statistics, lists, manifests, and files.

    Raises what the storage and the reader raise: if a list or manifest cannot be read, nothing is known.
    """
    metadata = table.metadata
    yield _versions(table)
    yield list(_statistics(metadata))
    yield [place for snapshot in metadata.snapshots for place in _list_of(snapshot)]
    manifests, _ = every_manifest(table, metadata.snapshots)
    yield list(manifests)
    for batch in table.format.entries(metadata, list(manifests.values()), _PATHS):
        yield batch.take(batch.is_live).path.to_pylist()


def reached(table: TendedTable) -> KeptFiles:
    """Everything that the table reaches."""
    kept = KeptFiles(OwnPlaces.of(table.metadata))
    for locations in every_location(table):
        kept.add(locations)
    return kept


def _versions(table: TendedTable) -> list[str]:
    """The metadata files of the current version and of those in the log."""
    return [table.state.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)]


def _statistics(metadata: TableMetadata) -> dict[str, int]:
    """The statistics files, with their lengths."""
    found = {file.path: file.file_size for file in metadata.statistics}
    return found | {file.path: file.file_size for file in metadata.partition_statistics}


# ---------------------------------------------------------------- what is lost


@dataclass(slots=True)
class Losses:
    """The difference of two versions of a table. ``unreadable`` lists what could not be read of the older one."""

    table: TendedTable  # at the newer version
    before: TableMetadata
    unreadable: list[str]

    def files(self) -> Iterator[LostFile]:
        """Every file that ``before`` reached and the table does not: data first, then manifests, lists, statistics.

        A list or manifest of the older version that is gone already is skipped: its files become orphans. Raises what
        the reader raises for a retained one.
        """
        after = self.table.metadata
        kept_ids = {snapshot.snapshot_id for snapshot in after.snapshots}
        expired = [snapshot for snapshot in self.before.snapshots if snapshot.snapshot_id not in kept_ids]
        there = set(_statistics(after))
        gone = [LostFile(STATISTICS, *file) for file in _statistics(self.before).items() if file[0] not in there]
        if not expired and not gone:
            return
        manifests, kept = every_manifest(self.table, after.snapshots)
        candidates = self._candidates(expired, manifests)
        if candidates or gone:  # else every file of the expired snapshots is in a retained manifest
            keep_live(self.table, list(manifests.values()), kept)
        kept.add([*there, *_versions(self.table)])
        yield from self._lost_data(candidates, kept)
        lost = [LostFile(MANIFEST, manifest.path, manifest.length) for manifest in candidates]
        lost += [LostFile(MANIFEST_LIST, place) for snapshot in expired for place in _list_of(snapshot)]
        yield from _not_in(kept, [*lost, *gone])

    def _candidates(self, expired: Sequence[Snapshot], kept: Mapping[str, ManifestFile]) -> list[ManifestFile]:
        """The manifests of expired snapshots that no retained snapshot lists."""
        found: dict[str, ManifestFile] = {}
        for snapshot in expired:
            try:
                for manifest in self.table.format.manifests(self.before, snapshot):
                    if manifest.path not in kept:
                        found.setdefault(manifest.path, manifest)
            except (NoSuchFile, Corrupt) as error:
                self._skipped(error, snapshot.manifest_list or f"snapshot {snapshot.snapshot_id}")
        return list(found.values())

    def _lost_data(self, candidates: Sequence[ManifestFile], kept: KeptFiles) -> Iterator[LostFile]:
        seen = KeySet()
        for number, group in enumerate(in_groups(candidates, _AT_ONCE), 1):
            for batch in self._entries(group):
                yield from _lost_of(batch.take(batch.is_live), kept, seen)
            log.info("compared %d of %d manifests…", min(number * _AT_ONCE, len(candidates)), len(candidates))

    def _entries(self, manifests: Sequence[ManifestFile]) -> Iterator[Entries]:
        """The entries of the manifests, together if all can be read, else one by one without those that cannot."""
        try:
            yield from list(self.table.format.entries(self.before, manifests, _PATHS))
        except (NoSuchFile, Corrupt) as error:
            if len(manifests) == 1:
                self._skipped(error, manifests[0].path)
                return
            for manifest in manifests:
                yield from self._entries((manifest,))

    def _skipped(self, error: EskerError, file: str) -> None:
        self.unreadable.append(file)
        log.warning("cannot read %s of an expired snapshot, its files become orphans: %s", file, error)


def _lost_of(live: Entries, kept: KeptFiles, seen: KeySet) -> Iterator[LostFile]:
    paths = live.path.to_pylist()
    keys = keys_of(paths)
    _, first = np.unique(keys, return_index=True)
    new = np.sort(first[~kept.has([paths[at] for at in first]) & ~seen.has(keys[first])])
    seen.add(keys[new])
    for at in new:
        yield LostFile(_CONTENT[FileContent(int(live.content[at]))], paths[at], int(live.file_size[at]))


def _not_in(kept: KeptFiles, files: Sequence[LostFile]) -> Iterator[LostFile]:
    there = kept.has([file.location for file in files])
    return (file for file, is_kept in zip(files, there, strict=True) if not is_kept)
