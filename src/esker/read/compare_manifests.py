"""Second step of a change feed: the files that only one of two snapshots has.

Manifests never change, so those that both snapshots list hold the same files in both. Only the others are opened, and
what they hold in common was written from one manifest into another.
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
    """Live files of one content kind: those of the older snapshot alone, those of the newer, and those rewritten."""

    removed: list[Entries] = field(default_factory=list)
    added: list[Entries] = field(default_factory=list)
    kept: list[Entries] = field(default_factory=list)  # live in both, though listed anew

    def __bool__(self) -> bool:
        return bool(self.removed or self.added)


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """The manifests of two snapshots: those that one of them alone lists, and those of both."""

    before: tuple[ManifestFile, ...]
    after: tuple[ManifestFile, ...]
    shared: tuple[ManifestFile, ...]

    def of(self, content: ManifestContent) -> Differing:
        """Those of one content kind."""
        parts = (self.before, self.after, self.shared)
        before, after, shared = (tuple(m for m in part if m.content is content) for part in parts)
        return Differing(before=before, after=after, shared=shared)

    @property
    def opened(self) -> tuple[ManifestFile, ...]:
        """What a comparison reads."""
        return self.before + self.after


def differing(before: Sequence[ManifestFile], after: Sequence[ManifestFile]) -> Differing:
    """Two manifest lists, set against each other; what holds no live file says nothing."""
    both = {manifest.path for manifest in before} & {manifest.path for manifest in after}
    return Differing(
        before=tuple(m for m in before if m.path not in both and m.may_hold_live_files),
        after=tuple(m for m in after if m.path not in both and m.may_hold_live_files),
        shared=tuple(m for m in after if m.path in both and m.may_hold_live_files),
    )


def compare_manifests(
    metadata: TableMetadata, table_format: TableFormat, manifests: Differing, columns: EntryColumns
) -> Compared:
    """Open what differs, and tell the files apart. One that is listed twice counts twice."""
    before = list(live_entries(table_format.entries(metadata, manifests.before, columns)))
    after = list(live_entries(table_format.entries(metadata, manifests.after, columns)))
    removed, _ = _split(before, after)
    added, kept = _split(after, before)
    return Compared(removed=removed, added=added, kept=kept)


def live_entries(batches: Iterable[Entries]) -> Iterator[Entries]:
    """Without the entries that only tell of a removal."""
    return (live for entries in batches if len(live := entries.take(entries.is_live)))


def _split(these: Sequence[Entries], those: Sequence[Entries]) -> tuple[list[Entries], list[Entries]]:
    """What these have beyond those, and what they have in common."""
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
    """Several deletion vectors share one Puffin file: where each begins tells them apart."""
    offsets = entries.rest.get("content_offset")
    paths = entries.path.to_pylist()
    return zip(paths, [None] * len(paths) if offsets is None else offsets.to_pylist(), strict=True)
