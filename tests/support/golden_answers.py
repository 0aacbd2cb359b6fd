"""The form in which an engine's answers about the golden tables are recorded: JSON that keeps every value apart.

Standard library alone, for the program that runs beside Java has nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID


@dataclass(frozen=True)
class Pairs:
    """A map, which is no struct and has no order."""

    items: tuple[tuple[Any, Any], ...]


@dataclass(frozen=True)
class Nanos:
    """A timestamp in nanoseconds since 1970, which Python has no type for."""

    count: int


def encoded(value: Any) -> Any:
    """The value as JSON keeps it; values that differ in any way, such as 0.0 and -0.0, differ here too."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return {"float": repr(value)}
        case Decimal():
            return {"decimal": format(value.normalize(), "f")}
        case datetime(tzinfo=None):
            return {"timestamp": value.isoformat()}
        case datetime():
            return {"instant": value.astimezone(UTC).replace(tzinfo=None).isoformat()}
        case date():
            return {"date": value.isoformat()}
        case time():
            return {"time": value.isoformat()}
        case Nanos():
            return {"nanos": value.count}
        case bytes() | bytearray():
            return {"hex": value.hex()}
        case UUID():
            return str(value)
        case Pairs():
            return {"map": sorted(([encoded(key), encoded(part)] for key, part in value.items), key=json.dumps)}
        case dict():
            return {"struct": {name: encoded(part) for name, part in value.items()}}
        case list() | tuple():
            return [encoded(part) for part in value]
        case _:
            raise TypeError(f"no form for {type(value).__name__}: {value!r}")


def bag(rows: Iterable[dict[str, Any]]) -> list[list[Any]]:
    """Rows in one order whatever order they came in."""
    return sorted(([encoded(value) for value in row.values()] for row in rows), key=json.dumps)


@dataclass(frozen=True)
class Question:
    """What is asked of a table: the arguments of Esker's ``scan``, which every engine has in some form."""

    where: str | None = None
    columns: tuple[str, ...] | None = None
    snapshot_id: int | None = None
    ref: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Only what was asked."""
        return {name: value for name, value in vars(self).items() if value is not None}


def answered(question: Question, columns: Iterable[str], rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """One question with its answer, as it is kept."""
    return {"asked": question.as_json(), "columns": list(columns), "rows": bag(rows)}
