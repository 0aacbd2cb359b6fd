"""Decoded Avro columns, found by field id, checked for kind, named in errors by their file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from esker.errors import Corrupt


class FoundColumns:
    """The columns of one record, by id: the file's own ids first, names where it has none."""

    __slots__ = ("_by_id", "_fields", "file", "rows")

    def __init__(self, file: str, source: pa.RecordBatch | pa.StructArray, names: Mapping[str, int]) -> None:
        self.file = file
        self.rows = source.num_rows if isinstance(source, pa.RecordBatch) else len(source)
        arrow = source.schema if isinstance(source, pa.RecordBatch) else source.type
        self._by_id: dict[int, pa.Array] = {}
        self._fields: dict[int, pa.Field] = {}
        for index in range(arrow.num_fields if isinstance(arrow, pa.StructType) else len(arrow)):
            field = arrow.field(index)
            id_ = _field_id(field, names)
            # one writer names a field both ways and gives neither an id: the first stands for both
            if id_ is not None and id_ not in self._by_id:
                self._fields[id_] = field
                self._by_id[id_] = source.column(index) if isinstance(source, pa.RecordBatch) else source.field(index)

    def __contains__(self, id_: int) -> bool:
        return id_ in self._by_id

    def raw(self, id_: int) -> pa.Array | None:
        """The column as decoded; None where the writer had no such field."""
        return self._by_id.get(id_)

    def optional(self, id_: int, type_: pa.DataType) -> pa.Array | None:
        """The column as ``type_``; None where the writer had no such field."""
        array = self._by_id.get(id_)
        if array is None or array.type == type_:
            return array
        return as_type(self.file, array, type_, self._describe(id_))

    def nullable(self, id_: int, type_: pa.DataType) -> pa.Array:
        """The column as ``type_``, all null where the writer had no such field."""
        array = self.optional(id_, type_)
        return pa.nulls(self.rows, type_) if array is None else array

    def required(self, id_: int, type_: pa.DataType, name: str) -> pa.Array:
        """The column as ``type_``, which the writer must have."""
        array = self.optional(id_, type_)
        if array is None:
            raise Corrupt(self.file, f"its schema has no field {id_} ({name})")
        return array

    def struct(self, id_: int, name: str, names: Mapping[str, int]) -> FoundColumns:
        """The members of a required record."""
        array = self._by_id.get(id_)
        if array is None:
            raise Corrupt(self.file, f"its schema has no field {id_} ({name})")
        if not pa.types.is_struct(array.type):
            raise Corrupt(self.file, f"{self._describe(id_)} is {array.type} where a record belongs")
        return FoundColumns(self.file, array, names)

    def _describe(self, id_: int) -> str:
        return f"field {id_} ({self._fields[id_].name})"


def as_type(file: str, array: pa.Array, type_: pa.DataType, what: str) -> pa.Array:
    """The array cast without loss; a writer may use a wider or narrower number than the spec says."""
    if _kind(array.type) != _kind(type_):
        raise Corrupt(file, f"{what} is {array.type} where {type_} belongs")
    try:
        return array.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Corrupt(file, f"{what} is {array.type} where {type_} belongs: {_first_line(error)}") from None


def _kind(type_: pa.DataType) -> str:
    """What may stand for what: Arrow would cast far more, text to numbers included."""
    if pa.types.is_integer(type_):
        return "whole number"
    if pa.types.is_floating(type_):
        return "number"
    if pa.types.is_string(type_) or pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_):
        return "bytes"
    if pa.types.is_list(type_):
        return f"list of {_kind(type_.value_type)}"
    return str(type_)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _field_id(field: pa.Field, names: Mapping[str, int]) -> int | None:
    written: Any = (field.metadata or {}).get(b"field-id")
    return names.get(field.name) if written is None else int(written)
