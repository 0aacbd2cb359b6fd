"""Small tables to write to in memory, and strategies for their values."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import arrow_tables
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from esker.arrow.write.arrow_writer import ArrowWriter, Limits
from esker.model.partition_and_sort import PartitionField, PartitionSpec, SortField, SortOrder
from esker.model.schema import Schema
from esker.model.transform import Transform
from esker.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UUID,
    DecimalType,
    Field,
    FixedType,
    Type,
)
from esker.ports.engine import WriteRequest
from esker.ports.storage import Storage
from esker.storage.memory import MemoryStorage
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata

PRIMITIVES: tuple[Type, ...] = (
    BOOLEAN,
    INT,
    LONG,
    FLOAT,
    DOUBLE,
    DATE,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    TIMESTAMP_NS,
    TIMESTAMPTZ_NS,
    STRING,
    UUID,
    BINARY,
    FixedType(5),
    DecimalType(9, 2),
    DecimalType(18, 0),
    DecimalType(38, 10),
)


def held_values(type_: Type) -> st.SearchStrategy[Any]:
    """Held values of a type, its extremes among them."""
    long = st.integers(-(2**63), 2**63 - 1)
    text = st.text(st.characters(codec="utf-8"), max_size=24)
    match str(type_).partition("[")[0].partition("(")[0]:
        case "boolean":
            return st.booleans()
        case "int" | "date":
            return st.integers(-(2**31), 2**31 - 1)
        case "long" | "timestamp" | "timestamptz" | "timestamp_ns" | "timestamptz_ns":
            return long
        case "time":
            return st.integers(0, 86_400_000_000 - 1)
        case "float":
            return st.floats(width=32)
        case "double":
            return st.floats()
        case "string":
            return text | st.sampled_from(["", "a" * 15 + "\ud7ff" + "z", "\U0010ffff" * 17, "a" * 40])
        case "uuid":
            return st.binary(min_size=16, max_size=16)
        case "fixed":
            return st.binary(min_size=5, max_size=5)
        case "binary":
            return st.binary(max_size=24) | st.just(b"\xff" * 17)
        case "decimal":
            digits = 10**type_.precision - 1  # type: ignore[union-attr]
            scale = type_.scale  # type: ignore[union-attr]
            return st.integers(-digits, digits).map(lambda n: Decimal((n < 0, tuple(map(int, str(abs(n)))), -scale)))
    raise AssertionError(type_)


def table_of(
    *fields: Field,
    partition: Sequence[tuple[int, Transform]] = (),
    sort: Sequence[SortField] = (),
    properties: Mapping[str, str] | None = None,
    location: str = "mem:/t",
) -> TableMetadata:
    """A table of these columns; ``partition`` pairs source ids with transforms."""
    names = {field.id: field.name for field in fields}
    spec = PartitionSpec(
        fields=tuple(
            PartitionField(source_id=id_, field_id=1000 + at, name=f"{names.get(id_, id_)}_{at}", transform=transform)
            for at, (id_, transform) in enumerate(partition)
        )
    )
    metadata = arrow_tables.metadata(Schema(fields=fields), specs=(spec,), properties=properties or {})
    if sort:
        metadata = replace(metadata, sort_orders=(SortOrder(order_id=7, fields=tuple(sort)),), default_sort_order_id=7)
    return replace(metadata, location=location)


@dataclass(frozen=True)
class Written:
    """What a write left behind."""

    metadata: TableMetadata
    storage: Storage
    files: tuple[DataFile, ...]

    def parquet(self, at: int = 0) -> pq.ParquetFile:
        """One of the files, opened with pyarrow."""
        return pq.ParquetFile(io.BytesIO(self.storage.read(self.files[at].path)))

    def rows(self) -> list[dict[str, Any]]:
        """All rows, file after file, as Python has them."""
        return [row for at in range(len(self.files)) for row in self.parquet(at).read().to_pylist()]


def write(
    metadata: TableMetadata,
    data: object,
    *,
    storage: Storage | None = None,
    limits: Limits | None = None,
    fitted: bool = False,
) -> Written:
    """Fit the data, unless it is, and write it."""
    storage = storage or MemoryStorage()
    writer = ArrowWriter(storage, limits=limits)
    reader = data if fitted else writer.fit(metadata, metadata.schema, data)
    assert isinstance(reader, pa.RecordBatchReader)
    request = WriteRequest(metadata=metadata, schema=metadata.schema, data=reader, operation_id="op")
    return Written(metadata, storage, tuple(writer.write(request)))


def stored(storage: Storage, prefix: str = "mem:/t") -> list[str]:
    """Everything that lies in the table."""
    return [file.location for file in storage.list(prefix)]
