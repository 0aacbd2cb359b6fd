"""Changes of rows, each made twice: on a table of ours, and on a list of dicts that stands for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from esker.lake import Lake
from esker.table import Table
from esker.write.verbs import Transaction

NAME = "sales.orders"
SCHEMA = "id bigint, region string, n int"
Row = dict[str, Any]
Model = list[Row]

REGIONS = (None, "eu", "us")
PARTITIONINGS: tuple[tuple[str, ...], ...] = ((), ("region",), ("bucket(3, id)",))
ids = st.none() | st.integers(0, 9)
a_row = st.fixed_dictionaries({"id": ids, "region": st.sampled_from(REGIONS), "n": st.none() | st.integers(-3, 3)})
some_rows = st.lists(a_row, max_size=6)


@dataclass(frozen=True)
class Where:
    """A predicate in SQL, and the same in Python: true, false or None."""

    sql: str
    holds: Callable[[Row], bool | None]

    def __repr__(self) -> str:
        return self.sql


def _between(low: int, high: int) -> Where:
    return Where(f"id BETWEEN {low} AND {high}", lambda row: None if row["id"] is None else low <= row["id"] <= high)


def _above(limit: int) -> Where:
    return Where(f"NOT (n <= {limit})", lambda row: None if row["n"] is None else row["n"] > limit)


wheres = st.one_of(
    st.builds(_between, st.integers(0, 9), st.integers(0, 9)),
    st.builds(_above, st.integers(-3, 3)),
    st.sampled_from(
        [
            Where("region = 'eu'", lambda row: None if row["region"] is None else row["region"] == "eu"),
            Where("region IS NULL OR n = 0", lambda row: row["region"] is None or row["n"] == 0),
            Where("id IN (1, 2, 3, 5, 8)", lambda row: row["id"] in (1, 2, 3, 5, 8)),
            Where("true", lambda row: True),
        ]
    ),
)
sets = st.sampled_from(
    [
        ({"n": "n + 1"}, lambda row: {"n": None if row["n"] is None else row["n"] + 1}),
        ({"n": "- n * 2"}, lambda row: {"n": None if row["n"] is None else -row["n"] * 2}),
        ({"region": "'us'", "n": "id"}, lambda row: {"region": "us", "n": row["id"]}),
        ({"id": "id + 0", "region": "NULL"}, lambda row: {"region": None}),
    ]
)


@dataclass(frozen=True)
class Append:
    """Rows come."""

    rows: Sequence[Row]

    def change(self, tx: Transaction) -> None:
        tx.append(arrow(self.rows))

    def model(self, model: Model) -> Model:
        return [*model, *self.rows]


@dataclass(frozen=True)
class Delete:
    """Rows that match go."""

    where: Where

    def change(self, tx: Transaction) -> None:
        tx.delete(self.where.sql)

    def model(self, model: Model) -> Model:
        return [row for row in model if not self.where.holds(row)]


@dataclass(frozen=True)
class Update:
    """Rows that match change."""

    values: tuple[Mapping[str, str], Callable[[Row], Row]]
    where: Where

    def change(self, tx: Transaction) -> None:
        tx.update(self.values[0], self.where.sql)

    def model(self, model: Model) -> Model:
        return [{**row, **self.values[1](row)} if self.where.holds(row) else row for row in model]


@dataclass(frozen=True)
class Upsert:
    """Rows come, and take the place of those with their key."""

    rows: Sequence[Row]

    def change(self, tx: Transaction) -> None:
        tx.upsert(arrow(self.rows), on=["id"])

    def model(self, model: Model) -> Model:
        by_id = {row["id"]: row for row in self.rows}
        there = {row["id"] for row in model}
        changed = [by_id.get(row["id"], row) for row in model]
        return changed + [row for row in self.rows if row["id"] not in there]


@dataclass(frozen=True)
class Overwrite:
    """Rows come in the place of those that match."""

    rows: Sequence[Row]
    where: Where

    def change(self, tx: Transaction) -> None:
        tx.overwrite(arrow(self.rows), self.where.sql)

    def model(self, model: Model) -> Model:
        return [row for row in model if not self.where.holds(row)] + list(self.rows)


@dataclass(frozen=True)
class Stream:
    """A streaming upsert: keys go unread, and rows come."""

    rows: Sequence[Row]

    def change(self, tx: Transaction) -> None:
        tx.delete_by_key(arrow(self.rows), on=["id"])
        tx.append(arrow(self.rows))

    def model(self, model: Model) -> Model:
        keys = {row["id"] for row in self.rows}
        return [row for row in model if row["id"] not in keys] + list(self.rows)


Change = Append | Delete | Update | Upsert | Overwrite | Stream
_keyed = st.lists(a_row, max_size=6, unique_by=lambda row: row["id"])
changes: st.SearchStrategy[Any] = st.one_of(
    st.builds(Append, some_rows),
    st.builds(Delete, wheres),
    st.builds(Update, sets, wheres),
    st.builds(Upsert, _keyed),
    st.builds(Overwrite, some_rows, wheres),
)
beginnings = st.builds(Append, st.lists(a_row, min_size=5, max_size=12))
streams = st.builds(Stream, _keyed.filter(bool))


def arrow(rows: Sequence[Row]) -> pa.Table:
    """Rows as a user hands them over."""
    kinds = {"id": pa.int64(), "region": pa.string(), "n": pa.int32()}
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})


def make(lake: Lake, version: int, modes: Mapping[str, str], partition_by: Sequence[str], **more: str) -> Table:
    """The table, empty, with the mode of each verb."""
    if "sales" not in lake.namespaces():
        lake.create_namespace("sales")
    properties = {f"write.{verb}.mode": mode for verb, mode in modes.items()}
    return lake.create_table(
        NAME, SCHEMA, format_version=version, partition_by=partition_by, properties={**properties, **more}
    )


def in_order(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Rows so that two bags of them compare."""
    return sorted(tuple(repr(row[name]) for name in ("id", "region", "n")) for row in rows)


def rows_in(table: Table, **how: Any) -> list[tuple[str, ...]]:
    """What a table holds, in order."""
    return in_order(table.scan(**how).to_arrow().to_pylist())


MODES = st.fixed_dictionaries(
    {verb: st.sampled_from(["copy-on-write", "merge-on-read"]) for verb in ("delete", "update", "merge")}
)
