"""Statements in every form that Iceberg's Spark runtime takes, and refusals where it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sql_lakes import lake_of, read_in

import esker
from esker.errors import InvalidInput, NoSuchTable, Unsupported
from esker.lake import Lake
from esker.spark.sql.grammar import alter_statements as altered
from esker.spark.sql.grammar import statements as said

# ---------------------------------------------------------------- read, without Spark


@pytest.fixture(scope="module")
def known() -> Lake:
    return lake_of({"sales.orders": ("id bigint, delete string", (), ())})


@pytest.mark.parametrize(
    "properties", ["('a' 'b c', \"d\" 'it''s', e 5, f = 'x')", "('a'='b c','d'='it''s','e'='5',f 'x')"]
)
def test_a_property_needs_no_sign_before_its_value(known: Lake, properties: str) -> None:
    made = read_in(known, f"CREATE TABLE sales.new (id bigint) TBLPROPERTIES {properties}")
    changed = read_in(known, f"ALTER TABLE sales.orders SET TBLPROPERTIES {properties}")
    expected = {"a": "b c", "d": "it's", "e": "5", "f": "x"}
    assert isinstance(made, said.CreateTable)
    assert made.properties == expected
    assert isinstance(changed, altered.AlterTable)
    assert changed.changes == (altered.SetProperties(expected),)


def test_options_of_a_table_are_properties(known: Lake) -> None:
    found = read_in(known, "CREATE TABLE sales.new (id bigint) USING iceberg OPTIONS ('a' 'b', 'c'='d')")
    assert isinstance(found, said.CreateTable)
    assert found.properties == {"a": "b", "c": "d", "option.a": "b", "option.c": "d"}


def test_using_a_format_is_sparks_unless_the_lake_is_named(known: Lake) -> None:
    made = read_in(known, "CREATE TABLE lake.sales.new (id bigint) USING Parquet TBLPROPERTIES ('a' 'b')")
    assert isinstance(made, said.CreateTable)
    assert made.properties == {"write.format.default": "parquet", "a": "b"}
    assert isinstance(read_in(known, "CREATE TABLE sales.new (id bigint) USING parquet"), said.Foreign)
    assert isinstance(read_in(known, "CREATE TABLE sales.new USING parquet AS SELECT 1 AS a"), said.Query)
    for format_ in ("avro", "orc", "crocodile"):
        with pytest.raises(Unsupported, match=f"cannot do USING {format_} \\(at line 1, column 51\\)"):
            read_in(known, f"CREATE TABLE lake.sales.new (id bigint)     USING {format_}")


@pytest.mark.parametrize(
    ("clause", "terms", "distribution"),
    [
        ("ORDERED BY (id)", ("id",), "range"),
        ("ORDERED BY (id DESC, bucket(4, delete))", ("id DESC", "bucket(4, delete)"), "range"),
        ("ORDERED BY id, delete DISTRIBUTED BY PARTITION", ("id", "delete"), "hash"),
        ("LOCALLY ORDERED BY (id) DISTRIBUTED BY PARTITION", ("id",), "hash"),
        ("DISTRIBUTED BY PARTITION ORDERED BY id", ("id",), "hash"),
        ("LOCALLY ORDERED BY id", ("id",), None),
        ("UNORDERED DISTRIBUTED BY PARTITION", (), "hash"),
    ],
)
def test_an_order_of_writing_is_read_in_each_of_its_forms(
    known: Lake, clause: str, terms: tuple[str, ...], distribution: str | None
) -> None:
    found = read_in(known, f"ALTER TABLE sales.orders WRITE {clause}")
    assert isinstance(found, altered.AlterTable)
    assert found.changes == (altered.WriteOrder(terms=terms, distribution=distribution),)


@pytest.mark.parametrize("clause", ["UNORDERED UNORDERED", "DISTRIBUTED BY PARTITION " * 2])
def test_two_orders_of_writing_are_refused(known: Lake, clause: str) -> None:
    with pytest.raises(InvalidInput):
        read_in(known, f"ALTER TABLE sales.orders WRITE {clause}")


def test_a_verb_may_be_a_name_in_a_query(known: Lake) -> None:
    for text in (
        "SELECT delete FROM sales.orders",
        "WITH c AS (SELECT 1) SELECT delete FROM sales.orders",
        "WITH map AS (SELECT 1 AS x) SELECT * FROM map delete",
    ):
        assert isinstance(read_in(known, text), said.Query)


# ---------------------------------------------------------------- done, on Spark


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    lake.sql("CREATE NAMESPACE sales")
    return lake


def rows(lake: Lake, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in lake.sql(text).collect()]


MODES = pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])


def people(lake: Lake, mode: str = "copy-on-write") -> esker.Table:
    modes = ", ".join(f"'write.{verb}.mode' '{mode}'" for verb in ("delete", "update", "merge"))
    lake.sql(f"CREATE TABLE sales.people (id int, dep string) TBLPROPERTIES ({modes})")
    lake.sql("INSERT INTO sales.people VALUES (1, 'hr'), (2, 'it'), (3, 'it'), (4, 'law')")
    return lake.table("sales.people")


@MODES
@pytest.mark.spark
def test_a_change_answers_how_many_rows_it_changed(lake: Lake, mode: str) -> None:
    people(lake, mode)

    def counts(text: str) -> list[tuple[Any, ...]]:
        return [(row.added_records, row.updated_records, row.deleted_records) for row in lake.sql(text).collect()]

    assert counts("UPDATE sales.people SET dep = upper(dep) WHERE dep LIKE 'it%'") == [(0, 2, 0)]
    assert counts("DELETE FROM sales.people WHERE id = 4") == [(0, 0, 1)]
    assert counts("DELETE FROM sales.people WHERE id = 4") == []
    assert counts("DELETE FROM sales.people WHERE length(dep) > 10") == []
    merge = """MERGE INTO sales.people t USING (SELECT explode(sequence(2, 7)) AS id) s ON t.id = s.id
        WHEN MATCHED AND t.id = 2 THEN DELETE WHEN MATCHED THEN UPDATE SET dep = 'new'
        WHEN NOT MATCHED AND s.id < 6 THEN INSERT (id, dep) VALUES (s.id, 'x')
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET dep = 'left'"""
    assert counts(merge) == [(2, 2, 1)]
    snapshot = lake.table("sales.people").current_snapshot
    assert snapshot is not None
    assert (snapshot.rows_inserted, snapshot.rows_updated, snapshot.rows_deleted) == (2, 2, 1)
    prefix = "spark.merge-into.num-target-rows-"
    assert {key.removeprefix(prefix): value for key, value in snapshot.summary.items() if key.startswith(prefix)} == {
        "deleted": "1",
        "matched-deleted": "1",
        "updated": "2",
        "matched-updated": "1",
        "not-matched-by-source-updated": "1",
        "inserted": "2",
    }
    assert rows(lake, "SELECT * FROM sales.people ORDER BY id") == [(1, "left"), (3, "new"), (4, "x"), (5, "x")]
    assert counts("INSERT OVERWRITE sales.people SELECT 9, 'z'") == [(1, 0, 4)]


@pytest.mark.spark
def test_a_clause_that_sees_one_side_needs_no_name_before_its_columns(lake: Lake) -> None:
    people(lake)
    lake.sql(
        """MERGE INTO sales.people t USING (SELECT 4 AS id, 'x' AS dep UNION ALL SELECT 5, 'y') s ON t.id = s.id
        WHEN NOT MATCHED AND dep <> 'z' THEN INSERT (id, dep) VALUES (id + 10, concat(dep, upper(`dep`)))
        WHEN NOT MATCHED BY SOURCE AND id > 2 THEN DELETE
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET dep = concat(dep, '!')"""
    )
    expected = [(1, "hr!"), (2, "it!"), (4, "law"), (15, "yY")]
    assert rows(lake, "SELECT * FROM sales.people ORDER BY id") == expected
    with pytest.raises(InvalidInput, match=r"(?i)ambiguous"):
        lake.sql(
            "MERGE INTO sales.people t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED AND id = 1 THEN DELETE"
        )


@MODES
@pytest.mark.spark
def test_a_row_may_be_deleted_by_several_rows_of_the_source(lake: Lake, mode: str) -> None:
    people(lake, mode)
    source = "(SELECT * FROM VALUES (1), (1), (2), (9), (9) AS v(id)) s"
    answer = lake.sql(
        f"MERGE INTO sales.people t USING {source} ON t.id = s.id WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
    ).collect()
    assert [(row.added_records, row.deleted_records) for row in answer] == [(2, 2)]
    assert rows(lake, "SELECT id FROM sales.people ORDER BY id") == [(3,), (4,), (9,), (9,)]
    with pytest.raises(InvalidInput, match="several rows of the source"):
        lake.sql(
            "MERGE INTO sales.people t USING (SELECT explode(array(3, 3)) AS id) s ON t.id = s.id "
            "WHEN MATCHED AND t.id > 0 THEN DELETE"
        )


@pytest.mark.spark
def test_a_query_before_a_change_is_known_in_its_subqueries(lake: Lake) -> None:
    people(lake)
    lake.sql(
        """WITH c AS (SELECT 1 AS x), d AS (SELECT x + 1 AS y FROM c)
        DELETE FROM sales.people WHERE id IN (SELECT x FROM c)"""
    )
    lake.sql(
        """WITH c AS (SELECT max(id) AS m FROM sales.people)
        UPDATE sales.people SET dep = (SELECT concat('most ', m) FROM c)
        WHERE id = (WITH e AS (SELECT 2 AS z) SELECT z FROM e)"""
    )
    assert rows(lake, "SELECT * FROM sales.people ORDER BY id") == [(2, "most 4"), (3, "it"), (4, "law")]


@pytest.mark.spark
@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM sales.people WHERE rand() > 0.5",
        "UPDATE sales.people SET dep = 'x' WHERE id > rand()",
        "MERGE INTO sales.people t USING (SELECT 1 AS id) s ON t.id = s.id AND rand() > 0.5 WHEN MATCHED THEN DELETE",
        "MERGE INTO sales.people t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED AND rand() > 2 THEN DELETE",
        "MERGE INTO sales.people t USING (SELECT 1 AS id) s ON t.id = s.id "
        "WHEN NOT MATCHED AND uuid() <> '' THEN INSERT (id) VALUES (s.id)",
    ],
)
def test_a_condition_that_chooses_by_chance_is_refused(lake: Lake, text: str) -> None:
    table = people(lake)
    before = table.current_snapshot
    with pytest.raises(InvalidInput):
        lake.sql(text)
    assert lake.table("sales.people").current_snapshot == before
    lake.sql("UPDATE sales.people SET dep = uuid() WHERE id IN (SELECT max(id) FROM sales.people)")


@pytest.mark.spark
def test_names_and_refs_are_kept_as_iceberg_keeps_them(lake: Lake, spark: Any) -> None:
    table = people(lake)
    assert rows(lake, "SHOW CURRENT NAMESPACE") == [("spark_catalog", "default")]
    lake.sql("USE sales")
    assert rows(lake, "SHOW CURRENT NAMESPACE")[0][1] == "sales"
    lake.sql("USE default")
    lake.sql("ALTER TABLE sales.people CREATE BRANCH b RETAIN 7 DAYS WITH SNAPSHOT RETENTION 3 SNAPSHOTS 2 DAYS")
    lake.sql("ALTER TABLE sales.people CREATE TAG v RETAIN 9 DAYS")
    lake.sql("INSERT INTO sales.people VALUES (9, 'x')")
    lake.sql("ALTER TABLE sales.people REPLACE BRANCH b RETAIN 8 DAYS")
    lake.sql("ALTER TABLE sales.people REPLACE TAG v")
    table = lake.table("sales.people")
    assert table.current_snapshot is not None
    day = 86_400_000
    branch, tag = table.refs["b"], table.refs["v"]
    assert branch.snapshot_id == tag.snapshot_id == table.current_snapshot.snapshot_id
    assert (branch.max_ref_age_ms, branch.min_snapshots_to_keep, branch.max_snapshot_age_ms) == (8 * day, 3, 2 * day)
    assert tag.max_ref_age_ms == 9 * day
    spark.range(1).createOrReplaceGlobalTempView("shared")
    try:
        with pytest.raises(InvalidInput, match="temporary view"):
            lake.sql("CREATE VIEW sales.v AS SELECT * FROM global_temp.shared")
    finally:
        spark.catalog.dropGlobalTempView("shared")


@pytest.mark.spark
def test_columns_and_properties_change_as_in_iceberg(lake: Lake) -> None:
    lake.sql("CREATE TABLE sales.t (id int NOT NULL, a string, d decimal(9, 2), at timestamp)")
    before = lake.table("sales.t").metadata_location
    for same in ("id TYPE int", "a TYPE string", "d TYPE decimal(9,2)", "at TYPE timestamp"):
        lake.sql(f"ALTER TABLE sales.t ALTER COLUMN {same}")
    assert lake.table("sales.t").metadata_location == before
    lake.sql("ALTER TABLE sales.t SET IDENTIFIER FIELDS id")
    with pytest.raises(InvalidInput, match="not an identifier field"):
        lake.sql("ALTER TABLE sales.t DROP IDENTIFIER FIELDS a")
    for reserved in ("sort-order", "identifier-fields"):
        with pytest.raises(InvalidInput, match=reserved):
            lake.sql(f"ALTER TABLE sales.t SET TBLPROPERTIES ('{reserved}' = 'x')")
    lake.sql("CREATE VIEW sales.v TBLPROPERTIES ('a' 'b') AS SELECT id FROM sales.t")
    with pytest.raises(InvalidInput, match="it is not set"):
        lake.sql("ALTER VIEW sales.v UNSET TBLPROPERTIES ('unknown')")
    lake.sql("ALTER VIEW sales.v UNSET TBLPROPERTIES IF EXISTS ('unknown')")
    with pytest.raises(InvalidInput, match="reserved"):
        lake.sql("ALTER VIEW sales.v SET TBLPROPERTIES ('location' = 'x')")


@pytest.mark.spark
def test_the_session_says_where_rows_wait_for_an_audit(lake: Lake, spark: Any) -> None:
    lake.sql("CREATE TABLE sales.audited (id int) TBLPROPERTIES ('write.wap.enabled' 'true')")
    lake.sql("CREATE TABLE sales.plain (id int)")
    lake.sql("INSERT INTO sales.audited VALUES (1)")

    def main(name: str) -> list[int]:
        return sorted(lake.table(name).scan().to_arrow()["id"].to_pylist())

    try:
        spark.conf.set("spark.wap.branch", "audit")
        lake.sql("INSERT INTO sales.audited VALUES (2)")
        lake.sql("UPDATE sales.audited SET id = 3 WHERE id = 2")
        lake.sql("DELETE FROM sales.audited WHERE id = 1")
        lake.sql("INSERT INTO sales.plain VALUES (7)")
        assert (main("sales.audited"), main("sales.plain")) == ([1], [7])
        assert rows(lake, "SELECT id FROM sales.audited") == [(3,)]
        assert rows(lake, "SELECT id FROM sales.audited.branch_main") == [(1,)]
        lake.table("sales.audited").branch("other")
        lake.sql("INSERT INTO sales.audited.branch_other VALUES (9)")  # a branch that is named comes first
        assert rows(lake, "SELECT id FROM sales.audited.branch_other ORDER BY id") == [(1,), (9,)]
        assert (main("sales.audited"), rows(lake, "SELECT id FROM sales.audited")) == ([1], [(3,)])
        spark.conf.set("spark.wap.id", "run-5")
        with pytest.raises(InvalidInput, match="both set"):
            lake.sql("INSERT INTO sales.audited VALUES (4)")
        spark.conf.unset("spark.wap.branch")
        (answer,) = lake.sql("INSERT INTO sales.audited VALUES (4)").collect()
    finally:
        spark.conf.unset("spark.wap.branch")
        spark.conf.unset("spark.wap.id")
    assert main("sales.audited") == [1]
    table = lake.table("sales.audited")
    staged = next(one for one in table.snapshots if one.snapshot_id == answer.snapshot_id)
    assert staged.summary["wap.id"] == "run-5"
    table.cherry_pick(staged.snapshot_id)
    assert main("sales.audited") == [1, 4]


@pytest.mark.spark
def test_a_table_is_replaced_with_or_without_a_query(lake: Lake) -> None:
    lake.sql("CREATE OR REPLACE TABLE lake.sales.t (id int) PARTITIONED BY (id)")
    lake.sql("INSERT INTO sales.t VALUES (1)")
    first = lake.table("sales.t").current_snapshot
    assert first is not None
    lake.sql(
        "CREATE OR REPLACE TABLE sales.t USING iceberg TBLPROPERTIES ('a' 'b') AS SELECT id, 'x' AS v FROM sales.t"
    )
    assert rows(lake, "SELECT * FROM lake.sales.t") == [(1, "x")]
    assert rows(lake, f"SELECT * FROM sales.t VERSION AS OF {first.snapshot_id}") == [(1,)]
    lake.sql("REPLACE TABLE sales.t (v string)")
    assert rows(lake, "SELECT * FROM sales.t") == []
    assert lake.table("sales.t").properties["a"] == "b"
    with pytest.raises(NoSuchTable):
        lake.sql("REPLACE TABLE sales.nothing (v string)")
    found = lake.sql("SELECT :n AS n, {x} AS x, id FROM {df}", {"n": 5}, x="it's", df=lake.spark.range(1))
    assert [tuple(row) for row in found.collect()] == [(5, "it's", 0)]
    with pytest.raises(InvalidInput, match="no value of that name"):
        lake.sql("SELECT :unknown", {"n": 5})


@pytest.mark.spark
def test_the_lakes_own_name_is_a_place_like_a_catalogs(lake: Lake, spark: Any) -> None:
    people(lake)
    assert rows(lake, "SHOW NAMESPACES IN lake") == [("sales",)]
    assert rows(lake, "SHOW TABLES IN lake") == []
    lake.sql("USE lake")
    assert rows(lake, "SHOW CURRENT NAMESPACE") == [("lake", "")]
    lake.sql("CREATE NAMESPACE lake.default")
    lake.sql("USE lake")
    assert rows(lake, "SHOW CURRENT NAMESPACE") == [("lake", "default")]
    lake.sql("CREATE TABLE here AS SELECT 1 AS id")
    assert lake.tables("default") == ["default.here"]
    lake.sql("USE spark_catalog.default")
    assert rows(lake, "SHOW CURRENT NAMESPACE") == [("spark_catalog", "default")]
    lake.create_namespace("lake")  # a namespace of that name is meant before the lake is
    assert rows(lake, "SHOW NAMESPACES IN lake") == []
    lake.sql("USE lake")
    assert rows(lake, "SHOW CURRENT NAMESPACE") == [("lake", "lake")]
