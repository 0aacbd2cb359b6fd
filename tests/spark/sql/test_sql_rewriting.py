"""CALL of the procedures that rewrite files, with Iceberg's arguments, options and columns. No Spark is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sound_tables import live_files
from with_deletes import commit_deletes, equality_delete, position_delete

import esker
from esker.errors import InvalidInput, Unsupported
from esker.lake import Lake
from esker.spark.sql.run_statement import SqlRunner
from esker.table import Table
from esker.tree.data_file import FileContent


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint not null, name string")
    for id_ in range(6):
        table.append(pa.table({"id": [id_, id_ + 10], "name": ["a", "b"]}))
    return lake


def call(lake: Lake, text: str) -> tuple[str, tuple[Any, ...]]:
    def no_spark() -> Any:
        raise AssertionError("Spark was asked for")

    found: Any = SqlRunner(lake, no_spark).do(f"CALL system.{text}")
    (row,) = found.rows
    return found.columns, row


def ids(table: Table) -> list[int]:
    return sorted(table.refresh().scan().to_arrow()["id"].to_pylist())


def test_rewrite_data_files_answers_in_icebergs_columns(lake: Lake) -> None:
    table = lake.table("s.t")
    size = sum(file.file_size for file in live_files(table))
    schema, row = call(lake, "rewrite_data_files('s.t')")
    assert schema == (
        "rewritten_data_files_count int, added_data_files_count int, rewritten_bytes_count bigint, "
        "failed_data_files_count int, removed_delete_files_count int"
    )
    assert row == (6, 1, size, 0, 0)
    assert ids(table) == [*range(6), *range(10, 16)]
    assert call(lake, "rewrite_data_files(table => 's.t')")[1] == (0, 0, 0, 0, 0)


def test_options_are_icebergs(lake: Lake) -> None:
    asked = "rewrite_data_files(table => 's.t', options => map('min-input-files', '7'))"
    assert call(lake, asked)[1][0] == 0
    asked = "rewrite_data_files(table => 's.t', options => map('rewrite-all', 'true', 'compression-factor', '1.5'))"
    assert call(lake, asked)[1][:2] == (6, 1)


def test_a_filter_a_branch_and_a_sort_order(lake: Lake) -> None:
    table = lake.table("s.t")
    assert call(lake, "rewrite_data_files(table => 's.t', where => 'id = 100')")[1][0] == 0
    table.branch("audit")
    assert call(lake, "rewrite_data_files(table => 's.t', branch => 'audit')")[1][0] == 6
    assert len(live_files(table.refresh())) == 6
    asked = "rewrite_data_files(table => 's.t', strategy => 'sort', sort_order => 'name DESC NULLS LAST, id')"
    assert call(lake, asked)[1][:2] == (6, 1)
    found = table.refresh().scan().to_arrow()
    assert found["id"].to_pylist() == [*range(10, 16), *range(6)]


def test_a_z_order_is_a_sort_order(lake: Lake) -> None:
    asked = "rewrite_data_files(table => 's.t', strategy => 'sort', sort_order => 'zorder(id, name)')"
    assert call(lake, asked)[1][:2] == (6, 1)
    assert ids(lake.table("s.t")) == [*range(6), *range(10, 16)]


def test_dangling_deletes_are_removed_only_if_asked_for(lake: Lake) -> None:
    table = lake.table("s.t")
    commit_deletes(table, equality_delete(table, [3], live_files(table)[0]))
    assert call(lake, "rewrite_data_files('s.t')")[1][4] == 0
    options = "map('remove-dangling-deletes', 'true', 'rewrite-all', 'true')"
    assert call(lake, f"rewrite_data_files(table => 's.t', options => {options})")[1][4] == 1
    assert 3 not in ids(table)


def test_at_most_so_many_files_are_rewritten(lake: Lake) -> None:
    options = "map('max-files-to-rewrite', '5', 'rewrite-job-order', 'FILES-DESC', 'output-spec-id', '0')"
    asked = f"rewrite_data_files(table => 's.t', options => {options})"
    assert call(lake, asked)[1][:2] == (5, 1)
    assert ids(lake.table("s.t")) == [*range(6), *range(10, 16)]
    assert len(live_files(lake.table("s.t"))) == 2


def test_position_deletes_of_chosen_partitions(lake: Lake) -> None:
    table = lake.create_table("s.by", "id bigint, name string", partition_by=["name"])
    for name in ("a", "b"):
        table.append(pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": [name] * 3}))
    for target in live_files(table):
        for position in (0, 1):
            commit_deletes(table, position_delete(table, target, [position], named=True))
    options = "options => map('min-input-files', '2', 'rewrite-job-order', 'bytes-asc')"
    call_ = f"rewrite_position_delete_files(table => 's.by', where => \"name = 'a'\", {options})"
    assert call(lake, call_)[1][:2] == (2, 1)
    left = [file for file in live_files(table.refresh()) if file.content is not FileContent.DATA]
    assert sorted(file.partition[0] for file in left) == ["a", "b", "b"]
    assert ids(table) == [3, 3]


def test_rewrite_manifests_and_position_deletes(lake: Lake) -> None:
    table = lake.table("s.t")
    assert call(lake, "rewrite_manifests('s.t')") == (
        "rewritten_manifests_count int, added_manifests_count int",
        (6, 1),
    )
    assert call(lake, "rewrite_manifests(table => 's.t', use_caching => true, spec_id => 0)")[1] == (0, 0)
    target = live_files(table.refresh())[0]
    for position in (0, 1):
        commit_deletes(table, position_delete(table, target, [position], named=True))
    assert call(lake, "rewrite_position_delete_files('s.t')")[1] == (0, 0, 0, 0)
    asked = "rewrite_position_delete_files(table => 's.t', options => map('min-input-files', '2'))"
    schema, row = call(lake, asked)
    assert schema == (
        "rewritten_delete_files_count int, added_delete_files_count int, rewritten_bytes_count bigint, "
        "added_bytes_count bigint"
    )
    assert row[:2] == (2, 1)
    assert len(ids(table)) == 10


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("rewrite_data_files()", InvalidInput, "it needs table"),
        ("rewrite_data_files('s.t', 'zorder')", InvalidInput, "takes binpack or sort for strategy"),
        ("rewrite_data_files('s.t', 'binpack', 'id')", InvalidInput, "only with strategy sort"),
        ("rewrite_data_files('s.t', 'sort')", InvalidInput, "the table has no sort order"),
        ("rewrite_data_files('s.t', 'sort', 'id, zorder(id, name)')", InvalidInput, "not both"),
        ("rewrite_data_files(table => 's.t', options => map('nope', '1'))", InvalidInput, "no option 'nope'"),
        (
            "rewrite_data_files(table => 's.t', options => map('rewrite-all', 'yes'))",
            InvalidInput,
            "rewrite-all = 'yes': it is true or false",
        ),
        (
            "rewrite_data_files(table => 's.t', options => map('min-input-files', '-1'))",
            InvalidInput,
            "it is a whole number",
        ),
        (
            "rewrite_data_files(table => 's.t', options => map('output-spec-id', '7'))",
            Unsupported,
            "output-spec-id = 7: new files have the table's current partition spec, which is 0",
        ),
        (
            "rewrite_data_files(table => 's.t', options => map('rewrite-job-order', 'random'))",
            InvalidInput,
            "it is one of none, bytes-asc",
        ),
        (
            "rewrite_data_files(table => 's.t', options => map('max-files-to-rewrite', '0'))",
            InvalidInput,
            "max_files=0: give a whole number from 1",
        ),
        ("rewrite_manifests(table => 's.t', spec_id => 5)", InvalidInput, "spec 5: the table has 0"),
        (
            "rewrite_position_delete_files(table => 's.t', where => 'nope = 1')",
            InvalidInput,
            "nope",
        ),
    ],
)
def test_calls_that_cannot_be_done_say_why(lake: Lake, text: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call(lake, text)
    assert len(lake.table("s.t").snapshots) == 6
