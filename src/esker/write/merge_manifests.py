"""Folding small manifests into larger ones during a commit, where the table asks for it.

Off unless ``commit.manifest-merge.enabled`` is set to true: folding makes one commit in a hundred slow for all the
others (docs/decisions/0003). Only manifests of one spec go together, in the order they are listed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.write.properties import switch, whole_number

ENABLED = "commit.manifest-merge.enabled"
MIN_COUNT = "commit.manifest.min-count-to-merge"
TARGET_SIZE = "commit.manifest.target-size-bytes"


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """When to fold, and how large a folded manifest may be."""

    min_count: int = 100
    target_size: int = 8 << 20

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> MergePolicy | None:
        """The table's policy; None where it does not ask for folding. Its values are checked either way."""
        policy = cls(
            min_count=whole_number(properties, MIN_COUNT, 100, at_least=1),
            target_size=whole_number(properties, TARGET_SIZE, 8 << 20, at_least=1),
        )
        return policy if switch(properties, ENABLED, default=False) else None

    def bins(self, manifests: Sequence[ManifestFile]) -> list[list[ManifestFile]]:
        """Groups of two or more to fold into one each; none while a spec has fewer than ``min_count``."""
        by_spec: dict[int, list[ManifestFile]] = defaultdict(list)
        for manifest in manifests:
            if manifest.content is ManifestContent.DATA:
                by_spec[manifest.spec_id].append(manifest)
        found = [self._pack(group) for group in by_spec.values() if len(group) >= self.min_count]
        return [bin_ for packed in found for bin_ in packed if len(bin_) > 1]

    def _pack(self, manifests: Sequence[ManifestFile]) -> list[list[ManifestFile]]:
        """Neighbours up to the target size, from the end, so that the newest are left to the smallest bin."""
        bins: list[list[ManifestFile]] = [[]]
        size = 0
        for manifest in reversed(manifests):
            if bins[-1] and size + manifest.length > self.target_size:
                bins.append([])
                size = 0
            bins[-1].insert(0, manifest)
            size += manifest.length
        return bins
