"""Second step of a commit: manifests for new files and for files that were removed. Other manifests are reused.

Small manifests are merged into larger ones if the table's properties ask for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from esker.ports.table_format import EntryColumns, NewSnapshot
from esker.tree.data_file import DataFile, FileContent
from esker.tree.manifest import Entries, EntryStatus, ManifestEntry
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.table_metadata import TableMetadata
from esker.write.context import MetadataNames, Scratch, Tools
from esker.write.properties import switch, whole_number
from esker.write.steps import ReplaceManifests, listed_name

# ---------------------------------------------------------------- merging small manifests
#
# Off unless ``commit.manifest-merge.enabled`` is true: merging makes one commit in a hundred slow and delays the others
# (docs/decisions/0003). Only manifests of one spec are merged, in the order they are listed.


ENABLED = "commit.manifest-merge.enabled"
MIN_COUNT = "commit.manifest.min-count-to-merge"
TARGET_SIZE = "commit.manifest.target-size-bytes"


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """When to merge manifests, and how large a merged manifest may be."""

    min_count: int = 100
    target_size: int = 8 << 20

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> MergePolicy | None:
        """The table's policy; None if merging is off. Its values are checked in both cases."""
        policy = cls(
            min_count=whole_number(properties, MIN_COUNT, 100, at_least=1),
            target_size=whole_number(properties, TARGET_SIZE, 8 << 20, at_least=1),
        )
        return policy if switch(properties, ENABLED, default=False) else None

    def bins(self, manifests: Sequence[ManifestFile]) -> list[list[ManifestFile]]:
        """Groups of two or more manifests to merge; none while a spec has fewer than ``min_count``."""
        by_spec: dict[int, list[ManifestFile]] = defaultdict(list)
        for manifest in manifests:
            if manifest.content is ManifestContent.DATA:
                by_spec[manifest.spec_id].append(manifest)
        found = [self._pack(group) for group in by_spec.values() if len(group) >= self.min_count]
        return [bin_ for packed in found for bin_ in packed if len(bin_) > 1]

    def _pack(self, manifests: Sequence[ManifestFile]) -> list[list[ManifestFile]]:
        """Group neighbours up to the target size, from the end, so that the newest manifests are in the smallest
        group."""
        bins: list[list[ManifestFile]] = [[]]
        size = 0
        for manifest in reversed(manifests):
            if bins[-1] and size + manifest.length > self.target_size:
                bins.append([])
                size = 0
            bins[-1].insert(0, manifest)
            size += manifest.length
        return bins


# ---------------------------------------------------------------- writing manifests


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltManifests:
    """The manifests of a snapshot's list."""

    new: tuple[ManifestFile, ...]
    carried: tuple[ManifestFile, ...]
    replaced: int


