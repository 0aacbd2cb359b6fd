"""The golden tables: where they are, what their catalogue says, and rows of Arrow in the form of the answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from golden_answers import Nanos, Pairs

from esker.model.variant import decode

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
TABLES = GOLDEN / "tables"
ANSWERS = GOLDEN / "answers"
CATALOGUE = GOLDEN / "catalogue.json"
PAGE = GOLDEN / "README.md"
VARIANT = frozenset({"metadata", "value"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenTable:
    """One line of the catalogue."""

    name: str
    writer: str  # engine and version
    recorded_by: str  # the engine whose answers are kept: the writer, but never Esker
    exercises: tuple[str, ...]
    about: str

    @property
    def directory(self) -> Path:
        """The table."""
        return TABLES / self.name

    def answers(self) -> list[dict[str, Any]]:
        """What was asked, and what the engine that recorded it said."""
        return json.loads((ANSWERS / f"{self.name}.json").read_text())


@cache
def catalogue() -> tuple[GoldenTable, ...]:
    """Every golden table."""
    lines = json.loads(CATALOGUE.read_text())
    return tuple(GoldenTable(**{**line, "exercises": tuple(line["exercises"])}) for line in lines)


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows of Arrow in the form of the answers: maps and structs apart, variants read, nanoseconds counted."""
    columns = [[_plain(field.type, scalar) for scalar in table[field.name]] for field in table.schema]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _plain(type_: pa.DataType, scalar: pa.Scalar) -> Any:
    if not scalar.is_valid:
        return None
    if pa.types.is_struct(type_) and {part.name for part in type_} == VARIANT:
        return decode(scalar["metadata"].as_py(), scalar["value"].as_py())
    if pa.types.is_struct(type_):
        return {part.name: _plain(part.type, scalar[part.name]) for part in type_}
    if pa.types.is_map(type_):
        keys, values = scalar.values.field(0), scalar.values.field(1)
        pairs = zip(keys, values, strict=True)
        return Pairs(tuple((_plain(type_.key_type, key), _plain(type_.item_type, value)) for key, value in pairs))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return [_plain(type_.value_type, part) for part in scalar.values]
    if pa.types.is_timestamp(type_) and type_.unit == "ns":
        return Nanos(scalar.value)
    return scalar.as_py()
