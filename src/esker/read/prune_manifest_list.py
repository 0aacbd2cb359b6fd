"""Second step of a scan: which manifests to open, decided by the partition summaries in the list.

Each manifest is examined with its own spec. A manifest with a missing summary, an unknown count or an unknown spec is
kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from esker.model.arrow_arrays import binary_array, boolean_array
from esker.model.partition_and_sort import PartitionSpec
from esker.model.predicates.predicate import Bound, conjuncts
from esker.model.pruning.evidence import PartitionEvidence, PartitionSummary, Statistics
from esker.model.pruning.verdict import examine
from esker.model.schema import Schema
from esker.model.transform import Transform
from esker.tree.manifest_list import FieldSummary, ManifestContent, ManifestFile
from esker.tree.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedList:
    """The manifests to open, and those that were skipped."""

    data: tuple[ManifestFile, ...]
    deletes: tuple[ManifestFile, ...]
    dropped: tuple[ManifestFile, ...]  # data manifests without rows of the result
    total: int
    rejections: Mapping[Bound, int]  # for each part of the filter, how many data manifests it skips alone
    all_match: bool = False  # whether the summaries prove that every row of the data manifests matches


def prune_manifest_list(
    metadata: TableMetadata, schema: Schema, manifests: Sequence[ManifestFile], predicate: Bound
) -> PrunedList:
    """Keep a manifest unless its summaries prove that no row in it can match."""
    rejections: dict[Bound, int] = dict.fromkeys(conjuncts(predicate), 0)
    by_spec: dict[int, list[ManifestFile]] = defaultdict(list)
    live = [manifest for manifest in manifests if manifest.may_hold_live_files]
    for manifest in live:
        by_spec[manifest.spec_id].append(manifest)
    dropped: set[int] = set()
    unsure: set[int] = set()
    for spec_id, group in by_spec.items():
        examination = examine(predicate, _summaries(metadata.spec_by_id.get(spec_id), schema, group))
        verdict = examination.verdict
        ids = np.fromiter(map(id, group), np.int64, len(group))
        dropped.update(ids[~verdict.some].tolist())
        unsure.update(ids[~verdict.every].tolist())
        is_data = np.array([manifest.content is ManifestContent.DATA for manifest in group])
        for part, verdict in zip(examination.conjuncts, examination.verdicts, strict=True):
            rejections[part] += int(np.count_nonzero(is_data & ~verdict.some))
    data = [manifest for manifest in live if manifest.content is ManifestContent.DATA]
    kept = tuple(manifest for manifest in data if id(manifest) not in dropped)
    return PrunedList(
        data=kept,
        deletes=tuple(_kept_deletes(metadata, live, dropped)),
        dropped=tuple(manifest for manifest in data if id(manifest) in dropped),
        total=len(manifests),
        rejections=rejections,
        all_match=not any(id(manifest) in unsure for manifest in kept),
    )


def _kept_deletes(metadata: TableMetadata, live: Sequence[ManifestFile], dropped: set[int]) -> list[ManifestFile]:
    """The delete manifests to open.

    Some writers record deletes under the newest spec of the table instead of the spec of the data. So if a table has
    had several specs, the partitions of deletes prove nothing.
    """
    deletes = [manifest for manifest in live if manifest.content is ManifestContent.DELETES]
    if len(metadata.specs) > 1:
        return deletes
    return [manifest for manifest in deletes if id(manifest) not in dropped]


def _summaries(spec: PartitionSpec | None, schema: Schema, manifests: Sequence[ManifestFile]) -> Statistics:
    found: dict[int, list[PartitionEvidence]] = defaultdict(list)
    fields = () if spec is None else spec.fields
    # Without a summary for each field, a manifest has none.
    every = [
        None if (parts := manifest.partitions) is None or len(parts) != len(fields) else parts for manifest in manifests
    ]
    for at, field in enumerate(fields):
        if not field.other_sources:
            column = [None if parts is None else parts[at] for parts in every]
            found[field.source_id].append(_evidence(field.transform, column))
    return Statistics(schema=schema, rows=len(manifests), partitions={id_: tuple(all_) for id_, all_ in found.items()})


def _evidence(transform: Transform, column: Sequence[FieldSummary | None]) -> PartitionSummary:
    return PartitionSummary(
        transform=transform,
        lower=binary_array([None if s is None else s.lower_bound for s in column]),
        upper=binary_array([None if s is None else s.upper_bound for s in column]),
        contains_null=boolean_array([None if s is None else s.contains_null for s in column]),
        contains_nan=boolean_array([None if s is None else s.contains_nan for s in column]),
    )
