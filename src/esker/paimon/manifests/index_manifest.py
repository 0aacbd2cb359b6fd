"""An index manifest: every index file of a snapshot, among them those of deletion vectors. It is never a change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from esker.paimon.manifests.manifest import Kind
from esker.paimon.manifests.records import Member, avro_record, read_records, write_records
from esker.paimon.rows.deletion_vector import VectorRange

VERSION = 1
VECTORS = "DELETION_VECTORS"
HASH = "HASH"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """An index file of one bucket. ``ranges`` are the vectors in it; None for other kinds of index."""

    partition: bytes
    bucket: int
    index_type: str
    name: str
    size: int
    rows: int
    ranges: tuple[VectorRange, ...] | None = None
    kind: Kind = Kind.ADD
    external_path: str | None = None
    global_index: dict[str, Any] | None = None  # kept as it is


_RANGE = {
    "type": "record",
    "name": "record__DELETIONS_VECTORS_RANGES",
    "fields": [
        {"name": "f0", "type": "string"},
        {"name": "f1", "type": "int"},
        {"name": "f2", "type": "int"},
        {"name": "_CARDINALITY", "type": ["null", "long"], "default": None},
    ],
}
_GLOBAL = {
    "type": "record",
    "name": "record__GLOBAL_INDEX",
    "fields": [
        {"name": "_ROW_RANGE_START", "type": "long"},
        {"name": "_ROW_RANGE_END", "type": "long"},
        {"name": "_INDEX_FIELD_ID", "type": "int"},
        {"name": "_EXTRA_FIELD_IDS", "type": ["null", {"type": "array", "items": "int"}], "default": None},
        {"name": "_INDEX_META", "type": ["null", "bytes"], "default": None},
    ],
}
_RANGE_ARROW = pa.struct([("f0", pa.string()), ("f1", pa.int32()), ("f2", pa.int32()), ("_CARDINALITY", pa.int64())])
_GLOBAL_ARROW = pa.struct(
    [
        ("_ROW_RANGE_START", pa.int64()),
        ("_ROW_RANGE_END", pa.int64()),
        ("_INDEX_FIELD_ID", pa.int32()),
        ("_EXTRA_FIELD_IDS", pa.list_(pa.int32())),
        ("_INDEX_META", pa.binary()),
    ]
)
MEMBERS = (
    Member("_VERSION", "int", pa.int32()),
    Member("_KIND", "int", pa.int32()),
    Member("_PARTITION", "bytes", pa.binary()),
    Member("_BUCKET", "int", pa.int32()),
    Member("_INDEX_TYPE", "string", pa.string()),
    Member("_FILE_NAME", "string", pa.string()),
    Member("_FILE_SIZE", "long", pa.int64()),
    Member("_ROW_COUNT", "long", pa.int64()),
    Member(
        "_DELETIONS_VECTORS_RANGES", {"type": "array", "items": ["null", _RANGE]}, pa.list_(_RANGE_ARROW), optional=True
    ),
    Member("_EXTERNAL_PATH", "string", pa.string(), optional=True),
    Member("_GLOBAL_INDEX", _GLOBAL, _GLOBAL_ARROW, optional=True),
)
SCHEMA = avro_record("record", MEMBERS)


def decode_index_manifest(file: str, data: bytes) -> tuple[IndexEntry, ...]:
    """The index files of a snapshot."""
    return tuple(map(_entry, read_records([(file, data)], MEMBERS, version=VERSION).to_pylist()))


def _entry(row: dict[str, Any]) -> IndexEntry:
    ranges = row["_DELETIONS_VECTORS_RANGES"]
    return IndexEntry(
        kind=Kind(row["_KIND"]),
        partition=row["_PARTITION"],
        bucket=row["_BUCKET"],
        index_type=row["_INDEX_TYPE"],
        name=row["_FILE_NAME"],
        size=row["_FILE_SIZE"],
        rows=row["_ROW_COUNT"],
        ranges=None
        if ranges is None
        else tuple(VectorRange(one["f0"], one["f1"], one["f2"], one["_CARDINALITY"]) for one in ranges if one),
        external_path=row["_EXTERNAL_PATH"],
        global_index=row["_GLOBAL_INDEX"],
    )


def encode_index_manifest(entries: Iterable[IndexEntry]) -> bytes:
    """The content of an index manifest."""
    return write_records(SCHEMA, map(_record, entries))


def _record(entry: IndexEntry) -> dict[str, Any]:
    ranges = entry.ranges
    return {
        "_VERSION": VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": entry.index_type,
        "_FILE_NAME": entry.name,
        "_FILE_SIZE": entry.size,
        "_ROW_COUNT": entry.rows,
        "_DELETIONS_VECTORS_RANGES": None
        if ranges is None
        else [
            {"f0": one.data_file, "f1": one.offset, "f2": one.length, "_CARDINALITY": one.cardinality} for one in ranges
        ],
        "_EXTERNAL_PATH": entry.external_path,
        "_GLOBAL_INDEX": entry.global_index,
    }
