"""Full compaction: buckets of a table with a key to its highest level, small files of other tables to larger ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from esker.errors import Conflict, Corrupt, Unsupported
from esker.paimon.manifests.manifest import FileEntry
from esker.paimon.metadata.changed_types import check_types
from esker.paimon.metadata.layout import Layout
from esker.paimon.metadata.table_schema import TableSchema
from esker.paimon.options import merge_rule
from esker.paimon.read_table import number_on
from esker.paimon.rows.binary_row import decode_row
from esker.paimon.rows.partition_path import other_partition_paths, partition_path
from esker.paimon.write.data_files import (
    KEY,
    ROW_KIND,
    SEQUENCE,
    Place,
    Portion,
    new_append_file,
    new_key_file,
)
from esker.paimon.write.paimon_columns import arrow_type, keys_of
from esker.paimon.write.publish_snapshot import COMPACT, Changes, State, as_deletes, commit, current_state
from esker.paimon.write.put_rows import check_writable
from esker.ports.own_writer import Compacted
from esker.ports.storage import Storage, delete_each

TARGET_BYTES = 128 << 20
_LIVE = (0, 2)
_RUNS = 5  # sorted runs at which Java compacts; one level more than these by default
_ATTEMPTS = 3


class Compaction:
    """Compacts one branch of a table."""

    def __init__(
        self, storage: Storage, layout: Layout, schemas: Mapping[int, TableSchema], *, target_bytes: int | None = None
    ) -> None:
        self._storage, self._layout, self._schemas = storage, layout, schemas
        self._schema = schemas[max(schemas)]
        check_writable(self._schema)
        self._target = target_bytes or TARGET_BYTES

    def plan(self) -> Compacted:
        """What ``run`` would rewrite now. Writes nothing. Raises ``Unsupported`` for files that ``run`` refuses."""
        groups = self._groups(current_state(self._storage, self._layout))
        for group in groups:
            self._check(group)
        inputs = [entry for group in groups for entry in group]
        rows = sum(entry.file.rows for entry in inputs)
        return Compacted(
            done=False,
            groups=len(groups),
            files_before=len(inputs),
            files_after=sum(self._files_of(group) for group in groups),
            rows_before=rows,
            rows_after=None if inputs and self._schema.primary_keys else rows,
            bytes_before=sum(entry.file.size for entry in inputs),
            bytes_after=None if inputs else 0,
        )

    def run(self) -> Compacted:
        """Compact what is worth it and commit. Raises ``Conflict`` if others remove the files again and again."""
        for attempt in range(_ATTEMPTS):
            try:
                return self._once()
            except Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _once(self) -> Compacted:
        inputs: list[FileEntry] = []
        outputs: list[FileEntry] = []
        groups: list[list[FileEntry]] | None = None

        def prepare(state: State) -> Changes | None:
            nonlocal groups
            if groups is None:
                groups = self._groups(state)
                for group in groups:
                    inputs.extend(group)
                    outputs.extend(self._rewritten(group))
            if not inputs:
                return None
            live = {entry.identity for entry in state.files()}
            if any(entry.identity not in live for entry in inputs):
                raise Conflict("cannot compact: another writer removed files that were being compacted; try again")
            return Changes(kind=COMPACT, entries=(*as_deletes(inputs), *outputs))

        try:
            made = commit(self._storage, self._layout, self._schema, prepare)
        except Conflict:
            delete_each(self._storage, [self._location(entry) for entry in outputs])
            raise
        return Compacted(
            groups=len(groups or ()),
            files_before=len(inputs),
            files_after=len(outputs),
            rows_before=sum(entry.file.rows for entry in inputs),
            rows_after=sum(entry.file.rows for entry in outputs),
            bytes_before=sum(entry.file.size for entry in inputs),
            bytes_after=sum(entry.file.size for entry in outputs),
            snapshots=() if made is None else (number_on(self._layout.branch, made.id),),
        )

    # ------------------------------------------------------------ What to rewrite

    def _groups(self, state: State) -> list[list[FileEntry]]:
        if any(entry.ranges for entry in state.index()):
            raise Unsupported(
                "cannot compact this table: it has deletion vectors, and Esker does not compact such tables",
                feature="deletion-vectors.enabled",
            )
        buckets: dict[tuple[bytes, int], list[FileEntry]] = defaultdict(list)
        for entry in state.files():
            buckets[entry.partition, entry.bucket].append(entry)
        if not self._schema.primary_keys:
            return [group for files in buckets.values() for group in self._small(files)]
        top = self._top
        return [
            files
            for files in buckets.values()
            if any(entry.file.level < top for entry in files) or any(entry.file.delete_rows for entry in files)
        ]

    def _small(self, files: Sequence[FileEntry]) -> list[list[FileEntry]]:
        """Neighbours among the files that are small, as many as make one file of the target size."""
        groups: list[list[FileEntry]] = [[]]
        size = 0
        for entry in files:
            if entry.file.size >= self._target * 0.7:
                continue
            if groups[-1] and size + entry.file.size > self._target:
                groups.append([])
                size = 0
            groups[-1].append(entry)
            size += entry.file.size
        return [group for group in groups if len(group) > 1]

    def _check(self, group: Sequence[FileEntry]) -> None:
        """Raise ``Unsupported`` for a file that Esker cannot rewrite."""
        check_types(self._schemas, (entry.file.schema_id for entry in group), self._schema, in_place=True)
        for entry in group:
            location = self._location(entry)
            if not location.endswith(".parquet"):
                raise Unsupported(
                    f"cannot compact {location}: Esker compacts Parquet files", feature=location.rpartition(".")[2]
                )

    def _files_of(self, group: Sequence[FileEntry]) -> int:
        """About how many files a group becomes."""
        size = sum(entry.file.size for entry in group)
        return -(-size // self._target) if self._schema.primary_keys and size > self._target else 1

    @property
    def _top(self) -> int:
        runs = int(self._schema.option("num-sorted-run.compaction-trigger", str(_RUNS)))
        return int(self._schema.option("num-levels", str(runs + 1))) - 1

    # ------------------------------------------------------------ Rewriting

    def _rewritten(self, group: Sequence[FileEntry]) -> list[FileEntry]:
        self._check(group)
        first = group[0]
        types = [field.type for field in self._schema.partition_fields]
        path = partition_path(self._schema.partition_fields, decode_row(first.partition, types), self._schema.options)
        place = Place(first.partition, path, first.bucket, first.total_buckets)
        tables = [self._rows(entry) for entry in group]
        for entry, table in zip(group, tables, strict=True):
            if table.num_rows != entry.file.rows:
                raise Corrupt(
                    self._location(entry), f"it has {table.num_rows} rows; its manifest records {entry.file.rows}"
                )
        rows = pa.concat_tables(tables)
        if not self._schema.primary_keys:
            start = min(entry.file.min_sequence for entry in group)
            made = new_append_file(self._storage, self._schema, self._layout, Portion(place, rows), start, source=1)
            return [made]
        live = self._last_versions(rows)
        size = sum(entry.file.size for entry in group)
        step = max(1, live.num_rows if size <= self._target else live.num_rows * self._target // size)
        return [
            new_key_file(self._storage, self._schema, self._layout, place, live.slice(start, step), level=self._top)
            for start in range(0, live.num_rows, step)
        ]

    def _last_versions(self, versions: pa.Table) -> pa.Table:
        """The live rows, sorted by key: of each key the version with the highest number; an insert wins a tie."""
        keys = [KEY + field.name for field in self._schema.key_fields]
        live = pc.is_in(versions[ROW_KIND], value_set=pa.array(_LIVE, pa.int8()))
        if merge_rule(self._schema).ignores_deletes:
            versions, live = versions.filter(live), pc.filter(live, live)
        ranked = versions.append_column("live", live)
        order = [*((key, "ascending") for key in keys), (SEQUENCE, "descending"), ("live", "descending")]
        ranked = ranked.take(pc.sort_indices(ranked, sort_keys=order))
        numbered = keys_of(ranked, keys).append_column("row", pa.array(range(ranked.num_rows), pa.int64()))
        firsts = numbered.group_by(keys, use_threads=False).aggregate([("row", "min")])["row_min"]
        last = ranked.take(firsts.combine_chunks().sort())
        return last.filter(last["live"]).drop_columns(["live"])

    def _rows(self, entry: FileEntry) -> pa.Table:
        """The rows of a file with the columns of the newest schema, and in a table with a key those of versions."""
        import pyarrow.parquet as pq

        written = self._schemas[entry.file.schema_id]
        with self._storage.open(self._location(entry)) as file:
            found = pq.ParquetFile(file).read()
        columns = {}
        if self._schema.primary_keys:
            for field in self._schema.key_fields:
                columns[KEY + field.name] = found[written.by_id[field.id].name].cast(arrow_type(field.type))
            columns[SEQUENCE] = found[SEQUENCE].cast(pa.int64())
            columns[ROW_KIND] = found[ROW_KIND].cast(pa.int8())
        for field in self._schema.fields:
            old, wanted = written.by_id.get(field.id), arrow_type(field.type)
            columns[field.name] = (
                found[old.name].cast(wanted)
                if old is not None and old.name in found.column_names
                else pa.chunked_array([pa.nulls(found.num_rows, wanted)])
            )
        return pa.table(columns)

    def _location(self, entry: FileEntry) -> str:
        if entry.file.external_path is not None:
            return entry.file.external_path
        types = [field.type for field in self._schema.partition_fields]
        given = self._schema.partition_fields, decode_row(entry.partition, types), self._schema.options
        paths = (partition_path(*given), *other_partition_paths(*given))
        right, *others = (f"{self._layout.bucket(path, entry.bucket)}/{entry.file.name}" for path in paths)
        return next((other for other in others if self._storage.exists(other)), right)
