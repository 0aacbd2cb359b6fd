"""Rows into a Paimon table: append, overwrite of partitions, upsert and delete by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from esker.errors import InvalidInput, Unsupported
from esker.paimon.manifests.manifest import FileEntry
from esker.paimon.metadata.layout import Layout
from esker.paimon.metadata.snapshot import PaimonSnapshot
from esker.paimon.metadata.table_schema import TableSchema
from esker.paimon.options import merge_rule
from esker.paimon.rows.binary_row import decode_row
from esker.paimon.write.data_files import (
    DELETE,
    INSERT,
    UNAWARE,
    Portion,
    new_append_file,
    new_key_file,
    next_sequences,
    portions,
    versions_of,
)
from esker.paimon.write.paimon_columns import conformed, keys_of
from esker.paimon.write.publish_snapshot import APPEND, OVERWRITE, Changes, State, as_deletes, commit
from esker.ports.storage import Storage, delete_each

_REFUSED = (
    ("row-tracking.enabled", ("false",)),
    ("data-evolution.enabled", ("false",)),
    ("changelog-producer", ("none",)),
    ("bucket-function.type", ("default",)),
    ("type", ("table",)),
    ("data-file.path-directory", ()),
    ("data-file.external-paths", ()),
    ("pk-clustering-override", ("false",)),
    ("sequence.snapshot-ordering", ("false",)),
    ("sequence.field", ()),
    ("rowkind.field", ()),
    ("record-level.expire-time", ()),
    ("data-file.thin-mode", ("false",)),
)
_BAD_PARTITIONS = ("FLOAT", "DOUBLE", "BINARY", "VARBINARY", "ARRAY", "MAP", "MULTISET", "ROW")


def check_writable(schema: TableSchema) -> None:
    """Raise ``Unsupported`` with the name of an option, if Esker cannot write the table right with it."""
    for name, harmless in _REFUSED:
        value = schema.options.get(name)
        if value is not None and value.strip().lower() not in harmless:
            raise _refusal(name, value)
    default = next((field.name for field in schema.fields if field.default is not None), None)
    if default is not None:
        raise _refusal("column default", default)
    for field in schema.partition_fields:
        if field.type.root in _BAD_PARTITIONS:
            raise _refusal("partition column", f"{field.name} {field.type.root}")
    if schema.file_format != "parquet":
        raise _refusal("file.format", schema.file_format)
    if schema.option("manifest.format", "avro").lower() != "avro":
        raise _refusal("manifest.format", schema.option("manifest.format"))
    if schema.primary_keys:
        _check_keys(schema)
    elif schema.bucket < -1 or schema.bucket == 0:
        raise _refusal("bucket", str(schema.bucket))
    elif schema.bucket > 0 and not schema.bucket_fields:
        raise _refusal("bucket-key", "")


def _check_keys(schema: TableSchema) -> None:
    engine = schema.option("merge-engine", "deduplicate")
    if engine != "deduplicate":
        raise _refusal("merge-engine", engine)
    if schema.bucket < 1:
        raise _refusal("bucket", str(schema.bucket))
    if schema.is_set("deletion-vectors.enabled"):
        raise _refusal("deletion-vectors.enabled", "true")
    if not set(schema.partition_keys) <= set(schema.primary_keys):
        raise _refusal("primary-key", "without the partition columns")
    if not schema.key_fields:
        raise _refusal("primary-key", "of the partition columns alone")


def _refusal(option: str, value: str) -> Unsupported:
    return Unsupported(
        f"cannot write this table: its {option} is {value!r}, and Esker does not write such tables", feature=option
    )


class Writer:
    """Writes one branch of a table."""

    def __init__(self, storage: Storage, layout: Layout, schema: TableSchema) -> None:
        check_writable(schema)
        self._storage, self._layout, self._schema = storage, layout, schema

    def append(self, rows: pa.Table) -> PaimonSnapshot | None:
        """Add rows. In a table with a key they replace the rows with the same key. None if there are no rows."""
        given = conformed(self._schema, rows)
        if self._schema.primary_keys:
            return self._put(given, INSERT)
        return self._publish(list(portions(self._schema, given)), lambda state, new: Changes(kind=APPEND, entries=new))

    def delete_keys(
        self, rows: pa.Table, still_meant: Callable[[State], pa.Table] | None = None
    ) -> PaimonSnapshot | None:
        """Delete the rows with these keys; all columns must be there. ``still_meant`` gives the rows to delete in a
        newer state, where another writer was faster. None if there are none."""
        if not self._schema.primary_keys:
            raise Unsupported("cannot delete rows of a table without a primary key", feature="delete without a key")
        if merge_rule(self._schema).ignores_deletes:
            raise _refusal("ignore-delete", "true")
        return self._put(conformed(self._schema, rows), DELETE, still_meant)

    def overwrite(
        self, rows: pa.Table, partitions: Sequence[Mapping[str, object]] | None = None
    ) -> PaimonSnapshot | None:
        """Replace partitions by rows: those that the rows are in, or the given ones. A table without partitions is
        replaced whole. Raises ``InvalidInput`` for a row outside of the given partitions."""
        given = conformed(self._schema, rows)
        if self._schema.primary_keys:
            given = last_of_each_key(self._schema, given)
        parts = list(portions(self._schema, given))
        types = [field.type for field in self._schema.partition_fields]
        is_meant = self._meant(parts, partitions)

        def changes(state: State, new: tuple[FileEntry, ...]) -> Changes:
            def is_gone(partition: bytes) -> bool:
                return is_meant(dict(zip(self._schema.partition_keys, decode_row(partition, types), strict=True)))

            gone = [entry for entry in state.files() if is_gone(entry.partition)]
            index = state.index()
            kept = tuple(entry for entry in index if not is_gone(entry.partition))
            return Changes(
                kind=OVERWRITE, entries=(*as_deletes(gone), *new), index=kept if len(kept) < len(index) else None
            )

        return self._publish(parts, changes, replaces=True)

    def _meant(
        self, parts: Sequence[Portion], partitions: Sequence[Mapping[str, object]] | None
    ) -> Callable[[Mapping[str, object]], bool]:
        types = [field.type for field in self._schema.partition_fields]
        named = [
            dict(zip(self._schema.partition_keys, decode_row(part.place.partition, types), strict=True))
            for part in parts
        ]
        if partitions is None:
            return (lambda found: found in named) if self._schema.partition_keys else lambda _: True

        def is_meant(found: Mapping[str, object]) -> bool:
            return any(all(found[name] == value for name, value in one.items()) for one in partitions)

        outside = next((one for one in named if not is_meant(one)), None)
        if outside is not None:
            raise InvalidInput(f"cannot overwrite: a row is in partition {outside}, which is not to be replaced")
        return is_meant

    def _put(
        self, rows: pa.Table, kind: int, still_meant: Callable[[State], pa.Table] | None = None
    ) -> PaimonSnapshot | None:
        """Write versions of rows with the next sequence number of each bucket. Files are written again where another
        writer took that number meanwhile."""
        first, written, meant = True, _Written(self._storage, self._layout, self._schema, kind), rows

        def prepare(state: State) -> Changes | None:
            nonlocal first, meant
            if not first and still_meant is not None:
                meant = conformed(self._schema, still_meant(state))
            first = False
            entries = written.entries(last_of_each_key(self._schema, meant), state)
            return Changes(kind=APPEND, entries=entries) if entries else None

        try:
            return commit(self._storage, self._layout, self._schema, prepare)
        except (Unsupported, InvalidInput):
            written.forget()
            raise

    def _publish(
        self,
        parts: Sequence[Portion],
        changes: Callable[[State, tuple[FileEntry, ...]], Changes],
        *,
        replaces: bool = False,
    ) -> PaimonSnapshot | None:
        made: dict[int, tuple[FileEntry, ...]] = {}

        def prepare(state: State) -> Changes | None:
            if not made:
                made[0] = self._new_files(parts, state, replaces=replaces)
            elif not replaces and self._schema.bucket > 0:
                check_buckets(self._schema, parts, state.files())
            found = changes(state, made[0])
            return found if found.entries or replaces else None

        return commit(self._storage, self._layout, self._schema, prepare)

    def _new_files(self, parts: Sequence[Portion], state: State, *, replaces: bool) -> tuple[FileEntry, ...]:
        if self._schema.primary_keys:
            return _Written(self._storage, self._layout, self._schema, INSERT).of(parts, state, replaces=True)
        files = state.files() if self._schema.bucket > 0 else []
        if not replaces:
            check_buckets(self._schema, parts, files)
        numbers = next_sequences(files)
        return tuple(
            new_append_file(
                self._storage,
                self._schema,
                self._layout,
                part,
                numbers.get((part.place.partition, part.place.bucket), 0),
            )
            for part in parts
        )


class _Written:
    """The files of one change of a table with a key, with the sequence number of each."""

    def __init__(self, storage: Storage, layout: Layout, schema: TableSchema, kind: int) -> None:
        self._storage, self._layout, self._schema, self._kind = storage, layout, schema, kind
        self._made: dict[tuple[bytes, int], tuple[Portion, FileEntry]] = {}

    def entries(self, rows: pa.Table, state: State) -> tuple[FileEntry, ...]:
        """Files of the rows for a state; those that hold for it already are not written again."""
        return self.of(list(portions(self._schema, rows)), state)

    def of(self, parts: Sequence[Portion], state: State, *, replaces: bool = False) -> tuple[FileEntry, ...]:
        """The same for rows by bucket. ``replaces`` if the files of their partitions go."""
        files = state.files()
        if not replaces:
            check_buckets(self._schema, parts, files)
        numbers = next_sequences(files)
        kept = {}
        for part in parts:
            key = (part.place.partition, part.place.bucket)
            number = numbers.get(key, 0)
            before = self._made.pop(key, None)
            if before is not None and before[1].file.min_sequence == number and before[0].rows.equals(part.rows):
                kept[key] = before
                continue
            if before is not None:
                self._made[key] = before  # to be deleted below
            rows = last_of_each_key(self._schema, part.rows, in_bucket=True)
            versions = versions_of(self._schema, rows, sequence=number, kind=self._kind)
            kept[key] = (part, new_key_file(self._storage, self._schema, self._layout, part.place, versions))
        self.forget()
        self._made = kept
        return tuple(entry for _, entry in kept.values())

    def forget(self) -> None:
        """Delete files that no snapshot will name."""
        places = [
            f"{self._layout.bucket(part.place.path, part.place.bucket)}/{entry.file.name}"
            for part, entry in self._made.values()
        ]
        delete_each(self._storage, places)
        self._made = {}


def check_buckets(schema: TableSchema, parts: Sequence[Portion], files: Sequence[FileEntry]) -> None:
    """Raise ``Unsupported`` if a partition of the rows has another number of buckets than new rows would have: a key
    would be in two buckets."""
    partitions = {part.place.partition for part in parts}
    for entry in files:
        if entry.partition in partitions and entry.total_buckets not in (schema.bucket, UNAWARE):
            raise Unsupported(
                f"cannot write this table: its option bucket is {schema.bucket}, and a partition of the rows has files "
                f"in {entry.total_buckets} buckets; overwrite the partition first",
                feature="bucket",
            )


def last_of_each_key(schema: TableSchema, rows: pa.Table, *, in_bucket: bool = False) -> pa.Table:
    """Rows without those whose primary key comes again later. Zero and negative zero are the same key only
    ``in_bucket``: their hashes differ, so that they may be in two buckets, which are not merged."""
    keys = keys_of(rows, schema.primary_keys) if in_bucket else rows.select(schema.primary_keys)
    numbered = keys.append_column("row", pa.array(range(rows.num_rows), pa.int64()))
    last = numbered.group_by(list(schema.primary_keys), use_threads=False).aggregate([("row", "max")])["row_max"]
    if len(last) == rows.num_rows:
        return rows
    return rows.take(last.combine_chunks().sort())
