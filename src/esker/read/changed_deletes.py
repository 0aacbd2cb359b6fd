"""Third step of a change feed: the deletes that a snapshot added or removed, and the data files that they apply to.

Partition summaries, sequence numbers and key ranges limit which manifests are read.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from esker.model.file_paths import split_location
from esker.model.partition_and_sort import PartitionSpec, partition_value_type
from esker.model.predicates.predicate import TRUE, Bound, Compare, IsNull, Op, all_of, any_of
from esker.model.schema import Schema
from esker.model.types import (
    DateType,
    DecimalType,
    Field,
    IntType,
    LongType,
    StringType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
)
from esker.model.values import from_bytes
from esker.ports.table_format import EntryColumns, TableFormat
from esker.read.attach_deletes import DELETE_FILE_PATH_ID, DeleteIndex
from esker.read.compare_manifests import Compared, live_entries
from esker.read.prune_manifest import columns_asked, examine_entries
from esker.tree.data_file import DataFile, FileContent
from esker.tree.manifest import Entries
from esker.tree.manifest_list import FieldSummary, ManifestContent, ManifestFile
from esker.tree.table_metadata import TableMetadata

# ---------------------------------------------------------------- Which manifests can contain files of given partitions


MANY = 256  # with more partitions, checking each costs more than opening the manifest


@dataclass(frozen=True, slots=True)
class PartitionScope:
    """A set of partitions, by spec."""

    specs: Mapping[int, PartitionSpec]
    sources: Mapping[int, Field]
    partitions: Mapping[int, frozenset[tuple[Any, ...]]]

    @classmethod
    def of(cls, metadata: TableMetadata, files: Iterable[DataFile]) -> PartitionScope:
        """The partitions of these files."""
        found: dict[int, set[tuple[Any, ...]]] = defaultdict(set)
        for file in files:
            found[file.spec_id].add(file.partition)
        return cls(metadata.spec_by_id, metadata.any_field_by_id, {id_: frozenset(all_) for id_, all_ in found.items()})

    def may_be_in(self, manifest: ManifestFile) -> bool:
        """False only if the summaries prove that the manifest has no file of these partitions."""
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
        return True  # uuids: writers use different orders
    try:
        lower, upper = from_bytes(type_, summary.lower_bound), from_bytes(type_, summary.upper_bound)
        below, above = value < lower, value > upper
    except (ValueError, TypeError, ArithmeticError):  # a bound that cannot be decoded proves nothing
        return True
    if above and isinstance(value, str | bytes):  # the upper bound may be cut and not rounded up
        above = not value.startswith(upper)
    return not below and not above


# ---------------------------------------------------------------- The deletes that can apply to a few files


COLUMNS = EntryColumns(metrics=(DELETE_FILE_PATH_ID,))


@dataclass(frozen=True, slots=True)
class ApplyingDeletes:
    """Reads as few delete manifests as a change needs.

    A delete never applies to data with a larger sequence number, and no entry of a manifest has a larger one than the
    manifest. So for a new file only the newest manifests matter.
    """

    metadata: TableMetadata
    table_format: TableFormat

    def index(self, manifests: Sequence[ManifestFile], files: Sequence[DataFile], opened: set[str]) -> DeleteIndex:
        """The deletes that apply to these files. The manifests that were read are added to ``opened``."""
        near = list(self._near(manifests, files)) if files else []
        opened.update(manifest.path for manifest in near)
        batches = self.table_format.entries(self.metadata, near, COLUMNS)
        return DeleteIndex(self.metadata, _about(batches, files))

    def _near(self, manifests: Sequence[ManifestFile], files: Sequence[DataFile]) -> Iterator[ManifestFile]:
        oldest = min(file.sequence_number for file in files)
        # Some writers record deletes under the newest spec instead of the spec of the data. Then partitions prove
        # nothing.
        scope = PartitionScope.of(self.metadata, files) if len(self.metadata.specs) == 1 else None
        for manifest in manifests:
            if manifest.content is ManifestContent.DELETES and manifest.may_hold_live_files:
                in_time = manifest.sequence_number >= oldest
                if in_time and (scope is None or scope.may_be_in(manifest)):
                    yield manifest


def _about(batches: Iterable[Entries], files: Sequence[DataFile]) -> Iterator[Entries]:
    """The entries without the deletes that name other files. A table has as many vectors as files with deletes."""
    names = {split_location(file.path)[2] for file in files}
    oldest = min((file.sequence_number for file in files), default=0)
    for entries in batches:
        mask = entries.sequence_number >= oldest
        targets = entries.rest.get("referenced_data_file")
        if targets is not None:
            named = (target is None or split_location(target)[2] in names for target in targets.to_pylist())
            mask &= np.fromiter(named, bool, len(entries))
        yield entries.take(mask)


# ---------------------------------------------------------------- A predicate for the keys of equality deletes
#
# It is only compared with statistics, to skip files. So it may be too wide, but never too narrow.


MOST = 64  # with more deletes, one predicate over all of them costs more than it saves
SHORTENED = 16  # writers often cut the bounds of strings to this many characters


def key_ranges(schema: Schema, deletes: Sequence[DataFile]) -> Bound:
    """A predicate that covers the keys of the deletes. TRUE if a delete is not by keys or has no bounds."""
    if len(deletes) > MOST or any(delete.content is not FileContent.EQUALITY_DELETES for delete in deletes):
        return TRUE
    return any_of(_range(schema, delete) for delete in deletes)


def _range(schema: Schema, delete: DataFile) -> Bound:
    fields = [schema.by_id.get(id_) for id_ in delete.equality_ids]
    return all_of(_within(field, delete) for field in fields if field is not None and not schema.in_repeated(field.id))


def _within(field: Field, delete: DataFile) -> Bound:
    if delete.metrics is None:
        return TRUE
    lower, upper = delete.metrics.lower_bounds.get(field.id), delete.metrics.upper_bounds.get(field.id)
    try:
        least = None if lower is None else from_bytes(field.type, lower)
        most = None if upper is None else from_bytes(field.type, upper)
    except ValueError:
        return TRUE
    if least is None or most is None or not _is_exact(field, most):
        return TRUE
    between = all_of((Compare(field, Op.GE, least), Compare(field, Op.LE, most)))
    has_null = delete.metrics.null_counts.get(field.id) != 0
    return any_of((between, IsNull(field))) if has_null else between


def _is_exact(field: Field, most: object) -> bool:
    """Whether the bound is a complete value, not the beginning of one."""
    match field.type:
        case IntType() | LongType() | DateType() | TimeType() | TimestampType() | DecimalType():
            return True
        case StringType():
            return isinstance(most, str) and len(most) < SHORTENED
        case _:
            return False


# ---------------------------------------------------------------- The files that changed deletes apply to


DELETE_COLUMNS = EntryColumns(metrics=(DELETE_FILE_PATH_ID,), full_metrics=True)
"""What is decoded of the changed delete files: the bounds of paths and of keys."""


class ChangedDeletes:
    """The delete files that a snapshot added or removed, and the files that they can apply to."""

    def __init__(self, metadata: TableMetadata, schema: Schema, compared: Compared) -> None:
        batches = [*compared.added, *compared.removed]
        deletes = [delete for entries in batches for delete in entries.data_files()]
        self._index = DeleteIndex(metadata, batches)
        self._names = self._index.names
        self._newest = max((delete.sequence_number for delete in deletes), default=0)
        # Some writers record deletes under the newest spec instead of the spec of the data. Then partitions prove
        # nothing.
        self._scope = PartitionScope.of(metadata, deletes) if len(metadata.specs) == 1 else None
        self.keys = key_ranges(schema, deletes)

    def __bool__(self) -> bool:
        return bool(self._index)

    def may_reach(self, manifest: ManifestFile) -> bool:
        """False only if the manifest list proves that the deletes apply to no file of a data manifest."""
        in_time = manifest.min_sequence_number <= self._newest
        return in_time and (self._scope is None or self._scope.may_be_in(manifest))

    def candidates(self, entries: Entries) -> Entries:
        """The entries without the files that the deletes certainly do not apply to."""
        mask = entries.sequence_number <= self._newest
        if self._names is not None:
            names = self._names
            mask &= np.fromiter(
                (split_location(path)[2] in names for path in entries.path.to_pylist()), bool, len(entries)
            )
        return entries.take(mask)

    def reach(self, data: DataFile) -> bool:
        """Whether one of the deletes applies to the file."""
        return bool(self._index.applying_to(data))

    def all_found(self, found: set[str]) -> bool:
        """Whether these paths are all files that the deletes can apply to, so that the search can stop."""
        return self._names is not None and self._names <= found


class ReachedFiles:
    """Searches the data manifests of a snapshot for the files that changed deletes apply to."""

    def __init__(self, metadata: TableMetadata, table_format: TableFormat, schema: Schema, predicate: Bound) -> None:
        self._metadata, self._format, self._schema, self._predicate = metadata, table_format, schema, predicate
        self.opened: set[str] = set()  # the manifests that were read

    def find(
        self, deletes: ChangedDeletes, manifests: Sequence[ManifestFile], data: Compared
    ) -> Iterator[tuple[DataFile, Bound]]:
        """Each file that may have a row of the result, with the part of the filter that rows still have to pass.

        ``data`` are the files that were compared already. They are not searched again.
        """
        found = {split_location(path)[2] for part in (*data.added, *data.removed) for path in part.path.to_pylist()}
        for entries in self._batches(deletes, manifests, data.kept, found):
            for file, residual in self._reached(deletes, entries):
                found.add(split_location(file.path)[2])
                yield file, residual

    def _batches(
        self, deletes: ChangedDeletes, manifests: Sequence[ManifestFile], kept: Sequence[Entries], found: set[str]
    ) -> Iterator[Entries]:
        """The entries of files that the deletes may apply to. Stops when all of them are found."""
        yield from kept
        if deletes.all_found(found):
            return
        asked = columns_asked(self._schema, all_of((self._predicate, deletes.keys)))
        for entries in live_entries(self._format.entries(self._metadata, manifests, EntryColumns(metrics=asked))):
            self.opened.update(manifest.path for manifest in entries.manifests)
            yield entries
            if deletes.all_found(found):
                return

    def _reached(self, deletes: ChangedDeletes, entries: Entries) -> Iterator[tuple[DataFile, Bound]]:
        near = deletes.candidates(entries)
        if not len(near):
            return
        touchable = examine_entries(deletes.keys, self._schema, near).verdict.some
        examination = examine_entries(self._predicate, self._schema, near)
        pattern, residuals = examination.residuals()
        for row in np.flatnonzero(touchable & examination.verdict.some):
            data = near.data_file(int(row))
            if deletes.reach(data):
                yield data, residuals[int(pattern[row])]
