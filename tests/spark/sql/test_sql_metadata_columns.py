"""Metadata columns and ``t.changes`` in SQL, judged by what Arrow reads and by the metadata tables."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from delete_strategies import with_deletes
from hypothesis import HealthCheck, Phase, given, settings
from spark_tables import agrees, on_disk
from table_strategies import Story, stories

import esker
from esker.errors import InvalidInput, Unsupported
from esker.lake import Lake
from esker.model.types import Field, TimestampType, children

COLUMNS = ("_file", "_pos", "_spec_id", "_partition", "_deleted", "_row_id", "_last_updated_sequence_number")
EXAMPLES = settings(
    max_examples=5 if settings.default.max_examples <= 100 else settings.default.max_examples // 10,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)


def is_shown(f: Field) -> bool:
    if isinstance(f.type, TimestampType) and f.type.nanos:
        return False
    return all(is_shown(inner) for inner in children(f.type))


def ask(spark: Any, story: Story) -> None:
    """All metadata columns of all rows, then some of them with the table's own columns."""
    with tempfile.TemporaryDirectory() as folder:
        table = on_disk(story.maker, Path(folder))
        offered = [name for name in COLUMNS if is_shown(table.scan(columns=[name]).projection.fields[0])]
        agrees(table.scan(columns=offered), spark)
        assert_every_row_is_there_once(table)
        shown = [f.name for f in story.schema if is_shown(f) and "." not in f.name]
        agrees(table.scan(columns=["_pos", *shown, "_file", "_row_id"]), spark)


def assert_every_row_is_there_once(table: esker.Table) -> None:
    """A scan with ``_deleted`` has each row of each file; those that are not deleted are the rows of a plain scan."""
    places = table.scan(columns=["_file", "_pos", "_deleted"]).to_arrow().to_pylist()
    sizes = {task.data_file.path: task.data_file.record_count for task in table.scan().plan().tasks}
    assert sorted((row["_file"], row["_pos"]) for row in places) == sorted(
        (path, at) for path, size in sizes.items() for at in range(size)
    )
    live = table.scan(columns=["_file", "_pos"]).to_arrow().to_pylist()
    left = ({"_file": row["_file"], "_pos": row["_pos"]} for row in places if not row["_deleted"])
    assert sorted(map(repr, left)) == sorted(map(repr, live))


@pytest.mark.slow
@EXAMPLES
@given(story=stories())
def test_spark_gives_the_metadata_columns_that_arrow_gives(spark: Any, story: Story) -> None:
    ask(spark, story)


@pytest.mark.slow
@EXAMPLES
@given(story=with_deletes(stories(versions=(2, 3))))
def test_spark_gives_the_metadata_columns_that_arrow_gives_whatever_was_deleted(spark: Any, story: Story) -> None:
    ask(spark, story)


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    lake.sql("CREATE NAMESPACE sales")
    return lake


def evolved(lake: Lake, version: int) -> esker.Table:
    """Four specs, rows deleted by position or by vector, and by key."""
    lake.sql(
        "CREATE TABLE sales.orders (id bigint, region string, day date) "
        f"TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read')"
    )
    table = lake.table("sales.orders")
    days = [None] * 4
    table.append(pa.table({"id": [1, 2, 3, 4], "region": ["eu", "us", "eu", None], "day": pa.array(days, pa.date32())}))
    lake.sql("ALTER TABLE sales.orders ADD PARTITION FIELD region")
    lake.sql(
        "INSERT INTO sales.orders VALUES (5, 'eu', DATE '2026-01-01'), (6, 'us', DATE '2026-01-02'), (7, NULL, NULL)"
    )
    lake.sql("ALTER TABLE sales.orders ADD PARTITION FIELD bucket(4, id) AS shard")
    lake.sql("ALTER TABLE sales.orders DROP PARTITION FIELD region")
    lake.sql("INSERT INTO sales.orders VALUES (8, 'eu', NULL), (9, 'asia', NULL)")
    table = lake.table("sales.orders")
    table.delete("id = 2")
    with table.transaction() as tx:
        tx.delete_by_key(pa.table({"id": pa.array([6], pa.int64())}), on=["id"])
    return lake.table("sales.orders")


