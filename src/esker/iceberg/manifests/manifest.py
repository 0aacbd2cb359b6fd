"""Read manifests: entries as columns, with the values that entries inherit from the manifest list.

Fields are found by id, and by name only if the writer wrote no ids (A7). Schema and spec come from the table's
metadata. The manifest's header, which many writers leave empty or get wrong, is used only if the metadata does not have
the spec. Fields that an older version did not have are optional (A8). An impossible value, such as a negative count, is
`Corrupt` with the name of the manifest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from esker import avro
from esker.errors import Corrupt, Unsupported
from esker.iceberg.manifests.avro_fields import FoundColumns
from esker.iceberg.manifests.manifest_columns import (
    DATA_FILE,
    ENTRY_NAMES,
    FILE_NAMES,
    FILE_SEQUENCE_NUMBER,
    PARTITION,
    REST,
    SEQUENCE_NUMBER,
    SNAPSHOT_ID,
    STATUS,
    partition_names,
    picked_metrics,
    projection,
    whole_metrics,
)
from esker.iceberg.manifests.manifest_list import refuse_encrypted
from esker.iceberg.manifests.partition_values import held_partition, member_nodes
from esker.iceberg.metadata.partition_and_sort import spec_of_manifest
from esker.model.arrow_arrays import arrow_array, null_mask, numbers_of
from esker.model.partition_and_sort import PartitionSpec
from esker.model.transform import VoidTransform
from esker.ports.table_format import EntryColumns
from esker.tree.data_file import FileContent
from esker.tree.manifest import Entries, EntryStatus
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    import numpy.typing as npt


# ---------------------------------------------------------------- Inheritance: sequence numbers, snapshot ids, row ids
#
# A writer leaves them null, so that a retried commit rewrites one manifest list and no manifest (checklist B3). A
# reader fills them in from the row of the list.


if TYPE_CHECKING:
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]
    Int8s = npt.NDArray[np.int8]
    Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of some manifests, one manifest after the other."""

    manifests: tuple[ManifestFile, ...]
    index: Int64s  # the manifest of each row
    starts: Int64s  # the first row of each manifest
    status: Int8s

    def of(self, values: Sequence[int]) -> Int64s:
        """A number of each manifest, repeated for its rows."""
        return np.array(values, np.int64)[self.index]

    def first(self, bad: Bools) -> ManifestFile:
        """The manifest of the first row where ``bad`` is true."""
        return self.manifests[int(self.index[int(np.argmax(bad))])]


def inherit_sequence_numbers(rows: Rows, written: pa.Array, versions: Sequence[int]) -> Int64s:
    """The data sequence number of every row. ``versions`` are the format versions of the manifests.

    An ADDED entry gets the number of the manifest (B1). In a v1 manifest, all numbers are 0 (B4). An EXISTING or
    DELETED entry must have its own number. If a data file has none, it is 0, so that every delete applies to it. A live
    delete file without a number could apply to anything, so `Corrupt` is raised.
    """
    missing = null_mask(written)
    values = numbers_of(written, null=0).copy()
    _refuse_negative(rows, values, "sequence number")
    if not missing.any():
        return values
    counted = rows.of([version > 1 for version in versions]).astype(bool)
    inherits = missing & counted & (rows.status == EntryStatus.ADDED)
    values[inherits] = rows.of([manifest.sequence_number for manifest in rows.manifests])[inherits]
    deletes = rows.of([m.content is ManifestContent.DELETES and m.sequence_number > 0 for m in rows.manifests])
    unknown = missing & (rows.status == EntryStatus.EXISTING) & deletes.astype(bool)
    if unknown.any():
        raise Corrupt(rows.first(unknown).path, "an existing delete file has no sequence number")
    return values


def inherit_file_sequence_numbers(rows: Rows, written: pa.Array, versions: Sequence[int]) -> pa.Array:
    """The sequence number of the snapshot that added the file. Null if it is not recorded."""
    missing = null_mask(written)
    if not missing.any():
        return written
    numbers = rows.of(
        [
            0 if version < 2 else manifest.sequence_number
            for manifest, version in zip(rows.manifests, versions, strict=True)
        ]
    )
    inherits = missing & ((rows.status == EntryStatus.ADDED) | (numbers == 0))
    values = np.where(inherits, numbers, numbers_of(written, null=0))
    return arrow_array(values, null=missing & ~inherits)


