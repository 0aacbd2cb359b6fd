"""What a manifest says of its files, in a form that is compared for every snapshot that lists the manifest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from esker.errors import EskerError
from esker.maintain.tended_table import TendedTable, keys_of, path_key
from esker.model.arrow_arrays import numbers_of
from esker.model.partition_and_sort import PartitionSpec, fields_of_all, partition_value_type
from esker.model.pruning.orderable import Orderable, from_values, is_orderable
from esker.model.types import Type, is_floating
from esker.ports.table_format import EntryColumns
from esker.read.attach_deletes import DELETE_FILE_PATH_ID, only_target
from esker.tree.data_file import DataFile, FileContent
from esker.tree.manifest import Entries, EntryStatus
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.table_metadata import TableMetadata
from esker.write.steps import listed_name

if TYPE_CHECKING:
    import numpy.typing as npt

    Keys = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FieldRange:
    """The values of one partition field over the live files of a manifest, in the form in which they are compared."""

    type: Type
    has_null: bool = False
    has_nan: bool = False
    lowest: Any = None  # None: there is no value
    highest: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFacts:
    """The counts of a manifest, and its live files as keys."""

    is_data: bool
    files: tuple[int, int, int]  # added, existing, deleted
    rows: tuple[int, int, int]
    totals: Mapping[str, int]  # of the live files, by the key of a summary
    lowest: int | None  # the lowest data sequence number of a live file; None without live files
    highest: int | None
    live: Keys  # in the order of the manifest, by `listed_name`
    targets: Keys  # the data files that a delete here is only about
    is_vector: npt.NDArray[np.bool_]  # for each target, whether the delete is a vector
    names: tuple[str, ...]  # of the targets
    deletes: tuple[str, ...]  # the delete file of each target
    row_ids: Keys  # for each live file, its first row id and the one after its last; -1: it has none
    partitions: tuple[FieldRange, ...]  # for each field of the manifest's spec
    manifest: ManifestFile


def read_each(
    table: TendedTable, manifests: Sequence[ManifestFile], *, full_metrics: bool
) -> Iterator[tuple[ManifestFile, list[Entries] | EskerError]]:
    """The entries of each manifest, or why it cannot be read. One broken manifest does not hide the others."""
    columns = EntryColumns(metrics=(DELETE_FILE_PATH_ID,), full_metrics=full_metrics, fresh=True)
    for manifest in manifests:
        try:
            yield manifest, list(table.format.entries(table.metadata, (manifest,), columns))
        except EskerError as error:
            yield manifest, error


def facts_of(metadata: TableMetadata, manifest: ManifestFile, batches: Sequence[Entries]) -> ManifestFacts:
    """The facts of one manifest."""
    files, rows = [0, 0, 0], [0, 0, 0]
    for batch in batches:
        for at, status in enumerate((EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED)):
            chosen = batch.status == status
            files[at] += int(chosen.sum())
            rows[at] += int(batch.record_count[chosen].sum())
    live = [batch.take(batch.is_live) for batch in batches]
    numbers = np.concatenate([batch.sequence_number for batch in live]) if live else np.empty(0, np.int64)
    is_data = manifest.content is ManifestContent.DATA
    deletes = [] if is_data else _deletes(live)
    named = [(delete, target) for delete, target in deletes if target is not None]
    return ManifestFacts(
        is_data=is_data,
        files=(files[0], files[1], files[2]),
        rows=(rows[0], rows[1], rows[2]),
        totals=_data_totals(live) if is_data else _delete_totals([delete for delete, _ in deletes]),
        lowest=int(numbers.min()) if len(numbers) else None,
        highest=int(numbers.max()) if len(numbers) else None,
        live=_live_keys(live) if is_data else keys_of((listed_name(delete) for delete, _ in deletes), path_key),
        targets=keys_of(target for _, target in named),
        is_vector=np.array([delete.is_deletion_vector for delete, _ in named], np.bool_),
        names=tuple(target for _, target in named),
        deletes=tuple(delete.path for delete, _ in named),
        row_ids=_row_ids(live if is_data else ()),
        partitions=_ranges(metadata, live),
        manifest=manifest,
    )


def _row_ids(live: Sequence[Entries]) -> Keys:
    parts = [np.empty((0, 2), np.int64)]
    for batch in live:
        column = batch.rest.get("first_row_id")
        first = np.full(len(batch), -1) if column is None else numbers_of(column, null=-1)
        parts.append(np.stack([first, first + batch.record_count], axis=1))
    return np.concatenate(parts)


def _ranges(metadata: TableMetadata, live: Sequence[Entries]) -> tuple[FieldRange, ...]:
    """The values of each partition field. Empty without files, and if a value cannot be of its type."""
    sources = fields_of_all(metadata.schemas)
    spec = live[0].spec if live else PartitionSpec()
    found: list[FieldRange] = []
    for at, field in enumerate(spec.fields):
        type_ = partition_value_type(field, sources)
        try:
            parts = [from_values(type_, batch.partition[at]) for batch in live if is_orderable(type_)]
        except ValueError:
            return ()
        found.append(_range(type_, parts))
    return tuple(found)


def _range(type_: Type, parts: Sequence[Orderable]) -> FieldRange:
    known = [part.values[part.known] for part in parts]
    nans = [values != values if is_floating(type_) else np.zeros(len(values), np.bool_) for values in known]
    values = [value for part, is_nan in zip(known, nans, strict=True) for value in part[~is_nan].tolist()]
    return FieldRange(
        type=type_,
        has_null=any(not part.known.all() for part in parts),
        has_nan=any(is_nan.any() for is_nan in nans),
        lowest=min(values, default=None),
        highest=max(values, default=None),
    )


def _live_keys(live: Sequence[Entries]) -> Keys:
    parts = [keys_of(batch.path.to_pylist()) for batch in live]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _deletes(live: Sequence[Entries]) -> list[tuple[DataFile, str | None]]:
    """Each delete file, and the only data file that it is about if that is known."""
    found: list[tuple[DataFile, str | None]] = []
    for batch in live:
        for row, delete in enumerate(batch.data_files()):
            by_position = delete.content is FileContent.POSITION_DELETES
            found.append((delete, only_target(delete, batch, row) if by_position else None))
    return found


def _data_totals(live: Sequence[Entries]) -> dict[str, int]:
    return {
        "total-data-files": sum(map(len, live)),
        "total-records": sum(int(batch.record_count.sum()) for batch in live),
        "total-files-size": sum(int(batch.file_size.sum()) for batch in live),
        "total-delete-files": 0,
        "total-position-deletes": 0,
        "total-equality-deletes": 0,
    }


def _delete_totals(deletes: Sequence[DataFile]) -> dict[str, int]:
    by_position = [one for one in deletes if one.content is FileContent.POSITION_DELETES]
    return {
        "total-delete-files": len(deletes),
        "total-files-size": sum(_size(one) for one in deletes),
        "total-position-deletes": sum(one.record_count for one in by_position),
        "total-equality-deletes": sum(one.record_count for one in deletes) - sum(o.record_count for o in by_position),
    }


def _size(delete: DataFile) -> int:
    """The bytes of a delete. A vector has its own bytes, not those of the file that it shares."""
    return delete.content_size if delete.is_deletion_vector and delete.content_size is not None else delete.file_size
