"""What a change feed must mean: applied to the rows of one snapshot it gives those of another."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
from held_rows import held_rows, telling

from esker.model.schema import Schema
from esker.read.resolve_snapshot import Resolved
from esker.read.scan_changes import ChangeScan
from esker.table import Table
from esker.tree.snapshot import Snapshot

Rows = Counter[Any]


def counted(schema: Schema, table: pa.Table) -> Rows:
    """Rows as a bag: order does not count, how many of each there are does."""
    return Counter(telling(row) for row in held_rows(schema, table))


def rows_at(table: Table, snapshot: Snapshot | None, schema: Schema, where: Any = None) -> Rows:
    """The rows of a snapshot, as a schema of another time shows them."""
    scan = table.scan(where)
    pinned = replace(scan, resolved=Resolved(snapshot=snapshot, schema=schema), projection=schema)
    return counted(schema, pinned.to_arrow())


def applied(rows: Rows, feed: ChangeScan) -> Rows:
    """The rows after the feed: what it deletes must be there, commit by commit."""
    schema, found = feed.range.schema, feed.to_arrow()
    now = Counter(rows)
    ordinals = found["_change_ordinal"].to_pylist()
    assert ordinals == sorted(ordinals), "commits come in order"
    bare = held_rows(schema, found.select([f.name for f in schema]))
    for row, kind in zip(bare, found["_change_type"].to_pylist(), strict=True):
        if kind in ("delete", "update_before"):
            assert now[telling(row)] > 0, "a feed deletes only rows that are there"
            now[telling(row)] -= 1
        else:
            now[telling(row)] += 1
    return +now


def is_minimal(feed: ChangeScan) -> bool:
    """Whether no commit of the feed both takes out and puts in equal rows."""
    schema, found = feed.range.schema, feed.to_arrow()
    bare = held_rows(schema, found.select([f.name for f in schema]))
    keys = [(ordinal, telling(row)) for ordinal, row in zip(found["_change_ordinal"].to_pylist(), bare, strict=True)]
    sides: dict[str, set[Any]] = {"delete": set(), "insert": set()}
    for key, kind in zip(keys, found["_change_type"].to_pylist(), strict=True):
        sides[kind].add(key)
    return sides["delete"].isdisjoint(sides["insert"])
