"""CALL: Iceberg's procedures over what Esker has, by place and by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import esker
from esker.errors import InvalidInput, NoSuchSnapshot, Unsupported
from esker.lake import Lake
from esker.spark.sql.run_statement import SqlRunner


class Answers:
    """A lake whose statements are done without Spark."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self._runner = SqlRunner(lake, self._no_spark)

    def _no_spark(self) -> Any:
        raise AssertionError("Spark was asked for")

    def __call__(self, text: str) -> list[tuple[Any, ...]]:
        found: Any = self._runner.do(text)
        return list(found.rows)


@pytest.fixture
def do(tmp_path: Path) -> Answers:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint not null", properties={"write.wap.enabled": "true"})
    for id_ in (1, 2, 3):
        table.append(pa.table({"id": [id_]}))
    return Answers(lake)


def snapshots(do: Answers) -> list[int]:
    return [one.snapshot_id for one in do.lake.table("s.t").snapshots]


def ids(do: Answers) -> list[int]:
    return sorted(do.lake.table("s.t").scan().to_arrow()["id"].to_pylist())


def test_main_goes_back_and_anywhere(do: Answers) -> None:
    one, two, three = snapshots(do)
    assert do(f"CALL system.rollback_to_snapshot('s.t', {two})") == [(three, two)]
    assert ids(do) == [1, 2]
    assert do(f"CALL lake.system.set_current_snapshot(snapshot_id => {three}, table => 's.t')") == [(two, three)]
    do("ALTER TABLE s.t CREATE TAG first AS OF VERSION " + str(one))
    assert do("CALL system.set_current_snapshot(table => 's.t', ref => 'first')") == [(three, one)]
    assert do("CALL system.ancestors_of('s.t')")[0][0] == one
    assert [row[0] for row in do(f"CALL system.ancestors_of('s.t', {three})")] == [three, two, one]


def test_what_was_staged_or_branched_is_published(do: Answers) -> None:
    table = do.lake.table("s.t")
    staged = table.append(pa.table({"id": [9]}), summary={"wap.id": "w1"})
    ((source, current),) = do("CALL system.publish_changes('s.t', 'w1')")
    assert source == staged.snapshot_id
    assert ids(do) == [1, 2, 3, 9]
    table = do.lake.table("s.t")
    table.branch("next")
    table.append(pa.table({"id": [10]}), ref="next")
    head = table.refs["next"].snapshot_id
    assert do("CALL system.fast_forward('s.t', 'main', 'next')") == [("main", current, head)]
    assert do("CALL system.fast_forward(table => 's.t', branch => 'new', to => 'next')") == [("new", None, head)]
    other = do.lake.table("s.t").append(pa.table({"id": [11]}), summary={"wap.id": "w2"})
    assert do(f"CALL system.cherrypick_snapshot('s.t', {other.snapshot_id})")[0][0] == other.snapshot_id
    with pytest.raises(NoSuchSnapshot, match="no snapshot has it"):
        do("CALL system.publish_changes('s.t', 'unknown')")


def test_a_table_is_registered_by_its_metadata_file(do: Answers) -> None:
    place = do.lake.table("s.t").metadata_location
    ((current, records, files),) = do(f"CALL system.register_table('s.again', '{place}')")
    assert (current, records, files) == (snapshots(do)[-1], 3, 3)


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("CALL system.rollback_to_snapshot('s.t')", InvalidInput, "it needs snapshot_id"),
        ("CALL system.rollback_to_snapshot('s.t', 'x')", InvalidInput, "takes a whole number for snapshot_id"),
        ("CALL system.rollback_to_snapshot('s.t', 1, 2)", InvalidInput, "takes 2 arguments"),
        ("CALL system.rollback_to_snapshot(table => 's.t', 1)", InvalidInput, "by place before those by name"),
        ("CALL system.rollback_to_snapshot('s.t', table => 's.t')", InvalidInput, "takes 'table' once"),
        ("CALL system.rollback_to_snapshot('s.t', snapshot => 1)", InvalidInput, "has no argument 'snapshot'"),
        ("CALL system.set_current_snapshot('s.t')", InvalidInput, "one of snapshot_id and ref"),
        ("CALL system.rollback_to_snapshot('s.t', 5) more", InvalidInput, "did not expect"),
        (
            "CALL system.create_changelog_view(table => 's.t', net_changes => true, compute_updates => true)",
            InvalidInput,
            r"cannot call create_changelog_view \(at line 1, column 51\): it computes net_changes or updates, not both",
        ),
        (
            "CALL system.create_changelog_view(table => 's.t', net_changes => 'yes')",
            InvalidInput,
            "takes true or false for net_changes, not 'yes'",
        ),
        ("CALL system.rewrite_table_path('s.t')", Unsupported, "a later version"),
        ("CALL system.nonsense('s.t')", Unsupported, "there are add_files, ancestors_of"),
        ("CALL elsewhere.nonsense('s.t')", Unsupported, "system.<name>"),
    ],
)
def test_calls_that_cannot_be_done_say_why(do: Answers, text: str, error: type[Exception], says: str) -> None:
    before = snapshots(do)
    with pytest.raises(error, match=says):
        do(text)
    assert snapshots(do) == before