def inherit_snapshot_ids(rows: Rows, written: pa.Array) -> pa.Array:
    """The snapshot that added or removed the file (B5): the snapshot of the manifest, unless the entry names
    another."""
    missing = null_mask(written)
    if not missing.any():
        return written
    known = rows.of([manifest.added_snapshot_id is not None for manifest in rows.manifests]).astype(bool)
    ids = rows.of([manifest.added_snapshot_id or 0 for manifest in rows.manifests])
    values = np.where(missing, ids, numbers_of(written, null=0))
    return arrow_array(values, null=missing & ~known)


def inherit_first_row_ids(rows: Rows, written: pa.Array, record_count: Int64s) -> pa.Array:
    """The id of each file's first row (I4): the manifest's first row id, plus the rows of the live files before it
    without one.

    DELETED entries use no ids. If the manifest has no first row id, nothing is inherited (I8).
    """
    assigned = rows.of(
        [manifest.content is ManifestContent.DATA and manifest.first_row_id is not None for manifest in rows.manifests]
    ).astype(bool)
    missing = null_mask(written)
    takes = missing & assigned & (rows.status != EntryStatus.DELETED)
    if not takes.any():
        return written
    consumed = np.where(takes, record_count, 0)
    before = np.cumsum(consumed) - consumed
    # A manifest without rows may start where the last row ends.
    at_start = np.append(before, 0)[rows.starts]
    first = rows.of([manifest.first_row_id or 0 for manifest in rows.manifests])
    values = np.where(takes, first + before - at_start[rows.index], numbers_of(written, null=0))
    return arrow_array(values, null=missing & ~takes)


def _refuse_negative(rows: Rows, values: Int64s, what: str) -> None:
    bad = values < 0
    if bad.any():
        raise Corrupt(rows.first(bad).path, f"a {what} is negative: {int(values[int(np.argmax(bad))])}")


# ---------------------------------------------------------------- Entries


MOST = 1 << 50
"""No file has more rows or bytes than this. Larger counts are wrong, and would overflow a sum."""

_LIMITS = avro.Limits(container=1 << 30)
_REST_TYPES: Mapping[str, pa.DataType] = {
    "key_metadata": pa.binary(),
    "split_offsets": pa.list_(pa.int64()),
    "equality_ids": pa.list_(pa.int32()),
    "sort_order_id": pa.int32(),
    "first_row_id": pa.int64(),
    "referenced_data_file": pa.string(),
    "content_offset": pa.int64(),
    "content_size": pa.int64(),
}


def decode_manifests(
    read: Sequence[tuple[ManifestFile, bytes]], metadata: TableMetadata, columns: EntryColumns
) -> Iterator[Entries]:
    """The entries of manifests with one spec id and one content kind, one batch per writer's schema."""
    spec = metadata.spec_by_id.get(read[0][0].spec_id) if read else None
    for batch in decode_columns(read, spec, columns):
        manifests = tuple(read[part.index][0] for part in batch.parts)
        yield entries_of(batch, manifests, spec or spec_of_manifest(manifests[0], batch.header), metadata, columns)


def decode_columns(
    read: Sequence[tuple[ManifestFile, bytes]], spec: PartitionSpec | None, columns: EntryColumns
) -> list[avro.AvroColumns]:
    """The columns of manifests as they are written, in one batch per writer's schema."""
    for manifest, data in read:
        _refuse_encryption(manifest, data)
    files = [(manifest.path, data) for manifest, data in read]
    try:
        return avro.decode_many(files, want=projection(spec, columns), limits=_LIMITS)
    except Unsupported as error:
        if error.facts.get("feature") != "avro map keys":
            raise
    # The writer used native maps, whose keys are text: decode whole maps and select keys afterwards.
    return avro.decode_many(files, want=projection(spec, replace(columns, full_metrics=True)), limits=_LIMITS)


