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
from esker.spark.sql.procedures.call_procedure import PROCEDURES
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


class Computing:
    """Stands for Spark, where an argument is an expression: the value of any expression is given."""

    def __init__(self, value: object) -> None:
        self.value = value

    def sql(self, text: str) -> Computing:
        return self

    def head(self) -> Computing:
        return self


def call(lake: Lake, text: str, spark: Any = None) -> tuple[str, tuple[Any, ...]]:
    def get_spark() -> Any:
        assert spark is not None, "Spark was asked for"
        return spark

    found: Any = SqlRunner(lake, get_spark).do(f"CALL system.{text}")
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
    ("sort_by", "ranges"),
    [
        ([], [["1-1", "1-2"], ["2-2", "1-2"]]),
        (["b", "a"], [["1-2", "1-1"], ["1-2", "2-2"]]),
        (["a"], [["1-1", "1-2"], ["2-2", "1-2"]]),
    ],
)
def test_manifests_are_sorted_by_chosen_partition_fields(
    lake: Lake, sort_by: list[str], ranges: list[list[str]]
) -> None:
    table = lake.create_table("s.p", "id bigint, a int, b int", partition_by=["a", "b"])
    table.append({"id": [1, 2, 3, 4], "a": [1, 1, 2, 2], "b": [1, 2, 1, 2]})
    (size,) = table.inspect.manifests()["length"].to_pylist()
    with table.alter() as change:
        change.set_properties({"commit.manifest.target-size-bytes": str(size // 2 + 1)})
    if sort_by:
        asked = f"rewrite_manifests(table => 's.p', sort_by => array({str(sort_by)[1:-1]}))"
        assert call(lake, asked, Computing(sort_by))[1] == (1, 2)
    else:
        table.rewrite_manifests(rewrite_all=True)
    table = lake.table("s.p")
    summaries = table.inspect.manifests()["partition_summaries"].to_pylist()
    assert sorted([f"{one['lower_bound']}-{one['upper_bound']}" for one in each] for each in summaries) == ranges
    assert ids(table) == [1, 2, 3, 4]


def test_a_field_that_is_not_in_the_spec_is_refused(lake: Lake) -> None:
    with pytest.raises(InvalidInput, match="it is not a partition field of spec 0; it has none"):
        call(lake, "rewrite_manifests(table => 's.t', sort_by => array('id'))", Computing(["id"]))
    with pytest.raises(InvalidInput, match="give a list of partition fields"):
        lake.table("s.t").rewrite_manifests(sort_by="id")
    table = lake.create_table("s.p", "id bigint, a int", partition_by=["a"])
    with pytest.raises(InvalidInput, match="name each partition field once"):
        table.rewrite_manifests(sort_by=["a", "a"])


ICEBERG = {
    "expire_snapshots": "table older_than retain_last max_concurrent_deletes stream_results snapshot_ids "
    "clean_expired_metadata",
    "remove_orphan_files": "table older_than location dry_run max_concurrent_deletes file_list_view equal_schemes "
    "equal_authorities prefix_mismatch_mode prefix_listing stream_results",
    "rewrite_data_files": "table strategy sort_order options where branch",
    "rewrite_manifests": "table use_caching spec_id sort_by",
    "rewrite_position_delete_files": "table options where",
    "compute_table_stats": "table snapshot_id columns",
    "compute_partition_stats": "table snapshot_id",
    "ancestors_of": "table snapshot_id",
}
"""The parameters of Iceberg 1.12.0, in their order: arguments may be given by place."""


@pytest.mark.parametrize("name", ICEBERG)
def test_procedures_have_the_parameters_of_iceberg_in_their_order(name: str) -> None:
    assert PROCEDURES[name][0] == tuple(ICEBERG[name].split())


def test_options_of_iceberg_that_have_no_effect_are_taken(lake: Lake) -> None:
    call(
        lake, "rewrite_data_files(table => 's.t', options => map('max-output-size', '8', 'cache-delete-files', 'true'))"
    )
    taken = "'partial-progress.enabled', 'true', 'partial-progress.max-commits', '3', 'max-file-group-input-files', '9'"
    assert call(lake, f"rewrite_position_delete_files(table => 's.t', options => map({taken}))")[1] == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("rewrite_manifests(table => 's.t', sort_by => 'id')", InvalidInput, "takes an array of partition fields"),
        (
            "expire_snapshots(table => 's.t', max_concurrent_deletes => 0)",
            InvalidInput,
            "takes a number from 1 on for max_concurrent_deletes, not 0",
        ),
        (
            "remove_orphan_files(table => 's.t', stream_results => 'yes')",
            InvalidInput,
            "takes true or false for stream_results",
        ),
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
