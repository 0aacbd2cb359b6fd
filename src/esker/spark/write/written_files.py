"""Data files that tasks wrote: described as rows that go back to the driver, and deleted after a failed job."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from itertools import islice
from typing import Any

import pyarrow as pa

from esker.errors import EskerError, InvalidInput
from esker.model.arrow_arrays import typed_array
from esker.model.partition_and_sort import partition_value_type
from esker.model.types import Type
from esker.model.values import from_bytes, to_bytes
from esker.ports.storage import Storage
from esker.tree.data_file import DataFile, Metrics
from esker.tree.table_metadata import TableMetadata

# ---------------------------------------------------------------- reports of tasks
#
# A task returns one row per data file, or one row with the reason why it refused its input.


_COUNTS = ("column_sizes", "value_counts", "null_counts", "nan_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")

# The same schema for Spark and for pyarrow.
DDL = ", ".join(
    (
        "path string, record_count bigint, file_size bigint, spec_id int, sort_order_id int",
        "partition array<binary>, split_offsets array<bigint>",
        *(f"{name} map<int, bigint>" for name in _COUNTS),
        *(f"{name} map<int, binary>" for name in _BOUNDS),
        "refusal string",
    )
)
SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("record_count", pa.int64()),
        ("file_size", pa.int64()),
        ("spec_id", pa.int32()),
        ("sort_order_id", pa.int32()),
        ("partition", pa.list_(pa.binary())),
        ("split_offsets", pa.list_(pa.int64())),
        *((name, pa.map_(pa.int32(), pa.int64())) for name in _COUNTS),
        *((name, pa.map_(pa.int32(), pa.binary())) for name in _BOUNDS),
        ("refusal", pa.string()),
    ]
)


def rows_of(files: Iterable[DataFile], types: tuple[Type, ...]) -> pa.RecordBatch:
    """Return the files as rows. ``types`` are the types of the partition values."""
    return _batch([_row(file, types) for file in files])


def refusal_of(error: InvalidInput) -> pa.RecordBatch:
    """Return a refusal as a row.

    If the error were raised, Spark would run the task again, and then report its own error.
    """
    said = json.dumps([error.message, error.facts], default=str)
    return _batch([{"refusal": said}])


def _batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """The rows as a batch, made without pandas: its import takes longer than a small task."""
    columns = [typed_array([row.get(field.name) for row in rows], field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _row(file: DataFile, types: tuple[Type, ...]) -> dict[str, Any]:
    assert file.metrics is not None
    pairs = zip(types, file.partition, strict=True)
    return {
        "path": file.path,
        "record_count": file.record_count,
        "file_size": file.file_size,
        "spec_id": file.spec_id,
        "sort_order_id": file.sort_order_id,
        "partition": [None if value is None else to_bytes(type_, value) for type_, value in pairs],
        "split_offsets": list(file.split_offsets),
        **{name: getattr(file.metrics, name) for name in (*_COUNTS, *_BOUNDS)},
    }


def files_of(rows: pa.Table, types: tuple[Type, ...]) -> tuple[list[DataFile], InvalidInput | None]:
    """Return the files that the tasks wrote, and the refusal of a task if there is one."""
    files, refusal = [], None
    for row in rows.to_pylist():
        if row["refusal"] is not None:
            message, facts = json.loads(row["refusal"])
            refusal = refusal or InvalidInput(message, **facts)
        else:
            files.append(_file(row, types))
    return files, refusal


def _file(row: dict[str, Any], types: tuple[Type, ...]) -> DataFile:
    pairs = zip(types, row["partition"], strict=True)
    return DataFile(
        path=row["path"],
        file_format="parquet",
        record_count=row["record_count"],
        file_size=row["file_size"],
        spec_id=row["spec_id"],
        sort_order_id=row["sort_order_id"],
        partition=tuple(None if data is None else from_bytes(type_, data) for type_, data in pairs),
        split_offsets=tuple(row["split_offsets"]),
        metrics=Metrics(**{name: dict(row[name]) for name in (*_COUNTS, *_BOUNDS)}),
    )


def partition_types(metadata: TableMetadata) -> tuple[Type, ...]:
    """The types of the values in a partition of the table's current spec."""
    return tuple(partition_value_type(field, metadata.schema.by_id) for field in metadata.spec.fields)


# ---------------------------------------------------------------- files of a failed job


log = logging.getLogger("esker.spark")

_MOST_TO_LOOK_AT = 100_000


def sweep(storage: Storage, folder: str, operation_id: str) -> None:
    """Delete the files that tasks of a failed job had finished.

    Their names were not reported, so the files are found by the operation id in their names, in a folder with a limited
    number of files. Files that remain, and files of a task that fails later, are orphan files like any other.
    """
    try:
        stored = [file.location for file in islice(storage.list(folder), _MOST_TO_LOOK_AT)]
    except (EskerError, OSError) as error:
        log.warning("cannot look for files that a failed job left below %s: %s", folder, error)
        return
    delete(storage, (location for location in stored if operation_id in location.rpartition("/")[2]))


def delete(storage: Storage, locations: Iterable[str]) -> None:
    """Delete files that are not part of the table."""
    for location in locations:
        try:
            storage.delete(location)
        except (EskerError, OSError) as error:
            log.warning("cannot delete %s, which is not part of the table: %s", location, error)