def _refuse_encryption(manifest: ManifestFile, data: bytes) -> None:
    """Raise `Unsupported` if the manifest is encrypted."""
    refuse_encrypted(manifest.path, data)
    if manifest.key_metadata:
        raise Unsupported(
            f"cannot read manifest {manifest.path}: it is encrypted", feature="table encryption", file=manifest.path
        )


def entries_of(
    batch: avro.AvroColumns,
    manifests: tuple[ManifestFile, ...],
    spec: PartitionSpec,
    metadata: TableMetadata,
    columns: EntryColumns,
) -> Entries:
    """The entries in decoded columns. Each manifest is that of the part at the same place."""
    entries = FoundColumns(manifests[0].path, batch.batch, ENTRY_NAMES)
    files = entries.struct(DATA_FILE, "data_file", FILE_NAMES)
    rows = _rows(batch, manifests, entries)
    versions = [_format_version(part.header, entries, files) for part in batch.parts]
    content = _content(rows, files)
    record_count = _count(rows, files, 103, "record_count")
    return Entries(
        spec=spec,
        manifests=manifests,
        manifest_index=rows.index,
        status=rows.status,
        content=content,
        snapshot_id=inherit_snapshot_ids(rows, entries.nullable(SNAPSHOT_ID, pa.int64())),
        sequence_number=inherit_sequence_numbers(rows, entries.nullable(SEQUENCE_NUMBER, pa.int64()), versions),
        file_sequence_number=inherit_file_sequence_numbers(
            rows, entries.nullable(FILE_SEQUENCE_NUMBER, pa.int64()), versions
        ),
        path=_text(rows, files, 100, "file_path"),
        file_format=_lower(_text(rows, files, 101, "file_format")),
        record_count=record_count,
        file_size=_count(rows, files, 104, "file_size_in_bytes"),
        partition=_partition(batch, files, spec, metadata),
        metrics=picked_metrics(files, columns.metrics) if columns.metrics else {},
        rest=_rest(rows, files, content, record_count) if columns.rest else {},
        full_metrics=whole_metrics(files) if columns.full_metrics else None,
    )


def _check_whole(manifest: ManifestFile, rows: int) -> None:
    """Raise `Corrupt` if entries are missing. A container that was cut after a block looks complete; the list has
    the count."""
    counts = (manifest.added_files, manifest.existing_files, manifest.deleted_files)
    listed = sum(count for count in counts if count is not None and count > 0)
    if rows < listed:
        raise Corrupt(manifest.path, f"it has {rows} entries where its list counts {listed}: its end is missing")


def _rows(batch: avro.AvroColumns, manifests: tuple[ManifestFile, ...], entries: FoundColumns) -> Rows:
    for part, manifest in zip(batch.parts, manifests, strict=True):
        _check_whole(manifest, part.rows)
    counts = np.array([part.rows for part in batch.parts], np.int64)
    index = np.repeat(np.arange(len(manifests), dtype=np.int64), counts)
    status = numbers_of(entries.required(STATUS, pa.int64(), "status"), null=-1)
    rows = Rows(manifests, index, np.cumsum(counts) - counts, status.astype(np.int8))
    bad = (status < EntryStatus.EXISTING) | (status > EntryStatus.DELETED)
    if bad.any():
        raise Corrupt(rows.first(bad).path, "an entry has no status, or one that is not 0, 1 or 2")
    return rows


def _format_version(header: Mapping[str, bytes], entries: FoundColumns, files: FoundColumns) -> int:
    """The format version of a manifest: as recorded, else by the fields that came with v2."""
    word = header.get("format-version", b"").strip()
    if word.isdigit():
        return int(word)
    return 2 if SEQUENCE_NUMBER in entries or 134 in files else 1


def _content(rows: Rows, files: FoundColumns) -> npt.NDArray[np.int8]:
    """The content of each file (B7). Raises `Corrupt` if a manifest lists both data files and delete files."""
    written = numbers_of(files.nullable(134, pa.int64()), null=0)
    bad = (written < FileContent.DATA) | (written > FileContent.EQUALITY_DELETES)
    if bad.any():
        raise Corrupt(rows.first(bad).path, "a file's content is not 0, 1 or 2")
    deletes = rows.of([manifest.content is ManifestContent.DELETES for manifest in rows.manifests]).astype(bool)
    mixed = (written != FileContent.DATA) != deletes
    if mixed.any():
        kind = rows.first(mixed).content
        said, held = ("delete", "data") if kind is ManifestContent.DELETES else ("data", "delete")
        raise Corrupt(rows.first(mixed).path, f"a {said} manifest lists a {held} file")
    return written.astype(np.int8)


