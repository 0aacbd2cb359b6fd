"""What is known of many files, or many manifests, without opening them: the evidence a verdict rests on.

One ``Statistics`` speaks of ``rows`` things at once, a row each, and every array in it has that length. A column
without evidence is unknown, which prunes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from esker.model.schema import Schema
from esker.model.transform import Transform

if TYPE_CHECKING:
    import pyarrow as pa


class Metrics(Protocol):
    """One column's statistics, a row per file; null is unknown everywhere. ``tree.ColumnMetrics`` is one."""

    @property
    def lower(self) -> pa.Array:
        """Single-value bytes not above any value that is neither null nor NaN."""

    @property
    def upper(self) -> pa.Array:
        """Single-value bytes not below any such value."""

    @property
    def value_count(self) -> pa.Array:
        """Values, nulls and NaNs included."""

    @property
    def null_count(self) -> pa.Array:
        """Nulls."""

    @property
    def nan_count(self) -> pa.Array:
        """NaNs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionValues:
    """One partition field's exact value per file."""

    transform: Transform
    values: pa.Array  # held form of the transform's result type; date and timestamp arrays are taken too


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSummary:
    """One partition field's range of values per manifest."""

    transform: Transform
    lower: pa.Array  # binary, single-value form of the transform's result type; null where none was given
    upper: pa.Array
    contains_null: pa.Array  # boolean; null is unknown
    contains_nan: pa.Array  # boolean; null is unknown


PartitionEvidence: TypeAlias = PartitionValues | PartitionSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Everything known, by id of the column it is known of.

    ``schema`` is the one the predicate was bound to. Partition evidence is filed under the *source* column of
    its field and belongs to the spec of the manifest at hand; give every row of one ``Statistics`` the same spec.
    """

    schema: Schema
    rows: int
    metrics: Mapping[int, Metrics] = field(default_factory=dict)
    partitions: Mapping[int, tuple[PartitionEvidence, ...]] = field(default_factory=dict)
    record_count: pa.Array | None = None  # int64, rows per file where it is known
