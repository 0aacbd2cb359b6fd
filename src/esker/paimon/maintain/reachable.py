"""Which files of a table its snapshots, tags, branches and changelogs need."""

from __future__ import annotations

from collections.abc import Iterable

from esker.paimon.manifests.index_manifest import decode_index_manifest
from esker.paimon.manifests.live_files import live_files
from esker.paimon.manifests.manifest import FileEntry, entries_of, read_manifests
from esker.paimon.manifests.manifest_list import decode_manifest_list
from esker.paimon.metadata.layout import Layout, branches, named, numbered
from esker.paimon.metadata.snapshot import PaimonSnapshot, decode_snapshot
from esker.ports.storage import Storage


class Reachable:
    """The names of files that some snapshots need. Names are unique in a table: each contains a random number.

    Manifests that were read once are not read again.
    """

    def __init__(self, storage: Storage, layout: Layout) -> None:
        self._storage, self._layout = storage, layout
        self._entries: dict[str, tuple[FileEntry, ...]] = {}

    def of(self, snapshots: Iterable[PaimonSnapshot]) -> set[str]:
        """All files of some snapshots: data, indexes, manifests and lists. Any file that cannot be read raises."""
        names: set[str] = set()
        for snapshot in snapshots:
            names |= self._of(snapshot)
        return names

    def _of(self, snapshot: PaimonSnapshot) -> set[str]:
        state, names = self._listed(*snapshot.manifest_lists)
        names |= {name for entry in live_files(state) for name in names_of(entry)}
        if snapshot.changelog_manifest_list is not None:
            changelog, more = self._listed(snapshot.changelog_manifest_list)
            names |= more | {name for entry in changelog for name in names_of(entry)}
        if snapshot.index_manifest is not None:
            place = self._layout.manifest(snapshot.index_manifest)
            names.add(snapshot.index_manifest)
            names.update(entry.name for entry in decode_index_manifest(place, self._storage.read(place)))
        if snapshot.statistics is not None:
            names.add(snapshot.statistics)
        return names

    def _listed(self, *lists: str) -> tuple[list[FileEntry], set[str]]:
        """The entries of manifest lists, in order, and the names of the lists and their manifests."""
        places = [self._layout.manifest(name) for name in lists]
        metas = decode_manifest_list([(place, self._storage.read(place)) for place in places])
        entries = [entry for meta in metas for entry in self._of_manifest(meta.name)]
        return entries, {*lists, *(meta.name for meta in metas)}

    def _of_manifest(self, manifest: str) -> tuple[FileEntry, ...]:
        found = self._entries.get(manifest)
        if found is None:
            place = self._layout.manifest(manifest)
            found = self._entries[manifest] = tuple(entries_of(read_manifests([(place, self._storage.read(place))])))
        return found


def names_of(entry: FileEntry) -> tuple[str, ...]:
    """A data file and the files beside it."""
    return entry.file.name, *entry.file.extra_files


def snapshots_of(storage: Storage, layout: Layout) -> dict[int, PaimonSnapshot]:
    """The snapshots of one branch, by number."""
    found = {}
    for number in numbered(storage, f"{layout.own}/snapshot", "snapshot-"):
        place = layout.snapshot(number)
        found[number] = decode_snapshot(place, storage.read(place))
    return found


def other_roots(storage: Storage, layout: Layout) -> list[PaimonSnapshot]:
    """What keeps files besides the snapshots of this branch: its tags and changelogs, and all of the other branches."""
    found = _tags(storage, layout) + _changelogs(storage, layout)
    for branch in {"main", *branches(storage, layout.root)} - {layout.branch}:
        other = layout.on(branch)
        found += snapshots_of(storage, other).values()
        found += _tags(storage, other) + _changelogs(storage, other)
    return found


def _changelogs(storage: Storage, layout: Layout) -> list[PaimonSnapshot]:
    numbers = numbered(storage, f"{layout.own}/changelog", "changelog-")
    places = [f"{layout.own}/changelog/changelog-{number}" for number in numbers]
    return [decode_snapshot(place, storage.read(place)) for place in places]


def _tags(storage: Storage, layout: Layout) -> list[PaimonSnapshot]:
    places = [layout.tag(name) for name in named(storage, f"{layout.own}/tag", "tag-")]
    return [decode_snapshot(place, storage.read(place)) for place in places]
