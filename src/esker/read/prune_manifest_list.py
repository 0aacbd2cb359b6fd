"""Second step of a scan: which manifests to open, decided by the partition summaries in the list.

Each manifest is examined with its own spec. A manifest with a missing summary, an unknown count or an unknown spec is
kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from esker.model.arrow_arrays import arrow_array
from esker.model.partition_and_sort import PartitionSpec
from esker.model.predicates.predicate import Bound, conjuncts
from esker.model.pruning.evidence import PartitionEvidence, PartitionSummary, Statistics
from esker.model.pruning.verdict import examine
from esker.model.schema import Schema
from esker.tree.manifest_list import ListColumns, ManifestFile, some_manifests
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    from esker.tree.manifest_list import Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedList:
    """The manifests to open, and how many were skipped."""

    data: tuple[ManifestFile, ...]
    deletes: tuple[ManifestFile, ...]
    total: int
    skipped: int  # data manifests without rows of the result
    skipped_files: int  # the live files of these, as far as they are counted
    counts_all: bool  # whether all of them are counted
    rejections: Mapping[Bound, int]  # for each part of the filter, how many data manifests it skips alone
    all_match: bool = False  # whether the summaries prove that every row of the data manifests matches


def prune_manifest_list(
    metadata: TableMetadata, schema: Schema, manifests: Sequence[ManifestFile], predicate: Bound
) -> PrunedList:
    """Keep a manifest unless its summaries prove that no row in it can match."""
    rejections: dict[Bound, int] = dict.fromkeys(conjuncts(predicate), 0)
    columns = ListColumns.of(manifests)
    some, every = columns.may_hold_live_files.copy(), np.ones(len(manifests), bool)
    live = np.flatnonzero(some)
    for spec_id in dict.fromkeys(columns.spec_id[live].tolist()):
        at = live[columns.spec_id[live] == spec_id]
        examination = examine(predicate, _summaries(metadata.spec_by_id.get(spec_id), schema, columns, at))
        some[at], every[at] = examination.verdict.some, examination.verdict.every
        for part, verdict in zip(examination.conjuncts, examination.verdicts, strict=True):
            rejections[part] += int(np.count_nonzero(columns.is_data[at] & ~verdict.some))
    skipped = columns.is_data & columns.may_hold_live_files & ~some
    files = columns.live_files[skipped]
    # Some writers record deletes under the newest spec of the table instead of the spec of the data. So if a table has
    # had several specs, the partitions of deletes prove nothing.
    deletes = some if len(metadata.specs) <= 1 else columns.may_hold_live_files
    return PrunedList(
        data=some_manifests(manifests, some & columns.is_data),
        deletes=some_manifests(manifests, deletes & ~columns.is_data),
        total=len(manifests),
        skipped=len(files),
        skipped_files=int(files[files >= 0].sum()),
        counts_all=bool((files >= 0).all()),
        rejections=rejections,
        all_match=not (some & columns.is_data & ~every).any(),
    )


def _summaries(spec: PartitionSpec | None, schema: Schema, columns: ListColumns, rows: Int64s) -> Statistics:
    found: dict[int, list[PartitionEvidence]] = defaultdict(list)
    fields = () if spec is None else spec.fields
    # Without a summary for each field, a manifest has none.
    without = columns.summaries[rows] != len(fields)
    for at, field in enumerate(fields):
        if not field.other_sources:
            where = arrow_array(columns.first_summary[rows] + at, null=without if without.any() else None)
            evidence = PartitionSummary(
                transform=field.transform,
                lower=columns.lower_bound.take(where),
                upper=columns.upper_bound.take(where),
                contains_null=columns.contains_null.take(where),
                contains_nan=columns.contains_nan.take(where),
            )
            found[field.source_id].append(evidence)
    return Statistics(schema=schema, rows=len(rows), partitions={id_: tuple(all_) for id_, all_ in found.items()})
