"""The columns of a manifest as the specification lists them (T3, T4), and its maps of metrics."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa

from esker import avro
from esker.errors import Corrupt
from esker.iceberg.manifests.avro_fields import (
    NEVER,
    Column,
    FoundColumns,
    as_type,
    avro_name,
    ids_by_name,
    int_map,
    list_of,
)
from esker.model.arrow_arrays import arrow_array, null_mask, numbers_of
from esker.model.partition_and_sort import PartitionSpec
from esker.ports.table_format import EntryColumns
from esker.tree.manifest import ColumnMetrics

STATUS, SNAPSHOT_ID, DATA_FILE, SEQUENCE_NUMBER, FILE_SEQUENCE_NUMBER = 0, 1, 2, 3, 4
PARTITION = 102

# fmt: off
ENTRY = (
    #      id name on the wire        avro      attribute               since required since
    Column(0, "status",               "int",    "status"),
    Column(1, "snapshot_id",          "long",   "snapshot_id",          1, NEVER),
    Column(3, "sequence_number",      "long",   "sequence_number",      2, NEVER),
    Column(4, "file_sequence_number", "long",   "file_sequence_number", 2, NEVER),
    Column(2, "data_file",            "record", "data_file"),
)

FILE = (
    #      id   name on the wire       avro      attribute       since required since until
    Column(134, "content",             "int",    "content",      2, 2),
    Column(100, "file_path",           "string", "path"),
    Column(101, "file_format",         "string", "file_format"),
    Column(102, "partition",           "record", "partition"),
    Column(103, "record_count",        "long",   "record_count"),
    Column(104, "file_size_in_bytes",  "long",   "file_size"),
    Column(105, "block_size_in_bytes", "long",   "block_size",   1, 1, 1),
)

METRICS = (
    #      id   name on the wire     avro                        attribute       since required since
    Column(108, "column_sizes",      int_map(117, 118, "long"),  "column_sizes", 1, NEVER),
    Column(109, "value_counts",      int_map(119, 120, "long"),  "value_counts", 1, NEVER),
    Column(110, "null_value_counts", int_map(121, 122, "long"),  "null_counts",  1, NEVER),
    Column(137, "nan_value_counts",  int_map(138, 139, "long"),  "nan_counts",   1, NEVER),
    Column(125, "lower_bounds",      int_map(126, 127, "bytes"), "lower_bounds", 1, NEVER),
    Column(128, "upper_bounds",      int_map(129, 130, "bytes"), "upper_bounds", 1, NEVER),
)

REST = (
    #      id   name on the wire         avro                  attribute               since required since
    Column(131, "key_metadata",          "bytes",              "key_metadata",         1, NEVER),
    Column(132, "split_offsets",         list_of(133, "long"), "split_offsets",        1, NEVER),
    Column(135, "equality_ids",          list_of(136, "int"),  "equality_ids",         2, NEVER),
    Column(140, "sort_order_id",         "int",                "sort_order_id",        1, NEVER),
    Column(142, "first_row_id",          "long",               "first_row_id",         3, NEVER),
    Column(143, "referenced_data_file",  "string",             "referenced_data_file", 2, NEVER),
    Column(144, "content_offset",        "long",               "content_offset",       3, NEVER),
    Column(145, "content_size_in_bytes", "long",               "content_size",         3, NEVER),
)
# fmt: on

ENTRY_NAMES = ids_by_name(ENTRY)
FILE_NAMES = ids_by_name((*FILE, *METRICS, *REST))
PICKED = tuple(column for column in METRICS if column.attribute != "column_sizes")
"""The maps of which pruning needs single columns."""


def projection(spec: PartitionSpec | None, columns: EntryColumns) -> avro.Projection:
    """What to decode. ``spec`` is None if only the manifest's header has it."""
    ids = {column.id for column in (*ENTRY, *FILE) if column.attribute != "block_size"}
    picks: dict[int, tuple[int, ...]] = {}
    if columns.rest:
        ids |= {column.id for column in REST}
    if columns.full_metrics:
        ids |= {column.id for column in METRICS}
    elif columns.metrics:
        picks = {column.id: tuple(columns.metrics) for column in PICKED}
    # If a partition field has the same id as a field above it, that id would hide its siblings. So each is selected.
    ids |= set() if spec is None else {field.field_id for field in spec.fields}
    return avro.Projection.of(ids, map_keys=picks, names={**_DOTTED, **_partition_paths(spec)})


def partition_names(spec: PartitionSpec) -> Mapping[str, int]:
    """The fields of the spec by their name in the file, for manifests whose writer wrote no ids."""
    names = {field.name: field.field_id for field in spec.fields}
    return {**{avro_name(name): id_ for name, id_ in names.items()}, **names}


