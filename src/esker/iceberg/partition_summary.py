"""Partition summaries: what a manifest list says of each partition field over a whole manifest (checklist C3, C4)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from esker.model.types import StructType, Type, is_floating
from esker.model.values import to_bytes
from esker.tree.manifest_list import FieldSummary


def summarise_partitions(partition_type: StructType, partitions: Iterable[tuple[Any, ...]]) -> tuple[FieldSummary, ...]:
    """One summary per field, over the partitions of every entry; bounds are never shortened."""
    seen: list[set[Any]] = [set() for _ in partition_type]
    for partition in partitions:
        for values, value in zip(seen, partition, strict=True):
            values.add(_distinct(value))
    return tuple(_summary(field.type, values) for field, values in zip(partition_type, seen, strict=True))


def _distinct(value: Any) -> Any:
    """A set key under which −0.0 and +0.0 stay two values."""
    return (value, math.copysign(1.0, value)) if isinstance(value, float) else value


def _summary(type_: Type, values: set[Any]) -> FieldSummary:
    if is_floating(type_):
        # (value, sign): −0.0 sorts below +0.0, so neither bound can leave the other zero out
        pairs = [pair for pair in values if pair is not None and not math.isnan(pair[0])]
        nans = len(pairs) + (None in values) < len(values)
        bounds = (min(pairs)[0], max(pairs)[0]) if pairs else None
    else:
        known = [value for value in values if value is not None]
        nans = False
        bounds = (min(known), max(known)) if known else None
    return FieldSummary(
        contains_null=None in values,
        contains_nan=nans,
        lower_bound=None if bounds is None else to_bytes(type_, bounds[0]),
        upper_bound=None if bounds is None else to_bytes(type_, bounds[1]),
    )
