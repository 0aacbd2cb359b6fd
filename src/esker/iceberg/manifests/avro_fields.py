"""Fields of Avro records: the tables of the spec as data, Avro's rules for names, and decoded columns by field id.

A reader finds fields by id (checklist A7) and uses names only if a writer wrote no ids. A writer omits fields that its
format version does not have. Both use the same tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from esker.errors import Corrupt

# ---------------------------------------------------------------- Names
#
# Letters, digits and underscores, not beginning with a digit.


_ALLOWED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def avro_name(name: str) -> str:
    """The name, if Avro allows it. Else with each other character as ``_x`` and its code in hex, as Java does."""
    if _ALLOWED.match(name):
        return name
    return "".join(_sign(sign, first=at == 0) for at, sign in enumerate(name)) or "_"


def _sign(sign: str, *, first: bool) -> str:
    if sign.isascii() and (sign.isalpha() or sign == "_" or (sign.isdigit() and not first)):
        return sign
    # A leading digit gets an underscore before it; other characters become their codes.
    return f"_{sign}" if sign.isascii() and sign.isdigit() else f"_x{ord(sign):X}"


# ---------------------------------------------------------------- The tables of the spec


NEVER = 99
"""A format version that does not exist: the field is never required, or never dropped."""

AvroType = str | dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One field of a record in the spec, with the format versions that write it."""

    id: int
    name: str
    avro: AvroType
    attribute: str  # its name in the model
    since: int = 1  # the first version that writes it
    required_since: int = 1  # the first version in which it may not be null
    until: int = NEVER  # the last version that writes it

    def is_written_in(self, version: int) -> bool:
        """Whether a writer of that format version writes the field."""
        return self.since <= version <= self.until


def list_of(element_id: int, items: AvroType) -> AvroType:
    """An array whose element has an id (checklist A1)."""
    return {"type": "array", "items": items, "element-id": element_id}


def int_map(key_id: int, value_id: int, value: AvroType) -> AvroType:
    """A map with int keys. Avro has it only as an array of pairs (checklist A2)."""
    pair = {
        "type": "record",
        "name": f"k{key_id}_v{value_id}",
        "fields": [
            {"name": "key", "type": "int", "field-id": key_id},
            {"name": "value", "type": value, "field-id": value_id},
        ],
    }
    return {"type": "array", "items": pair, "logicalType": "map"}


def optional(type_: AvroType) -> list[AvroType]:
    """A nullable type: a union of null, first, and the type (checklist A3)."""
    return ["null", type_]


def avro_field(column: Column, version: int, type_: AvroType | None = None) -> dict[str, Any]:
    """The field as a format version writes it. ``type_`` is given if the type depends on the table."""
    avro = column.avro if type_ is None else type_
    if version >= column.required_since:
        return {"name": column.name, "type": avro, "field-id": column.id}
    return {"name": column.name, "type": optional(avro), "default": None, "field-id": column.id}


def record(name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    """A record schema."""
    return {"type": "record", "name": name, "fields": fields}


def ids_by_name(columns: Iterable[Column], above: str = "") -> Mapping[str, int]:
    """Ids by name, for files whose writer wrote no ids. ``above`` is the prefix of each name."""
    return {above + column.name: column.id for column in columns}


# ---------------------------------------------------------------- Decoded columns


class FoundColumns:
    """The columns of one record, by id. Names are used only for fields without an id. Errors name the file."""

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
            # One writer uses a name twice, without ids: the first column is used for both.
            if id_ is not None and id_ not in self._by_id:
                self._fields[id_] = field
                self._by_id[id_] = source.column(index) if isinstance(source, pa.RecordBatch) else source.field(index)

    def __contains__(self, id_: int) -> bool:
        return id_ in self._by_id

    def raw(self, id_: int) -> pa.Array | None:
        """The decoded column. None if the writer did not write it."""
        return self._by_id.get(id_)

    def optional(self, id_: int, type_: pa.DataType) -> pa.Array | None:
        """The column as ``type_``. None if the writer did not write it."""
        array = self._by_id.get(id_)
        if array is None or array.type == type_:
            return array
        return as_type(self.file, array, type_, self._describe(id_))

    def nullable(self, id_: int, type_: pa.DataType) -> pa.Array:
        """The column as ``type_``. All null if the writer did not write it."""
        array = self.optional(id_, type_)
        return pa.nulls(self.rows, type_) if array is None else array

    def required(self, id_: int, type_: pa.DataType, name: str) -> pa.Array:
        """The column as ``type_``. Raises `Corrupt` if the writer did not write it."""
        array = self.optional(id_, type_)
        if array is None:
            raise Corrupt(self.file, f"its schema has no field {id_} ({name})")
        return array

    def struct(self, id_: int, name: str, names: Mapping[str, int]) -> FoundColumns:
        """The fields of a required record."""
        array = self._by_id.get(id_)
        if array is None:
            raise Corrupt(self.file, f"its schema has no field {id_} ({name})")
        if not pa.types.is_struct(array.type):
            raise Corrupt(self.file, f"{self._describe(id_)} is {array.type} where a record belongs")
        return FoundColumns(self.file, array, names)

    def _describe(self, id_: int) -> str:
        return f"field {id_} ({self._fields[id_].name})"


def as_type(file: str, array: pa.Array, type_: pa.DataType, what: str) -> pa.Array:
    """The array, cast without loss: a writer may use a wider or narrower number than the spec. Raises `Corrupt`."""
    if _kind(array.type) != _kind(type_):
        raise Corrupt(file, f"{what} is {array.type} where {type_} belongs")
    try:
        return array.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Corrupt(file, f"{what} is {array.type} where {type_} belongs: {_first_line(error)}") from None


def _kind(type_: pa.DataType) -> str:
    """The kind of a type. Only types of one kind are cast: Arrow would also cast text to numbers."""
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