def rows(lake: Lake, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in lake.sql(text).collect()]


def plain(value: Any) -> Any:
    return tuple(value.values()) if isinstance(value, dict) else tuple(value) if isinstance(value, tuple) else value


def by_arrow(table: esker.Table, columns: list[str]) -> list[tuple[Any, ...]]:
    return sorted(
        tuple(plain(row[name]) for name in columns) for row in table.scan(columns=columns).to_arrow().to_pylist()
    )


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_sql_gives_the_metadata_columns_of_every_row_over_specs_and_deletes(lake: Lake, version: int) -> None:
    table = evolved(lake, version)
    found = sorted(
        tuple(plain(cell) for cell in row) for row in rows(lake, f"SELECT id, {', '.join(COLUMNS)} FROM sales.orders")
    )
    assert found == by_arrow(table, ["id", *COLUMNS])
    by_id = {row[0]: row[1:] for row in found}
    assert list(by_id) == [*range(1, 10)]
    assert [id_ for id_, row in by_id.items() if row[4]] == [2, 6]
    # by the spec: one struct over the fields of all specs, null where the row's own spec lacks one
    assert [by_id[id_][3] for id_ in (1, 5, 7)] == [(None, None), ("eu", None), (None, None)]
    assert by_id[8][3][0] is None
    assert by_id[8][3][1] in range(4)
    assert [by_id[id_][2] for id_ in (1, 5, 8)] == [0, 1, 3]
    assert (by_id[1][1], by_id[3][1], by_id[4][1]) == (0, 2, 3)
    paths = {path for (path,) in rows(lake, "SELECT file_path FROM sales.orders.data_files")}
    assert {row[0] for row in by_id.values()} <= paths
    if version == 2:
        assert {row[5:] for row in by_id.values()} == {(None, None)}
    else:
        assert [by_id[id_][5:] for id_ in (1, 3)] == [(0, 1), (2, 1)]
        assert len({row[5] for row in by_id.values()}) == 9


@pytest.mark.slow
def test_metadata_columns_are_hidden_and_usable_anywhere_in_a_query(lake: Lake) -> None:
    table = evolved(lake, 3)
    first = table.snapshots[0].snapshot_id
    (path,) = {row["_file"] for row in table.scan("id = 1", columns=["_file"]).to_arrow().to_pylist()}
    assert lake.sql("SELECT *, _pos FROM sales.orders o WHERE o._spec_id = 0").columns == [
        "id",
        "region",
        "day",
        "_pos",
    ]
    assert rows(lake, f"SELECT id FROM sales.orders WHERE _file = '{path}' ORDER BY _pos DESC") == [(4,), (3,), (1,)]
    assert rows(lake, f"SELECT * FROM sales.orders WHERE _file = '{path}' AND _pos = 2") == [(3, "eu", None)]
    grouped = "SELECT _spec_id, count(*), count(DISTINCT _file) FROM sales.orders GROUP BY _spec_id ORDER BY 1"
    assert rows(lake, grouped) == [(0, 3, 1), (1, 2, 2), (3, 2, len({*_files(table, "id > 7")}))]
    joined = """SELECT a.*, b.id FROM sales.orders a JOIN sales.orders b ON a._file = b._file AND a._pos + 1 = b._pos
                WHERE a._spec_id = 0"""
    assert rows(lake, joined) == [(3, "eu", None, 4)]
    assert rows(
        lake, f"SELECT id, _pos FROM sales.orders VERSION AS OF {first} WHERE _partition.region IS NULL AND id = 2"
    ) == [(2, 1)]
    last = "(SELECT _file, max(_pos) FROM sales.orders GROUP BY 1)"
    within = f"SELECT count(*) FROM sales.orders WHERE (_file, _pos) IN {last}"
    assert rows(lake, within) == [(len(_files(table, None)),)]
    beside = "(SELECT count(*) FROM sales.orders i WHERE i._file = o._file)"
    correlated = f"SELECT id, {beside} FROM sales.orders o WHERE id IN (1, 7)"
    assert sorted(rows(lake, correlated)) == [(1, 3), (7, 1)]
    lake.sql("CREATE VIEW sales.places AS SELECT id, _file AS file, _pos AS place FROM sales.orders")
    assert rows(lake, "SELECT place FROM sales.places WHERE id = 4") == [(3,)]
    assert rows(lake, "SELECT id FROM sales.orders WHERE _deleted AND id < 5") == [(2,)]
    assert rows(lake, "SELECT count(*) FROM sales.orders WHERE NOT _deleted") == rows(
        lake, "SELECT count(*) FROM sales.orders"
    )
    lake.sql("CREATE TABLE sales.copy AS SELECT *, _row_id AS row FROM sales.orders WHERE _spec_id = 0")
    assert sorted(rows(lake, "SELECT id, row FROM sales.copy")) == [(1, 0), (3, 2), (4, 3)]
    unpartitioned = "SELECT DISTINCT _partition, _spec_id FROM sales.copy"
    assert rows(lake, unpartitioned) == [(None, 0)]