def test_snapshots_expire_and_orphans_go(do: Answers) -> None:
    table = do.lake.table("s.t")
    table.overwrite(pa.table({"id": [7]}))
    with table.alter() as change:
        change.set_properties({"history.expire.max-snapshot-age-ms": "1"})
    assert do("CALL system.expire_snapshots(table => 's.t', retain_last => 4)") == [(0, 0, 0, 0, 0, 0)]
    assert do("CALL system.expire_snapshots('s.t')") == [(3, 0, 0, 3, 3, 0)]
    assert len(snapshots(do)) == 1
    assert do("CALL system.remove_orphan_files(table => 's.t', dry_run => true)") == []
    assert do("CALL system.remove_orphan_files(table => 's.t', prefix_mismatch_mode => 'IGNORE')") == []
    with pytest.raises(Unsupported, match="never deleted"):
        do("CALL system.remove_orphan_files(table => 's.t', prefix_mismatch_mode => 'DELETE')")
    with pytest.raises(Unsupported, match="with file_list_view"):
        do("CALL system.remove_orphan_files(table => 's.t', file_list_view => 'v')")


@pytest.mark.spark
def test_snapshots_expire_by_time_and_id(tmp_path: Path, spark: Any) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint")
    for n in range(4):
        table.append(pa.table({"id": [n]}))
    first = table.snapshots[0].snapshot_id
    named = lake.sql(f"CALL system.expire_snapshots(table => 's.t', snapshot_ids => array({first}))").collect()
    assert tuple(named[0]) == (0, 0, 0, 0, 1, 0)
    late = "TIMESTAMP '2100-01-01 00:00:00'"
    assert tuple(lake.sql(f"CALL system.expire_snapshots('s.t', {late}, 2)").collect()[0]) == (0, 0, 0, 0, 1, 0)
    assert len(table.refresh().snapshots) == 2
    with pytest.raises(InvalidInput, match="younger than 24 hours"):
        lake.sql(f"CALL system.remove_orphan_files('s.t', {late})")


@pytest.mark.spark
def test_times_and_changes_are_computed_by_spark(tmp_path: Path, spark: Any) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint not null, v string")
    with table.alter() as change:
        change.set_identifier_fields("id")
    first = table.append(pa.table({"id": [1, 2], "v": ["a", "b"]}))
    second = table.upsert(pa.table({"id": [2, 3], "v": ["B", "c"]}), on=["id"])
    assert second is not None

    def rows(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in lake.sql(text).collect()]

    answer = rows(
        "CALL system.create_changelog_view(table => 's.t', compute_updates => true, "
        f"options => map('start-snapshot-id', '{first.snapshot_id}'))"
    )
    assert answer == [("t_changes",)]
    assert rows("SELECT id, v, _change_type FROM t_changes ORDER BY id, _change_type DESC") == [
        (2, "b", "UPDATE_BEFORE"),
        (2, "B", "UPDATE_AFTER"),
        (3, "c", "INSERT"),
    ]
    view = f"map('end-timestamp', '{first.timestamp_ms}')"
    lake.sql(f"CALL system.create_changelog_view('s.t', 'mine', {view})")
    assert rows("SELECT id, _change_type FROM mine ORDER BY id") == [(1, "INSERT"), (2, "INSERT")]
    lake.sql("CALL system.create_changelog_view(table => 's.t', net_changes => true, changelog_view => 'net')")
    assert rows("SELECT id, v, _change_type, _change_ordinal FROM net ORDER BY id") == [
        (1, "a", "INSERT", 0),
        (2, "B", "INSERT", 1),
        (3, "c", "INSERT", 1),
    ]
    for name in ("t_changes", "mine", "net"):
        spark.catalog.dropTempView(name)
    with pytest.raises(
        NoSuchSnapshot, match=r"cannot roll back s\.t to .*: no snapshot in the history of main is older"
    ):
        lake.sql(f"CALL system.rollback_to_timestamp('s.t', timestamp_millis({first.timestamp_ms}))")
    moment = f"timestamp_millis({first.timestamp_ms + 1})"
    assert rows(f"CALL system.rollback_to_timestamp('s.t', {moment})") == [(second.snapshot_id, first.snapshot_id)]


def test_statistics_are_computed_under_the_names_of_iceberg(do: Answers) -> None:
    first = snapshots(do)[0]
    ((path,),) = do("CALL system.compute_table_stats('s.t')")
    ((old,),) = do(f"CALL system.compute_table_stats(table => 's.t', snapshot_id => {first})")
    table = do.lake.table("s.t")
    assert {file.path for file in table.metadata.statistics} == {path, old}
    assert (table.distinct_values(), table.distinct_values(first)) == ({"id": 3}, {"id": 1})
    do("CREATE TABLE s.p (id bigint, place string) PARTITIONED BY (place)")
    assert do("CALL system.compute_partition_stats('s.p')") == []
    assert do("CALL system.compute_table_stats('s.p')") == []
    do.lake.table("s.p").append(pa.table({"id": [1], "place": ["eu"]}))
    ((path,),) = do("CALL system.compute_partition_stats(table => 's.p')")
    assert [file.path for file in do.lake.table("s.p").metadata.partition_statistics] == [path]
    with pytest.raises(InvalidInput, match="takes an array of names for columns, not 'id'"):
        do("CALL system.compute_table_stats(table => 's.t', columns => 'id')")
    with pytest.raises(InvalidInput, match="not partitioned"):
        do("CALL system.compute_partition_stats('s.t')")
