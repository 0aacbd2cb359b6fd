"""Write manifests: entries as Avro bytes, and the row that describes the manifest in a manifest list.

New files are written without sequence numbers and row ids, so that a retry after a conflict rewrites the list and keeps
the manifest (checklist B3, I5). A kept or removed file has its own numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from esker import avro
from esker.errors import InvalidInput
from esker.iceberg.manifests.avro_fields import avro_field, record
from esker.iceberg.manifests.manifest_columns import ENTRY, FILE, METRICS, REST
from esker.iceberg.manifests.partition_values import partition_record, partition_writer, summarise_partitions
from esker.iceberg.metadata.partition_and_sort import encode_partition_fields
from esker.iceberg.metadata.schema import encode_schema
from esker.model.partition_and_sort import PartitionSpec
from esker.model.schema import Schema
from esker.model.types import StructType
from esker.tree.data_file import FileContent, Metrics
from esker.tree.manifest import EntryStatus, ManifestEntry
from esker.tree.manifest_list import ManifestContent, ManifestFile

N = TypeVar("N", int, None)

BLOCK_SIZE = 64 << 20
"""The value that v1 requires in a field that no reader uses any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestForm:
    """What all entries of one manifest have in common (B7)."""

    schema: Schema  # the schema that the files were written with
    spec: PartitionSpec  # of the data files, and of the deletes that apply to them
    partition_type: StructType
    content: ManifestContent = ManifestContent.DATA
    format_version: int = 2

    @classmethod
    def of(
        cls,
        schema: Schema,
        spec: PartitionSpec,
        *,
        content: ManifestContent = ManifestContent.DATA,
        format_version: int = 2,
    ) -> ManifestForm:
        """A form whose partition type follows from the schema."""
        return cls(
            schema=schema,
            spec=spec,
            partition_type=spec.partition_type(schema.by_id),
            content=content,
            format_version=format_version,
        )


def encode_manifest(entries: Iterable[ManifestEntry], form: ManifestForm, *, codec: str = "deflate") -> bytes:
    """The manifest as an Avro container. Raises `InvalidInput` for a delete manifest in format version 1."""
    if form.format_version == 1 and form.content is ManifestContent.DELETES:
        raise InvalidInput("cannot write a delete manifest in format version 1: deletes came with version 2")
    return avro.write(entry_schema(form), _records(entries, form), metadata=manifest_header(form), codec=codec)


def manifest_header(form: ManifestForm) -> Mapping[str, str]:
    """The metadata of the header (T5, A5). The partition spec is the plain array of its fields."""
    header = {
        "schema": _json(encode_schema(form.schema)),
        "schema-id": str(form.schema.schema_id),
        "partition-spec": _json(encode_partition_fields(form.spec)),
        "partition-spec-id": str(form.spec.spec_id),
        "format-version": str(form.format_version),
    }
    if form.format_version > 1:
        header["content"] = "data" if form.content is ManifestContent.DATA else "deletes"
    return header


def entry_schema(form: ManifestForm) -> dict[str, Any]:
    """The Avro schema of the entries."""
    version = form.format_version
    types = {102: partition_record(form.partition_type)}
    members = [avro_field(c, version, types.get(c.id)) for c in (*FILE, *METRICS, *REST) if c.is_written_in(version)]
    data_file = record("r2", members)
    fields = [avro_field(c, version, data_file if c.id == 2 else None) for c in ENTRY if c.is_written_in(version)]
    return record("manifest_entry", fields)


