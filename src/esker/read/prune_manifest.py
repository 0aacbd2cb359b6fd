"""Third step of a scan: which files to read, decided by their partition and their column statistics.

Also which float columns of a file may contain NaN or zero: an engine's own push-down may handle these values wrongly.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from esker.model.arrow_arrays import arrow_array
from esker.model.partition_and_sort import PartitionSpec
from esker.model.predicates.predicate import Bound, Compare, IsNaN, Op, field_ids
from esker.model.pruning.evidence import PartitionEvidence, PartitionValues, Statistics
from esker.model.pruning.verdict import Examination, examine, judge
from esker.model.schema import Schema
from esker.model.types import Field, is_floating
from esker.ports.engine import OddFloats
from esker.ports.table_format import EntryColumns, TableFormat
from esker.read.prune_manifest_list import PrunedList
from esker.tree.manifest import Entries
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    from esker.tree.manifest import Int64s


# ---------------------------------------------------------------- Float columns with NaN or zero
#
# Parquet's minimum and maximum ignore NaN, and its dictionaries have two zeros as two values. Spark treats NaN as the
# largest number and the zeros as equal. So Spark's reader skips row groups with matching rows, unless these values are
# known to be absent. A manifest proves it: by the count of NaN, and by bounds that exclude zero.


if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bools = npt.NDArray[np.bool_]

MOST = 64  # with more columns, decoding their statistics costs more than push-down saves


def float_columns(schema: Schema) -> tuple[Field, ...]:
    """The float columns outside lists and maps. Empty if there are too many to examine."""
    fields = tuple(f for f in schema.by_id.values() if is_floating(f.type) and not schema.in_repeated(f.id))
    return fields if len(fields) <= MOST else ()


@dataclass(frozen=True, slots=True)
class FoundFloats:
    """For each column, whether each file may contain NaN, and whether it may contain zero."""

    nan: dict[int, Bools]
    zero: dict[int, Bools]

    @classmethod
    def of(cls, fields: Sequence[Field], statistics: Statistics) -> FoundFloats:
        """The result from the statistics of each file."""
        return cls(
            {f.id: judge(IsNaN(f), statistics).some for f in fields},
            {f.id: judge(Compare(f, Op.EQ, 0.0), statistics).some for f in fields},
        )

    def at(self, row: int) -> OddFloats:
        """The result of one file."""
        return OddFloats(
            nan=frozenset(id_ for id_, may in self.nan.items() if may[row]),
            zero=frozenset(id_ for id_, may in self.zero.items() if may[row]),
        )


# ---------------------------------------------------------------- Pruning


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFiles:
    """The remaining files of one batch of entries, each with the index of its residual filter."""

    entries: Entries
    residuals: tuple[Bound, ...]
    pattern: Int64s
    odd_floats: FoundFloats | None = None  # None: not asked for


@dataclass(slots=True)
class PrunedManifests:
    """The files to read, and how many files there were."""

    kept: list[KeptFiles] = field(default_factory=list)
    live_files: int = 0
    rejections: Counter[Bound] = field(default_factory=Counter)


def prune_manifests(
    metadata: TableMetadata,
    table_format: TableFormat,
    schema: Schema,
    listed: PrunedList,
    predicate: Bound,
    floats: Sequence[Field] = (),
) -> PrunedManifests:
    """Keep a file unless its partition or statistics prove that no row in it can match.

    For the columns in ``floats``, the result also records whether each kept file may contain NaN or zero.
    """
    columns = EntryColumns(metrics=columns_asked(schema, predicate) | {f.id for f in floats})
    found = PrunedManifests()
    for entries in table_format.entries(metadata, listed.data, columns):
        prune_entries(found, schema, entries.take(entries.is_live), predicate, floats)
    return found


def prune_entries(
    found: PrunedManifests, schema: Schema, live: Entries, predicate: Bound, floats: Sequence[Field] = ()
) -> None:
    """Examine the live files of one batch, and keep those that may have a row of the result."""
    found.live_files += len(live)
    examination = examine_entries(predicate, schema, live)
    for part, rejected in examination.rejections():
        found.rejections[part] += rejected
    _keep(found, schema, live, examination, floats)


def columns_asked(schema: Schema, predicate: Bound) -> frozenset[int]:
    """The columns whose statistics can prove something about the predicate."""
    return frozenset(id_ for id_ in field_ids(predicate) if not schema.in_repeated(id_))


def examine_entries(predicate: Bound, schema: Schema, entries: Entries) -> Examination:
    """The verdict on every file of a batch, by partition values and column statistics together."""
    return examine(predicate, _statistics(schema, entries))


def _statistics(schema: Schema, entries: Entries) -> Statistics:
    return Statistics(
        schema=schema,
        rows=len(entries),
        metrics=entries.metrics,
        partitions=_partition_values(entries.spec, entries),
        record_count=arrow_array(entries.record_count),
    )


def _partition_values(spec: PartitionSpec, entries: Entries) -> dict[int, tuple[PartitionEvidence, ...]]:
    found: dict[int, list[PartitionEvidence]] = defaultdict(list)
    for part, values in zip(spec.fields, entries.partition, strict=True):
        if not part.other_sources and str(values.type) != "null":
            found[part.source_id].append(PartitionValues(transform=part.transform, values=values))
    return {id_: tuple(all_) for id_, all_ in found.items()}


def _keep(
    found: PrunedManifests, schema: Schema, live: Entries, examination: Examination, floats: Sequence[Field]
) -> None:
    rows = np.flatnonzero(examination.verdict.some)
    if not len(rows):
        return
    pattern, residuals = examination.residuals()
    kept = live.take(rows)
    odd = FoundFloats.of(floats, _statistics(schema, kept)) if floats else None
    found.kept.append(
        KeptFiles(entries=kept.without_metrics(), residuals=residuals, pattern=pattern[rows], odd_floats=odd)
    )
