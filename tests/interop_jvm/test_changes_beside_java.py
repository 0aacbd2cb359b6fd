"""Iceberg's own changelog view beside Esker's change feed, wherever it has one: it refuses delete files."""

from __future__ import annotations

from typing import Any

import pytest
from jvm_peer import assert_equal_rows, esker_rows
from jvm_samples import ORDERS, orders

KINDS = {"INSERT": "insert", "DELETE": "delete", "UPDATE_BEFORE": "update_before", "UPDATE_AFTER": "update_after"}


def told_by_java(shared, table: str, start: int, end: int, options: str = "") -> list[dict[str, Any]]:
    shared.run(
        f"CALL {{catalog}}.system.create_changelog_view(table => '{shared.namespace}.{table}', changelog_view =>"
        f" '{table}_changes', options => map('start-snapshot-id', '{start}', 'end-snapshot-id', '{end}') {options})"
    )
    rows = shared.sql(f"SELECT * FROM {table}_changes").dicts()
    return [{**row, "_change_type": KINDS[row["_change_type"]]} for row in rows]


def test_the_feed_is_java_s_over_appends_and_copy_on_write(sqlite, write) -> None:
    table = sqlite.lake.create_table(sqlite.name("t"), ORDERS, partition_by=["region"])
    write(table, orders(0, 30))
    table.delete("id IN (3, 4, 8)")
    write(table, orders(50, 5))
    table.overwrite(orders(90, 3), "region = 'us'")
    sqlite.run("UPDATE {t} SET amount = -1 WHERE id IN (2, 6)", "DELETE FROM {t} WHERE region = 'eu'")
    table.refresh()
    ids = [snapshot.snapshot_id for snapshot in table.snapshots]
    for start, end in ((0, -1), (1, -2), (3, 4)):
        theirs = told_by_java(sqlite, "t", ids[start], ids[end])
        ours = esker_rows(table.scan_changes(ids[start], ids[end]).to_arrow())
        assert_equal_rows(ours, theirs)
        assert ours


def test_updates_are_java_s(sqlite, write) -> None:
    table = sqlite.lake.create_table(sqlite.name("t"), ORDERS)
    write(table, orders(0, 20))
    sqlite.run("UPDATE {t} SET amount = -1 WHERE id IN (2, 6)", "DELETE FROM {t} WHERE id = 7")
    table.refresh()
    ids = [snapshot.snapshot_id for snapshot in table.snapshots]
    theirs = told_by_java(sqlite, "t", ids[0], ids[-1], ", identifier_columns => array('id')")
    ours = esker_rows(table.scan_changes(ids[0], keys=["id"]).to_arrow())
    assert_equal_rows(ours, theirs)
    assert [row["_change_type"] for row in ours].count("update_after") == 2


@pytest.mark.parametrize("version", [2, 3])
def test_what_java_deletes_by_delete_files_is_told_as_what_it_deletes_by_rewriting(sqlite, write, version: int) -> None:
    feeds = []
    for name, mode in (("cow", "copy-on-write"), ("mor", "merge-on-read")):
        modes = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
        table = sqlite.lake.create_table(
            sqlite.name(name), ORDERS, partition_by=["region"], format_version=version, properties=modes
        )
        write(table, orders(0, 30))
        sqlite.run(
            f"DELETE FROM {{{name}}} WHERE id % 4 = 1",
            f"UPDATE {{{name}}} SET amount = -1, region = 'mx' WHERE id IN (2, 6)",
            f"MERGE INTO {{{name}}} t USING (SELECT 3 AS id UNION ALL SELECT 99 AS id) s ON t.id = s.id"
            " WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, region) VALUES (s.id, 'new')",
        )
        table.refresh()
        assert (table.inspect.delete_files().num_rows > 0) == (mode == "merge-on-read")
        feed = table.scan_changes(table.snapshots[0].snapshot_id).to_arrow().drop_columns("_commit_snapshot_id")
        feeds.append(esker_rows(feed))
    assert_equal_rows(*feeds)
    assert len(feeds[0]) == 8 + 4 + 2
