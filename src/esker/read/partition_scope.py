"""Which manifests can hold a file of given partitions, judged by the summaries in the list."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from esker.model.partition import PartitionSpec, partition_value_type
from esker.model.types import Field, Type, UuidType
from esker.model.values import from_bytes
from esker.tree.data_file import DataFile
from esker.tree.manifest_list import FieldSummary, ManifestFile
from esker.tree.table_metadata import TableMetadata

MANY = 256  # partitions beyond which looking for each costs more than opening the manifest


@dataclass(frozen=True, slots=True)
class PartitionScope:
    """Some partitions, by the spec that they are of."""

    specs: Mapping[int, PartitionSpec]
    sources: Mapping[int, Field]
    partitions: Mapping[int, frozenset[tuple[Any, ...]]]

    @classmethod
    def of(cls, metadata: TableMetadata, files: Iterable[DataFile]) -> PartitionScope:
        """Where these files lie."""
        found: dict[int, set[tuple[Any, ...]]] = defaultdict(set)
        for file in files:
            found[file.spec_id].add(file.partition)
        return cls(metadata.spec_by_id, metadata.any_field_by_id, {id_: frozenset(all_) for id_, all_ in found.items()})

    def may_be_in(self, manifest: ManifestFile) -> bool:
        """False only where the summaries prove that the manifest has no file of these partitions."""
        partitions = self.partitions.get(manifest.spec_id, frozenset())
        spec, summaries = self.specs.get(manifest.spec_id), manifest.partitions
        if spec is None or summaries is None or len(summaries) != len(spec.fields) or len(partitions) > MANY:
            return bool(partitions) or spec is None
        types = [partition_value_type(part, self.sources) for part in spec.fields]
        return any(
            all(
                _may_hold(summary, type_, value)
                for summary, type_, value in zip(summaries, types, values, strict=False)
            )
            for values in partitions
        )


def _may_hold(summary: FieldSummary, type_: Type, value: Any) -> bool:
    if value is None:
        return summary.contains_null
    if isinstance(value, float) and math.isnan(value):
        return summary.contains_nan is not False
    if summary.lower_bound is None or summary.upper_bound is None or isinstance(type_, UuidType):
        return True  # uuids: writers do not agree on their order
    try:
        lower, upper = from_bytes(type_, summary.lower_bound), from_bytes(type_, summary.upper_bound)
        below, above = value < lower, value > upper
    except (ValueError, TypeError, ArithmeticError):  # what cannot be read proves nothing
        return True
    if above and isinstance(value, str | bytes):  # the upper bound may have been cut and not rounded up
        above = not value.startswith(upper)
    return not below and not above
