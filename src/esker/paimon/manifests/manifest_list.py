"""A manifest list: which manifests a snapshot has, and the partitions in each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from esker.paimon.manifests.records import STATS, Member, avro_record, read_records, stats_record, write_records
from esker.paimon.rows.binary_row import NO_FIELDS

VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleStats:
    """Minimum, maximum and null counts of some columns. The bounds are binary rows."""

    min_values: bytes = NO_FIELDS
    max_values: bytes = NO_FIELDS
    null_counts: tuple[int | None, ...] | None = ()

    def record(self) -> dict[str, Any]:
        """The Avro record."""
        counts = None if self.null_counts is None else list(self.null_counts)
        return {"_MIN_VALUES": self.min_values, "_MAX_VALUES": self.max_values, "_NULL_COUNTS": counts}

    @staticmethod
    def of(record: dict[str, Any]) -> SimpleStats:
        """The statistics of an Avro record."""
        counts = record["_NULL_COUNTS"]
        return SimpleStats(
            min_values=record["_MIN_VALUES"],
            max_values=record["_MAX_VALUES"],
            null_counts=None if counts is None else tuple(counts),
        )


NO_STATS = SimpleStats()


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestMeta:
    """One manifest in a list."""

    name: str
    size: int
    added_files: int
    deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None


MEMBERS = (
    Member("_VERSION", "int", pa.int32()),
    Member("_FILE_NAME", "string", pa.string()),
    Member("_FILE_SIZE", "long", pa.int64()),
    Member("_NUM_ADDED_FILES", "long", pa.int64()),
    Member("_NUM_DELETED_FILES", "long", pa.int64()),
    Member("_PARTITION_STATS", stats_record("record_PARTITION_STATS"), STATS),
    Member("_SCHEMA_ID", "long", pa.int64()),
    Member("_MIN_BUCKET", "int", pa.int32(), optional=True),
    Member("_MAX_BUCKET", "int", pa.int32(), optional=True),
    Member("_MIN_LEVEL", "int", pa.int32(), optional=True),
    Member("_MAX_LEVEL", "int", pa.int32(), optional=True),
    Member("_MIN_ROW_ID", "long", pa.int64(), optional=True),
    Member("_MAX_ROW_ID", "long", pa.int64(), optional=True),
)
_ATTRIBUTES = (
    "name", "size", "added_files", "deleted_files", "partition_stats", "schema_id",
    "min_bucket", "max_bucket", "min_level", "max_level", "min_row_id", "max_row_id",
)  # fmt: skip
SCHEMA = avro_record("record", MEMBERS)


def decode_manifest_list(files: Sequence[tuple[str, bytes]]) -> tuple[ManifestMeta, ...]:
    """The manifests of some lists, in order. Give the base list before the delta list."""
    return tuple(map(_meta, read_records(files, MEMBERS, version=VERSION).to_pylist()))


def _meta(row: dict[str, Any]) -> ManifestMeta:
    facts: dict[str, Any] = dict(zip(_ATTRIBUTES, row.values(), strict=False))  # the last is the number of the file
    return ManifestMeta(**{**facts, "partition_stats": SimpleStats.of(facts["partition_stats"])})


def encode_manifest_list(manifests: Iterable[ManifestMeta]) -> bytes:
    """The content of a manifest list."""
    names = [member.path for member in MEMBERS[1:]]
    return write_records(
        SCHEMA,
        (
            {
                "_VERSION": VERSION,
                **{name: getattr(meta, attribute) for name, attribute in zip(names, _ATTRIBUTES, strict=True)},
                "_PARTITION_STATS": meta.partition_stats.record(),
            }
            for meta in manifests
        ),
    )
