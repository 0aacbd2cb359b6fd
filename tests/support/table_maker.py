"""Whole tables made for tests, with the repository's own encoders and pyarrow: every level as the test wants it.

maker = TableMaker(schema, specs=[by_day])
maker.manifest([maker.data_file(rows, spec=by_day, partition=(19_000,))])
maker.table().scan("x > 5").to_arrow()
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
from held_rows import arrow_table
from row_formats import avro_bytes, orc_table

from esker.iceberg.deletion_vector import deletion_vector_blob
from esker.iceberg.manifests.manifest_list import assign_first_row_ids, encode_manifest_list
from esker.iceberg.manifests.write_manifest import ManifestForm, describe_manifest, encode_manifest
from esker.iceberg.metadata.write_table_metadata import encode_table_metadata
from esker.iceberg.puffin import encode_puffin
from esker.model.partition_and_sort import PartitionSpec, fields_of_all
from esker.model.schema import Schema
from esker.model.types import LONG, STRING, Field
from esker.ports.catalog import TableState
from esker.ports.storage import Storage
from esker.storage.memory import MemoryStorage
from esker.table import Table
from esker.tree.data_file import DataFile, FileContent
from esker.tree.manifest import EntryStatus, ManifestEntry
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.snapshot import RefKind, Snapshot, SnapshotRef
from esker.tree.table_metadata import SnapshotLogEntry, TableMetadata
from esker.wiring import workings_on

POSITION_DELETE_SCHEMA = Schema(
    fields=(
        Field(id=2147483546, name="file_path", type=STRING, required=True),
        Field(id=2147483545, name="pos", type=LONG, required=True),
    )
)
FIRST_SNAPSHOT_ID = 1000
STARTED_MS = 1_700_000_000_000
Row = Mapping[str, Any]


@dataclass
class TableMaker:
    """A table in the making. Manifests gather until ``snapshot`` or ``table`` closes them into a snapshot."""

    schema: Schema
    specs: Sequence[PartitionSpec] = (PartitionSpec(),)
    format_version: int = 2
    location: str = "mem:/t"
    storage: Storage = field(default_factory=MemoryStorage)
    properties: Mapping[str, str] = field(default_factory=dict)
    older_schemas: tuple[Schema, ...] = ()
    manifests: list[ManifestFile] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    next_row_id: int = 0
    _files: int = 0
    _saved: int = 0

    def evolve(self, schema: Schema) -> None:
        """A new current schema, numbered after the last."""
        self.older_schemas = (*self.older_schemas, self.schema)
        self.schema = replace(schema, schema_id=self.schema.schema_id + 1)

    # ------------------------------------------------------------ files

    def data_file(
        self,
        rows: Sequence[Row],
        *,
        schema: Schema | None = None,
        file_format: str = "parquet",
        row_group_size: int = 1 << 20,
        with_statistics: bool = True,
        **facts: Any,
    ) -> DataFile:
        """Rows of held values by column name, written in the format; ``facts`` are the entry's."""
        table = arrow_table(schema or self.schema, rows)
        out = io.BytesIO()
        if file_format == "orc":
            pyarrow.orc.write_table(orc_table(table), out)
        elif file_format == "avro":
            out.write(avro_bytes(schema or self.schema, rows))
        else:
            pq.write_table(
                table, out, row_group_size=row_group_size, write_statistics=with_statistics, store_schema=False
            )
        return self.put(out.getvalue(), file_format, len(rows), **facts)

    def position_deletes(self, pairs: Iterable[tuple[str, int]], **facts: Any) -> DataFile:
        """A position delete file."""
        rows = [{"file_path": path, "pos": pos} for path, pos in sorted(pairs)]
        return self.data_file(rows, schema=POSITION_DELETE_SCHEMA, content=FileContent.POSITION_DELETES, **facts)

    def equality_deletes(self, schema: Schema, rows: Sequence[Row], **facts: Any) -> DataFile:
        """An equality delete file over all columns of ``schema``."""
        ids = facts.pop("equality_ids", None) or tuple(f.id for f in schema)
        return self.data_file(rows, schema=schema, content=FileContent.EQUALITY_DELETES, equality_ids=ids, **facts)

    def vector(self, positions: Iterable[int], target: DataFile, **facts: Any) -> DataFile:
        """A deletion vector for a data file, in a Puffin file of its own."""
        deleted = sorted(set(positions))
        data, footer = encode_puffin([deletion_vector_blob(deleted, data_file=target.path)])
        [blob] = footer.blobs
        return self.put(
            data,
            "puffin",
            len(deleted),
            content=FileContent.POSITION_DELETES,
            content_offset=blob.offset,
            content_size=blob.length,
            referenced_data_file=target.path,
            **{"spec_id": target.spec_id, "partition": target.partition, **facts},
        )

    def put(self, data: bytes, file_format: str, rows: int, **facts: Any) -> DataFile:
        """Any bytes as a file of the table."""
        self._files += 1
        path = facts.pop("path", f"{self.location}/data/{self._files:05}.{file_format}")
        self.storage.write_new(path, data)
        return DataFile(
            **{"path": path, "file_format": file_format, "record_count": rows, "file_size": len(data), **facts}
        )

    # ------------------------------------------------------------ the tree

    def manifest(
        self,
        files: Sequence[DataFile | ManifestEntry],
        *,
        spec: PartitionSpec | None = None,
        status: EntryStatus = EntryStatus.ADDED,
        version: int | None = None,
        sequence_number: int | None = None,
        **changes: Any,
    ) -> ManifestFile:
        """A manifest of these files for the next snapshot; ``changes`` bend its row in the list."""
        version = version or self.format_version
        number = 0 if version == 1 else self._next_number if sequence_number is None else sequence_number
        entries = [self._entry(file, status) for file in files]
        spec = spec or self._spec_of(entries)
        form = ManifestForm(
            schema=self.schema,
            spec=spec,
            partition_type=spec.partition_type(fields_of_all((*self.older_schemas, self.schema))),
            content=_content(entries),
            format_version=version,
        )
        self._files += 1
        path = f"{self.location}/metadata/m-{self._files:05}.avro"
        data = encode_manifest(entries, form)
        self.storage.write_new(path, data)
        row = describe_manifest(
            entries, form, path=path, length=len(data), snapshot_id=self._next_snapshot_id, sequence_number=number
        )
        self.manifests.append(replace(row, **changes))
        return self.manifests[-1]

    def snapshot(self, manifests: Sequence[ManifestFile] | None = None, **facts: Any) -> Snapshot:
        """Close a snapshot over the manifests given, by default all there are."""
        listed = tuple(self.manifests if manifests is None else manifests)
        first_row_id = self.next_row_id if self.format_version >= 3 else None
        if first_row_id is not None:
            listed, self.next_row_id = assign_first_row_ids(listed, first_row_id)
            by_path = {manifest.path: manifest for manifest in listed}
            self.manifests = [by_path.get(manifest.path, manifest) for manifest in self.manifests]
        parent = self.snapshots[-1].snapshot_id if self.snapshots else None
        path = f"{self.location}/metadata/snap-{self._next_snapshot_id}.avro"
        data = encode_manifest_list(
            listed,
            snapshot_id=self._next_snapshot_id,
            parent_snapshot_id=parent,
            sequence_number=self._next_number,
            format_version=self.format_version,
            first_row_id=first_row_id,
        )
        self.storage.write_new(path, data)
        made = Snapshot(
            snapshot_id=self._next_snapshot_id,
            timestamp_ms=STARTED_MS + 1000 * len(self.snapshots),
            parent_snapshot_id=parent,
            sequence_number=self._next_number if self.format_version > 1 else 0,
            manifest_list=path,
            summary={"operation": "append"},
            schema_id=self.schema.schema_id,
            first_row_id=first_row_id,
            added_rows=None if first_row_id is None else self.next_row_id - first_row_id,
        )
        self.snapshots.append(replace(made, **facts))
        return self.snapshots[-1]

    def metadata(self, **changes: Any) -> TableMetadata:
        """The metadata as it is now, the last snapshot current."""
        schemas = (*self.older_schemas, self.schema)
        current = self.snapshots[-1].snapshot_id if self.snapshots else None
        refs = {} if current is None else {"main": SnapshotRef(snapshot_id=current, kind=RefKind.BRANCH)}
        made = TableMetadata(
            format_version=self.format_version,
            uuid="11111111-2222-3333-4444-555555555555",
            location=self.location,
            last_updated_ms=STARTED_MS + 1000 * len(self.snapshots),
            last_column_id=max(schema.highest_id for schema in schemas),
            schemas=schemas,
            current_schema_id=self.schema.schema_id,
            specs=tuple(self.specs),
            default_spec_id=self.specs[-1].spec_id,
            last_partition_id=max((f.field_id for spec in self.specs for f in spec.fields), default=999),
            last_sequence_number=len(self.snapshots) if self.format_version > 1 else 0,
            properties=self.properties,
            current_snapshot_id=current,
            snapshots=tuple(self.snapshots),
            snapshot_log=tuple(
                SnapshotLogEntry(timestamp_ms=s.timestamp_ms, snapshot_id=s.snapshot_id) for s in self.snapshots
            ),
            refs=refs,
            next_row_id=self.next_row_id if self.format_version >= 3 else None,
        )
        return replace(made, **changes)

    def table(self, storage: Storage | None = None, **changes: Any) -> Table:
        """The table, ready to be read; what is gathered becomes a snapshot. ``changes`` bend the metadata."""
        if self.manifests and not self.snapshots:
            self.snapshot()
        state = TableState(metadata=self.metadata(**changes), metadata_location=f"{self.location}/metadata/v1.json")
        return Table(name="made", state=state, workings=workings_on(storage or self.storage), reload=lambda: state)

    def save(self, **changes: Any) -> str:
        """Write the metadata file, so that the table opens by its directory; gives its location."""
        if self.manifests and not self.snapshots:
            self.snapshot()
        self._saved += 1
        path = f"{self.location}/metadata/v{self._saved}.metadata.json"
        self.storage.write_new(path, encode_table_metadata(self.metadata(**changes)))
        return path

    # ------------------------------------------------------------ what follows from the rest

    @property
    def _next_snapshot_id(self) -> int:
        return FIRST_SNAPSHOT_ID + len(self.snapshots)

    @property
    def _next_number(self) -> int:
        return len(self.snapshots) + 1

    def _entry(self, file: DataFile | ManifestEntry, status: EntryStatus) -> ManifestEntry:
        if isinstance(file, ManifestEntry):
            return file
        return ManifestEntry(data_file=file, status=status, snapshot_id=self._next_snapshot_id)

    def _spec_of(self, entries: Sequence[ManifestEntry]) -> PartitionSpec:
        chosen = entries[0].data_file.spec_id if entries else self.specs[-1].spec_id
        return next(spec for spec in self.specs if spec.spec_id == chosen)


def _content(entries: Sequence[ManifestEntry]) -> ManifestContent:
    if entries and entries[0].data_file.content is not FileContent.DATA:
        return ManifestContent.DELETES
    return ManifestContent.DATA


def bounded(pairs: Mapping[int, tuple[bytes | None, bytes | None]]) -> tuple[dict[int, bytes], dict[int, bytes]]:
    """Lower and upper bounds as a manifest holds them: missing ones left out."""
    lower = {id_: low for id_, (low, _) in pairs.items() if low is not None}
    upper = {id_: high for id_, (_, high) in pairs.items() if high is not None}
    return lower, upper


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """An answer as Python rows, for tests whose values Python can hold."""
    return table.to_pylist()
