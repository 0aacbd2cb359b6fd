"""Metadata columns of rows: file, position, partition and lineage. Data files need not store them (T10, I7, I8)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.value_arrays import repeated
from esker.model.partition_and_sort import PartitionSpec
from esker.model.types import BOOLEAN, INT, LONG, STRING, Field, StructType
from esker.ports.engine import Change
from esker.tree.data_file import DataFile

FILE, POS, DELETED, SPEC_ID, PARTITION = 2147483646, 2147483645, 2147483644, 2147483643, 2147483642
ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER = 2147483540, 2147483539
LINEAGE = frozenset((ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER))  # a file may store these itself
CHANGE_TYPE, CHANGE_ORDINAL, COMMIT_SNAPSHOT_ID = 2147483543, 2147483542, 2147483541
CHANGE = frozenset((CHANGE_TYPE, CHANGE_ORDINAL, COMMIT_SNAPSHOT_ID))
METADATA_COLUMNS = frozenset((FILE, POS, DELETED, SPEC_ID, PARTITION)) | LINEAGE | CHANGE

Positions = npt.NDArray[np.int64]


def metadata_column(
    wanted: Field, data_file: DataFile, spec: PartitionSpec, positions: Positions, held: pa.Array | None
) -> pa.Array:
    """The metadata column of that id for the rows at these positions. ``held`` is the file's own column, if any."""
    rows = len(positions)
    match wanted.id:
        case 2147483646:
            return repeated(STRING, data_file.path, rows)
        case 2147483645:
            return pa.array(positions, pa.int64())
        case 2147483644:
            return repeated(BOOLEAN, False, rows)
        case 2147483643:
            return repeated(INT, data_file.spec_id, rows)
        case 2147483642:
            return repeated(wanted.type, partition_value(wanted, data_file, spec), rows)
        case _:
            return _lineage(wanted.id, data_file, positions, held)


def change_value(field_id: int, change: Change | None) -> str | int | None:
    """The value of a change column for all rows of a task. None outside of a change feed."""
    if change is None:
        return None
    match field_id:
        case 2147483543:
            return change.kind
        case 2147483542:
            return change.ordinal
        case _:
            return change.snapshot_id


def change_column(wanted: Field, change: Change | None, rows: int) -> pa.Array:
    """One of the columns of a change feed."""
    return repeated(wanted.type, change_value(wanted.id, change), rows)


def partition_value(wanted: Field, data_file: DataFile, spec: PartitionSpec) -> tuple[tuple[int, object], ...] | None:
    """The partition as a held value of the unified type. Fields of other specs are null.

    None if no spec of the table has a field.
    """
    if not isinstance(wanted.type, StructType) or not wanted.type.fields:
        return None
    values = {f.field_id: value for f, value in zip(spec.fields, data_file.partition, strict=False)}
    return tuple((f.id, values.get(f.id)) for f in wanted.type)


def _lineage(field_id: int, data_file: DataFile, positions: Positions, held: pa.Array | None) -> pa.Array:
    """The value of the row if the file stores it, else the value that the row inherits from the file."""
    if data_file.first_row_id is None:
        return pa.nulls(len(positions), pa.int64())
    if field_id == ROW_ID:
        inherited = pa.array(positions + data_file.first_row_id, pa.int64())
    else:
        inherited = repeated(LONG, data_file.sequence_number, len(positions))
    return inherited if held is None else pc.coalesce(held, inherited)
