"""Lakes for tests of SQL that need no Spark: what Spark would be asked is answered here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import esker
from esker.lake import Lake
from esker.read.scan import Scan
from esker.spark.sql.grammar.parse_statement import read_statement
from esker.spark.sql.grammar.statements import Query, Statement
from esker.spark.sql.lake_names import LakeNames
from esker.spark.sql.queries.rewrite_query import Rewritten, Surroundings, rewrite


@dataclass
class FakeSpark:
    """Spark's side of names: its databases and temporary views."""

    databases: Sequence[str] = ("default",)
    views: Sequence[str] = ()
    asked: list[str] = field(default_factory=list)

    def has_database(self, name: str) -> bool:
        self.asked.append(name)
        return name in self.databases

    def has_temp_view(self, name: str) -> bool:
        return name in self.views

    def temp_views(self) -> list[str]:
        return list(self.views)

    def setting(self, key: str) -> str | None:
        return None

    def check_view(self, text: str, shape: object) -> None:
        return None  # a session over Spark Connect says no more of a view's text


def lake_of(tables: dict[str, tuple[str, Sequence[Any], Sequence[str]]]) -> Lake:
    """A lake in memory. Each table: its columns as DDL, batches of rows (each becomes a file), partition terms."""
    lake = esker.connect("memory:")
    for name, (columns, batches, partition_by) in tables.items():
        namespace = name.rpartition(".")[0]
        if namespace not in lake.namespaces():
            lake.create_namespace(namespace)
        table = lake.create_table(name, columns, partition_by=partition_by)
        for batch in batches:
            table.append(batch)
    return lake


def names_in(lake: Lake, *, current: tuple[str, ...] = (), spark: FakeSpark | None = None) -> LakeNames:
    """The lake's names, seen from a namespace."""
    return LakeNames(lake, spark or FakeSpark(), current)


def read_in(lake: Lake, text: str, **seen: Any) -> Statement:
    """A statement read beside a lake."""
    return read_statement(text, names_in(lake, **seen))


def rewritten(lake: Lake, text: str, *, zone: str = "UTC", **seen: Any) -> Rewritten:
    """A query made ready for Spark; a time in it is its epoch milliseconds."""
    names = names_in(lake, **seen)
    query = read_statement(text, names)
    assert isinstance(query, Query), query
    return rewrite(query, Surroundings(names, lambda: zone, lambda expression: int(expression.strip("'"))))


def only_scan(found: Rewritten) -> Scan:
    """The one scan of a query."""
    (rows,) = found.frames.values()
    assert isinstance(rows, Scan)
    return rows
