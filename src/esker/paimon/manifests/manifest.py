"""A manifest: files that commits added and deleted. A DELETE cancels the ADD of the same file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import pyarrow as pa

from esker.paimon.manifests.manifest_list import NO_STATS, VERSION, SimpleStats
from esker.paimon.manifests.records import STATS, Member, avro_record, read_records, stats_record, write_records
from esker.paimon.rows.binary_row import NO_FIELDS


class Kind(IntEnum):
    """What a commit did with a file."""

    ADD = 0
    DELETE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMeta:
    """A data file. ``level`` and the key range are of primary-key tables."""

    name: str
    size: int
    rows: int  # including deletes
    min_key: bytes = NO_FIELDS
    max_key: bytes = NO_FIELDS
    key_stats: SimpleStats = NO_STATS
    value_stats: SimpleStats = NO_STATS
    min_sequence: int = 0
    max_sequence: int = 0
    schema_id: int = 0
    level: int = 0
    extra_files: tuple[str, ...] = ()
    creation_ms: int | None = None  # the writer's local time as if it were UTC
    delete_rows: int | None = None
    embedded_index: bytes | None = None
    source: int | None = None  # 0 append, 1 compact
    value_stats_columns: tuple[str, ...] | None = None  # None: all columns
    external_path: str | None = None
    first_row_id: int | None = None
    write_columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A file that was added or deleted, with its place: ``partition`` is a binary row."""

    kind: Kind
    partition: bytes
    bucket: int
    total_buckets: int
    file: FileMeta

    @property
    def identity(self) -> tuple[Any, ...]:
        """What makes two entries speak of the same file. The level is a part of it: a compaction may move a file to
        another level, which is a DELETE and an ADD of one name."""
        file = self.file
        return (
            self.partition, self.bucket, file.level, file.name,
            file.extra_files, file.embedded_index, file.external_path,
        )  # fmt: skip


_NAMES = pa.list_(pa.string())
_NAMES_AVRO = {"type": "array", "items": "string"}
_MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MEMBERS = (
    Member("_VERSION", "int", pa.int32()),
    Member("_KIND", "int", pa.int32()),
    Member("_PARTITION", "bytes", pa.binary()),
    Member("_BUCKET", "int", pa.int32()),
    Member("_TOTAL_BUCKETS", "int", pa.int32()),
    Member("_FILE._FILE_NAME", "string", pa.string()),
    Member("_FILE._FILE_SIZE", "long", pa.int64()),
    Member("_FILE._ROW_COUNT", "long", pa.int64()),
    Member("_FILE._MIN_KEY", "bytes", pa.binary()),
    Member("_FILE._MAX_KEY", "bytes", pa.binary()),
    Member("_FILE._KEY_STATS", stats_record("record__FILE__KEY_STATS"), STATS),
    Member("_FILE._VALUE_STATS", stats_record("record__FILE__VALUE_STATS"), STATS),
    Member("_FILE._MIN_SEQUENCE_NUMBER", "long", pa.int64()),
    Member("_FILE._MAX_SEQUENCE_NUMBER", "long", pa.int64()),
    Member("_FILE._SCHEMA_ID", "long", pa.int64()),
    Member("_FILE._LEVEL", "int", pa.int32()),
    Member("_FILE._EXTRA_FILES", _NAMES_AVRO, _NAMES),
    Member("_FILE._CREATION_TIME", _MILLIS, pa.int64(), optional=True),
    Member("_FILE._DELETE_ROW_COUNT", "long", pa.int64(), optional=True),
    Member("_FILE._EMBEDDED_FILE_INDEX", "bytes", pa.binary(), optional=True),
    Member("_FILE._FILE_SOURCE", "int", pa.int32(), optional=True),
    Member("_FILE._VALUE_STATS_COLS", _NAMES_AVRO, _NAMES, optional=True),
    Member("_FILE._EXTERNAL_PATH", "string", pa.string(), optional=True),
    Member("_FILE._FIRST_ROW_ID", "long", pa.int64(), optional=True),
    Member("_FILE._WRITE_COLS", _NAMES_AVRO, _NAMES, optional=True),
)
_ATTRIBUTES = (
    "name", "size", "rows", "min_key", "max_key", "key_stats", "value_stats", "min_sequence", "max_sequence",
    "schema_id", "level", "extra_files", "creation_ms", "delete_rows", "embedded_index", "source",
    "value_stats_columns", "external_path", "first_row_id", "write_columns",
)  # fmt: skip
_FILE_PATHS = tuple(member.path for member in MEMBERS if "." in member.path)
_ATTRIBUTE_OF = dict(zip(_FILE_PATHS, _ATTRIBUTES, strict=True))
SCHEMA = avro_record("record", MEMBERS)
IDENTITY = frozenset(
    ("_KIND", "_PARTITION", "_BUCKET", "_FILE._FILE_NAME", "_FILE._LEVEL", "_FILE._EXTRA_FILES",
     "_FILE._EMBEDDED_FILE_INDEX", "_FILE._EXTERNAL_PATH")
)  # fmt: skip
"""The columns that ``live_entries`` needs."""


def read_manifests(files: Sequence[tuple[str, bytes]], only: frozenset[str] | None = None) -> pa.Table:
    """The entries of many manifests, in order, as columns named by the paths in ``MEMBERS``; ``file`` is the number of
    the manifest. ``only`` are the columns to decode."""
    return read_records(files, MEMBERS, version=VERSION, only=only)


def entries_of(table: pa.Table) -> Iterator[FileEntry]:
    """The rows of ``read_manifests`` with all columns as objects."""
    for row in table.to_pylist():
        facts = {_ATTRIBUTE_OF[path]: row[path] for path in _FILE_PATHS}
        for name in ("key_stats", "value_stats"):
            facts[name] = SimpleStats.of(facts[name])
        for name in ("extra_files", "value_stats_columns", "write_columns"):
            facts[name] = None if facts[name] is None else tuple(facts[name])
        yield FileEntry(
            kind=Kind(row["_KIND"]),
            partition=row["_PARTITION"],
            bucket=row["_BUCKET"],
            total_buckets=row["_TOTAL_BUCKETS"],
            file=FileMeta(**facts),
        )


def encode_manifest(entries: Iterable[FileEntry]) -> bytes:
    """The content of a manifest."""
    return write_records(SCHEMA, map(_record, entries))


def _record(entry: FileEntry) -> dict[str, Any]:
    file: dict[str, Any] = {path.rpartition(".")[2]: getattr(entry.file, name) for path, name in _ATTRIBUTE_OF.items()}
    file["_KEY_STATS"] = entry.file.key_stats.record()
    file["_VALUE_STATS"] = entry.file.value_stats.record()
    for name in ("_EXTRA_FILES", "_VALUE_STATS_COLS", "_WRITE_COLS"):
        file[name] = None if file[name] is None else list(file[name])
    return {
        "_VERSION": VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": file,
    }
