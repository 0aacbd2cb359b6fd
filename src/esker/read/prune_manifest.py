"""Third step of a scan: which files to read, decided by their partition and their column statistics.

Also what an engine wants to know about each file. Which float columns may contain NaN or zero? Its own push-down may
handle these values wrongly. And between which bounds are the values of other columns?
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from esker.model.arrow_arrays import arrow_array
from esker.model.partition_and_sort import PartitionSpec
from esker.model.predicates.predicate import Bound, Compare, IsNaN, Op, field_ids
from esker.model.pruning.evidence import PartitionEvidence, PartitionValues, Span, Statistics, has_span, span_of
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


# ---------------------------------------------------------------- What an engine wants to know
#
# A frame of a whole table may be filtered later, by a condition that the plan does not know. With the spans of its
# files, the engine then leaves out files as a plan does.


MOST_SPANS = 200_000  # spans of columns in files; with more, they would take too much memory in each frame
FEW_FILES = 4  # with fewer files, spans save nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """The columns about which an engine wants to know something in each file."""

    floats: tuple[Field, ...] = ()  # may they contain NaN, or zero?
    spans: tuple[Field, ...] = ()  # between which values are they? The most useful columns are first

    @property
    def ids(self) -> frozenset[int]:
        """The columns whose statistics are needed."""
        return frozenset(f.id for f in (*self.floats, *self.spans))

    def limited(self, listed: PrunedList) -> FileFacts:
        """The same without spans that take more than they save."""
        counts = [(manifest.added_files, manifest.existing_files) for manifest in listed.data]
        files = sum((added or 0) + (existing or 0) for added, existing in counts)
        if any(None in pair for pair in counts):  # of an early writer
            files = max(files, FEW_FILES)
        most = 0 if files < FEW_FILES else MOST_SPANS // max(files, 1)
        return self if len(self.spans) <= most else replace(self, spans=self.spans[:most])


NO_FACTS = FileFacts()


def span_columns(metadata: TableMetadata, projection: Schema) -> tuple[Field, ...]:
    """The columns whose spans help most: those by which the table is partitioned and sorted, then the others."""
    known = [f for f in projection.fields if has_span(f.type)]
    layout = [part.source_id for spec in metadata.specs for part in spec.fields]
    layout += [part.source_id for part in metadata.sort_order.fields]
    first = {id_: at for at, id_ in reversed(list(enumerate(layout)))}
    return tuple(sorted(known, key=lambda f: first.get(f.id, len(first)))[:MOST])


# ---------------------------------------------------------------- Pruning


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFiles:
    """The remaining files of one batch of entries, each with the index of its residual filter."""

    entries: Entries
    residuals: tuple[Bound, ...]
    pattern: Int64s
    odd_floats: FoundFloats | None = None  # None: not asked for
    spans: Mapping[int, Span] = field(default_factory=dict)


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
    facts: FileFacts = NO_FACTS,
) -> PrunedManifests:
    """Keep a file unless its partition or statistics prove that no row in it can match.

    The result also records ``facts`` about each kept file.
    """
    columns = columns_of(metadata, schema, listed, predicate, facts)
    return Pruning(metadata, table_format, schema, predicate, facts, columns)(listed.data)


@dataclass(frozen=True, slots=True)
class Pruning:
    """The work on some of a plan's manifests. A pickle of it does the same in another process."""

    metadata: TableMetadata
    table_format: TableFormat
    schema: Schema
    predicate: Bound
    facts: FileFacts
    columns: EntryColumns

    def __call__(self, manifests: Sequence[ManifestFile]) -> PrunedManifests:
        """The files of these manifests that may have matching rows."""
        found = PrunedManifests()
        for entries in self.table_format.entries(self.metadata, manifests, self.columns):
            prune_entries(found, self.schema, entries.take(entries.is_live), self.predicate, self.facts)
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
    metadata: TableMetadata, schema: Schema, listed: PrunedList, predicate: Bound, facts: FileFacts = NO_FACTS
) -> EntryColumns:
    """What to decode of the manifests: no statistics of columns about which the partition says everything."""
    known = _known_by_partition(metadata, {manifest.spec_id for manifest in listed.data})
    asked = frozenset() if listed.all_match else columns_asked(schema, predicate) - known
    return EntryColumns(metrics=asked | facts.ids)


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
    found: PrunedManifests, schema: Schema, live: Entries, predicate: Bound, facts: FileFacts = NO_FACTS
) -> None:
    """Examine the live files of one batch, and keep those that may have a row of the result."""
    found.live_files += len(live)
    examination = examine_entries(predicate, schema, live)
    for part, rejected in examination.rejections():
        found.rejections[part] += rejected
    _keep(found, schema, live, examination, facts)


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


def _keep(found: PrunedManifests, schema: Schema, live: Entries, examination: Examination, facts: FileFacts) -> None:
    rows = np.flatnonzero(examination.verdict.some)
    if not len(rows):
        return
    pattern, residuals = examination.residuals()
    kept = live.take(rows)
    statistics = _statistics(schema, kept) if facts != NO_FACTS else None
    found.kept.append(
        KeptFiles(
            entries=kept.without_metrics(),
            residuals=residuals,
            pattern=pattern[rows],
            odd_floats=FoundFloats.of(facts.floats, statistics) if statistics is not None and facts.floats else None,
            spans={f.id: span_of(f, statistics) for f in facts.spans} if statistics is not None else {},
        )
    )
