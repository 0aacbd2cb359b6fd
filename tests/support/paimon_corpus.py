"""The Paimon tables of the corpus, and the rows that each must have."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from corpus import found_corpus

GROUPS = {
    "py.db": "py",
    "java.db": "java",
    "java_upgraded.db": "java",
    "spark.db": "spark",
    "ghost.db": "ghost",
    "py20_partitions.db": "partitions",
    "py21_partitions.db": "partitions",
}
REFUSED = {"py.db/evolve_dv": "data-evolution.enabled"}


@dataclass(frozen=True)
class Case:
    """A table at a snapshot (None: the newest), and its expected rows."""

    table: str
    snapshot: int | None
    expected: Path

    def __str__(self) -> str:
        return self.table if self.snapshot is None else f"{self.table}@{self.snapshot}"

    @property
    def path(self) -> Path:
        """The directory of the table."""
        return self.expected.parents[2] / self.table

    def rows(self) -> list[str]:
        """The expected rows, each as text, sorted."""
        text = self.expected.read_text()
        if self.expected.suffix == ".jsonl":
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
        else:
            loaded = json.loads(text)
            found = loaded if isinstance(loaded, list) else loaded["rows"]
        return as_text(found)


def cases() -> list[Case]:
    """Every table and snapshot with expected rows. Empty without the corpus."""
    root = found_corpus()
    if root is None:
        return []
    found = []
    for database, group in GROUPS.items():
        for file in sorted((root / "paimon" / "expected" / group).iterdir()):
            name, _, snapshot = file.name.removesuffix(file.suffix).partition("@snapshot")
            table = f"{database}/{name}"
            if table not in REFUSED:
                found.append(Case(table, int(snapshot) if snapshot else None, file))
    return found


def as_text(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as text that can be sorted and compared."""
    return sorted(json.dumps(_plain(row), sort_keys=True, ensure_ascii=False) for row in rows)


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.replace(tzinfo=None).isoformat(timespec="microseconds")
        case date() | time():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes() | bytearray():
            return bytes(value).hex()
        case str() if "T" in value[8:12] and len(value) >= 19:
            return _moment(value)
        case dict():
            return {key: _plain(inner) for key, inner in value.items()}
        case tuple():  # a pair of a map
            return [_plain(inner) for inner in value]
        case list():
            return [_plain(inner) for inner in value]
        case _:
            return value


def _moment(text: str) -> str:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None).isoformat(timespec="microseconds")
    except ValueError:
        return text
