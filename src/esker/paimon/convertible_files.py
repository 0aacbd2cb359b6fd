"""Whether the files of a Paimon table are its rows, so that an Iceberg table can have them as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from esker.errors import Unsupported
from esker.model.arrow_arrays import numbers_of
from esker.model.schema import MappedField
from esker.model.types import Type, is_floating, is_nested
from esker.model.values import from_bytes, to_bytes
from esker.paimon.manifests.index_manifest import VECTORS, decode_index_manifest
from esker.paimon.metadata.layout import Layout
from esker.paimon.metadata.snapshot import PaimonSnapshot
from esker.paimon.metadata.table_schema import TableSchema
from esker.paimon.metadata.types import DataField, DataType
from esker.paimon.options import check_readable
from esker.paimon.read_table import definition_of
from esker.ports.convertible import Convertible
from esker.ports.storage import Storage
from esker.ports.table_format import EntryColumns
from esker.tree.data_file import DataFile, Metrics
from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestContent
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    import pyarrow as pa

    from esker.paimon.format import PaimonFormat

_FIRST_KEY = 2147483647 // 2
_COMPACT = "compact the table first"


def convertible_files(metadata: TableMetadata, table_format: PaimonFormat) -> Convertible:
    """The files of the current snapshot. Raises ``Unsupported`` if rows must be merged or left out to read them."""
    definition = definition_of(metadata)
    latest = definition.latest
    check_readable(latest)
    _check_types(latest.fields)
    empty = Convertible(
        last_column_id=metadata.last_column_id,
        snapshot_id=None,
        schema=metadata.schema,
        spec=metadata.spec,
        files=(),
        beside=_system_columns(latest) if latest.primary_keys else (),
    )
    snapshot = metadata.current_snapshot
    if snapshot is None:
        return empty
    state = table_format.state(snapshot)
    _check_vectors(table_format.storage, definition.layout, state)
    if latest.primary_keys:
        _check_levels(table_format.live_of(definition, state))
    listed = table_format.manifests(metadata, snapshot)
    manifests = [manifest for manifest in listed if manifest.content is ManifestContent.DATA]
    measured = {
        field.id: field.type
        for field in metadata.schema.fields
        if not is_nested(field.type) and not is_floating(field.type)  # bounds beside NaN differ between writers
    }
    found = table_format.entries(metadata, manifests, EntryColumns(metrics=measured))
    files = [
        replace(file, metrics=_metrics(batch, row, measured))
        for batch in found
        for row, file in enumerate(batch.data_files())
    ]
    _check_alone(files)
    return replace(empty, snapshot_id=snapshot.snapshot_id, files=tuple(files))


def _metrics(batch: Entries, row: int, types: Mapping[int, Type]) -> Metrics:
    """The statistics of a file as Iceberg's manifests have them."""
    nulls = {id_: batch.metrics[id_].null_count[row].as_py() for id_ in types}
    lows = {id_: batch.metrics[id_].lower[row].as_py() for id_ in types}
    highs = {id_: batch.metrics[id_].upper[row].as_py() for id_ in types}
    return Metrics(
        value_counts={id_: int(batch.record_count[row]) for id_, count in nulls.items() if count is not None},
        null_counts={id_: count for id_, count in nulls.items() if count is not None},
        lower_bounds=_bounds(lows, types),
        upper_bounds=_bounds(highs, types),
    )


def _bounds(given: Mapping[int, bytes | None], types: Mapping[int, Type]) -> Mapping[int, bytes]:
    return {id_: to_bytes(types[id_], from_bytes(types[id_], raw)) for id_, raw in given.items() if raw is not None}


def _system_columns(schema: TableSchema) -> tuple[MappedField, ...]:
    """The columns of files with versions of rows besides the table's. Keys have the ids of Java's files. The ids of the
    other two in those files are reserved in Iceberg, so these have others."""
    names = [(f"_KEY_{field.name}", _FIRST_KEY + field.id) for field in schema.key_fields]
    rest = [("_SEQUENCE_NUMBER", _FIRST_KEY - 1), ("_VALUE_KIND", _FIRST_KEY - 2)]
    return tuple(MappedField(names=(name,), field_id=id_) for name, id_ in (*names, *rest))


def _refusal(why: str, feature: str) -> Unsupported:
    return Unsupported(f"cannot convert the table: {why}", feature=feature)


def _check_types(fields: Iterable[DataField]) -> None:
    for field in fields:
        for type_ in _with_parts(field.type):
            if type_.root == "TIME" or (type_.is_time_point and type_.digits > 6):
                text = f"{type_.root}({type_.digits})"
                raise _refusal(
                    f"column {field.name!r} is {text}, which Paimon stores in another way than Iceberg", text
                )


def _with_parts(type_: DataType) -> Iterable[DataType]:
    yield type_
    for part in (type_.element, type_.key, *(field.type for field in type_.fields)):
        if part is not None:
            yield from _with_parts(part)


def _check_vectors(storage: Storage, layout: Layout, state: PaimonSnapshot) -> None:
    if state.index_manifest is None:
        return
    file = layout.manifest(state.index_manifest)
    vectors = [one for one in decode_index_manifest(file, storage.read(file)) if one.index_type == VECTORS]
    if any(one.ranges for one in vectors):
        raise _refusal(f"it has deletion vectors; {_COMPACT}", "deletion vectors")


def _check_levels(files: pa.Table) -> None:
    """Raise ``Unsupported`` unless a full compaction was the last change of every bucket."""
    levels = numbers_of(files["_FILE._LEVEL"].combine_chunks(), null=0)
    if (levels == 0).any():
        count = int((levels == 0).sum())
        raise _refusal(
            f"it is not fully compacted, {count} of its {len(levels)} files are at level 0; {_COMPACT}", "level 0"
        )
    if numbers_of(files["_FILE._DELETE_ROW_COUNT"].combine_chunks(), null=0).any():
        raise _refusal(f"a file has rows that delete; {_COMPACT}", "delete rows")


def _check_alone(files: Iterable[DataFile]) -> None:
    seen: set[int] = set()
    for file in files:
        if file.merge_group is not None and file.merge_group in seen:
            raise _refusal(f"files of several levels have the same keys; {_COMPACT}", "levels")
        seen.add(-1 if file.merge_group is None else file.merge_group)
