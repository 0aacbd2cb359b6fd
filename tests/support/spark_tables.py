"""Tables where Spark can reach them, and Spark's answers in the form that Arrow's are compared in."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
from held_rows import held_rows, telling
from table_maker import TableMaker

from esker.model.types import Field, ListType, StructType, Type, UnknownType, UuidType
from esker.read.scan import Scan
from esker.storage.local import LocalStorage
from esker.storage.memory import MemoryStorage
from esker.storage.relocated import RelocatedStorage
from esker.table import Table


def on_disk(maker: TableMaker, folder: Path) -> Table:
    """The table with its files below a folder, though they still say that they lie in memory."""
    maker.table()  # closes what is gathered into a snapshot
    storage = maker.storage
    assert isinstance(storage, MemoryStorage)
    for stored in storage.list(maker.location):
        place = folder / stored.location.removeprefix(f"{maker.location}/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(storage.read(stored.location))
    moved = RelocatedStorage(LocalStorage(), recorded=maker.location, actual=str(folder))
    return maker.table(storage=moved)


def answers(scan: Scan, spark: Any) -> tuple[list[Any], list[Any]]:
    """What Spark gives for a scan and what Arrow does, both in one order."""
    return answers_of(scan.to_spark(spark), scan)


def answers_of(frame: Any, scan: Scan) -> tuple[list[Any], list[Any]]:
    """What a frame of Spark's gives and what Arrow does for a scan, both in one order."""
    schema = scan.projection
    assert frame.columns == [f.name for f in schema]
    expected = [_shown(schema.fields, row) for row in held_rows(schema, scan.to_arrow())]
    found = frame.toArrow()
    found = found.cast(pa.schema([pa.field(f.name, _micros(f.type)) for f in found.schema]))
    return _ordered(held_rows(schema, found)), _ordered(expected)


def agrees(scan: Scan, spark: Any) -> int:
    """Assert that Spark and Arrow give the same rows; how many there are."""
    found, expected = answers(scan, spark)
    differing = [pair for pair in zip_longest(found, expected) if pair[0] != pair[1]]
    assert not differing, f"{len(found)} rows of {len(expected)}, first {differing[0]}"
    return len(found)


def _micros(type_: pa.DataType) -> pa.DataType:
    """Spark hands times of day over in nanoseconds."""
    if pa.types.is_time64(type_):
        return pa.time64("us")
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f.name, _micros(f.type)) for f in type_])
    return pa.list_(_micros(type_.value_type)) if pa.types.is_list(type_) else type_


def _ordered(rows: Iterable[dict[int, Any]]) -> list[Any]:
    return sorted((telling(row) for row in rows), key=repr)


def _shown(fields: tuple[Field, ...], row: dict[int, Any]) -> dict[int, Any]:
    return {f.id: _shown_value(f.type, row[f.id]) for f in fields}


def _shown_value(type_: Type, value: Any) -> Any:
    if value is None:
        return None
    match type_:
        case UuidType():
            return str(UUID(bytes=value))
        case UnknownType():
            return None
        case StructType(fields):
            return {f.id: _shown_value(f.type, value[f.id]) for f in fields}
        case ListType():
            return [_shown_value(type_.element, item) for item in value]
        case _:
            return value
