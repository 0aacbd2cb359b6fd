"""Small Paimon tables, written file by file, so that a test decides about every part."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from esker.paimon.manifests.manifest import FileEntry, FileMeta, Kind, encode_manifest
from esker.paimon.manifests.manifest_list import ManifestMeta, SimpleStats, encode_manifest_list
from esker.paimon.metadata.snapshot import BATCH, PaimonSnapshot, encode_snapshot
from esker.paimon.metadata.table_schema import TableSchema, encode_schema
from esker.paimon.metadata.types import DataField, decode_type
from esker.paimon.rows.binary_row import NO_FIELDS, encode_row


def schema(
    columns: dict[str, Any], *, id_: int = 0, keys: Sequence[str] = (), ids: Sequence[int] = (), **options: str
) -> TableSchema:
    """A schema of columns with Paimon's types. Options have ``__`` for a dot and ``_`` for a dash."""
    numbers = ids or range(len(columns))
    fields = tuple(
        DataField(id=number, name=name, type=decode_type(type_))
        for number, (name, type_) in zip(numbers, columns.items(), strict=True)
    )
    return TableSchema(
        id=id_,
        fields=fields,
        highest_field_id=max(numbers),
        primary_keys=tuple(keys),
        options={name.replace("__", ".").replace("_", "-"): value for name, value in options.items()},
    )


@dataclass
class PaimonTable:
    """A table that grows by one snapshot for each ``commit``."""

    path: Path
    schema: TableSchema
    branch: str = "main"
    snapshots: int = 0
    listed: list[ManifestMeta] = field(default_factory=list)
    written: int = 0

    def __post_init__(self) -> None:
        self.define(self.schema)

    @property
    def own(self) -> Path:
        """The folder of the branch's schemas and snapshots."""
        return self.path if self.branch == "main" else self.path / "branch" / f"branch-{self.branch}"

    def define(self, new: TableSchema) -> None:
        """Write a schema, which is the newest from now on."""
        self.schema = new
        self._write(self.own / "schema" / f"schema-{new.id}", encode_schema(new))

    def file(self, rows: pa.Table, *, level: int = 0, bucket: int = 0, file_format: str = "parquet") -> FileEntry:
        """Write a data file of an unpartitioned table and describe it, without statistics of values."""
        self.written += 1
        name = f"data-{self.branch}-{self.written}.{file_format}"
        data = encoded(rows, file_format)
        folder = "bucket-postpone" if bucket == -2 else f"bucket-{bucket}"
        self._write(self.path / folder / name, data)
        types = [column.type for column in self.schema.key_fields]
        keys = sorted(zip(*(rows[column.name].to_pylist() for column in self.schema.key_fields), strict=True))
        numbers = rows["_SEQUENCE_NUMBER"].to_pylist() if "_SEQUENCE_NUMBER" in rows.column_names else [0]
        meta = FileMeta(
            name=name,
            size=len(data),
            rows=rows.num_rows,
            min_key=encode_row(types, keys[0]) if keys else NO_FIELDS,
            max_key=encode_row(types, keys[-1]) if keys else NO_FIELDS,
            min_sequence=min(numbers),
            max_sequence=max(numbers),
            schema_id=self.schema.id,
            level=level,
            value_stats_columns=(),
        )
        return FileEntry(kind=Kind.ADD, partition=NO_FIELDS, bucket=bucket, total_buckets=1, file=meta)

    def commit(self, *entries: FileEntry, kind: str = "APPEND", index: str | None = None) -> PaimonSnapshot:
        """Publish a snapshot with these changes."""
        self.snapshots += 1
        end = f"{self.branch}-{self.snapshots}"
        data = encode_manifest(entries)
        self._write(self.path / "manifest" / f"manifest-{end}", data)
        added = sum(entry.kind is Kind.ADD for entry in entries)
        new = ManifestMeta(
            name=f"manifest-{end}",
            size=len(data),
            added_files=added,
            deleted_files=len(entries) - added,
            partition_stats=SimpleStats(null_counts=()),
            schema_id=self.schema.id,
        )
        self._write(self.path / "manifest" / f"list-{end}-0", encode_manifest_list(self.listed))
        self._write(self.path / "manifest" / f"list-{end}-1", encode_manifest_list([new]))
        self.listed.append(new)
        made = PaimonSnapshot(
            id=self.snapshots,
            schema_id=self.schema.id,
            base_manifest_list=f"list-{end}-0",
            delta_manifest_list=f"list-{end}-1",
            commit_user="test",
            commit_identifier=BATCH,
            commit_kind=kind,
            time_millis=1_700_000_000_000 + self.snapshots,
            index_manifest=index,
            delta_record_count=sum(
                entry.file.rows if entry.kind is Kind.ADD else -entry.file.rows for entry in entries
            ),
        )
        self._write(self.own / "snapshot" / f"snapshot-{made.id}", encode_snapshot(made))
        return made

    def append(self, rows: pa.Table, **how: Any) -> PaimonSnapshot:
        """A file and its commit."""
        return self.commit(self.file(rows, **how))

    def fork(self, branch: str) -> PaimonTable:
        """A branch from the newest snapshot."""
        new = PaimonTable(self.path, self.schema, branch, self.snapshots, list(self.listed), self.written)
        last = self.own / "snapshot" / f"snapshot-{self.snapshots}"
        new._write(new.own / "snapshot" / last.name, last.read_bytes())
        return new

    @staticmethod
    def _write(path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def encoded(rows: pa.Table, file_format: str) -> bytes:
    """A data file of these rows."""
    out = io.BytesIO()
    match file_format:
        case "parquet":
            pq.write_table(rows, out)
        case "orc":
            orc.write_table(rows, out)
        case _:
            _write_avro(rows, out)
    return out.getvalue()


_AVRO = {pa.int64(): "long", pa.int32(): "int", pa.int8(): "int", pa.string(): "string", pa.float64(): "double"}


def _write_avro(rows: pa.Table, out: io.BytesIO) -> None:
    import fastavro

    fields = [{"name": f.name, "type": ["null", _AVRO[f.type]], "default": None} for f in rows.schema]
    parsed = fastavro.parse_schema({"type": "record", "name": "record", "fields": fields})
    fastavro.writer(out, parsed, rows.to_pylist())


def versions(key: Sequence[int], sequence: int, kind: int | Sequence[int] = 0, **columns: Sequence[Any]) -> pa.Table:
    """Rows of a table with the key ``k``, as its files have them."""
    kinds = [kind] * len(key) if isinstance(kind, int) else list(kind)
    return pa.table(
        {
            "_KEY_k": pa.array(key, pa.int64()),
            "_SEQUENCE_NUMBER": pa.array(range(sequence, sequence + len(key)), pa.int64()),
            "_VALUE_KIND": pa.array(kinds, pa.int8()),
            "k": pa.array(key, pa.int64()),
            **{name: pa.array(values) for name, values in columns.items()},
        }
    )
