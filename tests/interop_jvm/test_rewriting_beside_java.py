"""Esker's procedures that rewrite files beside the reference's, called with the same arguments on twins of a table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from row_models import SCHEMA, arrow

from esker.spark.sql.run_statement import SqlRunner
from esker.table import Table

BESIDE = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}


def made(shared: Any, name: str, version: int, partition_by: tuple[str, ...] = (), **more: str) -> Table:
    """Six files, or six in each partition, with position deletes or vectors, and an equality delete."""
    table: Table = shared.lake.create_table(
        shared.name(name), SCHEMA, format_version=version, partition_by=partition_by, properties={**BESIDE, **more}
    )
    for at in range(6):
        ids = range(at * 10, at * 10 + 10)
        table.append(arrow([{"id": i, "region": "eu" if i % 2 else "us", "n": i} for i in ids]))
    table.delete("id IN (3, 14, 25, 26)")
    table.delete("id IN (4, 15)")
    keys = pa.table({"id": pa.array([8], pa.int64()), "region": ["us"]})
    with table.transaction() as tx:
        tx.delete_by_key(keys, ["id", "region"])
    return table


def ours(shared: Any, text: str) -> tuple[str, list[tuple[Any, ...]]]:
    """What Esker answers, without Spark."""

    def no_spark() -> Any:
        raise AssertionError("Spark was asked for")

    found: Any = SqlRunner(shared.lake, no_spark).do(text)
    return found.columns, list(found.rows)


def counts(table: Table) -> dict[str, int]:
    """The files that are live, and the manifests that list them."""
    live = [
        row
        for row in table.refresh().inspect.manifests().to_pylist()
        if row["added_data_files_count"] + row["existing_data_files_count"] > 0
        or row["added_delete_files_count"] + row["existing_delete_files_count"] > 0
    ]
    return {
        "data": table.inspect.data_files().num_rows,
        "deletes": table.inspect.delete_files().num_rows,
        "manifests": len(live),
        "snapshots": len(table.snapshots),
    }


def both(shared: Any, call: str) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The rows that the two answer, Esker for the table ``o`` and Java for ``j``; their columns are the same."""
    columns, rows = ours(shared, call.format(t=shared.name("o"), system="system"))
    answer = shared.java.sql(call.format(t=f"{shared.namespace}.j", system=f"{shared.catalog}.system"))
    assert [name.split() for name in columns.split(", ")] == [[name, kind] for name, kind in answer.columns]
    return rows, list(answer.rows)


CALLS = {
    "binpack": "CALL {system}.rewrite_data_files(table => '{t}')",
    "all, without dangling deletes": (
        "CALL {system}.rewrite_data_files(table => '{t}', "
        "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true'))"
    ),
    "sort": (
        "CALL {system}.rewrite_data_files(table => '{t}', strategy => 'sort', sort_order => 'n DESC NULLS LAST', "
        "options => map('rewrite-all', 'true'))"
    ),
    "z-order": (
        "CALL {system}.rewrite_data_files(table => '{t}', strategy => 'sort', sort_order => 'zorder(id, n)', "
        "options => map('rewrite-all', 'true'))"
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(("version", "partition_by"), [(2, ()), (2, ("region",)), (3, ())], ids=["v2", "by", "v3"])
def test_rewrite_data_files_leaves_as_many_files(
    sqlite: Any, name: str, version: int, partition_by: tuple[str, ...]
) -> None:
    tables = [made(sqlite, table, version, partition_by) for table in ("o", "j")]
    ((*mine, removed),), ((*theirs, removed_by_java),) = both(sqlite, CALLS[name])
    assert mine == theirs
    if version == 3:
        assert removed == removed_by_java
    else:  # Esker removes the position deletes of a file with the file; Java leaves them to later commits
        assert removed == removed_by_java + (6 if partition_by else 3)
    found = [counts(table) for table in tables]
    assert found[0]["data"] == found[1]["data"]
    if "dangling" in name:
        assert [one["deletes"] for one in found] == [0, 0]
    rows = [sorted(sqlite.assert_same(table), key=lambda row: row["id"]) for table in ("o", "j")]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 53


LIMITED = {
    "some files": "options => map('max-files-to-rewrite', '4', 'min-input-files', '2')",
    "one partition": "where => 'region = \"eu\"', options => map('rewrite-all', 'true')",
    "in an order": (
        "options => map('rewrite-all', 'true', 'rewrite-job-order', 'files-desc', 'partial-progress.enabled', 'true', "
        "'partial-progress.max-commits', '2')"
    ),
}


@pytest.mark.parametrize("name", LIMITED)
def test_a_limited_rewriting_takes_as_many_files(sqlite: Any, name: str) -> None:
    tables = [made(sqlite, table, 3, ("region",)) for table in ("o", "j")]
    call = f"CALL {{system}}.rewrite_data_files(table => '{{t}}', {LIMITED[name]})"
    ((*mine, _),), ((*theirs, _),) = both(sqlite, call)
    assert mine == theirs
    found = [counts(table) for table in tables]
    assert (found[0]["data"], found[0]["snapshots"]) == (found[1]["data"], found[1]["snapshots"])
    assert len(sqlite.assert_same("o")) == len(sqlite.assert_same("j")) == 53


@pytest.mark.parametrize("version", [2, 3])
def test_rewrite_manifests_leaves_as_many_manifests(sqlite: Any, version: int) -> None:
    tables = [made(sqlite, table, version) for table in ("o", "j")]
    mine, theirs = both(sqlite, "CALL {system}.rewrite_manifests('{t}')")
    assert mine == theirs
    found = [counts(table) for table in tables]
    assert found[0] == found[1]
    assert len(sqlite.assert_same("o")) == len(sqlite.assert_same("j")) == 53


def test_rewrite_position_delete_files_leaves_as_many_deletes(sqlite: Any) -> None:
    more = {"write.delete.granularity": "partition"}
    tables = [made(sqlite, table, 2, **more) for table in ("o", "j")]
    call = "CALL {system}.rewrite_position_delete_files(table => '{t}', options => map('min-input-files', '2'))"
    ((*mine, _, _),), ((*theirs, _, _),) = both(sqlite, call)
    assert mine == theirs == [2, 1]
    assert counts(tables[0])["deletes"] == counts(tables[1])["deletes"]
    assert len(sqlite.assert_same("o")) == len(sqlite.assert_same("j")) == 53


@pytest.mark.parametrize("version", [2, 3])
def test_each_tends_what_the_other_has_tended(sqlite: Any, version: int) -> None:
    table = made(sqlite, "t", version, ("region",))
    lineage = ["id", "_row_id"] if version > 2 else ["id"]
    before = table.scan(columns=lineage).to_arrow().sort_by("id").to_pylist()
    table.compact(min_input_files=2)
    name = sqlite.name("t")
    sqlite.run(
        f"CALL {sqlite.catalog}.system.rewrite_manifests('{name}')",
        f"CALL {sqlite.catalog}.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))",
    )
    sqlite.run("DELETE FROM {t} WHERE id = 50")
    table.refresh()
    table.rewrite_manifests(rewrite_all=True)
    table.compact("z-order", sort_by=["id", "n"])
    table.rewrite_position_deletes()
    assert len(sqlite.assert_same("t")) == 52
    after = table.scan(columns=lineage).to_arrow().sort_by("id").to_pylist()
    assert after == [row for row in before if row["id"] != 50]
    assert table.verify(deep=True).ok