def _count(rows: Rows, files: FoundColumns, id_: int, name: str) -> npt.NDArray[np.int64]:
    counts = numbers_of(files.required(id_, pa.int64(), name), null=-1)
    bad = (counts < 0) | (counts > MOST)
    if bad.any():
        raise Corrupt(rows.first(bad).path, f"a file's {name} is missing, negative or absurd")
    return counts


def _text(rows: Rows, files: FoundColumns, id_: int, name: str) -> pa.Array:
    import pyarrow.compute as pc  # late: slow to import, and not needed by a command that opens no manifest

    text = files.required(id_, pa.string(), name)
    if text.null_count or (len(text) and pc.min(pc.binary_length(text)).as_py() == 0):
        bad = pc.equal(pc.binary_length(text), 0).fill_null(True).to_numpy(zero_copy_only=False)
        raise Corrupt(rows.first(bad).path, f"an entry has no {name}")
    return text


def _lower(text: pa.Array) -> pa.Array:
    """File formats in lower case: the spec and Java write them differently (A9)."""
    import pyarrow.compute as pc

    return pc.utf8_lower(text)


def _partition(
    batch: avro.AvroColumns, files: FoundColumns, spec: PartitionSpec, metadata: TableMetadata
) -> tuple[pa.Array, ...]:
    """One array per field of the spec.

    A dropped field, or a field that the writer did not write, is an array of the null type, which means unknown. A null
    among values means that the column is null in that file.
    """
    if not spec.fields:
        return ()
    names = partition_names(spec)
    nodes = member_nodes(batch.schema, names)
    types = spec.partition_type(metadata.any_field_by_id)
    members = files.struct(PARTITION, "partition", names) if PARTITION in files else None
    found = []
    for field, of in zip(spec.fields, types, strict=True):
        array = None if members is None else members.raw(field.field_id)
        node = nodes.get(field.field_id)
        if array is None or node is None or isinstance(field.transform, VoidTransform):
            found.append(pa.nulls(files.rows))
        else:
            found.append(held_partition(files.file, field.name, of.type, array, node))
    return tuple(found)


def _rest(
    rows: Rows, files: FoundColumns, content: npt.NDArray[np.int8], record_count: npt.NDArray[np.int64]
) -> dict[str, pa.Array]:
    """The fields that few readers need, without columns that are all null."""
    found = {column.attribute: files.nullable(column.id, _REST_TYPES[column.attribute]) for column in REST}
    found["first_row_id"] = inherit_first_row_ids(rows, found["first_row_id"], record_count)
    found["split_offsets"] = _ascending(found["split_offsets"])
    found["sort_order_id"] = _without(found["sort_order_id"], content == FileContent.POSITION_DELETES)  # H11
    return {name: column for name, column in found.items() if column.null_count < len(column)}


def _without(column: pa.Array, where: npt.NDArray[np.bool_]) -> pa.Array:
    if not where.any() or column.null_count == len(column):
        return column
    return arrow_array(numbers_of(column, null=0), null=null_mask(column) | where)


def _ascending(offsets: pa.ListArray) -> pa.ListArray:
    """Split offsets. If they do not ascend, they are null, and the file is read as a whole (G9)."""
    if offsets.null_count == len(offsets):
        return offsets
    values = numbers_of(offsets.values, null=-1)
    bounds = numbers_of(offsets.offsets, null=0)
    falls = np.zeros(len(values) + 1, np.int64)
    falls[1:-1] = values[1:] <= values[:-1]
    falls[bounds] = 0  # the first value of a list follows no other
    falls[:-1] |= values < 0
    total = np.append(0, np.cumsum(falls))
    bad = total[bounds[1:]] > total[bounds[:-1]]
    if not bad.any():
        return offsets
    mask = null_mask(offsets) | bad
    return pa.ListArray.from_arrays(offsets.offsets, offsets.values, mask=arrow_array(mask))