def _files(table: esker.Table, where: str | None) -> set[str]:
    return {row["_file"] for row in table.scan(where, columns=["_file"]).to_arrow().to_pylist()}


@pytest.mark.slow
def test_positions_are_right_where_row_groups_are_skipped_and_files_are_split(lake: Lake, spark: Any) -> None:
    lake.sql(
        "CREATE TABLE sales.wide (id bigint, text string) TBLPROPERTIES "
        "('write.parquet.row-group-limit' = '500', 'write.delete.mode' = 'merge-on-read')"
    )
    table = lake.table("sales.wide")
    table.append(pa.table({"id": range(10_000), "text": [f"{at * 7919 % 10_007:040d}" for at in range(10_000)]}))
    table.delete("id = 6000")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "10000")
    try:
        frame = lake.sql("SELECT id, _pos, spark_partition_id() AS part FROM sales.wide")
        found = frame.collect()
        assert len({row.part for row in found}) > 3
        assert [row for row in found if row.id != row._pos] == []
        assert len(found) == 9_999
        assert rows(lake, "SELECT _pos FROM sales.wide WHERE id BETWEEN 5998 AND 6001 ORDER BY 1") == [
            (5998,),
            (5999,),
            (6001,),
        ]
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")


# ---------------------------------------------------------------- rows changed by them


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_rows_are_changed_by_conditions_on_metadata_columns(lake: Lake, mode: str) -> None:
    evolved(lake, 2)
    modes = ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("delete", "update", "merge"))
    lake.sql(f"ALTER TABLE sales.orders SET TBLPROPERTIES ({modes})")
    (path,) = _files(lake.table("sales.orders"), "id = 1")
    lake.sql(f"DELETE FROM sales.orders WHERE _file = '{path}' AND _pos = 2")
    assert [row[0] for row in rows(lake, "SELECT id FROM sales.orders ORDER BY id")] == [1, 4, 5, 7, 8, 9]
    lake.sql("UPDATE sales.orders o SET region = concat('spec ', o._spec_id) WHERE _partition.region = 'eu'")
    assert rows(lake, "SELECT id, region FROM sales.orders WHERE region LIKE 'spec%'") == [(5, "spec 1")]
    lake.sql("DELETE FROM sales.orders WHERE _spec_id = 0 AND NOT _deleted AND _row_id IS NULL")
    # what copy-on-write rewrote is of the newest spec
    left = [5, 7, 8, 9] if mode == "merge-on-read" else [1, 4, 5, 7, 8, 9]
    assert [row[0] for row in rows(lake, "SELECT id FROM sales.orders ORDER BY id")] == left
    ((place,),) = rows(lake, "SELECT _pos FROM sales.orders WHERE id = 9")
    lake.sql(
        """MERGE INTO sales.orders t USING (SELECT _file, _pos, id FROM sales.orders WHERE id > 7) s
           ON t._file = s._file AND t._pos = s._pos
           WHEN MATCHED AND s.id = 8 THEN DELETE
           WHEN MATCHED THEN UPDATE SET region = concat('at ', t._pos, ' ', s._pos)
           WHEN NOT MATCHED BY SOURCE AND _pos > 1000 THEN DELETE"""
    )
    assert rows(lake, "SELECT id, region FROM sales.orders WHERE id >= 8") == [(9, f"at {place} {place}")]


