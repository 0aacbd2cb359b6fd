"""Every command of the look group on tables that other engines wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import run, run_json
from corpus import corpus_root

COMMANDS = ("info", "schema", "snapshots", "refs", "files", "manifests", "tree", "scan", "explain")
TABLES = (
    "dremio/empty_table",  # v1, no snapshot
    "dremio/table_with_delete",  # v2, position deletes, partitioned
    "duckdb-iceberg/add_columns_with_defaults",  # evolved, defaults
    "duckdb-iceberg/iceberg_v1_deprecated__legacy_v1",  # v1, manifests named in the metadata
    "impala/iceberg_v2_delete_both_eq_and_pos",  # position and equality deletes
    "impala/iceberg_v3_deletion_vectors",  # v3
    "iceberg-cxx/types__all_spark_types",
    "impala/trino_variant",
    "icelake/partition_table",
)


def _table(name: str) -> Path:
    return corpus_root() / "iceberg" / name


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_answers_people_and_programs(command: str, table: str) -> None:
    said = run(command, _table(table))
    assert said.exit_code == 0, said.output
    assert said.stdout.strip()
    assert "\x1b" not in said.stdout, "no colour off a terminal"
    assert isinstance(run_json(command, _table(table)), dict)


def test_a_table_opens_by_its_metadata_file_too() -> None:
    folder = _table("dremio/table_with_delete")
    by_file = run_json("info", folder / "metadata" / "v2.metadata.json")
    assert by_file["snapshots"] == 1
    assert by_file["rows"] == 600


def test_info_is_a_card_of_the_table() -> None:
    said = run("info", _table("trino/timetravel")).stdout
    assert "Iceberg v2" in said.splitlines()[0]
    for line in (
        "rows         3",
        "files        3 data files, 603 B",
        "last commit  append by trino, 2023-07-03 05:03:42 UTC (",
        "snapshot 8471224892810331394",
        "refs         main",
        "partitioned  no",
    ):
        assert line in said


def test_info_does_not_promise_rows_that_deletes_may_take() -> None:
    facts = run_json("info", _table("impala/iceberg_spark_compaction_with_dangling_delete"))
    assert facts["rows"] is None
    assert facts["rows_at_most"] == 4
    assert (
        "at most 4, less 1 position delete"
        in run("info", _table("impala/iceberg_spark_compaction_with_dangling_delete")).stdout
    )


def test_info_counts_when_asked() -> None:
    facts = run_json("info", "--count", _table("impala/iceberg_spark_compaction_with_dangling_delete"))
    assert (facts["rows"], facts["counted_from"]) == (4, "reading")


def test_info_counts_files_itself_where_the_writer_did_not() -> None:
    facts = run_json("info", _table("duckdb-iceberg/equality_delete_extra_column__ns__t"))
    assert facts["counted_from"] == "manifests"
    assert (facts["data_files"], facts["delete_files"], facts["equality_deletes"]) == (1, 1, 1)


def test_schema_shows_nested_columns_below_their_parents() -> None:
    said = run("schema", _table("iceberg-cxx/types__all_spark_types")).stdout
    assert "12   col11       list" in said
    assert "13     element   string" in said
    names = [column["name"] for column in run_json("schema", _table("iceberg-cxx/types__all_spark_types"))["columns"]]
    assert names[-1] == "col11.element"


def test_an_earlier_schema_is_shown_by_its_id() -> None:
    table = _table("duckdb-iceberg/add_columns_with_defaults")
    first = run_json("schema", table, "--schema-id", "0")
    assert not first["current"]
    assert len(first["columns"]) < len(run_json("schema", table)["columns"])
    lost = run("schema", table, "--schema-id", "77")
    assert lost.exit_code == 2
    assert "no schema 77" in lost.stderr


def test_snapshots_are_listed_newest_first_and_cut_where_asked() -> None:
    table = _table("trino/timetravel")
    times = [snapshot["timestamp_ms"] for snapshot in run_json("snapshots", table)["snapshots"]]
    assert times == sorted(times, reverse=True)
    assert len(times) == 4
    said = run("snapshots", table, "--limit", "1").stdout
    assert "* " in said
    assert "3 older snapshots not shown; --all shows them." in said


def test_refs_tell_branches_from_tags() -> None:
    refs = {ref["ref"]: ref["kind"] for ref in run_json("refs", _table("iceberg-cxx/tests_metadata_dir"))["refs"]}
    assert refs == {"main": "branch", "test-branch": "branch", "EOW-01": "tag"}


def test_files_of_an_earlier_time_are_those_of_then() -> None:
    table = _table("trino/timetravel")
    assert run_json("files", table, "--as-of", "2023-07-01T12:00:00")["total"] == 1
    assert run_json("files", table, "--snapshot-id", "6153714018221937993")["total"] == 2
    assert run_json("files", table, "--ref", "main")["total"] == 3


def test_files_add_up_data_and_deletes_apart() -> None:
    sums = run_json("files", _table("dremio/table_with_delete"))["sums"]
    assert (sums["data"]["files"], sums["data"]["rows"]) == (6, 600)
    assert (sums["position_deletes"]["files"], sums["position_deletes"]["rows"]) == (1, 6)


def test_a_long_list_of_files_is_cut_for_people_and_whole_for_programs() -> None:
    table = _table("iceberg-cxx/perf_manifest_entries")
    said = run("files", table, "--limit", "3").stdout
    assert len(said.splitlines()) < 12
    assert "not shown; --all shows them." in said
    facts = run_json("files", table)
    assert len(facts["files"]) == facts["total"] > 50


def test_manifests_show_the_partitions_they_cover() -> None:
    said = run("manifests", _table("dremio/table_with_delete")).stdout
    assert "category bar to qux" in said
    assert "2 manifests" in said


def test_the_tree_goes_down_to_the_data_files() -> None:
    said = run("tree", _table("dremio/table_with_delete"), "--files", "1").stdout
    for part in ("metadata/v3.metadata.json", "[main]", "2 manifests", "6 data files, 600 rows", "foo-0.parquet"):
        assert part in said
    assert "5 more files" in said


def test_the_tree_of_a_large_history_stays_short() -> None:
    said = run("tree", _table("iceberg-cxx/perf_snapshots"))
    assert len(said.stdout.splitlines()) < 40
    assert "997 older snapshots not shown" in said.stdout


def test_a_tree_with_missing_parts_shows_them_and_exits_with_a_finding() -> None:
    broken = run("tree", _table("iceberg-cxx/partitioned_table_with_missing_spec"))
    assert broken.exit_code == 1
    assert "is missing" in broken.stdout
    facts = run_json("tree", _table("iceberg-cxx/partitioned_table_with_missing_spec"), status=1)
    assert len(facts["problems"]) == 2


def test_a_scan_filters_projects_and_stops() -> None:
    table = _table("dremio/table_with_delete")
    document = run_json("scan", table, "--where", "category = 'bar' and id < 103", "--columns", "category, id")
    assert document["rows"] == [{"category": "bar", "id": n} for n in range(100, 103)]
    assert [column["name"] for column in document["columns"]] == ["category", "id"]
    assert len(run_json("scan", table, "--limit", "4")["rows"]) == 4
    assert len(run_json("scan", table)["rows"]) == 594, "a program gets every row"
    said = run("scan", table).stdout
    assert "20 rows shown of more; --limit N or --all shows them." in said
    assert "594 rows" in run("scan", table, "--all").stdout


def test_a_scan_of_an_earlier_snapshot_gives_the_rows_of_then() -> None:
    document = run_json("scan", _table("dremio/table_with_delete"), "--snapshot-id", "1076035514370953264")
    assert len(document["rows"]) == 600


def test_a_scan_of_no_rows_says_so() -> None:
    assert run("scan", _table("dremio/empty_table")).stdout == "No rows.\n"
    assert run("scan", _table("dremio/nation"), "--limit", "0").stdout.startswith("0 rows shown of more")


def test_a_wide_row_stands_upright_on_a_narrow_terminal() -> None:
    table = _table("duckdb-iceberg/iceberg__lineitem_iceberg")
    narrow = run("scan", table, "--limit", "1", env={"COLUMNS": "60"}).stdout
    assert narrow.splitlines()[0] == "row 1"
    assert all(len(line) <= 60 for line in narrow.splitlines())
    wide = run("scan", table, "--limit", "1").stdout
    assert "l_orderkey   l_partkey" in wide


def test_explain_shows_the_funnel_and_what_each_term_drops() -> None:
    table = _table("dremio/table_with_delete")
    facts = run_json("explain", table, "--where", "category = 'foo' and id > 5")
    assert (facts["funnel"]["files_total"], facts["funnel"]["files_kept"]) == (6, 1)
    assert [term["files_dropped_alone"] for term in facts["terms"]] == [5, 0]
    said = run("explain", table, "--where", "category = 'foo'").stdout
    assert "files      1 of 6 to read" in said


def test_diff_tells_files_rows_and_columns_between_two_snapshots() -> None:
    facts = run_json("diff", _table("duckdb-iceberg/add_columns_with_defaults"), "8904642012249016277", "main")
    assert facts["data"]["added"]["files"] == 1
    assert facts["data"]["added"]["rows"] == 1
    assert facts["data"]["removed"]["files"] == 0
    assert {"id", "name", "type"} == set(facts["schema"]["added"][0])
    assert "col_uuid" in [column["name"] for column in facts["schema"]["added"]]
    assert facts["properties"] == {"added": {}, "removed": {}, "changed": {}}
    said = run("diff", _table("duckdb-iceberg/add_columns_with_defaults"), "8904642012249016277").stdout
    assert "+ col_uuid uuid" in said
    assert "data      +1     +1" in said


def test_diff_backwards_is_the_same_the_other_way_round() -> None:
    table = _table("dremio/table_with_delete")
    forth = run_json("diff", table, "1076035514370953264", "current")
    back = run_json("diff", table, "current", "1076035514370953264")
    assert forth["position_deletes"]["added"] == back["position_deletes"]["removed"]
    assert run("diff", table, "main", "main").stdout.splitlines()[1] == "Both snapshots have the same files."


def test_diff_takes_times() -> None:
    facts = run_json("diff", _table("trino/timetravel"), "2023-07-01T12:00", "2023-07-03T12:00")
    assert facts["data"]["added"]["files"] == 2
