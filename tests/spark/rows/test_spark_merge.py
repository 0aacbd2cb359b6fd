"""Merges on Spark: rows afterwards are those of a model in Python, in every mode and version, or nothing happened."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from merge_model import COLUMNS, ON, SeveralMatch, apply_rules, in_order, merged, random_rows, random_rules
from spark_writes import on_disk

import esker
from esker.engines.choose_engine import SparkRowEngine
from esker.errors import Conflict, InvalidInput
from esker.lake import Lake
from esker.ports.row_changes import RowView
from esker.spark.rows.decide import DecidedOnSpark
from esker.spark.rows.resolve import ResolvedOnSpark

ARROW = pa.schema([("k", pa.int64()), ("g", pa.string()), ("v", pa.int32())])
BOTH_MODES = ["copy-on-write", "merge-on-read"]


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    lake.create_namespace("a")
    return lake


def made(lake: Lake, mode: str = "merge-on-read", version: int = 2, name: str = "a.t", **more: Any) -> esker.Table:
    properties = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
    return lake.create_table(name, COLUMNS, format_version=version, properties=properties, **more)


def rows(*given: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip("kgv", row, strict=True)) for row in given], schema=ARROW)


def held(table: esker.Table) -> list[tuple[Any, ...]]:
    found = [tuple(row[name] for name in "kgv") for row in table.scan().to_arrow().to_pylist()]
    return sorted(found, key=repr)


# ---------------------------------------------------------------- laws


@pytest.mark.parametrize(
    ("version", "mode", "seed"),
    [(2, BOTH_MODES[0], 1), (2, BOTH_MODES[1], 2), (3, BOTH_MODES[0], 3), (3, BOTH_MODES[1], 4)],
)
def test_any_merge_leaves_the_rows_of_the_model(lake: Lake, spark: Any, version: int, mode: str, seed: int) -> None:
    random = Random(seed)
    table = made(lake, mode, version, partition_by=["g"] if seed % 2 else [])
    expected = random_rows(random, 12, 9)
    table.append(pa.Table.from_pylist(expected[:7], schema=ARROW))
    table.append(pa.Table.from_pylist(expected[7:], schema=ARROW))
    done = 0
    while done < 3:
        source, on, rules = random_rows(random, 5, 12), random.choice(list(ON)), random_rules(random)
        try:
            expected, before = merged(expected, source, on, rules), len(table.snapshots)
        except SeveralMatch:
            continue
        data = pa.Table.from_pylist(source, schema=ARROW)
        apply_rules(table.merge(spark.createDataFrame(data) if done % 2 else data, on), rules).commit()
        found = table.scan().to_arrow().to_pylist()
        assert in_order(found) == in_order(expected), (on, rules, source)
        assert len(table.snapshots) - before <= 1
        done += 1
    assert in_order([row.asDict() for row in table.scan().to_spark(spark).collect()]) == in_order(expected)


def test_rows_keep_their_ids_through_a_merge_and_new_ones_get_their_own(lake: Lake, spark: Any) -> None:
    for mode in BOTH_MODES:
        table = made(lake, mode, 3, name=f"a.{mode[:4]}")
        table.append(rows((1, "a", 1), (2, "a", 2), (3, "a", 3)))
        columns = ["k", "_row_id", "_last_updated_sequence_number"]
        before = {row["k"]: row["_row_id"] for row in table.scan(columns=columns).to_arrow().to_pylist()}
        source = spark.createDataFrame([(2, "b", 20), (9, "b", 90)], COLUMNS)
        table.merge(source, "t.k = s.k").when_matched_update("*").when_not_matched_insert("*").commit()
        after = {row["k"]: row for row in table.scan(columns=columns).to_arrow().to_pylist()}
        assert {k: after[k]["_row_id"] for k in before} == before
        assert [after[k]["_last_updated_sequence_number"] for k in (1, 2, 3, 9)] == [1, 2, 1, 2]
        assert after[9]["_row_id"] not in before.values()


# ---------------------------------------------------------------- stories


def test_two_rows_of_the_source_for_one_of_the_table_are_refused_and_leave_nothing(lake: Lake, spark: Any) -> None:
    for mode in BOTH_MODES:
        table = made(lake, mode, name=f"a.{mode[:4]}")
        table.append(rows((1, "a", 1), (2, "a", 2)))
        before, files = table.current_snapshot, on_disk(table)
        twice = spark.createDataFrame([(2, "x", 1), (2, "y", 2), (7, "z", 3)], COLUMNS)
        merge = table.merge(twice, "t.k = s.k").when_matched_update("*").when_not_matched_insert("*")
        with pytest.raises(InvalidInput, match=r"several rows of the source match one row of the table where k = 2"):
            merge.commit()
        assert table.refresh().current_snapshot == before
        assert on_disk(table) == files
    # where no clause applies to the second there is nothing to choose
    table.merge(twice, "t.k = s.k").when_matched_update("*", "s.g = 'y'").commit()
    assert held(table) == [(1, "a", 1), (2, "y", 2)]


def test_a_source_that_changes_with_every_look_is_looked_at_once(lake: Lake, spark: Any) -> None:
    table = made(lake, "copy-on-write")
    table.append(rows(*((k, "a", 0) for k in range(40))))
    source = spark.range(40).selectExpr("CAST(floor(rand() * 1000000) AS BIGINT) AS k", "'new' AS g", "1 AS v")
    table.merge(source, "t.k = s.k").when_matched_delete().when_not_matched_insert("*").commit()
    found = held(table)
    kept, new = [row for row in found if row[1] == "a"], [row for row in found if row[1] == "new"]
    assert len(new) + (40 - len(kept)) == 40  # each row of the source either took one out or came in


def test_nothing_to_change_makes_no_snapshot(lake: Lake, spark: Any) -> None:
    table = made(lake)
    table.append(rows((1, "a", 1)))
    before = table.current_snapshot
    none = spark.createDataFrame([], COLUMNS)
    found = table.merge(none, "t.k = s.k").when_matched_delete().when_not_matched_insert().commit()
    assert found == before
    other = spark.createDataFrame([(5, "x", 1)], COLUMNS)
    assert table.merge(other, "t.k = s.k").when_matched_delete().commit() == before
    assert len(table.refresh().snapshots) == 1


def test_a_table_is_merged_with_itself(lake: Lake, spark: Any) -> None:
    table = made(lake)
    table.append(rows((1, "a", 1), (2, "a", 2), (3, "b", 3)))
    itself = table.scan("k < 3").to_spark(spark)
    table.merge(itself, "t.k = s.k").when_matched_update({"v": "t.v * 10"}).when_not_matched_by_source_delete().commit()
    assert held(table) == [(1, "a", 10), (2, "a", 20)]


def test_only_files_that_may_hold_a_key_are_touched(lake: Lake, spark: Any) -> None:
    table = made(lake, "copy-on-write", partition_by=["g"])
    table.append(rows((1, "a", 1), (2, "b", 2), (3, "c", 3)))
    table.append(rows((101, "a", 1), (102, "b", 2), (103, "c", 3)))
    before = {task.data_file.path for task in table.scan().plan().tasks}
    source = spark.createDataFrame([(2, "b", 20), (5, "b", 50)], COLUMNS)
    merge = table.merge(source, "t.k = s.k AND t.g = s.g").when_matched_update("*").when_not_matched_insert("*")
    snapshot = merge.commit()
    after = {task.data_file.path for task in table.scan().plan().tasks}
    assert len(before - after) == 1
    assert snapshot.summary["deleted-data-files"] == "1"
    assert snapshot.summary["added-data-files"] == "1"
    # a serializable merge looked at these keys only: a row that arrives elsewhere is no conflict
    tx = table.transaction()
    tx.merge(source, "t.k = s.k AND t.g = s.g").when_matched_delete().commit()
    lake.table("a.t").append(rows((900, "c", 9)))
    tx.commit()
    assert [row for row in held(table) if row[0] in (2, 5, 900)] == [(900, "c", 9)]


def test_rows_that_arrive_where_a_merge_looked_are_a_conflict(lake: Lake, spark: Any) -> None:
    table = made(lake)
    table.append(rows((1, "a", 1)))
    source = spark.createDataFrame([(1, "x", 1), (2, "x", 2)], COLUMNS)
    tx = table.transaction()
    tx.merge(source, "t.k = s.k").when_matched_update("*").when_not_matched_insert("*").commit()
    lake.table("a.t").append(rows((2, "racer", 2)))
    with pytest.raises(Conflict, match="merge"):
        tx.commit()
    assert held(table.refresh()) == [(1, "a", 1), (2, "racer", 2)]


def test_a_task_that_dies_leaves_the_table_as_it_was(lake: Lake, spark: Any) -> None:
    table = made(lake, "copy-on-write")
    table.append(rows((1, "a", 1), (2, "a", 2)))
    files = on_disk(table)
    source = spark.createDataFrame([(1, "x", 1), (2, "x", 2)], COLUMNS)
    merge = table.merge(source, "t.k = s.k").when_matched_update(
        {"v": "IF(s.k = 2, CAST(raise_error('died') AS INT), 1)"}
    )
    with pytest.raises(Exception, match="died"):
        merge.commit()
    assert held(table.refresh()) == [(1, "a", 1), (2, "a", 2)]
    assert on_disk(table) == files
    assert len(table.snapshots) == 1


def test_a_value_that_may_not_be_is_refused_by_its_column_and_leaves_no_file(lake: Lake, spark: Any) -> None:
    table = lake.create_table("a.strict", "k bigint not null, v int", properties={"write.merge.mode": "merge-on-read"})
    table.append(pa.table({"k": [1, 2], "v": pa.array([1, 2], pa.int32())}))
    files = on_disk(table)
    source = spark.createDataFrame([(1, 10), (3, 30)], "k bigint, v int")
    merge = table.merge(source, "t.k = s.k").when_matched_update("*")
    with pytest.raises(InvalidInput, match="column 'k' does not fit"):
        merge.when_not_matched_insert({"k": "nullif(s.k, 3)", "v": "s.v"}).commit()
    with pytest.raises(InvalidInput, match="column 'k' must have a value, and WHEN NOT MATCHED gives none"):
        merge.when_not_matched_insert({"v": "s.v"}).commit()
    assert on_disk(table) == files
    assert len(table.refresh().snapshots) == 1


def test_columns_that_came_later_take_part(lake: Lake, spark: Any) -> None:
    for mode in BOTH_MODES:
        table = made(lake, mode, name=f"a.{mode[:4]}")
        table.append(rows((1, "a", 1), (2, "b", 2)))
        with table.alter() as change:
            change.rename_column("g", "grp")
            change.add_column("note", "string")
        source = spark.createDataFrame([(2, "two"), (3, "three")], "k int, note string")
        merge = table.merge(source, "t.k = s.k").when_matched_update({"note": "s.note", "t.grp": "upper(grp)"})
        merge.when_not_matched_insert({"k": "s.k", "note": "s.note"}).commit()
        found = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["k"])
        assert found == [
            {"k": 1, "grp": "a", "v": 1, "note": None},
            {"k": 2, "grp": "B", "v": 2, "note": "two"},
            {"k": 3, "grp": None, "v": None, "note": "three"},
        ]


def test_several_changes_of_one_transaction_build_on_each_other(lake: Lake, spark: Any) -> None:
    table = made(lake, version=3)
    table.append(rows((1, "a", 1), (2, "a", 2), (3, "a", 3)))
    with table.transaction() as tx:
        tx.delete("k = 1")
        tx.append(rows((4, "b", 4)))
        tx.update({"v": "CAST(v + pow(10, 2) AS INT)"}, "k % 2 = 0")
        source = spark.createDataFrame([(1, "n", 0), (3, "n", 0)], COLUMNS)
        tx.merge(source, "t.k = s.k").when_matched_delete().when_not_matched_insert("*").commit()
    assert held(table) == [(1, "n", 0), (2, "a", 102), (4, "b", 104)]
    assert len(table.snapshots) == 2


@pytest.mark.parametrize("by", ["this process", "workers, for the rows are many", "workers, for the files are large"])
def test_a_dataframe_is_upserted_null_equal_to_null(
    lake: Lake, spark: Any, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds = {"rows": "_ROWS", "files": "_FILES"}
    for word, bound in bounds.items():
        if f"the {word} " in by:
            monkeypatch.setattr(f"esker.engines.choose_engine.{bound}", 1)
    real, by_workers = SparkRowEngine.decide, []

    def decide(self: SparkRowEngine, view: RowView, resolved: ResolvedOnSpark) -> DecidedOnSpark:
        by_workers.append(view)
        return real(self, view, resolved)

    monkeypatch.setattr(SparkRowEngine, "decide", decide)
    for mode in BOTH_MODES:
        table = made(lake, mode, name=f"a.{mode[:4]}")
        table.append(rows((1, "a", 1), (None, "a", 2)))
        table.upsert(spark.createDataFrame([(None, "n"), (7, "x")], "K bigint, g string"), on=["k"])
        assert held(table) == [(1, "a", 1), (7, "x", None), (None, "n", None)]
    assert len(by_workers) == (0 if by == "this process" else 2)
    with pytest.raises(InvalidInput, match="the key k = 5 occurs twice in the rows given"):
        table.upsert(spark.createDataFrame([(5, "a", 1), (5, "b", 2)], COLUMNS), on=["k"])


def test_names_and_members_are_found_however_they_are_spelt_and_ordered(lake: Lake, spark: Any) -> None:
    table = lake.create_table("a.odd", "`a {b}` bigint, `x.y` struct<p: int, q: int>")
    table.append(pa.table({"a {b}": [1, 2], "x.y": [{"p": 1, "q": 2}, None]}))
    source = spark.sql("SELECT 1L AS `a {b}`, named_struct('q', 20, 'p', 10) AS `x.y` UNION ALL SELECT 3L, NULL")
    table.upsert(source, on=["a {b}"])
    merge = table.merge(source, "t.`a {b}` = s.`a {b}` -- the key").when_matched_update({"x.y": "s.`x.y` -- by name"})
    merge.commit()
    found = {row["a {b}"]: row["x.y"] for row in table.scan().to_arrow().to_pylist()}
    assert found == {1: {"p": 10, "q": 20}, 2: None, 3: None}


def test_keys_that_a_column_cannot_hold_match_nothing(lake: Lake, spark: Any) -> None:
    table = lake.create_table("a.small", "n int, at timestamp", properties={"write.merge.mode": "merge-on-read"})
    table.append(pa.table({"n": pa.array([1, 2], pa.int32())}))
    source = spark.range(2, 400).selectExpr(
        "id * 10000000000 + IF(id = 2, -19999999998, 0) AS n", "TIMESTAMP '9999-12-31' AS at"
    )
    table.merge(source, "t.n = s.n AND (t.at <=> s.at OR t.n = 2)").when_matched_delete().commit()
    assert table.scan().to_arrow()["n"].to_pylist() == [1]


# ---------------------------------------------------------------- refusals


def test_an_expression_that_spark_does_not_know_is_named_before_anything_runs(lake: Lake, spark: Any) -> None:
    table = made(lake)
    table.append(rows((1, "a", 1)))
    source = spark.createDataFrame([(1, "x", 1)], COLUMNS)
    cases = [
        (table.merge(source, "t.k = s.kk").when_matched_delete(), r"ON, 't.k = s.kk', is not understood: .*`kk`"),
        (table.merge(source, "t.k + s.k").when_matched_delete(), "ON, .* is no condition but a value of type long"),
        (
            table.merge(source, "t.k = s.k").when_matched_delete("s.v > 1").when_matched_delete("nosuch(s.v)"),
            r"the condition of WHEN MATCHED \(number 2\), 'nosuch\(s.v\)', is not understood",
        ),
        (
            table.merge(source, "t.k = s.k").when_not_matched_insert({"v": "t.v"}),
            "the value of 'v' in WHEN NOT MATCHED, 't.v', is not understood",
        ),
        (table.merge(source, "t.k = s.k").when_matched_update({"v": "s.k = 1"}), "is of type boolean, and column 'v'"),
        (table.merge(source, "t.k = s.k").when_matched_update({"vv": "1"}), "no column 'vv'"),
        (table.merge(source.drop("g"), "t.k = s.k").when_matched_update("*"), "the source has no column 'g'"),
        (table.merge(source, "t.k = s.k"), "cannot merge without a clause"),
        (
            table.merge(source, "t.k = s.k").when_matched_delete().when_matched_update("*"),
            "a clause WHEN MATCHED behind one without a condition applies to no row",
        ),
    ]
    for merge, message in cases:
        with pytest.raises(InvalidInput, match=message):
            merge.commit()
    assert len(table.refresh().snapshots) == 1