# ---------------------------------------------------------------- changes


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_changes_are_a_table_of_every_commit_on_the_way_to_the_current_snapshot(lake: Lake, version: int) -> None:
    table = evolved(lake, version)
    feed = table.scan_changes(None).to_arrow().to_pylist()
    expected = sorted(
        (row["id"], row["_change_type"].upper(), row["_change_ordinal"], row["_commit_snapshot_id"]) for row in feed
    )
    assert (
        sorted(rows(lake, "SELECT id, _change_type, _change_ordinal, _commit_snapshot_id FROM sales.orders.changes"))
        == expected
    )
    changes = lake.sql("SELECT * FROM sales.orders.changes WHERE id IN (2, 6)")
    assert changes.columns == ["id", "region", "day", "_change_type", "_change_ordinal", "_commit_snapshot_id"]
    assert sorted((row.id, row._change_type, row._change_ordinal) for row in changes.collect()) == [
        (2, "DELETE", 3),
        (2, "INSERT", 0),
        (6, "DELETE", 4),
        (6, "INSERT", 1),
    ]
    last = table.snapshots[-1].snapshot_id
    text = f"""SELECT c._change_type, count(*) FROM lake.sales.orders.changes c LEFT JOIN sales.orders o USING (id)
               WHERE c._commit_snapshot_id = {last} AND o.id IS NULL GROUP BY 1"""
    assert rows(lake, text) == [("DELETE", 1)]
    with pytest.raises(InvalidInput, match="as of a version"):
        lake.sql(f"SELECT * FROM sales.orders.changes VERSION AS OF {last}")
    with pytest.raises(Unsupported, match=r"metadata column \(at line 1, column 8\) in sales.orders.changes"):
        lake.sql("SELECT _file FROM sales.orders.changes")
    with pytest.raises(InvalidInput, match="cannot write to"):
        lake.sql("DELETE FROM sales.orders.changes")


@pytest.mark.slow
def test_a_reader_chooses_the_changes_of_some_snapshots(lake: Lake, spark: Any) -> None:
    table = evolved(lake, 2)
    one, two, _, four, _ = table.snapshots
    esker.spark.attach(spark, lake)
    try:

        def read(name: str = "lake.sales.orders.changes", **options: Any) -> list[tuple[Any, ...]]:
            reader = spark.read
            for key, value in options.items():
                reader = reader.option(key.replace("_", "-"), value)
            return sorted((row.id, row._change_type, row._change_ordinal) for row in reader.table(name).collect())

        whole = sorted(
            (row.id, row._change_type, row._change_ordinal)
            for row in spark.sql("SELECT * FROM lake.sales.orders.changes").collect()
        )
        assert read() == whole
        assert len(whole) == 11
        between = [(2, "DELETE", 1), (8, "INSERT", 0), (9, "INSERT", 0)]
        assert read(start_snapshot_id=two.snapshot_id, end_snapshot_id=four.snapshot_id) == between
        assert read(start_timestamp=two.timestamp_ms, end_timestamp=four.timestamp_ms) == between
        assert read(start_timestamp=two.timestamp_ms + 10**9) == []
        assert read(end_timestamp=one.timestamp_ms - 1) == []
        assert read(end_snapshot_id=one.snapshot_id) == [(id_, "INSERT", 0) for id_ in (1, 2, 3, 4)]
        for options, why in (
            (
                {"start_snapshot_id": 1, "start_timestamp": 1},
                "start-snapshot-id and start-timestamp exclude each other",
            ),
            ({"start_timestamp": 5, "end_timestamp": 5}, "must be before end-timestamp"),
            ({"start_snapshot_id": "x"}, "it must be a whole number"),
            ({"start_snapshot_id": 1, "branch": "b"}, "cannot take the option 'branch'"),
        ):
            with pytest.raises(InvalidInput, match=why):
                read(**options)
        with pytest.raises(InvalidInput, match=r"it is an option of lake.sales.orders.changes"):
            read("lake.sales.orders", start_snapshot_id=one.snapshot_id)
        assert "changes" not in dir(table.inspect)
    finally:
        esker.spark.detach(spark)
