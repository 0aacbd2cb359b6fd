"""Third step of a scan: which files to read, decided by their partition and their column statistics.

Also which float columns of a file may contain NaN or zero: an engine's own push-down may handle these values wrongly.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from esker.model.arrow_arrays import arrow_array
from esker.model.partition_and_sort import PartitionSpec
from esker.model.predicates.predicate import Bound, Compare, IsNaN, Op, field_ids
from esker.model.pruning.evidence import PartitionEvidence, PartitionValues, Statistics
from esker.model.pruning.verdict import Examination, examine, judge
from esker.model.schema import Schema
from esker.model.transform import IdentityTransform
from esker.model.types import Field, is_floating
from esker.ports.engine import OddFloats
from esker.ports.table_format import EntryColumns, TableFormat
from esker.read.prune_manifest_list import PrunedList
from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestFile
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
    columns = columns_of(metadata, schema, listed, predicate, floats)
    return Pruning(metadata, table_format, schema, predicate, tuple(floats), columns)(listed.data)


@dataclass(frozen=True, slots=True)
class Pruning:
    """The work on some of a plan's manifests. A pickle of it does the same in another process."""

    metadata: TableMetadata
    table_format: TableFormat
    schema: Schema
    predicate: Bound
    floats: tuple[Field, ...]
    columns: EntryColumns

    def __call__(self, manifests: Sequence[ManifestFile]) -> PrunedManifests:
        """The files of these manifests that may have matching rows."""
        found = PrunedManifests()
        for entries in self.table_format.entries(self.metadata, manifests, self.columns):
            prune_entries(found, self.schema, entries.take(entries.is_live), self.predicate, self.floats)
        return found


def prune_in_turn(
    metadata: TableMetadata,
    table_format: TableFormat,
    schema: Schema,
    listed: PrunedList,
    predicate: Bound,
) -> Iterator[KeptFiles]:
    """The same files, batch by batch. Nothing is held but the batch that was asked for last."""
    for entries in table_format.entries(metadata, listed.data, columns_of(metadata, schema, listed, predicate)):
        found = PrunedManifests()
        prune_entries(found, schema, entries.take(entries.is_live), predicate)
        yield from found.kept


def columns_of(
    metadata: TableMetadata, schema: Schema, listed: PrunedList, predicate: Bound, floats: Sequence[Field] = ()
) -> EntryColumns:
    """What to decode of the manifests: no statistics of columns about which the partition says everything."""
    known = _known_by_partition(metadata, {manifest.spec_id for manifest in listed.data})
    asked = frozenset() if listed.all_match else columns_asked(schema, predicate) - known
    return EntryColumns(metrics=asked | {f.id for f in floats})


def _known_by_partition(metadata: TableMetadata, spec_ids: Collection[int]) -> frozenset[int]:
    """The columns that every one of these specs partitions by their plain value: a file has one value of each."""
    specs = [metadata.spec_by_id.get(spec_id) for spec_id in spec_ids]
    found = [
        {
            field.source_id
            for field in spec.fields
            if isinstance(field.transform, IdentityTransform)
            and not field.other_sources
            and (source := metadata.any_field_by_id.get(field.source_id)) is not None
            and not is_floating(source.type)
        }
        for spec in specs
        if spec is not None
    ]
    return frozenset(set.intersection(*found)) if found and len(found) == len(specs) else frozenset()


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
