"""Second step of a change feed: the files that only one of two snapshots has.

Manifests never change, so a manifest that both snapshots list has the same files in both. Only the other manifests are
opened. A file in manifests of both sides was only copied from one manifest to another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from esker.ports.table_format import EntryColumns, TableFormat
from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Live files of one content kind: only in the older snapshot, only in the newer one, and in both."""

    removed: list[Entries] = field(default_factory=list)
    added: list[Entries] = field(default_factory=list)
    kept: list[Entries] = field(default_factory=list)  # live in both snapshots, in different manifests

    def __bool__(self) -> bool:
        return bool(self.removed or self.added)


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """The manifests of two snapshots: those that only one of them lists, and those that both list."""

    before: tuple[ManifestFile, ...]
    after: tuple[ManifestFile, ...]
    shared: tuple[ManifestFile, ...]

    def of(self, content: ManifestContent) -> Differing:
        """The manifests of one content kind."""
        parts = (self.before, self.after, self.shared)
        before, after, shared = (tuple(m for m in part if m.content is content) for part in parts)
        return Differing(before=before, after=after, shared=shared)

    @property
    def opened(self) -> tuple[ManifestFile, ...]:
        """The manifests that a comparison reads."""
        return self.before + self.after


def differing(before: Sequence[ManifestFile], after: Sequence[ManifestFile]) -> Differing:
    """Compare two manifest lists. Manifests without live files are ignored."""
    both = {manifest.path for manifest in before} & {manifest.path for manifest in after}
    return Differing(
        before=tuple(m for m in before if m.path not in both and m.may_hold_live_files),
        after=tuple(m for m in after if m.path not in both and m.may_hold_live_files),
        shared=tuple(m for m in after if m.path in both and m.may_hold_live_files),
    )


def compare_manifests(
    metadata: TableMetadata, table_format: TableFormat, manifests: Differing, columns: EntryColumns
) -> Compared:
    """Read the manifests that differ, and compare their files. A file that is listed twice counts twice."""
    before = list(live_entries(table_format.entries(metadata, manifests.before, columns)))
    after = list(live_entries(table_format.entries(metadata, manifests.after, columns)))
    removed, _ = _split(before, after)
    added, kept = _split(after, before)
    return Compared(removed=removed, added=added, kept=kept)


def live_entries(batches: Iterable[Entries]) -> Iterator[Entries]:
    """The entries without those of removed files."""
    return (live for entries in batches if len(live := entries.take(entries.is_live)))


def _split(these: Sequence[Entries], those: Sequence[Entries]) -> tuple[list[Entries], list[Entries]]:
    """The entries that are not in ``those``, and the entries that are in both."""
    known = Counter(chain.from_iterable(map(_identities, those)))
    if not known:
        return list(these), []
    only, common = [], []
    for entries in these:
        is_known = np.zeros(len(entries), dtype=bool)
        for row, identity in enumerate(_identities(entries)):
            if known[identity] > 0:
                known[identity] -= 1
                is_known[row] = True
        only.append(entries.take(~is_known))
        common.append(entries.take(is_known))
    return [part for part in only if len(part)], [part for part in common if len(part)]


def _identities(entries: Entries) -> Iterator[tuple[str, int | None]]:
    """The identity of each file: its path and offset. Several deletion vectors are in one Puffin file, at different
    offsets."""
    offsets = entries.rest.get("content_offset")
    paths = entries.path.to_pylist()
    return zip(paths, [None] * len(paths) if offsets is None else offsets.to_pylist(), strict=True)
