"""The metadata tables of a Paimon table, with the names of the fields in Paimon's files."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from esker.errors import InvalidInput, NoSuchSnapshot
from esker.paimon.directories import Places
from esker.paimon.format import PaimonFormat
from esker.paimon.metadata.snapshot import PaimonSnapshot
from esker.paimon.metadata.types import DataField, encode_type
from esker.paimon.read_table import definition_of
from esker.paimon.rows.binary_row import BinaryRows
from esker.tree.snapshot import RefKind, Snapshot
from esker.tree.table_metadata import TableMetadata

Columns = Collection[str] | None
_KINDS = pa.array(["ADD", "DELETE"])
_TIME = pa.timestamp("ms", tz="UTC")
_PLAIN = (  # column, member of the manifest
    ("totalBuckets", "_TOTAL_BUCKETS"),
    ("fileName", "_FILE._FILE_NAME"),
    ("fileSize", "_FILE._FILE_SIZE"),
    ("rowCount", "_FILE._ROW_COUNT"),
    ("minSequenceNumber", "_FILE._MIN_SEQUENCE_NUMBER"),
    ("maxSequenceNumber", "_FILE._MAX_SEQUENCE_NUMBER"),
    ("schemaId", "_FILE._SCHEMA_ID"),
    ("level", "_FILE._LEVEL"),
    ("extraFiles", "_FILE._EXTRA_FILES"),
    ("deleteRowCount", "_FILE._DELETE_ROW_COUNT"),
    ("embeddedIndex", "_FILE._EMBEDDED_FILE_INDEX"),
    ("fileSource", "_FILE._FILE_SOURCE"),
    ("keyStats", "_FILE._KEY_STATS"),
    ("valueStats", "_FILE._VALUE_STATS"),
    ("valueStatsCols", "_FILE._VALUE_STATS_COLS"),
    ("externalPath", "_FILE._EXTERNAL_PATH"),
    ("firstRowId", "_FILE._FIRST_ROW_ID"),
    ("writeCols", "_FILE._WRITE_COLS"),
)


class PaimonInspect:
    """The metadata tables as pyarrow tables. A method with ``snapshot_id`` shows that snapshot, by default the current
    one. Raises ``NoSuchSnapshot`` for an unknown snapshot.

        table.inspect.files(columns=["fileName", "level", "deleteRowCount"])
    """

    snapshot_tables: ClassVar[frozenset[str]] = frozenset(("manifests", "files", "entries", "partitions"))
    tables: ClassVar[frozenset[str]] = snapshot_tables | {"snapshots", "schemas", "tags", "branches", "options"}

    def __init__(self, metadata: TableMetadata, table_format: PaimonFormat) -> None:
        self._metadata = metadata
        self._format = table_format
        self._definition = definition_of(metadata)

    def snapshots(self) -> pa.Table:
        """Every snapshot that has not expired, of all branches."""
        given = [(one, self._format.state(one)) for one in self._metadata.snapshots]
        return pa.table(
            {
                "snapshotId": pa.array([one.snapshot_id for one, _ in given], pa.int64()),
                "branch": pa.array([one.summary.get("branch", "main") for one, _ in given], pa.string()),
                **{name: pa.array([getattr(found, key) for _, found in given], type_) for name, key, type_ in _FACTS},
            }
        )

    def manifests(self, snapshot_id: int | None = None) -> pa.Table:
        """The manifests of the snapshot's base and delta lists, and those of its changelog."""
        found = self._state(snapshot_id)
        lists = () if found is None else (*found[1].manifest_lists, found[1].changelog_manifest_list)
        kinds = ("base", "delta", "changelog")
        metas = [
            (kind, meta)
            for kind, name in zip(kinds, lists, strict=False)
            if name is not None
            for meta in self._format.listed(self._definition, [name])
        ]
        lows, highs = ([getattr(m.partition_stats, key) for _, m in metas] for key in ("min_values", "max_values"))
        partitions = self._definition.latest.partition_fields
        columns = {
            "list": pa.array([kind for kind, _ in metas], pa.string()),
            **{
                name: pa.array([getattr(meta, key) for _, meta in metas], type_) for name, key, type_ in _MANIFEST_FACTS
            },
            "minPartition": _struct(pa.array(lows, pa.binary()), partitions),
            "maxPartition": _struct(pa.array(highs, pa.binary()), partitions),
            "partitionNullCounts": pa.array(
                [meta.partition_stats.null_counts for _, meta in metas], pa.list_(pa.int64())
            ),
        }
        return pa.table(columns)

    def files(self, snapshot_id: int | None = None, *, columns: Columns = None) -> pa.Table:
        """The live files of the snapshot. Raises ``InvalidInput`` for an unknown column."""
        return _chosen(self._entries(snapshot_id, live=True), columns)

    def entries(self, snapshot_id: int | None = None, *, columns: Columns = None) -> pa.Table:
        """Every entry of the snapshot's manifests, ADD and DELETE."""
        return _chosen(self._entries(snapshot_id, live=False), columns)

    def partitions(self, snapshot_id: int | None = None) -> pa.Table:
        """Files, rows and bytes of each partition of the snapshot. Rows are counted before they are merged."""
        files = self.files(snapshot_id, columns=["partition", "rowCount", "fileSize", "creationTime"])
        found: dict[str, list[Any]] = {}
        for row in files.to_pylist():
            sums = found.setdefault(repr(row["partition"]), [row["partition"], 0, 0, 0, None])
            sums[1] += row["rowCount"]
            sums[2] += row["fileSize"]
            sums[3] += 1
            known = [at for at in (sums[4], row["creationTime"]) if at is not None]
            sums[4] = max(known) if known else None
        given = list(found.values())
        names = (("recordCount", pa.int64()), ("fileSizeInBytes", pa.int64()), ("fileCount", pa.int64()))
        return pa.table(
            {
                "partition": pa.array([one[0] for one in given], files.schema.field("partition").type),
                **{name: pa.array([one[at] for one in given], type_) for at, (name, type_) in enumerate(names, 1)},
                "lastFileCreationTime": pa.array([one[4] for one in given], pa.timestamp("ms")),
            }
        )

    def schemas(self) -> pa.Table:
        """Every version of the table's definition, of all branches."""
        given = list(self._definition.schemas.values())
        return pa.table(
            {
                "schemaId": pa.array([one.id for one in given], pa.int64()),
                "fields": pa.array(
                    [
                        json.dumps([{"id": f.id, "name": f.name, "type": encode_type(f.type)} for f in one.fields])
                        for one in given
                    ],
                    pa.string(),
                ),
                "partitionKeys": pa.array([list(one.partition_keys) for one in given], pa.list_(pa.string())),
                "primaryKeys": pa.array([list(one.primary_keys) for one in given], pa.list_(pa.string())),
                "options": pa.array([list(one.options.items()) for one in given], pa.map_(pa.string(), pa.string())),
                "comment": pa.array([one.comment for one in given], pa.string()),
                "updateTime": pa.array([one.time_ms for one in given], pa.int64()).cast(_TIME),
            }
        )

    def tags(self) -> pa.Table:
        """The tags and their snapshots."""
        return self._refs(RefKind.TAG, "tagName")

    def branches(self) -> pa.Table:
        """The branches besides main, and their newest snapshots."""
        return self._refs(RefKind.BRANCH, "branchName")

    def options(self) -> pa.Table:
        """The options of the newest schema."""
        given = sorted(self._definition.latest.options.items())
        return pa.table(
            {
                "key": pa.array([key for key, _ in given], pa.string()),
                "value": pa.array([value for _, value in given], pa.string()),
            }
        )

    def _refs(self, kind: RefKind, column: str) -> pa.Table:
        named = sorted((name, ref) for name, ref in self._metadata.refs.items() if ref.kind is kind)
        heads = [self._metadata.snapshot(ref.snapshot_id) for _, ref in named]
        return pa.table(
            {
                column: pa.array([name for name, _ in named], pa.string()),
                "snapshotId": pa.array([None if one is None else one.sequence_number for one in heads], pa.int64()),
                "schemaId": pa.array(
                    [None if one is None else self._format.state(one).schema_id for one in heads], pa.int64()
                ),
                "commitTime": pa.array([None if one is None else one.timestamp_ms for one in heads], _TIME),
            }
        )

    def _state(self, snapshot_id: int | None) -> tuple[Snapshot, PaimonSnapshot] | None:
        chosen = self._metadata.current_snapshot_id if snapshot_id is None else snapshot_id
        if chosen is None:
            return None
        found = self._metadata.snapshot(chosen)
        if found is None:
            raise NoSuchSnapshot(f"no snapshot {chosen}: it never existed, or it has expired", snapshot_id=chosen)
        return found, self._format.state(found)

    def _entries(self, snapshot_id: int | None, *, live: bool) -> pa.Table:
        found = self._state(snapshot_id)
        lists = () if found is None else found[1].manifest_lists
        layout, latest = self._definition.layout, self._definition.latest
        names = [layout.manifest(meta.name) for meta in self._format.listed(self._definition, lists)]
        rows = self._format.live(self._definition, names) if live else self._format.all_entries(names)
        rows = rows.combine_chunks()
        buckets = np.asarray(rows["_BUCKET"].to_numpy()).astype(np.int64)
        places = Places(latest, layout, rows["_PARTITION"].combine_chunks(), buckets, layout.root)
        return pa.table(
            {
                "kind": _KINDS.take(rows["_KIND"].combine_chunks()),
                "partition": _struct(rows["_PARTITION"].combine_chunks(), latest.partition_fields),
                "bucket": rows["_BUCKET"],
                "filePath": places.locations(self._format.storage, rows["_FILE._FILE_NAME"].combine_chunks()),
                **{name: rows[member] for name, member in _PLAIN},
                "minKey": _struct(rows["_FILE._MIN_KEY"].combine_chunks(), latest.key_fields),
                "maxKey": _struct(rows["_FILE._MAX_KEY"].combine_chunks(), latest.key_fields),
                "creationTime": rows["_FILE._CREATION_TIME"].cast(pa.timestamp("ms")),
            }
        )


