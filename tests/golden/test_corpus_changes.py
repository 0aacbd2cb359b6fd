"""Histories that other engines wrote: each snapshot's changes lead from the rows before to the rows after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from change_feeds import applied, rows_at
from corpus import found_corpus, of_each

import esker
from esker.errors import EskerError

MOST_ROWS = 20_000


def tables() -> list[Path]:
    root = found_corpus()
    return [] if root is None else sorted(path.parent for path in (root / "iceberg").glob("*/*/metadata"))


def told_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def steps(table: esker.Table) -> list[tuple[Any, Any]]:
    """Snapshots beside the one each came from, where both are still there."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.snapshots}
    known = [(by_id.get(s.parent_snapshot_id or -1), s) for s in table.snapshots]
    return [(before, after) for before, after in known if before is not None or after.parent_snapshot_id is None]


@of_each("path", tables(), ids=told_of)
def test_the_changes_of_other_engines_lead_on(path: Path) -> None:
    try:
        table = esker.open_table(path)
        pairs = [(b, a) for b, a in steps(table) if a.operation != "replace"]
    except EskerError as error:
        pytest.skip(f"not to be opened: {error}")
    told = 0
    for before, after in pairs[-12:]:
        feed = table.scan_changes(None if before is None else before.snapshot_id, after.snapshot_id)
        schema = feed.range.schema
        try:
            if feed.plan().funnel.rows_kept > MOST_ROWS:
                continue
            start, end = (rows_at(table, snapshot, schema) for snapshot in (before, after))
        except EskerError:
            continue  # files of old snapshots are not in the corpus
        assert applied(start, feed) == end
        assert feed.count() == feed.to_arrow().num_rows
        told += 1
    if not told:
        pytest.skip("no snapshot whose files are all here")
