"""A manifest on the wire: the records of entries and files (T3, T4) as tables, and what of them a reader asks for."""

from __future__ import annotations

from collections.abc import Mapping

from esker import avro
from esker.iceberg.avro_name import avro_name
from esker.iceberg.column import NEVER, Column, ids_by_name, int_map, list_of
from esker.model.partition import PartitionSpec
from esker.ports.table_format import EntryColumns

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
"""The maps that pruning asks single columns of."""


def projection(spec: PartitionSpec | None, columns: EntryColumns) -> avro.Projection:
    """What to decode. ``spec`` is None where only the manifest's own header can tell."""
    ids = {column.id for column in (*ENTRY, *FILE) if column.attribute != "block_size"}
    picks: dict[int, tuple[int, ...]] = {}
    if columns.rest:
        ids |= {column.id for column in REST}
    if columns.full_metrics:
        ids |= {column.id for column in METRICS}
    elif columns.metrics:
        picks = {column.id: tuple(columns.metrics) for column in PICKED}
    # a partition field whose id is also that of a field above would hide its siblings: choose each by itself
    ids |= set() if spec is None else {field.field_id for field in spec.fields}
    return avro.Projection.of(ids, map_keys=picks, names={**_DOTTED, **_partition_paths(spec)})


def partition_names(spec: PartitionSpec) -> Mapping[str, int]:
    """The spec's members by name on the wire, for manifests whose writer left the ids out."""
    names = {field.name: field.field_id for field in spec.fields}
    return {**{avro_name(name): id_ for name, id_ in names.items()}, **names}


def _partition_paths(spec: PartitionSpec | None) -> Mapping[str, int]:
    if spec is None:
        return {}
    return {f"data_file.partition.{name}": id_ for name, id_ in partition_names(spec).items()}


_DOTTED = {**ENTRY_NAMES, **ids_by_name((*FILE, *METRICS, *REST), above="data_file.")}
