"""Small tables in memory for tests of the Arrow engine: files written by pyarrow and fastavro, no manifests."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq

from esker.arrow.arrow_engine import ArrowEngine
from esker.arrow.arrow_types import FIELD_ID, to_arrow_schema
from esker.iceberg.deletion_vector import encode_deletion_vector
from esker.model.partition_and_sort import PartitionSpec
from esker.model.predicates.predicate import TRUE, Bound
from esker.model.schema import MappedField, Schema
from esker.model.types import LONG, STRING, Field, Type
from esker.ports.engine import ReadRequest, ScanTask
from esker.storage.memory import MemoryStorage
from esker.tree.data_file import DataFile, FileContent
from esker.tree.table_metadata import TableMetadata

POSITION_DELETE_SCHEMA = Schema(
    fields=(
        Field(id=2147483546, name="file_path", type=STRING),
        Field(id=2147483545, name="pos", type=LONG),
    )
)


def column(id_: int, name: str, type_: Type, **more: Any) -> Field:
    """A field, shortly."""
    return Field(id=id_, name=name, type=type_, **more)


def schema(*fields: Field) -> Schema:
    """A schema, shortly."""
    return Schema(fields=fields)


def metadata(*schemas: Schema, specs: Sequence[PartitionSpec] = (PartitionSpec(),), **more: Any) -> TableMetadata:
    """A table whose current schema is the last one given."""
    numbered = tuple(Schema(fields=s.fields, schema_id=at) for at, s in enumerate(schemas))
    return TableMetadata(
        format_version=3,
        uuid=None,
        location="mem:/t",
        last_updated_ms=0,
        last_column_id=max(s.highest_id for s in numbered),
        schemas=numbered,
        current_schema_id=len(numbered) - 1,
        specs=tuple(specs),
        **more,
    )


def with_id_key(table_schema: pa.Schema, key: bytes | None) -> pa.Schema:
    """The Arrow schema with field ids under another key, or with none, at every depth."""
    return pa.schema([_rekeyed(f, key) for f in table_schema])


def _rekeyed(f: pa.Field, key: bytes | None) -> pa.Field:
    type_ = f.type
    if pa.types.is_struct(type_):
        type_ = pa.struct([_rekeyed(type_.field(at), key) for at in range(type_.num_fields)])
    elif pa.types.is_map(type_):
        type_ = pa.map_(_rekeyed(type_.key_field, key), _rekeyed(type_.item_field, key))
    elif pa.types.is_list(type_):
        type_ = pa.list_(_rekeyed(type_.value_field, key))
    elif type_ == pa.uuid():
        type_ = pa.binary(16)  # what pyarrow can build from Python values, and ORC can hold
    id_ = (f.metadata or {}).get(FIELD_ID)
    return pa.field(f.name, type_, f.nullable, metadata=None if key is None or id_ is None else {key: id_})


@dataclass
class Files:
    """Files of a table, numbered as they are written."""

    storage: MemoryStorage = field(default_factory=MemoryStorage)
    written: int = 0

    def parquet(self, table: pa.Table, *, row_group_size: int = 1 << 20, **facts: Any) -> DataFile:
        """A Parquet file of just these columns, ids as the Arrow fields have them."""
        out = io.BytesIO()
        pq.write_table(table, out, row_group_size=row_group_size, store_schema=False)
        return self.put(out.getvalue(), "parquet", table.num_rows, **facts)

    def orc(self, table: pa.Table, *, stripe_size: int = 64 << 20, **facts: Any) -> DataFile:
        """An ORC file, ids as attributes."""
        out = io.BytesIO()
        pyarrow.orc.write_table(table, out, stripe_size=stripe_size)
        return self.put(out.getvalue(), "orc", table.num_rows, **facts)

    def avro(self, avro_schema: Any, records: Sequence[Any], **facts: Any) -> DataFile:
        """An Avro file."""
        out = io.BytesIO()
        fastavro.writer(out, fastavro.parse_schema(avro_schema), records)
        return self.put(out.getvalue(), "avro", len(records), **facts)

    def rows(self, of: Schema, rows: Sequence[dict[str, Any]], *, format: str = "parquet", **facts: Any) -> DataFile:
        """Rows of a schema as a Parquet or ORC file."""
        key = b"iceberg.id" if format == "orc" else FIELD_ID
        table = pa.Table.from_pylist(list(rows), schema=with_id_key(to_arrow_schema(of), key))
        return self.orc(table, **facts) if format == "orc" else self.parquet(table, **facts)

    def position_deletes(self, pairs: Iterable[tuple[str | None, int | None]], *, format: str = "parquet") -> DataFile:
        """A position delete file."""
        rows = [{"file_path": path, "pos": pos} for path, pos in pairs]
        return self.rows(POSITION_DELETE_SCHEMA, rows, format=format, content=FileContent.POSITION_DELETES)

    def equality_deletes(
        self, of: Schema, rows: Sequence[dict[str, Any]], *ids: int, format: str = "parquet"
    ) -> DataFile:
        """An equality delete file comparing the columns of these ids, or all it has."""
        ids = ids or tuple(f.id for f in of)
        return self.rows(of, rows, format=format, content=FileContent.EQUALITY_DELETES, equality_ids=ids)

    def vector(self, positions: Iterable[int], data_file: str) -> DataFile:
        """A deletion vector, in a file with something before and after it."""
        deleted = sorted(set(positions))
        blob = encode_deletion_vector(deleted)
        return self.put(
            b"PFA1" + blob + b"footer",
            "puffin",
            len(deleted),
            content=FileContent.POSITION_DELETES,
            content_offset=4,
            content_size=len(blob),
            referenced_data_file=data_file,
        )

    def put(self, data: bytes, format: str, rows: int, **facts: Any) -> DataFile:
        """Any bytes as a file."""
        self.written += 1
        path = facts.pop("path", f"mem:/t/data/{self.written:05}.{format}")
        self.storage.write_new(path, data)
        return DataFile(path=path, file_format=format, record_count=rows, file_size=len(data), **facts)


def no_mapping(text: str) -> tuple[MappedField, ...]:
    """A parser for tables that have no mapping."""
    raise AssertionError("nobody asked for a name mapping")


def batches(
    files: Files,
    of: TableMetadata,
    tasks: Iterable[ScanTask],
    *,
    projection: Schema | None = None,
    limit: int | None = None,
    mapping: tuple[MappedField, ...] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The batches of a read; ``mapping`` stands for the table's name mapping."""
    parse = no_mapping if mapping is None else lambda _: mapping
    if mapping is not None:
        of = metadata(*of.schemas, specs=of.specs, properties={"schema.name-mapping.default": "…"})
    engine = ArrowEngine(files.storage, parse_name_mapping=parse)
    wanted = of.schema if projection is None else projection
    return engine.read(ReadRequest(metadata=of, tasks=tasks, row_schema=of.schema, projection=wanted, limit=limit))


def read(files: Files, of: TableMetadata, *tasks: ScanTask, projection: Schema | None = None, **more: Any) -> pa.Table:
    """All rows of a read as a table."""
    wanted = of.schema if projection is None else projection
    return pa.Table.from_batches(batches(files, of, tasks, projection=wanted, **more), schema=to_arrow_schema(wanted))


def task(data_file: DataFile, *deletes: DataFile, where: Bound = TRUE) -> ScanTask:
    """A data file to read."""
    return ScanTask(data_file=data_file, deletes=deletes, residual=where)