def describe_manifest(
    entries: Sequence[ManifestEntry],
    form: ManifestForm,
    *,
    path: str,
    length: int,
    snapshot_id: int,
    sequence_number: int = 0,
) -> ManifestFile:
    """The row of the manifest list. ``sequence_number`` is the commit's, which added files inherit."""
    numbers = [
        _sequence_number(entry, sequence_number)
        for entry in entries
        if entry.status is not EntryStatus.DELETED  # C2
    ]
    files = {status: [e.data_file for e in entries if e.status is status] for status in EntryStatus}
    return ManifestFile(
        path=path,
        length=length,
        spec_id=form.spec.spec_id,
        content=form.content,
        sequence_number=sequence_number,
        min_sequence_number=min(numbers, default=sequence_number),
        added_snapshot_id=snapshot_id,
        added_files=len(files[EntryStatus.ADDED]),
        existing_files=len(files[EntryStatus.EXISTING]),
        deleted_files=len(files[EntryStatus.DELETED]),
        added_rows=sum(file.record_count for file in files[EntryStatus.ADDED]),
        existing_rows=sum(file.record_count for file in files[EntryStatus.EXISTING]),
        deleted_rows=sum(file.record_count for file in files[EntryStatus.DELETED]),
        partitions=summarise_partitions(form.partition_type, (entry.data_file.partition for entry in entries)),
    )


def _records(entries: Iterable[ManifestEntry], form: ManifestForm) -> Iterator[dict[str, Any]]:
    write_partition = partition_writer(form.partition_type)
    written = [c for c in REST if c.is_written_in(form.format_version)]
    live: set[tuple[str, int | None]] = set()
    for entry in entries:
        file = entry.data_file
        _check(entry, form)
        if entry.status is not EntryStatus.DELETED:
            key = (file.path, file.content_offset)  # several deletion vectors may be in one file
            if key in live:
                raise InvalidInput(f"cannot list {file.path} twice: a live file has one entry")
            live.add(key)
        added = entry.status is EntryStatus.ADDED
        yield {
            "status": int(entry.status),
            "snapshot_id": entry.snapshot_id,
            "sequence_number": _sequence_number(entry, None),
            "file_sequence_number": None if added else file.file_sequence_number,
            "data_file": {
                "content": int(file.content),
                "file_path": file.path,
                "file_format": file.file_format.upper(),  # A9: as Java and PyIceberg write it
                "partition": write_partition(file.partition),
                "record_count": file.record_count,
                "file_size_in_bytes": file.file_size,
                "block_size_in_bytes": BLOCK_SIZE,
                **_metrics(file.metrics),
                **{column.name: _plain(getattr(file, column.attribute)) for column in written},
                **({"first_row_id": None} if added else {}),  # I4: assigned at the commit, inherited by readers
                **({"sort_order_id": None} if file.content is FileContent.POSITION_DELETES else {}),  # H11
            },
        }


def _sequence_number(entry: ManifestEntry, inherited: N) -> int | N:
    """The data sequence number of a file. An added file inherits it, unless a compaction keeps an older one (B2)."""
    if entry.status is not EntryStatus.ADDED:
        return entry.data_file.sequence_number
    return inherited if entry.sequence_number is None else entry.sequence_number


def _check(entry: ManifestEntry, form: ManifestForm) -> None:
    """Raise `InvalidInput` for an entry that readers would read wrongly."""
    file = entry.data_file
    if (file.content is FileContent.DATA) != (form.content is ManifestContent.DATA):
        raise InvalidInput(f"cannot list {file.path}: a manifest has data files or delete files, not both")
    if file.spec_id != form.spec.spec_id:
        raise InvalidInput(
            f"cannot list {file.path}: it is of spec {file.spec_id}, its manifest of {form.spec.spec_id}"
        )
    if entry.snapshot_id is None and (form.format_version == 1 or entry.status is not EntryStatus.ADDED):
        raise InvalidInput(f"cannot list {file.path}: its entry must name a snapshot")


def _metrics(metrics: Metrics | None) -> dict[str, Any]:
    if metrics is None:
        return {}
    found = {column.name: getattr(metrics, column.attribute) for column in METRICS}
    return {name: [{"key": k, "value": v} for k, v in sorted(m.items())] for name, m in found.items() if m}


def _plain(value: Any) -> Any:
    """Tuples as lists. An empty tuple is null."""
    return (list(value) or None) if isinstance(value, tuple) else value


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