@dataclass(slots=True)
class ManifestBuilder:
    """Writes the manifests of an operation. A manifest is reused by later attempts, because it has no number that an
    attempt changes. Only its row in the list is made again."""

    tools: Tools
    scratch: Scratch
    names: MetadataNames
    _written: dict[object, ManifestFile] = field(default_factory=dict)
    _numbers: Mapping[str, int] = field(default_factory=dict)

    def build(
        self,
        metadata: TableMetadata,
        snapshot: NewSnapshot,
        manifests: Sequence[ManifestFile],
        added: Sequence[DataFile],
        removed: Mapping[str, Set[str]],
        numbers: Mapping[str, int] | None = None,
        clustered: Sequence[ReplaceManifests] = (),
    ) -> BuiltManifests:
        """Return new manifests first, then those that lost files, then the others unchanged.

        ``numbers`` are the data sequence numbers that added files keep, by path."""
        self._numbers = numbers or {}
        new = [self._of_added(metadata, snapshot, group) for group in _groups(added)]
        replaced = {path for step in clustered for path in step.paths}
        new += [self._of_bin(metadata, snapshot, bin_) for step in clustered for bin_ in step.bins]
        carried = [m for m in manifests if m.path not in removed and m.path not in replaced and m.may_hold_live_files]
        touched = [m for m in manifests if m.path in removed]
        rewritten = [
            self._without(metadata, snapshot, group, removed) for group in _rewritten_together(touched, removed)
        ]
        built = BuiltManifests(new=(*new, *rewritten), carried=tuple(carried), replaced=len(touched) + len(replaced))
        policy = MergePolicy.of(metadata.properties)
        return built if policy is None else self._merged(metadata, snapshot, built, policy)

    def _merged(
        self, metadata: TableMetadata, snapshot: NewSnapshot, built: BuiltManifests, policy: MergePolicy
    ) -> BuiltManifests:
        """Merge small manifests. A merged manifest is listed in the place of its first part."""
        fresh = {manifest.path for manifest in built.new}
        folded: dict[str, ManifestFile | None] = {}
        for bin_ in policy.bins((*built.new, *built.carried)):
            folded |= {manifest.path: None for manifest in bin_}
            folded[bin_[0].path] = self._fold(metadata, snapshot, bin_)
        new = [folded.get(m.path, m) for m in (*built.new, *built.carried) if m.path in fresh or m.path in folded]
        return BuiltManifests(
            new=tuple(manifest for manifest in new if manifest is not None),
            carried=tuple(m for m in built.carried if m.path not in folded),
            replaced=built.replaced + sum(path not in fresh for path in folded),
        )

    def _fold(self, metadata: TableMetadata, snapshot: NewSnapshot, bin_: Sequence[ManifestFile]) -> ManifestFile:
        key = ("fold", metadata.format_version, tuple(manifest.path for manifest in bin_))
        entries = [] if key in self._written else list(self._folded_entries(metadata, snapshot, bin_))
        return self._write_once(key, metadata, snapshot, entries)

    def _folded_entries(
        self, metadata: TableMetadata, snapshot: NewSnapshot, bin_: Sequence[ManifestFile]
    ) -> Iterator[ManifestEntry]:
        """Live entries, and the entries that this commit added or removed, which keep that status."""
        for batch in self.tools.format.entries(metadata, bin_, EntryColumns(full_metrics=True)):
            for row, file in enumerate(batch.data_files()):
                status = EntryStatus(int(batch.status[row]))
                if file.snapshot_id == snapshot.snapshot_id:
                    number = self._numbers.get(file.path)
                    yield ManifestEntry(
                        data_file=file, status=status, snapshot_id=file.snapshot_id, sequence_number=number
                    )
                elif status is not EntryStatus.DELETED:
                    yield ManifestEntry(data_file=file, status=EntryStatus.EXISTING, snapshot_id=file.snapshot_id)

    def _of_added(self, metadata: TableMetadata, snapshot: NewSnapshot, files: tuple[DataFile, ...]) -> ManifestFile:
        entries = [
            ManifestEntry(
                data_file=file, snapshot_id=snapshot.snapshot_id, sequence_number=self._numbers.get(file.path)
            )
            for file in files
        ]
        key = ("added", metadata.format_version, files[0].spec_id, tuple(listed_name(file) for file in files))
        return self._write_once(key, metadata, snapshot, entries)

    def _of_bin(self, metadata: TableMetadata, snapshot: NewSnapshot, bin_: tuple[Entries, ...]) -> ManifestFile:
        """A manifest of files that others listed. They keep their numbers, and the snapshot that added them."""
        key = ("bin", metadata.format_version, id(bin_))
        entries = (
            ManifestEntry(data_file=file, status=EntryStatus.EXISTING, snapshot_id=file.snapshot_id)
            for batch in bin_
            for file in batch.data_files()
        )
        return self._write_once(key, metadata, snapshot, [] if key in self._written else list(entries))

    def _without(
        self,
        metadata: TableMetadata,
        snapshot: NewSnapshot,
        manifests: Sequence[ManifestFile],
        removed: Mapping[str, Set[str]],
    ) -> ManifestFile:
        gone = tuple((manifest.path, frozenset(removed[manifest.path])) for manifest in manifests)
        key = ("without", metadata.format_version, gone)
        entries: list[ManifestEntry] = []
        if key not in self._written:
            for manifest in manifests:
                entries += self._entries_without(metadata, snapshot, manifest, removed[manifest.path])
        return self._write_once(key, metadata, snapshot, entries)

    def _entries_without(
        self, metadata: TableMetadata, snapshot: NewSnapshot, manifest: ManifestFile, gone: Set[str]
    ) -> list[ManifestEntry]:
        entries: list[ManifestEntry] = []
        for batch in self.tools.format.entries(metadata, (manifest,), EntryColumns(full_metrics=True)):
            live = batch.take(batch.is_live)
            for file in live.data_files():
                leaves = listed_name(file) in gone
                entries.append(
                    ManifestEntry(
                        data_file=file,
                        status=EntryStatus.DELETED if leaves else EntryStatus.EXISTING,
                        snapshot_id=snapshot.snapshot_id if leaves else file.snapshot_id,
                    )
                )
        return entries

    def _write_once(
        self, key: object, metadata: TableMetadata, snapshot: NewSnapshot, entries: Sequence[ManifestEntry]
    ) -> ManifestFile:
        if key not in self._written:
            first = entries[0].data_file
            with self.scratch.writing(self.names.manifest(metadata)) as location:
                self._written[key] = self.tools.manifests.write_manifest(
                    metadata,
                    location,
                    snapshot,
                    spec=metadata.spec_by_id[first.spec_id],
                    content=_kind(first),
                    entries=entries,
                )
        return _renumbered(self._written[key], snapshot)


def _rewritten_together(touched: Sequence[ManifestFile], removed: Mapping[str, Set[str]]) -> list[list[ManifestFile]]:
    """Each manifest alone, except those that lose all their files: one manifest per spec and content records that."""
    found: list[list[ManifestFile]] = []
    emptied: dict[tuple[int, ManifestContent], list[ManifestFile]] = {}
    for manifest in touched:
        if manifest.live_files != len(removed[manifest.path]):
            found.append([manifest])
        elif (manifest.spec_id, manifest.content) in emptied:
            emptied[manifest.spec_id, manifest.content].append(manifest)
        else:
            emptied[manifest.spec_id, manifest.content] = [manifest]
            found.append(emptied[manifest.spec_id, manifest.content])
    return found


def _renumbered(manifest: ManifestFile, snapshot: NewSnapshot) -> ManifestFile:
    """The row of a manifest from an earlier attempt, with this attempt's sequence number."""
    least = manifest.min_sequence_number
    if least == manifest.sequence_number:  # it was the earlier attempt's number: no live file is older
        least = snapshot.sequence_number
    return replace(manifest, sequence_number=snapshot.sequence_number, min_sequence_number=least)


def _groups(files: Iterable[DataFile]) -> list[tuple[DataFile, ...]]:
    """Group files by spec and content, because a manifest has only one of each."""
    groups: dict[tuple[int, ManifestContent], list[DataFile]] = defaultdict(list)
    for file in files:
        groups[file.spec_id, _kind(file)].append(file)
    return [tuple(group) for group in groups.values()]


def _kind(file: DataFile) -> ManifestContent:
    return ManifestContent.DATA if file.content is FileContent.DATA else ManifestContent.DELETES