_FACTS = (
    ("schemaId", "schema_id", pa.int64()),
    ("commitUser", "commit_user", pa.string()),
    ("commitIdentifier", "commit_identifier", pa.int64()),
    ("commitKind", "commit_kind", pa.string()),
    ("commitTime", "time_millis", _TIME),
    ("baseManifestList", "base_manifest_list", pa.string()),
    ("deltaManifestList", "delta_manifest_list", pa.string()),
    ("changelogManifestList", "changelog_manifest_list", pa.string()),
    ("indexManifest", "index_manifest", pa.string()),
    ("totalRecordCount", "total_record_count", pa.int64()),
    ("deltaRecordCount", "delta_record_count", pa.int64()),
    ("changelogRecordCount", "changelog_record_count", pa.int64()),
    ("watermark", "watermark", pa.int64()),
)
_MANIFEST_FACTS = (
    ("fileName", "name", pa.string()),
    ("fileSize", "size", pa.int64()),
    ("numAddedFiles", "added_files", pa.int64()),
    ("numDeletedFiles", "deleted_files", pa.int64()),
    ("schemaId", "schema_id", pa.int64()),
    ("minBucket", "min_bucket", pa.int32()),
    ("maxBucket", "max_bucket", pa.int32()),
    ("minLevel", "min_level", pa.int32()),
    ("maxLevel", "max_level", pa.int32()),
    ("minRowId", "min_row_id", pa.int64()),
    ("maxRowId", "max_row_id", pa.int64()),
)


def _chosen(table: pa.Table, columns: Columns) -> pa.Table:
    if columns is None:
        return table
    unknown = next((name for name in columns if name not in table.column_names), None)
    if unknown is not None:
        raise InvalidInput(f"no column {unknown!r}: there are {', '.join(table.column_names)}", column=unknown)
    return table.select(list(columns))


def _struct(rows: pa.Array, fields: Sequence[DataField]) -> pa.Array:
    """Binary rows as structs of values in their natural types. Null if there are no fields."""
    if not fields:
        return pa.nulls(len(rows), pa.string())
    decoded = BinaryRows(rows, "a manifest")
    arrays = [_natural(decoded.column(at, field.type), field) for at, field in enumerate(fields)]
    return pa.StructArray.from_arrays(arrays, names=[field.name for field in fields])


def _natural(held: pa.Array, field: DataField) -> pa.Array:
    match field.type.root:
        case "DATE":
            return held.cast(pa.int32()).cast(pa.date32())
        case "TIME":
            return held.cast(pa.time64("us"))
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            unit = "ns" if field.type.digits > 6 else "us"
            return held.cast(pa.timestamp(unit, tz="UTC" if field.type.root == "TIMESTAMP_LTZ" else None))
        case _:
            return held
