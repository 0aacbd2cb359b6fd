"""The reader of the Paimon format: a snapshot's manifests, and the files that they make live.

An index manifest is shown as a manifest of deletes: each deletion vector in it is a delete of one data file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from esker.errors import NoSuchFile
from esker.model.arrow_arrays import arrow_array, binary_array, numbers_of
from esker.model.schema import Schema
from esker.paimon.directories import Places
from esker.paimon.file_bounds import column_metrics
from esker.paimon.manifests.index_manifest import VECTORS, IndexEntry, decode_index_manifest
from esker.paimon.manifests.live_files import live_entries
from esker.paimon.manifests.manifest import IDENTITY, Kind, read_manifests
from esker.paimon.manifests.manifest_list import ManifestMeta, decode_manifest_list
from esker.paimon.manifests.statistics import as_bounds
from esker.paimon.metadata.changed_types import check_types
from esker.paimon.metadata.snapshot import PaimonSnapshot
from esker.paimon.metadata.table_schema import TableSchema
from esker.paimon.options import check_readable, merge_rule, skips_level_zero
from esker.paimon.read_table import Definition, definition_of, number_beside, snapshot_file
from esker.paimon.rows.binary_row import BinaryRows, decode_row
from esker.paimon.rows.deletion_vector import FRAME, VectorRange, decode_vector
from esker.paimon.sections import sections
from esker.ports.convertible import Convertible
from esker.ports.merge import MergeRule
from esker.ports.storage import Storage, parallel_reads
from esker.ports.table_format import EntryColumns
from esker.tree.data_file import FileContent
from esker.tree.manifest import ColumnMetrics, Entries, EntryStatus
from esker.tree.manifest_list import FieldSummary, ManifestContent, ManifestFile
from esker.tree.snapshot import RefKind, Snapshot
from esker.tree.table_metadata import TableMetadata

_PLAN = IDENTITY | {"_FILE._FILE_SIZE", "_FILE._ROW_COUNT", "_FILE._SCHEMA_ID"}
_KEYS = frozenset(("_FILE._MIN_KEY", "_FILE._MAX_KEY"))
_STATISTICS = frozenset(("_FILE._KEY_STATS", "_FILE._VALUE_STATS", "_FILE._VALUE_STATS_COLS"))
_POSTPONED = -2


class PaimonFormat:
    """Reads manifest lists, manifests and index manifests of Paimon tables from a storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @property
    def storage(self) -> Storage:
        """The storage that it reads from."""
        return self._storage

    def merge_rule(self, metadata: TableMetadata, schema: Schema) -> MergeRule | None:
        """How rows are merged. None if the table has no primary key."""
        latest = definition_of(metadata).latest_beside(schema.schema_id)
        return merge_rule(latest) if latest.primary_keys else None

    def manifests(self, metadata: TableMetadata, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        """The manifests of the base list, then of the delta list, then the index manifest."""
        definition = definition_of(metadata)
        latest = definition.latest_beside(snapshot.snapshot_id)
        check_readable(latest)
        found, layout = self.state(snapshot), definition.layout
        metas = self.listed(definition, found.manifest_lists)
        summaries = _summaries(latest, metas, snapshot.manifest_list or "")
        manifests = [
            ManifestFile(
                path=layout.manifest(meta.name),
                length=meta.size,
                spec_id=0,
                added_snapshot_id=snapshot.snapshot_id,  # the one that is read: it decides which schemas are meant
                added_files=meta.added_files,
                deleted_files=meta.deleted_files,  # existing is unknown: a manifest of deletes must be read too
                partitions=summary,
            )
            for meta, summary in zip(metas, summaries, strict=True)
        ]
        if found.index_manifest is not None:
            location = layout.manifest(found.index_manifest)
            manifests.append(
                ManifestFile(
                    path=location,
                    length=0,
                    spec_id=0,
                    content=ManifestContent.DELETES,
                    added_snapshot_id=snapshot.snapshot_id,
                )
            )
        return tuple(manifests)

    def state(self, snapshot: Snapshot) -> PaimonSnapshot:
        """The snapshot as Paimon has it."""
        assert snapshot.manifest_list is not None  # its own file
        return snapshot_file(self._storage, snapshot.manifest_list)

    def listed(self, definition: Definition, lists: Iterable[str]) -> tuple[ManifestMeta, ...]:
        """The manifests of some lists."""
        locations = [definition.layout.manifest(name) for name in lists]
        return decode_manifest_list(list(zip(locations, self._read_all(locations), strict=True)))

    def entries(
        self, metadata: TableMetadata, manifests: Sequence[ManifestFile], columns: EntryColumns
    ) -> Iterator[Entries]:
        """The live files of these manifests in one batch, and the deletion vectors in another."""
        data = tuple(manifest for manifest in manifests if manifest.content is ManifestContent.DATA)
        if data:
            yield self._data_entries(definition_of(metadata), metadata, data, columns)
        for manifest in manifests:
            if manifest.content is ManifestContent.DELETES:
                yield from self._vector_entries(definition_of(metadata), metadata, manifest)

    # ------------------------------------------------------------ Data files

    def live(self, definition: Definition, locations: Sequence[str], only: frozenset[str] | None = None) -> pa.Table:
        """The live entries of manifests as columns."""
        types = [field.type for field in definition.latest.partition_fields]
        files = list(zip(locations, self._read_all(locations), strict=True))
        return live_entries(read_manifests(files, only), lambda row: decode_row(row, types)).combine_chunks()

    def live_of(self, definition: Definition, state: PaimonSnapshot) -> pa.Table:
        """The live entries of a snapshot as columns, also those that a reader does not see yet."""
        metas = self.listed(definition, state.manifest_lists)
        return self.live(definition, [definition.layout.manifest(meta.name) for meta in metas])

    def convertible(self, metadata: TableMetadata) -> Convertible:
        """The files of the current snapshot, for an Iceberg table. Raises ``Unsupported`` if they are not its rows."""
        from esker.paimon.convertible_files import convertible_files

        return convertible_files(metadata, self)

    def all_entries(self, locations: Sequence[str]) -> pa.Table:
        """Every entry of manifests as columns, also those that delete."""
        return read_manifests(list(zip(locations, self._read_all(locations), strict=True)))

    def _data_entries(
        self,
        definition: Definition,
        metadata: TableMetadata,
        manifests: tuple[ManifestFile, ...],
        columns: EntryColumns,
    ) -> Entries:
        number = manifests[0].added_snapshot_id or 0
        latest = definition.latest_beside(number)
        only = (
            _PLAN | (_KEYS if latest.primary_keys else frozenset()) | (_STATISTICS if columns.metrics else frozenset())
        )
        rows = self.live(definition, [manifest.path for manifest in manifests], only)
        rows = _visible(rows, latest)
        check_types(definition.schemas_beside(number), _schema_ids(rows), _read_schema(metadata, definition, number))
        first = manifests[0].path
        buckets = _numbers(rows, "_BUCKET")
        places = Places(latest, definition.layout, _column(rows, "_PARTITION"), buckets, first)
        written = _numbers(rows, "_FILE._SCHEMA_ID") | number_beside(number, 0)
        rest = {"schema_id": arrow_array(written)}
        alone = np.ones(len(buckets), np.bool_)
        if latest.primary_keys:
            groups = _merge_groups(latest, rows, places.place_of, first)
            alone = np.bincount(groups, minlength=1)[groups] == 1
            rest["merge_group"] = arrow_array(groups)
        return Entries(
            spec=metadata.spec,
            manifests=manifests,
            manifest_index=_numbers(rows, "file"),
            status=np.full(len(buckets), EntryStatus.EXISTING, np.int8),
            content=np.full(len(buckets), FileContent.DATA, np.int8),
            snapshot_id=pa.nulls(len(buckets), pa.int64()),
            sequence_number=np.zeros(len(buckets), np.int64),
            file_sequence_number=pa.nulls(len(buckets), pa.int64()),
            path=self._locations(rows, places),
            file_format=_formats(_column(rows, "_FILE._FILE_NAME")),
            record_count=_numbers(rows, "_FILE._ROW_COUNT"),
            file_size=_numbers(rows, "_FILE._FILE_SIZE"),
            partition=places.partition,
            metrics=_metrics(latest, definition.schemas_beside(number), rows, columns, alone, first),
            rest=rest,
        )

    def _locations(self, rows: pa.Table, places: Places) -> pa.Array:
        found = places.locations(self._storage, _column(rows, "_FILE._FILE_NAME"))
        external = _column(rows, "_FILE._EXTERNAL_PATH")
        return found if external.null_count == len(external) else pc.coalesce(external, found)

    # ------------------------------------------------------------ Deletion vectors

    def _vector_entries(
        self, definition: Definition, metadata: TableMetadata, manifest: ManifestFile
    ) -> Iterator[Entries]:
        [data] = self._read_all([manifest.path])
        found = [
            (entry, one)
            for entry in decode_index_manifest(manifest.path, data)
            if entry.index_type == VECTORS and entry.kind is Kind.ADD
            for one in entry.ranges or ()
        ]
        if not found:
            return
        count = len(found)
        buckets = np.fromiter((entry.bucket for entry, _ in found), np.int64, count)
        partitions = binary_array([entry.partition for entry, _ in found])
        places = Places(definition.latest, definition.layout, partitions, buckets, manifest.path)
        names = pa.array([one.data_file for _, one in found])
        elsewhere = self._outside(definition, metadata, manifest)
        targets = places.locations(self._storage, names)
        if elsewhere:
            targets = pc.coalesce(pa.array([elsewhere.get(name) for name in names.to_pylist()], pa.string()), targets)
        files = [
            self._index_file(definition, entry, target.as_py())
            for (entry, _), target in zip(found, targets, strict=True)
        ]
        sizes = [min(one.length + FRAME, entry.size - one.offset) for entry, one in found]
        yield Entries(
            spec=metadata.spec,
            manifests=(manifest,),
            manifest_index=np.zeros(count, np.int64),
            status=np.full(count, EntryStatus.EXISTING, np.int8),
            content=np.full(count, FileContent.POSITION_DELETES, np.int8),
            snapshot_id=pa.nulls(count, pa.int64()),
            sequence_number=np.zeros(count, np.int64),
            file_sequence_number=pa.nulls(count, pa.int64()),
            path=pa.array(files),
            file_format=pa.array(["index"] * count),
            record_count=np.fromiter(
                (self._cardinality(file, one, size) for file, (_, one), size in zip(files, found, sizes, strict=True)),
                np.int64,
                count,
            ),
            file_size=np.fromiter((entry.size for entry, _ in found), np.int64, count),
            partition=places.partition,
            rest={
                "referenced_data_file": targets,
                "content_offset": pa.array([one.offset for _, one in found], pa.int64()),
                "content_size": pa.array(sizes, pa.int64()),
            },
        )

    def _outside(self, definition: Definition, metadata: TableMetadata, manifest: ManifestFile) -> Mapping[str, str]:
        """The locations of data files outside of the table's directory, by name. A vector names only the file."""
        snapshot = metadata.snapshot(manifest.added_snapshot_id or 0)
        if snapshot is None or not any(
            "data-file.external-paths" in one.options for one in definition.schemas.values()
        ):
            return {}
        metas = self.listed(definition, self.state(snapshot).manifest_lists)
        rows = self.live(definition, [definition.layout.manifest(meta.name) for meta in metas], IDENTITY)
        pairs = zip(rows["_FILE._FILE_NAME"].to_pylist(), rows["_FILE._EXTERNAL_PATH"].to_pylist(), strict=True)
        return {name: place for name, place in pairs if place is not None}

    def _index_file(self, definition: Definition, entry: IndexEntry, data_file: str) -> str:
        if entry.external_path is not None:
            return entry.external_path
        if definition.latest.is_set("index-file-in-data-file-dir"):
            return f"{data_file.rpartition('/')[0]}/{entry.name}"
        return definition.layout.index(entry.name)

    def _cardinality(self, file: str, one: VectorRange, size: int) -> int:
        """How many rows a vector deletes. Early writers did not record it."""
        if one.cardinality is not None:
            return one.cardinality
        with self._storage.open(file) as source:
            source.seek(one.offset)
            return len(decode_vector(file, source.read(size)))

    # ------------------------------------------------------------ Files of metadata

    def _read_all(self, locations: Sequence[str]) -> list[bytes]:
        at_once = min(parallel_reads(self._storage), len(locations))
        if at_once < 2:
            return [self._read(location) for location in locations]
        with ThreadPoolExecutor(at_once, thread_name_prefix="esker-reads") as pool:
            return list(pool.map(self._read, locations))

    def _read(self, location: str) -> bytes:
        try:
            return self._storage.read(location)
        except NoSuchFile as error:
            raise NoSuchFile(
                f"cannot read the table: its manifest {location} is missing; its snapshot may have expired",
                file=location,
            ) from error


def _summaries(schema: TableSchema, metas: Sequence[ManifestMeta], file: str) -> list[tuple[FieldSummary, ...] | None]:
    """The partitions of each manifest; None where its writer did not record them."""
    fields = schema.partition_fields
    if not fields:
        return [()] * len(metas)
    bounds = []
    for values in ([meta.partition_stats.min_values for meta in metas], [m.partition_stats.max_values for m in metas]):
        rows = BinaryRows(binary_array(values), file)
        bounds.append([as_bounds(rows.column(at, field.type)).to_pylist() for at, field in enumerate(fields)])
    found: list[tuple[FieldSummary, ...] | None] = []
    for number, meta in enumerate(metas):
        counts = meta.partition_stats.null_counts
        if counts is None or len(counts) != len(fields) or None in counts:
            found.append(None)
            continue
        found.append(
            tuple(
                FieldSummary(
                    contains_null=counts[at] != 0,
                    lower_bound=bounds[0][at][number],
                    upper_bound=bounds[1][at][number],
                )
                for at in range(len(fields))
            )
        )
    return found


def _visible(rows: pa.Table, schema: TableSchema) -> pa.Table:
    """Without the files that a reader does not see yet."""
    hidden = _numbers(rows, "_BUCKET") == _POSTPONED
    if skips_level_zero(schema):
        hidden |= _numbers(rows, "_FILE._LEVEL") == 0
    return rows.filter(arrow_array(~hidden)).combine_chunks() if hidden.any() else rows


def _schema_ids(rows: pa.Table) -> list[int]:
    return [int(id_) for id_ in np.unique(_numbers(rows, "_FILE._SCHEMA_ID"))]


def _read_schema(metadata: TableMetadata, definition: Definition, number: int) -> TableSchema:
    """The schema in which the rows of a snapshot are read: its own if it is an older one, else the newest."""
    newest = definition.latest_beside(number)
    branches = (ref.snapshot_id for ref in metadata.refs.values() if ref.kind is RefKind.BRANCH)
    heads = {metadata.current_snapshot_id, *branches}
    snapshot = None if number in heads else metadata.snapshot(number)
    own = None if snapshot is None or snapshot.schema_id is None else definition.schemas.get(snapshot.schema_id)
    return own or newest


def _merge_groups(
    schema: TableSchema, rows: pa.Table, place_of: npt.NDArray[np.int64], file: str
) -> npt.NDArray[np.int64]:
    """The merge group of each file. If new files are invisible, no two files have a live version of the same key."""
    if skips_level_zero(schema):
        return np.arange(rows.num_rows)
    types = [field.type for field in schema.key_fields]
    return sections(place_of, _column(rows, "_FILE._MIN_KEY"), _column(rows, "_FILE._MAX_KEY"), types, file)


def _metrics(
    latest: TableSchema,
    schemas: Mapping[int, TableSchema],
    rows: pa.Table,
    columns: EntryColumns,
    trusted: npt.NDArray[np.bool_],
    file: str,
) -> dict[int, ColumnMetrics]:
    known = {id_: field for schema in schemas.values() for id_, field in schema.by_id.items()}
    known.update(latest.by_id)
    return {id_: column_metrics(rows, known[id_], schemas, trusted, file) for id_ in columns.metrics if id_ in known}


def _formats(names: pa.Array) -> pa.Array:
    return pc.utf8_lower(pc.replace_substring_regex(names, r".*\.", ""))


def _column(rows: pa.Table, name: str) -> pa.Array:
    column = rows[name]
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _numbers(rows: pa.Table, name: str) -> npt.NDArray[np.int64]:
    return numbers_of(_column(rows, name), null=0).astype(np.int64)
