"""A plan that the catalog made: its files as tasks, each with the part of the filter that its partition leaves open.

The residual is computed here from the partition of each file. A residual of the server is not used, so a wrong one
cannot lose rows.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from esker.model.arrow_arrays import binary_array, boolean_array
from esker.model.partition_and_sort import PartitionSpec, partition_value_type
from esker.model.predicates.predicate import Bound
from esker.model.pruning.evidence import PartitionEvidence, PartitionSummary, Statistics
from esker.model.pruning.verdict import examine
from esker.model.schema import Schema
from esker.model.transform import Transform
from esker.model.types import Type
from esker.model.values import to_bytes
from esker.ports.engine import ScanTask
from esker.ports.scan_service import PlannedFile, ScanQuestion, ServedPlan
from esker.read.plan_tasks import Funnel, Plan
from esker.tree.table_metadata import TableMetadata


def plan_served(question: ScanQuestion, served: ServedPlan) -> Plan:
    """The plan of the catalog, in the form that local planning gives."""
    tasks = _tasks(question, served.files)
    total = question.snapshot.summary.get("total-data-files", "")
    return Plan(
        snapshot=question.snapshot,
        schema=question.schema,
        tasks=tasks,
        filter=question.filter,
        planner=served.by,
        funnel=Funnel(
            manifests_total=0,
            manifests_read=0,
            files_total=max(len(tasks), int(total) if total.isdecimal() and total.isascii() else 0),
            files_kept=len(tasks),
            rows_kept=sum(task.data_file.record_count for task in tasks),
            bytes_kept=sum(task.data_file.file_size for task in tasks),
            deletes_kept=len({(one.path, one.content_offset) for task in tasks for one in task.deletes}),
        ),
    )


def _tasks(question: ScanQuestion, files: Sequence[PlannedFile]) -> list[ScanTask]:
    by_spec: dict[int, list[int]] = defaultdict(list)
    for at, one in enumerate(files):
        by_spec[one.data_file.spec_id].append(at)
    residuals: dict[int, Bound] = {}
    for spec_id, group in by_spec.items():
        spec = question.metadata.spec_by_id[spec_id]
        partitions = [files[at].data_file.partition for at in group]
        examination = examine(question.filter, _statistics(question.metadata, question.schema, spec, partitions))
        pattern, left = examination.residuals()
        for number, at in enumerate(group):
            if examination.verdict.some[number]:
                residuals[at] = left[int(pattern[number])]
    return [
        ScanTask(data_file=one.data_file, deletes=one.deletes, residual=residuals[at])
        for at, one in enumerate(files)
        if at in residuals
    ]


def _statistics(
    metadata: TableMetadata, schema: Schema, spec: PartitionSpec, partitions: Sequence[tuple[Any, ...]]
) -> Statistics:
    found: dict[int, list[PartitionEvidence]] = defaultdict(list)
    for at, part in enumerate(spec.fields):
        if not part.other_sources:
            type_ = partition_value_type(part, metadata.any_field_by_id)
            found[part.source_id].append(_evidence(part.transform, type_, [values[at] for values in partitions]))
    return Statistics(schema=schema, rows=len(partitions), partitions={id_: tuple(all_) for id_, all_ in found.items()})


def _evidence(transform: Transform, type_: Type, values: Sequence[Any]) -> PartitionSummary:
    nan = [isinstance(value, float) and math.isnan(value) for value in values]
    bounds = binary_array(
        [None if value is None or odd else to_bytes(type_, value) for value, odd in zip(values, nan, strict=True)]
    )
    return PartitionSummary(
        transform=transform,
        lower=bounds,
        upper=bounds,
        contains_null=boolean_array([value is None for value in values]),
        contains_nan=boolean_array(nan),
    )
