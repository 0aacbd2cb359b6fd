"""The records of manifest lists, manifests and index manifests: the fields of each, and files of them as columns.

Fields are found by name. A field that the writer did not know is null. A file is Avro, ORC or Parquet
(``manifest.format``); its first bytes say which.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from esker import avro
from esker.errors import Corrupt, Unsupported
from esker.model.arrow_arrays import arrow_array

AvroType = str | dict[str, Any] | list[Any]
_COLUMNAR = (b"ORC", b"PAR1")


@dataclass(frozen=True, slots=True)
class Member:
    """One field of a record: its place, its type in new files, and its type as a column."""

    path: str  # dotted
    avro: AvroType
    arrow: pa.DataType
    optional: bool = False

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]


COUNTS = pa.list_(pa.int64())
STATS = pa.struct([("_MIN_VALUES", pa.binary()), ("_MAX_VALUES", pa.binary()), ("_NULL_COUNTS", COUNTS)])


def stats_record(name: str) -> dict[str, Any]:
    """The Avro record of statistics. Every record of a schema needs a name of its own."""
    counts = {"type": "array", "items": ["null", "long"]}
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": "_MIN_VALUES", "type": "bytes"},
            {"name": "_MAX_VALUES", "type": "bytes"},
            {"name": "_NULL_COUNTS", "type": ["null", counts], "default": None},
        ],
    }


def avro_record(name: str, members: Sequence[Member]) -> dict[str, Any]:
    """The Avro schema of a record with these members. Members with a dot are in the record that they name."""
    top: list[dict[str, Any]] = []
    below: dict[str, list[Member]] = {}
    for member in members:
        outer, _, inner = member.path.rpartition(".")
        if not outer:
            top.append(_avro_field(inner, member))
            continue
        if outer not in below:
            top.append({"name": outer, "type": outer})  # replaced below
        below.setdefault(outer, []).append(member)
    for field in top:
        if field["name"] in below:
            inside = [_avro_field(member.name, member) for member in below[field["name"]]]
            field["type"] = {"type": "record", "name": f"{name}_{field['name']}", "fields": inside}
    return {"type": "record", "name": name, "namespace": "org.apache.paimon.avro.generated", "fields": top}


def _avro_field(name: str, member: Member) -> dict[str, Any]:
    if member.optional:
        return {"name": name, "type": ["null", member.avro], "default": None}
    return {"name": name, "type": member.avro}


# ---------------------------------------------------------------- Reading


def read_records(
    files: Iterable[tuple[str, bytes]], members: Sequence[Member], *, version: int, only: frozenset[str] | None = None
) -> pa.Table:
    """The records of many files in order: one column per member, named by its path, and ``file`` with the number of
    the file. ``only`` are the paths to decode; ``_VERSION`` is checked and left out."""
    wanted = [member for member in members if only is None or member.path in only or member.path == "_VERSION"]
    named = list(files)
    parts = {**_avro_parts(named, wanted), **_column_parts(named, wanted)}
    found = pa.concat_tables([_empty(wanted), *(parts[at] for at in sorted(parts))])
    versions = set(found["_VERSION"].unique().to_pylist())
    if versions - {version}:
        raise Unsupported(
            f"cannot read {named[0][0]}: its records have version {min(map(str, versions - {version}))}, "
            f"and {version} is known",
            feature="manifest _VERSION",
        )
    return found.drop_columns(["_VERSION"])


def _avro_parts(files: Sequence[tuple[str, bytes]], wanted: Sequence[Member]) -> dict[int, pa.Table]:
    given = [(at, name, data) for at, (name, data) in enumerate(files) if not data.startswith(_COLUMNAR)]
    parts: dict[int, pa.Table] = {}
    for columns in avro.decode_many(
        [(name, data) for _, name, data in given], want=_projection(tuple(member.path for member in wanted))
    ):
        table = _columns(columns.parts[0].file, columns.batch.to_struct_array(), wanted)
        start = 0
        for part in columns.parts:
            number = given[part.index][0]
            parts[number] = _numbered(table.slice(start, part.rows), number)
            start += part.rows
    return parts


def _column_parts(files: Sequence[tuple[str, bytes]], wanted: Sequence[Member]) -> dict[int, pa.Table]:
    parts: dict[int, pa.Table] = {}
    for at, (name, data) in enumerate(files):
        if data.startswith(_COLUMNAR):
            read = _read_columns(name, data)
            struct = pa.concat_arrays(
                [batch.to_struct_array() for batch in read.to_batches()] or [pa.nulls(0, pa.struct(read.schema))]
            )
            parts[at] = _numbered(_columns(name, struct, wanted), at)
    return parts


def _read_columns(name: str, data: bytes) -> pa.Table:
    """The content of an ORC or Parquet file. Raises ``Corrupt``."""
    form = "ORC" if data.startswith(b"ORC") else "Parquet"
    try:
        if form == "ORC":
            from pyarrow import orc

            return orc.ORCFile(pa.BufferReader(data)).read()
        import pyarrow.parquet as pq

        return pq.ParquetFile(pa.BufferReader(data)).read()
    except (OSError, pa.ArrowException) as error:
        raise Corrupt(name, f"it is no {form} file: {error}") from None


@cache
def _projection(paths: tuple[str, ...]) -> avro.Projection:
    names = {path: number for number, path in enumerate(paths)}
    return avro.Projection.of(names.values(), names=names)


def _numbered(table: pa.Table, number: int) -> pa.Table:
    return table.append_column("file", arrow_array(np.full(len(table), number, np.int32)))


def _columns(file: str, rows: pa.StructArray, wanted: Sequence[Member]) -> pa.Table:
    arrays = [_member(file, rows, member) for member in wanted]
    return pa.Table.from_arrays(arrays, names=[member.path for member in wanted])


def _member(file: str, rows: pa.StructArray, member: Member) -> pa.Array:
    found: pa.Array = rows
    for name in member.path.split("."):
        at = found.type.get_field_index(name)
        if at < 0:
            if not member.optional:
                raise Corrupt(file, f"its records have no {member.path}")
            return pa.nulls(len(rows), member.arrow)
        found = found.field(at)
    try:
        return _as(found, member.arrow)
    except (pa.ArrowException, KeyError) as error:
        raise Corrupt(file, f"its {member.path} is {found.type}: {error}") from None


def _as(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The array in another type. Members of structs are found by name."""
    if array.type == wanted:
        return array
    if pa.types.is_struct(wanted):
        inside = [_inner(array, field) for field in wanted]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(inside, fields=list(wanted), mask=mask)
    if pa.types.is_list(wanted) and pa.types.is_list(array.type) and pa.types.is_struct(wanted.value_type):
        values = _as(array.values, wanted.value_type)
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(array.offsets, values, type=wanted, mask=mask)
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ms"), safe=False)
    return array.cast(wanted)


def _inner(array: pa.StructArray, field: pa.Field) -> pa.Array:
    at = array.type.get_field_index(field.name)
    return pa.nulls(len(array), field.type) if at < 0 else _as(array.field(at), field.type)


def _empty(wanted: Sequence[Member]) -> pa.Table:
    names = [*(member.path for member in wanted), "file"]
    types = [*(member.arrow for member in wanted), pa.int32()]
    return pa.Table.from_arrays([pa.nulls(0, type_) for type_ in types], names=names)  # pandas is not loaded for it


# ---------------------------------------------------------------- Writing


def write_records(schema: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> bytes:
    """An Avro file of records, with Paimon's default codec."""
    return avro.write(schema, records, codec="zstandard")