def _partition_paths(spec: PartitionSpec | None) -> Mapping[str, int]:
    if spec is None:
        return {}
    return {f"data_file.partition.{name}": id_ for name, id_ in partition_names(spec).items()}


_DOTTED = {**ENTRY_NAMES, **ids_by_name((*FILE, *METRICS, *REST), above="data_file.")}


# ---------------------------------------------------------------- Statistics maps
#
# The decoder selects single columns while it reads. If a writer did not mark its arrays as maps, or used native maps
# with text keys, whole maps are decoded and the columns selected here.


_PART = {
    "lower_bounds": "lower",
    "upper_bounds": "upper",
    "value_counts": "value_count",
    "null_counts": "null_count",
    "nan_counts": "nan_count",
}


def value_type(column: Column) -> pa.DataType:
    """The Arrow type of a map's values."""
    return pa.binary() if column.attribute.endswith("bounds") else pa.int64()


def picked_metrics(files: FoundColumns, wanted: Collection[int]) -> dict[int, ColumnMetrics]:
    """The statistics of the wanted columns, one row per file. Null is unknown."""
    parts: dict[int, dict[str, pa.Array]] = {id_: {} for id_ in wanted}
    for column in PICKED:
        for id_, values in _picked(files, column, wanted).items():
            parts[id_][_PART[column.attribute]] = values
    return {id_: ColumnMetrics(**found) for id_, found in parts.items()}


def whole_metrics(files: FoundColumns) -> Mapping[str, pa.Array]:
    """Every statistics map, by its attribute name."""
    return {column.attribute: _whole(files, column) for column in METRICS}


def _picked(files: FoundColumns, column: Column, wanted: Collection[int]) -> dict[int, pa.Array]:
    array = files.raw(column.id)
    type_ = value_type(column)
    if array is None or array.null_count == len(array):
        nulls = pa.nulls(files.rows, type_)
        return dict.fromkeys(wanted, nulls)
    what = f"field {column.id} ({column.name})"
    if pa.types.is_struct(array.type):
        names = {array.type.field(i).name: i for i in range(array.type.num_fields)}
        found = {id_: array.field(names[str(id_)]) for id_ in wanted}
    else:
        whole = _whole(files, column)
        found = {id_: _pick(whole, id_) for id_ in wanted}
    return {id_: _sane(as_type(files.file, values, type_, what)) for id_, values in found.items()}


def _sane(values: pa.Array) -> pa.Array:
    """The counts, with null for negative ones: they are unknown."""
    if not pa.types.is_integer(values.type) or values.null_count == len(values):
        return values
    numbers = numbers_of(values, null=0)
    if numbers.min() >= 0:
        return values
    return arrow_array(numbers, null=null_mask(values) | (numbers < 0))


def _whole(files: FoundColumns, column: Column) -> pa.MapArray:
    array = files.raw(column.id)
    type_ = pa.map_(pa.int32(), value_type(column))
    if array is None:
        return pa.nulls(files.rows, type_)
    what = f"field {column.id} ({column.name})"
    if pa.types.is_map(array.type):
        keys, values = array.keys, array.items
    elif pa.types.is_list(array.type) and pa.types.is_struct(array.type.value_type):
        pairs = array.values
        if [field.name for field in array.type.value_type] != ["key", "value"]:
            raise Corrupt(files.file, f"{what} is {array.type} where a map belongs")
        keys, values = pairs.field(0), pairs.field(1)
    else:
        raise Corrupt(files.file, f"{what} is {array.type} where a map belongs")
    if keys.null_count:
        raise Corrupt(files.file, f"{what} has a null key")
    return pa.MapArray.from_arrays(
        _offsets(array), _int_keys(files.file, keys, what), as_type(files.file, values, value_type(column), what)
    )


def _int_keys(file: str, keys: pa.Array, what: str) -> pa.Array:
    if not pa.types.is_string(keys.type):
        return as_type(file, keys, pa.int32(), what)
    try:
        return keys.cast(pa.int32())
    except pa.ArrowInvalid:
        raise Corrupt(file, f"{what} has keys that are not field ids") from None


def _offsets(array: pa.Array) -> pa.Array:
    """Offsets in which null rows are null, as Arrow's constructors need them."""
    nulls = null_mask(array)
    offsets = numbers_of(array.offsets, null=0)
    return arrow_array(offsets.astype(np.int32, copy=False), null=np.append(nulls, False))


def _pick(maps: pa.MapArray, key: int) -> pa.Array:
    """The value of one key in every row. If a key is repeated, the last one is used."""
    offsets = numbers_of(maps.offsets, null=0)
    at = np.flatnonzero(numbers_of(maps.keys, null=0) == key)
    index = np.full(len(maps), -1, np.int64)
    index[np.searchsorted(offsets, at, side="right") - 1] = at
    return maps.items.take(arrow_array(index, null=index < 0))
