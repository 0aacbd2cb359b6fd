"""Whatever verb changed rows, and in whichever mode: the feed tells just the rows that are not the same any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import given, note, settings
from hypothesis import strategies as st

import esker
from esker.table import Table

EXAMPLES = settings(max_examples=12 if settings.default.max_examples == 100 else settings.default.max_examples)
Row = tuple[int, str, int]
MODES = ("copy-on-write", "merge-on-read")
_IDS = st.integers(0, 5)
_ROWS = st.tuples(_IDS, st.sampled_from("xy"), st.integers(0, 2))
_UNIQUE = st.lists(_ROWS, min_size=1, max_size=4, unique_by=lambda row: row[0])


def as_table(rows: list[Row]) -> pa.Table:
    ids, parts, values = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "part": pa.array(parts, pa.string()), "v": pa.array(values, pa.int64())}
    )


def append(table: Table, rows: list[Row]) -> None:
    table.append(as_table(rows))


def overwrite(table: Table, rows: list[Row]) -> None:
    table.overwrite(as_table(rows), where="id < 3")


def overwrite_partitions(table: Table, rows: list[Row]) -> None:
    table.overwrite_partitions(as_table(rows))


def delete(table: Table, rows: list[Row]) -> None:
    table.delete(f"id = {rows[0][0]} or v = {rows[-1][2]}")


def update(table: Table, rows: list[Row]) -> None:
    table.update({"v": "v + 1", "part": f"'{rows[0][1]}'"}, f"id <= {rows[0][0]}")


def upsert(table: Table, rows: list[Row]) -> None:
    table.upsert(as_table(rows), on=["id"])


def replace_by_key(table: Table, rows: list[Row]) -> None:
    with table.transaction() as tx:
        tx.delete_by_key(as_table(rows), on=["id", "part"])
        tx.append(as_table(rows))


VERBS: list[Callable[[Table, list[Row]], None]] = [
    append,
    overwrite,
    overwrite_partitions,
    delete,
    update,
    upsert,
    replace_by_key,
]
_STEPS = st.lists(st.tuples(st.sampled_from(VERBS), _UNIQUE), min_size=2, max_size=6)


def made(mode: str, version: int, parts: list[str]) -> Table:
    lake = esker.connect("memory:")
    lake.create_namespace("ns")
    modes = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
    return lake.create_table(
        "ns.t", "id bigint, part string, v bigint", partition_by=parts, properties=modes, format_version=version
    )


def rows_of(table: Table) -> Counter[Row]:
    return Counter(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


def told(feed: Any) -> tuple[Counter[Row], Counter[Row]]:
    """What was deleted, and what was inserted."""
    sides: tuple[Counter[Row], Counter[Row]] = (Counter(), Counter())
    for row in feed.to_arrow().to_pylist():
        sides[row["_change_type"] == "insert"][row["id"], row["part"], row["v"]] += 1
    return sides


@EXAMPLES
@given(_STEPS, st.sampled_from([2, 3]), st.sampled_from([[], ["part"], ["bucket(2, id)"]]))
def test_each_write_tells_the_rows_that_are_not_the_same_any_more(
    steps: list[tuple[Any, list[Row]]], version: int, parts: list[str]
) -> None:
    for mode in MODES:
        table = made(mode, version, parts)
        before: Counter[Row] = Counter()
        last = None
        for verb, rows in steps:
            note(f"{mode}: {verb.__name__} {rows}")
            verb(table, rows)
            after = rows_of(table)
            current = table.current_snapshot
            feed = table.scan_changes(last, None if current is None else current.snapshot_id)
            assert told(feed) == (before - after, after - before)
            before, last = after, None if current is None else current.snapshot_id
        deleted, inserted = told(table.scan_changes(None))
        assert +inserted == deleted + before


@EXAMPLES
@given(_STEPS, st.sampled_from([2, 3]), st.sampled_from([[], ["part"]]), st.sampled_from(MODES), st.data())
def test_net_changes_are_the_difference_of_two_snapshots_and_nothing_more(
    steps: list[tuple[Any, list[Row]]], version: int, parts: list[str], mode: str, data: st.DataObject
) -> None:
    table = made(mode, version, parts)
    seen: list[tuple[int | None, Counter[Row]]] = [(None, Counter())]
    for verb, rows in steps:
        note(f"{verb.__name__} {rows}")
        verb(table, rows)
        current = table.current_snapshot
        seen.append((None if current is None else current.snapshot_id, rows_of(table)))
    first = data.draw(st.integers(0, len(seen) - 1))
    last = data.draw(st.integers(first, len(seen) - 1))
    (start, before), (end, after) = seen[first], seen[last]
    if end is None:
        return
    feed = table.scan_changes(start, end, net=True)
    assert told(feed) == (before - after, after - before)
    assert feed.count() == sum((before - after).values()) + sum((after - before).values())


@EXAMPLES
@given(_UNIQUE, _UNIQUE, st.sampled_from(MODES), st.sampled_from([2, 3]))
def test_an_upsert_is_told_as_updates_by_its_key(old: list[Row], new: list[Row], mode: str, version: int) -> None:
    table = made(mode, version, ["part"])
    start = table.append(as_table(old)).snapshot_id
    table.upsert(as_table(new), on=["id"])
    feed = table.scan_changes(start, keys=["id"]).to_arrow().to_pylist()
    was, now = ({row[0]: row for row in rows} for rows in (old, new))
    changed = sorted(id_ for id_ in was.keys() & now.keys() if was[id_] != now[id_])
    pairs = [row["id"] for row in feed if row["_change_type"] == "update_before"]
    assert sorted(pairs) == changed
    assert pairs == [row["id"] for row in feed if row["_change_type"] == "update_after"]
    assert sorted(row["id"] for row in feed if row["_change_type"] == "insert") == sorted(now.keys() - was.keys())
    assert not [row for row in feed if row["_change_type"] == "delete"]
